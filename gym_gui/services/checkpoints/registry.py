"""The registry of trained policies: every checkpoint of every run, and every import.

The truth is on disk. A scan finds it without the daemon; an index makes the next one quicker and may be deleted at any
time. What is damaged is listed with the reason and never raises.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gym_gui.services.checkpoints.entry import CheckpointEntry, Integrity, Origin, digest_on_disk, facts_of
from gym_gui.services.checkpoints.index import Digest, FileIndex
from gym_gui.services.checkpoints.names import CheckpointName, by_id, is_path, named_directory, pick, the_one
from mosaic_protocol.checkpoint_manifest import MANIFEST_FILE, CheckpointError, list_checkpoints, score_of
from mosaic_protocol.paths import MosaicPaths, RunPaths, checked_name, checked_run_id
from mosaic_protocol.regular_files import read_regular

_SHORTEST = 6
_MOST_ANCESTORS = 100
_MOST_CONFIG_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Source:
    """A run, an import, or a folder that somebody named: whatever holds a series of checkpoints."""

    origin: Origin
    run_id: str
    directory: Path
    shown: str
    """What to call it: of a run, the end of its id that no other run has."""

    @property
    def checkpoints(self) -> Path:
        return RunPaths(self.directory).checkpoints


@dataclass(frozen=True)
class Ancestor:
    """One step back in a checkpoint's history."""

    kind: str
    """``resume``, ``warm_start`` or ``import``: how the younger one began."""
    lineage: dict[str, Any]
    entry: CheckpointEntry | None
    """The older one; None when it is gone, was replaced, or never was a checkpoint."""


class TrainingRegistry:
    """The checkpoints below one data root. Holds nothing open; any number may be used at a time, each by one thread."""

    def __init__(self, paths: MosaicPaths) -> None:
        self.paths = paths

    def entries(self, *, check_bytes: bool = False) -> list[CheckpointEntry]:
        """Every checkpoint, the newest first. ``check_bytes`` reads them all and tells which are damaged."""
        index = FileIndex(self.paths.checkpoint_index)
        found = [entry for source in self._sources() for entry in self._series(source, index, check_bytes)]
        index.save()
        return sorted(found, key=lambda entry: (entry.created_at, entry.step), reverse=True)

    def lookup(self, agent_id: str, env_id: str, run_id: str) -> list[CheckpointEntry]:
        """The checkpoints of one agent on one environment from one run, the newest first."""
        return [entry for entry in self.entries() if entry.key == (agent_id, env_id, run_id)]

    def of_run(self, reference: str, *, check_bytes: bool = False) -> list[CheckpointEntry]:
        """The checkpoints of one run or import, by falling step. Raises :class:`UnknownCheckpointError`."""
        return list(reversed(self._series(self._source(reference), None, check_bytes)))

    def find(self, reference: str, *, check_bytes: bool = False) -> CheckpointEntry:
        """The one checkpoint that a name means: a path, ``RUN``, ``RUN@STEP``, ``RUN@best`` or ``RUN@last``.

        Raises :class:`UnknownCheckpointError`; a damaged checkpoint is returned as such.
        """
        name = CheckpointName.parsed(reference)
        if is_path(name):
            directory = named_directory(reference)
            source, which = self._source_at(directory), directory.name
        else:
            source, which = self._source(name.run), name.which
        return pick(self._series(source, None, check_bytes), which, self._called(source))

    def ancestry(self, entry: CheckpointEntry) -> list[Ancestor]:
        """Where a checkpoint comes from, step by step to the beginning; [] for one of a run that began without one."""
        found: list[Ancestor] = []
        known = {source.run_id: source for source in self._sources()}
        child: CheckpointEntry | None = entry
        while child is not None and child.lineage and len(found) < _MOST_ANCESTORS:
            lineage = child.lineage
            run_id, _, which = str(lineage.get("checkpoint", "")).partition("/")
            series = self._series(known[run_id], None, False) if run_id in known else []
            same = [one for one in series if one.path.name == which and one.sha256 == lineage.get("sha256")]
            child = same[0] if same else None
            found.append(Ancestor(str(lineage.get("kind", "")), lineage, child))
        return found

    # ---- where checkpoints may be ------------------------------------------------------------------------------

    def _sources(self) -> list[Source]:
        run_ids = _folders(self.paths.runs, checked_run_id)
        shown = _short_ids(run_ids)
        runs = [Source("run", run_id, self.paths.runs / run_id, shown[run_id]) for run_id in run_ids]
        names = _folders(self.paths.imported, checked_name)
        return runs + [Source("imported", name, self.paths.imported / name, name) for name in names]

    def _source(self, reference: str) -> Source:
        sources = self._sources()
        if found := by_id(reference, sources):
            return found
        names = {source.run_id: self._run_name(source) for source in sources if source.checkpoints.is_dir()}
        return the_one(reference, sources, names)

    def _source_at(self, checkpoint: Path) -> Source:
        """Whose a checkpoint is that was named by its path."""
        directory = checkpoint.parents[1] if checkpoint.parent.name == "checkpoints" else checkpoint.parent
        here = directory.resolve()
        for source in self._sources():
            if source.directory.name == here.name and source.directory.resolve() == here:
                return source
        return Source("file", directory.name, directory, directory.name)

    def _called(self, source: Source) -> str:
        name = self._run_name(source)
        return f"{source.shown} ({name})" if name and name != source.shown else source.shown

    # ---- what they say -----------------------------------------------------------------------------------------

    def _series(self, source: Source, index: FileIndex | None, check_bytes: bool) -> list[CheckpointEntry]:
        """The checkpoints of one source by rising step."""
        held_in = source.checkpoints if source.origin != "file" else _where_steps_are(source.directory)
        try:
            paths = list_checkpoints(held_in)
        except OSError as error:
            return [self._unreadable(source, held_in, error)]
        if not paths:
            return []
        whose: dict[str, Any] = {"origin": source.origin, "run_id": source.run_id, **self._run_facts(source, index)}
        entries = []
        for path in paths:
            facts = facts_of(path, _digest(path, index), check_bytes=check_bytes)
            entries.append(CheckpointEntry(id="", path=path, **whose, **facts))
        return _placed(entries, source.shown)

    def _unreadable(self, source: Source, folder: Path, error: OSError) -> CheckpointEntry:
        """What stands in a listing for checkpoints that cannot be listed."""
        problem = Integrity("damaged", f"the folder {folder.name} cannot be read: {error.strerror}")
        whose: dict[str, Any] = {"origin": source.origin, "run_id": source.run_id, **self._run_facts(source, None)}
        return CheckpointEntry(id=source.shown, path=folder, **whose, step=0, size=0, integrity=problem)

    def _run_name(self, source: Source) -> str:
        return str(self._run_facts(source, None)["run_name"])

    def _run_facts(self, source: Source, index: FileIndex | None) -> dict[str, str]:
        if source.origin != "run":
            return {"run_name": source.run_id, "agent_id": "", "worker": ""}
        file = self.paths.run_config(source.run_id)
        try:
            return index.digest(file, lambda: _config_facts(file)) if index else _config_facts(file)
        except (OSError, ValueError, RecursionError):
            return {"run_name": "", "agent_id": "", "worker": ""}


def _digest(path: Path, index: FileIndex | None) -> Digest | CheckpointError:
    if index is None:
        return digest_on_disk(path)

    def read() -> Digest:
        found = digest_on_disk(path)
        if isinstance(found, CheckpointError):
            raise found
        return found

    try:
        return index.digest(path / MANIFEST_FILE, read)
    except CheckpointError as error:
        return error
    except OSError as error:
        return CheckpointError(f"{path / MANIFEST_FILE} cannot be read: {error.strerror}.")


def _config_facts(file: Path) -> dict[str, str]:
    """What a run config says of who learns. Raises OSError, ValueError or RecursionError."""
    config = json.loads(read_regular(file, _MOST_CONFIG_BYTES))
    if not isinstance(config, dict):
        raise ValueError(f"{file} is no run config")
    worker = _table(_table(config.get("metadata")).get("worker"))
    named = {"run_name": config.get("run_name"), "agent_id": worker.get("agent_id"), "worker": worker.get("type")}
    return {key: str(value or "") for key, value in named.items()}


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _placed(entries: Sequence[CheckpointEntry], shown: str) -> list[CheckpointEntry]:
    """With ids, and with the best and the last marked."""
    scores = {entry.path: score for entry in entries if (score := score_of(entry.metrics)) is not None}
    best = max(scores, key=lambda path: scores[path], default=None)
    return [
        replace(
            entry,
            id=str(entry.path) if entry.origin == "file" else f"{shown}@{entry.step}",
            is_best=entry.path == best,
            is_last=entry is entries[-1],
        )
        for entry in entries
    ]


def _folders(parent: Path, check: Callable[[str], str]) -> list[str]:
    """The folders below a parent whose names are what they should be, in order."""
    try:
        names = os.listdir(parent)
    except OSError:
        return []
    return sorted(name for name in names if _accepted(name, check))


def _accepted(name: str, check: Callable[[str], str]) -> bool:
    try:
        return bool(check(name))
    except ValueError:
        return False


def _where_steps_are(directory: Path) -> Path:
    inside = RunPaths(directory).checkpoints
    return inside if inside.is_dir() else directory


def _short_ids(run_ids: Iterable[str]) -> dict[str, str]:
    """The end of each id, as long as it takes to tell it from all others."""
    shown = {run_id: run_id[-_SHORTEST:] for run_id in run_ids}
    while len(taken := Counter(shown.values())) < len(shown):
        shown = {run_id: end if taken[end] == 1 else run_id[-len(end) - 2 :] for run_id, end in shown.items()}
    return shown
