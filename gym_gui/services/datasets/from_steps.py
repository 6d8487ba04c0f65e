"""Making a dataset out of recorded steps: whole episodes, and how many were left out and why."""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.services.datasets.errors import DatasetsError
from gym_gui.services.datasets.registry import (
    DATA,
    MANIFEST,
    MANIFEST_VERSION,
    DatasetEntry,
    DatasetRegistry,
    file_sha256,
    staged,
)
from gym_gui.services.recorded_steps import StepSource, described, played_by
from mosaic_protocol.paths import MosaicPaths

if TYPE_CHECKING:
    from gym_gui.services.datasets.episode_file import EpisodeFile
    from mosaic_protocol.steps.recorded_episodes import RecordedEpisode

INSTALL = "python -m mosaic_worker.extras --set datasets"
_KINDS = ("actor", "agent", "episode")
_NUMBER = re.compile(r"[0-9]{1,18}")
"""Of an episode. What counts as a digit elsewhere, or has more than 63 bits, numbers none."""


@dataclass(frozen=True)
class Only:
    """Which episodes are wanted: those in which ``actor`` made every step, those of one ``agent``, or one by its
    number."""

    kind: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Only:
        """Raises DatasetsError."""
        kind, equals, value = text.partition("=")
        if not equals or kind not in _KINDS:
            raise DatasetsError(f"--only takes {' or '.join(f'{one}=NAME' for one in _KINDS)}, got {text[:60]!r}")
        if kind == "episode" and not _NUMBER.fullmatch(value):
            raise DatasetsError(f"--only episode= takes the number of an episode, got {value[:60]!r}")
        return cls(kind, value)

    @property
    def number(self) -> int | None:
        """Of the one episode that is wanted; None where there may be many."""
        return int(self.value) if self.kind == "episode" else None

    def takes(self, episode: RecordedEpisode) -> bool:
        if self.kind == "episode":
            return episode.number == self.number
        return set(episode.actors) == {self.value} if self.kind == "actor" else episode.agent_id == self.value

    def __str__(self) -> str:
        return f"{self.kind}={self.value}"


def require_h5py() -> None:
    """Raises DatasetsError with the command that installs it."""
    if find_spec("h5py") is None:
        raise DatasetsError(f"datasets are written with h5py, which is not installed: `{INSTALL}` does that")


def make(
    source: StepSource,
    name: str,
    paths: MosaicPaths,
    only: Only | None = None,
    progress: Callable[[int, int], None] = lambda episodes, steps: None,
) -> DatasetEntry:
    """Write the dataset, whole or not at all. ``progress`` is told episodes and steps so far.

    Raises DatasetsError, and ChunkError for damaged steps.
    """
    require_h5py()
    folder = DatasetRegistry(paths).new_folder(name)
    try:
        with staged(folder) as draft:
            manifest = _written(source, draft / DATA, only, progress)
            manifest |= {"name": name, **_spaces(manifest.pop("seen"), source, paths)}
            text = json.dumps({"v": MANIFEST_VERSION, **manifest}, indent=1)
            (draft / MANIFEST).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        DatasetRegistry(paths).new_folder(name)  # another process may have made one of this name meanwhile
        raise DatasetsError(f"{folder} cannot be written: {error.strerror or error}") from error
    made = DatasetRegistry(paths).find(name)
    made.require_readable()
    return made


def _written(source: StepSource, path: Path, only: Only | None, progress: Callable[[int, int], None]) -> dict[str, Any]:
    from gym_gui.services.datasets.episode_file import EpisodeFile
    from mosaic_protocol.steps.recorded_episodes import FormError, read_episodes

    left_out: Counter[str] = Counter()
    wanted = only.number if only is not None else None
    with closing(EpisodeFile(path)) as file:
        for episode in read_episodes(source.chunks(wanted), wanted):  # its chunks hold steps of others as well
            if why := _why_not(episode, only):
                left_out[why] += 1
                continue
            try:
                file.add(episode)
            except FormError as error:
                left_out[str(error)] += 1
            progress(file.episodes, file.steps)
    if not file.episodes:
        found = "; ".join(f"{count} left out: {why}" for why, count in left_out.items())
        nothing = "no steps were recorded" if wanted is None else f"there is no episode {wanted}"
        raise DatasetsError(f"{source.name} has no episode for a dataset ({found or nothing})")
    return {**_described(file, path, source), "left_out": dict(left_out), "only": str(only) if only else None}


def _why_not(episode: RecordedEpisode, only: Only | None) -> str:
    if not episode.outcome:
        return "not ended"
    if episode.outcome == "abandoned":
        return "abandoned before their end"
    if not episode.is_whole:
        return "steps are missing"
    if only is not None and not only.takes(episode):
        return f"not {only} in every step" if only.kind == "actor" else f"not {only}"
    if episode.final is None:
        return "the observation after the last step was not recorded"
    return ""


def _described(file: EpisodeFile, path: Path, source: StepSource) -> dict[str, Any]:
    returns = file.returns
    mean = sum(returns) / len(returns)
    return {
        "created_at": time.time(),
        "episodes": file.episodes,
        "steps": file.steps,
        "returns": {"mean": _finite(mean), "min": _finite(min(returns)), "max": _finite(max(returns))},
        "actors": file.actors,
        "env_id": source.about.get("env_id"),
        "source": played_by(source.about),
        "sha256": file_sha256(path),
        "bytes": path.stat().st_size,
        "seen": {"observation": file.observations, "action": file.actions},
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _spaces(seen: dict[str, Any], source: StepSource, paths: MosaicPaths) -> dict[str, Any]:
    """The environment's own, where it can be made here and fits the data; else what the data shows."""
    told, why = described(source, paths)
    spaces: dict[str, Any] = {}
    for name, values in seen.items():
        space = told.get(f"{name}_space")
        fits = isinstance(space, str) and values.fits(space)
        spaces[f"{name}_space"] = space if fits else values.space()
        spaces[f"{name}_space_from"] = "environment" if fits else "data"
    return {**spaces, "env_spec": told.get("env_spec"), "versions": told.get("versions", {}), "spaces_note": why}
