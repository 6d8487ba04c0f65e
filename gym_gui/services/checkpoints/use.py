"""Putting checkpoints to use through the worker that wrote them: evaluating, acting, importing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.errors import CheckpointsError, DamagedCheckpointError, UnusableCheckpointError
from gym_gui.services.checkpoints.names import RESERVED
from gym_gui.services.worker_tools import WorkerTool
from mosaic_protocol.checkpoint_manifest import (
    MOST_IMPORT_BYTES,
    CheckpointError,
    file_hash,
    list_checkpoints,
    read_manifest,
)
from mosaic_protocol.paths import MosaicPaths, checked_name
from mosaic_protocol.suggest import did_you_mean
from mosaic_protocol.worker_manifest import RunnerCapabilities, WorkerManifest, discover

Use = Literal["evaluate", "estimate", "act", "import_file"]
_SPOKEN = {
    "evaluate": "evaluate checkpoints",
    "estimate": "estimate what checkpoints would earn",
    "act": "let checkpoints act",
    "import_file": "import files",
}


def require_whole(entry: CheckpointEntry) -> None:
    """Raise DamagedCheckpointError for a checkpoint that is known not to be as it was written."""
    if entry.integrity.state == "damaged":
        raise DamagedCheckpointError(f"{entry.id} is damaged and not used: {entry.integrity.reason} ({entry.path})")


def require_start(
    flag: Literal["resume", "warm_start"], entry: CheckpointEntry, algo: str, env_id: str, worker: str = ""
) -> None:
    """Raise CheckpointsError when a run of an algorithm on an environment, by a worker, cannot begin from a
    checkpoint. What is not known ("") is no obstacle."""
    require_whole(entry)
    if flag == "resume" and not entry.can_resume:
        raise UnusableCheckpointError(
            f"{entry.id} was imported: it holds networks, not a run to go on with; give it to --warm-start"
        )
    whose = [("worker", entry.worker, worker)] if entry.worker and worker else []
    compared = [*whose, ("algorithm", entry.algo, algo), ("environment", entry.env_id, env_id)]
    if flag == "warm_start" and entry.offline_dataset:
        del compared[:-1]  # online algorithms go on from offline ones; whether networks fit is for the run to see
    for what, there, here in compared:
        if there != here:
            raise UnusableCheckpointError(f"{entry.id} does not fit: its {what} is {there}, this run's is {here}")


def worker_for(algo: str, worker: str = "") -> WorkerManifest:
    """The worker that wrote an algorithm's checkpoints, or could have. Raises UnusableCheckpointError."""
    workers = discover().workers
    if worker in workers:
        return workers[worker]
    found = next((one for one in workers.values() if algo in one.algorithms), None)
    if found is None:
        known = {name for one in workers.values() for name in one.algorithms}
        raise UnusableCheckpointError(f"no installed worker offers the algorithm {algo!r}{did_you_mean(algo, known)}")
    return found


def _module_for(use: Use, manifest: WorkerManifest) -> str | None:
    """Acting without a run is a capability: what a manifest does not promise is not offered."""
    if use != "import_file" and not manifest.capabilities.offline_inference:
        return None
    module: str | None = getattr(manifest.policies, use)
    return module


def tool_for(use: Use, algo: str, worker: str = "") -> tuple[WorkerManifest, str]:
    """(worker, module) that can do something with an algorithm's checkpoints. Raises UnusableCheckpointError."""
    found = worker_for(algo, worker)
    module = _module_for(use, found)
    if module is None:
        raise UnusableCheckpointError(f"the worker {found.type!r} cannot {_SPOKEN[use]}")
    return found, module


def tool(
    use: Use, entry: CheckpointEntry, paths: MosaicPaths, words: Sequence[str], *, holds: Sequence[int] = ()
) -> WorkerTool:
    """Start the tool of a checkpoint's worker, which keeps the descriptors it ``holds``. Raises CheckpointsError or
    ToolFailedError."""
    require_whole(entry)
    manifest, module = tool_for(use, entry.algo, entry.worker)
    return WorkerTool(manifest, paths, module, ["--checkpoint", str(entry.path), *words], holds=holds)


def capabilities(entry: CheckpointEntry) -> dict[str, bool]:
    """What can be done with a checkpoint here."""
    try:
        manifest = worker_for(entry.algo, entry.worker)
    except CheckpointsError:
        return {"evaluate": False, "act": False, "warm_start": False, "resume": False}
    whole = entry.integrity.state != "damaged"
    return {
        "evaluate": whole and _module_for("evaluate", manifest) is not None,
        "act": whole and _module_for("act", manifest) is not None,
        "warm_start": whole and manifest.capabilities.warm_start,
        "resume": manifest.capabilities.resume and entry.can_resume,
    }


def declares(entry: CheckpointEntry) -> RunnerCapabilities:
    """What the worker of a checkpoint can do; nothing where it is not installed."""
    workers = discover().workers
    found = workers.get(entry.worker) or next((one for one in workers.values() if entry.algo in one.algorithms), None)
    return found.capabilities if found is not None else RunnerCapabilities()


# ---- importing -------------------------------------------------------------------------------------------------------


def import_name(file: Path, asked: str | None, paths: MosaicPaths) -> str:
    """What to call an import: as asked, else after the file, with a number when that is taken.

    Raises CheckpointsError for a name that is none, or that is taken.
    """
    if asked is not None:
        try:
            name = checked_name(asked)
        except ValueError as error:
            raise CheckpointsError(f"--name: {error}") from error
        if name in RESERVED:
            raise CheckpointsError(f"--name: {name!r} has a meaning of its own wherever a checkpoint is named")
        if (paths.imported / name).exists():
            raise CheckpointsError(f"there is an import {name!r} already: choose another --name")
        return name
    stem = re.sub(r"[^a-z0-9_-]+", "-", file.stem.lower()).strip("-_")[:50] or "policy"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 10_000))]
    return next(name for name in names if name not in RESERVED and not (paths.imported / name).exists())


def imported_before(file: Path, algo: str, env_id: str, paths: MosaicPaths) -> str | None:
    """The import that was made of the same bytes for the same algorithm and environment.

    Raises CheckpointsError for a file that cannot be imported: absent, too large, or no regular file.
    """
    wanted = (algo, env_id, _hash_of(file))
    if not paths.imported.is_dir():
        return None
    for folder in sorted(paths.imported.iterdir()):
        for path in list_checkpoints(folder / "checkpoints"):
            try:
                manifest = read_manifest(path)
            except CheckpointError:
                continue
            if (manifest.algo, manifest.env_id, manifest.lineage.get("sha256")) == wanted:
                return folder.name
    return None


def _hash_of(file: Path) -> str:
    try:
        return file_hash(file, most=MOST_IMPORT_BYTES, follow=True)
    except FileNotFoundError:
        raise CheckpointsError(f"there is no file {file}") from None
    except OSError as error:
        raise CheckpointsError(f"{file} cannot be read: {error.strerror}") from error


def import_file(
    file: Path,
    algo: str,
    env_id: str,
    name: str,
    paths: MosaicPaths,
    started: Callable[[WorkerTool], None] = lambda tool: None,
) -> dict[str, Any]:
    """Have a worker convert a file; what it says about the checkpoint. ``started`` is handed the tool at work.

    Raises CheckpointsError or ToolError, and then nothing is left of it.
    """
    manifest, module = tool_for("import_file", algo)
    run = paths.imported_policy(name)
    run.checkpoints.mkdir(parents=True)
    words = [str(file.absolute()), "--algo", algo, "--env-id", env_id, "--destination", str(run.checkpoints)]
    try:
        with WorkerTool(manifest, paths, module, words) as tool:
            started(tool)
            told = list(tool.messages())
        return told[-1]
    except BaseException:
        shutil.rmtree(run.directory, ignore_errors=True)
        raise
