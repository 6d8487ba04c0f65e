"""Which checkpoint a word means: a path, ``RUN``, ``RUN@STEP``, ``RUN@best``, ``RUN@last``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.errors import UnknownCheckpointError
from mosaic_protocol.checkpoint_manifest import MANIFEST_FILE, list_checkpoints

NEWEST = "last"
RESERVED = frozenset({NEWEST, "best"})
"""Words that mean something wherever a run or a checkpoint is expected, and so can name neither."""

_SHORTEST_PART = 3
_SHORTEST_ID = 6
"""As listings show it; shorter parts may be somebody's name for a run."""


class _Source(Protocol):
    @property
    def origin(self) -> str: ...
    @property
    def run_id(self) -> str: ...


S = TypeVar("S", bound=_Source)


@dataclass(frozen=True)
class CheckpointName:
    """A run, and which of its checkpoints."""

    run: str
    which: str = NEWEST

    @classmethod
    def parsed(cls, reference: str) -> CheckpointName:
        run, mark, which = reference.rpartition("@")
        return cls(run, which) if mark else cls(reference)


def is_path(name: CheckpointName) -> bool:
    """Whether a word names a place on the disk rather than a run."""
    return os.sep in name.run or name.run.startswith((".", "~", "step-"))


def named_directory(reference: str) -> Path:
    """The checkpoint at a path: its folder, a file in it, or the last one of the run that the folder holds."""
    path = Path(reference).expanduser().absolute()
    if path.is_file() and (path.parent / MANIFEST_FILE).exists():
        return path.parent
    if not path.is_dir():
        raise UnknownCheckpointError(f"there is no checkpoint at {reference}: `mosaic checkpoints` lists what there is")
    if (path / MANIFEST_FILE).exists() or path.name.startswith("step-"):
        return path
    if found := [*list_checkpoints(path), *list_checkpoints(path / "checkpoints")]:
        return found[-1]
    raise UnknownCheckpointError(f"{reference} holds no checkpoint: it has neither {MANIFEST_FILE} nor a step-… folder")


def by_id(reference: str, sources: Sequence[S]) -> S | None:
    """The one that a word means without looking at names: the newest run, a whole id or the name of an import."""
    if reference == NEWEST:
        return next((source for source in reversed(sources) if source.origin == "run"), None)  # ids rise with time
    short = [source for source in sources if source.run_id == reference or source.run_id.endswith(reference.upper())]
    return short[0] if len(short) == 1 and len(reference) >= _SHORTEST_ID else None


def the_one(reference: str, sources: Sequence[S], names: Mapping[str, str]) -> S:
    """The run or import that a word means; ``names`` are those of the ones that have checkpoints.

    Raises :class:`UnknownCheckpointError` when it is none or several.
    """
    found = [source for source in sources if _answers_to(reference, source, names)]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(_shown(source, names) for source in found[:5])
        raise UnknownCheckpointError(f"{reference[:60]!r} may be {listed}: give the id")
    if not names:
        raise UnknownCheckpointError(
            "there are no checkpoints yet: runs write them as they train, at the latest at the end"
        )
    from mosaic_protocol.suggest import did_you_mean

    known = [word for run_id, name in names.items() for word in (name, run_id[-6:]) if word]
    raise UnknownCheckpointError(
        f"no run with a checkpoint is called {reference[:60]!r}{did_you_mean(reference, known)}"
    )


def _shown(source: _Source, names: Mapping[str, str]) -> str:
    if source.origin != "run":
        return source.run_id
    name = names.get(source.run_id)
    return f"{source.run_id[-_SHORTEST_ID:]} ({name})" if name else source.run_id[-_SHORTEST_ID:]


def _answers_to(reference: str, source: _Source, names: Mapping[str, str]) -> bool:
    if source.origin != "run":
        return reference == source.run_id
    part = reference.upper()
    is_part = len(part) >= _SHORTEST_PART and (source.run_id.startswith(part) or source.run_id.endswith(part))
    return is_part or (bool(reference) and names.get(source.run_id) == reference)


def pick(series: Sequence[CheckpointEntry], which: str, called: str) -> CheckpointEntry:
    """One of a run's checkpoints, given by rising step. Raises :class:`UnknownCheckpointError`."""
    if not series:
        why = "runs write them as they train and when they are stopped, unless --no-checkpoints was given"
        raise UnknownCheckpointError(f"{called} has no checkpoint: {why}")
    if which == NEWEST:
        return series[-1]
    if which == "best":
        return _best(series, called)
    number = which.replace(",", "").replace("_", "")
    for entry in series:
        if entry.path.name == which or str(entry.step) == number:
            return entry
    steps = ", ".join(f"{entry.step:,}" for entry in series)
    if not number.isdecimal():
        raise UnknownCheckpointError(f"{which[:60]!r} is no step: write best, last or one of {steps}")
    raise UnknownCheckpointError(f"{called} has no checkpoint of step {which[:60]}; its steps are {steps}")


def _best(series: Sequence[CheckpointEntry], called: str) -> CheckpointEntry:
    for entry in series:
        if entry.is_best:
            return entry
    raise UnknownCheckpointError(f"{called} has no best checkpoint: too few episodes were played to tell")
