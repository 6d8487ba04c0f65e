"""Making a dataset out of recorded steps: whole episodes, and how many were left out and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.services.datasets.environments import steps_limit
from gym_gui.services.datasets.making import drafted, finish, made
from gym_gui.services.recorded_steps import StepSource, described, played_by
from mosaic_protocol.datasets import DATA, DatasetEntry, DatasetsError
from mosaic_protocol.paths import MosaicPaths

if TYPE_CHECKING:
    from gym_gui.services.datasets.episode_file import EpisodeFile
    from mosaic_protocol.steps.recorded_episodes import RecordedEpisode

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
    with drafted(name, paths) as draft:
        told = write_episodes([source], draft / DATA, only, progress)
        told |= {"name": name, **spaces_of(told.pop("seen"), source, paths)}
        finish(draft, told)
    return made(name, paths)


def write_episodes(
    sources: Sequence[StepSource],
    path: Path,
    only: Only | None,
    progress: Callable[[int, int], None] = lambda episodes, steps: None,
) -> dict[str, Any]:
    """Write the whole episodes of recordings of one environment, one after the other; what a manifest says of them,
    and under ``seen`` what their values have in common. Raises DatasetsError where there is none, and ChunkError."""
    from gym_gui.services.datasets.episode_file import EpisodeFile
    from mosaic_protocol.steps.recorded_episodes import FormError, read_episodes

    left_out: Counter[str] = Counter()
    wanted = only.number if only is not None else None
    with closing(EpisodeFile(path)) as file:
        # Chunks of the one episode that is wanted hold steps of others as well.
        for episode in chain.from_iterable(read_episodes(source.chunks(wanted), wanted) for source in sources):
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
        raise DatasetsError(f"{sources[0].name} has no episode for a dataset ({found or nothing})")
    return {**_described(file, sources[0]), "left_out": dict(left_out), "only": str(only) if only else None}


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


def _described(file: EpisodeFile, source: StepSource) -> dict[str, Any]:
    return {
        "actors": file.actors,
        "env_id": source.about.get("env_id"),
        "source": played_by(source.about),
        "seen": {"observation": file.observations, "action": file.actions},
    }


def spaces_of(seen: dict[str, Any], source: StepSource, paths: MosaicPaths) -> dict[str, Any]:
    """The environment's own, where it can be made here and fits the data; else what the data shows."""
    told, why = described(source, paths)
    spaces: dict[str, Any] = {}
    for name, values in seen.items():
        space = told.get(f"{name}_space")
        fits = isinstance(space, str) and values.fits(space)
        spaces[f"{name}_space"] = space if fits else values.space()
        spaces[f"{name}_space_from"] = "environment" if fits else "data"
    spec = told.get("env_spec")
    about = {"env_spec": spec, "versions": told.get("versions", {}), "max_episode_steps": steps_limit(spec)}
    return {**spaces, **about, "spaces_note": why}
