"""What is no longer as it was when a run started: code, packages, machine, and the defaults of its script.

The record of the run (``analytics.json``) is compared with the same record made now. What an older version did not
record is not compared: nobody can tell.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.services.run_diff import Row, compared
from gym_gui.services.run_labels import config_of, worker_settings
from gym_gui.services.trainer import VERSION
from mosaic_host.threads import thread_environment
from mosaic_protocol.code_changes import SCRIPT, changes_of
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.provenance import code_record, surroundings
from mosaic_protocol.run_manifest import read_manifest
from mosaic_protocol.settings_spelling import START_MODES, respelt

if TYPE_CHECKING:
    from gym_gui.services.worker_queries import WorkerQueries
    from mosaic_protocol.proto import trainer_pb2 as pb
    from mosaic_protocol.worker_manifest import WorkerManifest

_SECTIONS = ("settings", "code", "environment")


@dataclass(frozen=True)
class Changed:
    """``rows`` have two values each, then and now. ``script``: why it is not the one that ran, "" when it is."""

    rows: tuple[Row, ...]
    script: str
    is_recorded: bool = True

    def as_object(self) -> list[dict[str, Any]]:
        return [
            {"section": row.section, "name": row.name, "then": row.values[0].raw, "now": row.values[1].raw}
            for row in self.rows
        ]


def changed_since(
    run: pb.Run, manifest: WorkerManifest, told: Mapping[str, Any] | None, queries: WorkerQueries
) -> Changed:
    """Look at everything now. Starts processes and reads files: not for a thread that must not wait. Raises ToolErrors.

    ``told``: the worker's summary of a dry run of the same settings; it names the script.
    """
    folder = RunPaths(Path(run.run_dir))
    then = read_manifest(folder)
    if "environment" not in then:
        return Changed((), "", is_recorded=False)
    script = _script(then, told)
    now = {**then, **_now(run, then, manifest, script, queries)}
    rows = [row for row in compared([run, run], [then, now]).rows if row.section in _SECTIONS and not row.is_equal]
    return Changed(tuple(filter(_was_recorded, rows)), _why_another_script(then, now, folder))


def _was_recorded(row: Row) -> bool:
    return row.values[0].raw is not None or row.name.startswith("package ")


def _script(then: Mapping[str, Any], told: Mapping[str, Any] | None) -> Path | None:
    """Where the script is now. The worker's own may have moved with an installation; the worker knows where it is."""
    named = (told or {}).get("script") or _part(then, "code").get("path")
    return Path(named) if isinstance(named, str) and named else None


def _now(
    run: pb.Run, then: Mapping[str, Any], manifest: WorkerManifest, script: Path | None, queries: WorkerQueries
) -> dict[str, Any]:
    config = config_of(run.config_json)
    bundle = _part(config, "metadata", "worker").get("bundle")
    around = _part(then, "environment")
    cpus = int(run.reserved.cpus) or int(_part(config, "resources", "cpus").get("requested") or 1)
    found: dict[str, Any] = {
        "environment": {
            **around,
            **surroundings(queries.python_of(manifest, bundle if isinstance(bundle, str) else None)),
            "threads": thread_environment(cpus, os.environ)["OMP_NUM_THREADS"],
            "mosaic": VERSION,
            "worker_version": manifest.version,
        },
        "resolved": _resolved(then, manifest, worker_settings(config), bundle, queries),
    }
    if script is not None and "code" in then:
        found["code"] = code_record(script)
        if _part(then, "code_changes").get("sha256"):
            found["code_changes"] = changes_of(script.absolute().parent)[0]
    return found


def _resolved(
    then: Mapping[str, Any], manifest: WorkerManifest, settings: Mapping[str, Any], bundle: Any, queries: WorkerQueries
) -> dict[str, Any]:
    """What the script took then, with the defaults that it has now."""
    from gym_gui.services.worker_tools import ToolRefusedError

    took = dict(_part(then, "resolved"))
    given = _part(respelt(settings), "params").keys() | settings.keys() | set(START_MODES)
    try:
        flags = queries.describe_flags(manifest.type, settings, bundle if isinstance(bundle, str) else None)["flags"]
    except ToolRefusedError:  # a worker that does not tell them
        return took
    defaults = {one["name"]: one.get("default") for one in flags if isinstance(one, dict) and "name" in one}
    plain = {name: value for name, value in defaults.items() if isinstance(value, str | int | float) or value is None}
    return {name: plain[name] if name in plain and name not in given else value for name, value in took.items()}


def _why_another_script(then: Mapping[str, Any], now: Mapping[str, Any], folder: RunPaths) -> str:
    before, after = _part(then, "code"), _part(now, "code")
    if not isinstance(before.get("sha256"), str) or before["sha256"] == after.get("sha256"):
        return ""
    kept = folder.code / SCRIPT
    where = f"; it is kept as it was in {kept}" if kept.is_file() else ""
    what = "is not there any more" if after.get("sha256") is None else "was changed since the run"
    return f"the script {after.get('path')} {what}{where}"


def _part(content: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for name in path:
        inside = content.get(name)
        content = inside if isinstance(inside, Mapping) else {}
    return content
