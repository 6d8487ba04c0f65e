"""Datasets of what policies do: whole episodes, played by the worker's own program in processes of their own."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.checkpoints.use import tool
from gym_gui.services.datasets.from_steps import spaces_of, write_episodes
from gym_gui.services.datasets.making import drafted, finish, made
from gym_gui.services.recorded_steps import StepSource, of_folder
from gym_gui.services.worker_tools import ToolFailedError
from mosaic_protocol.datasets import DATA, DatasetEntry, DatasetsError
from mosaic_protocol.paths import MosaicPaths, checked_name

RANDOM = "random"
_PARTS = "parts"
_EPISODES = 1_000_000_000
"""More than there will be: the steps decide."""


@dataclass(frozen=True)
class Part:
    """One policy of a mix."""

    name: str
    fraction: float
    checkpoint: CheckpointEntry
    """Of a random policy: the one whose environment it acts in."""
    mode: str

    def steps_of(self, total: int) -> int:
        return math.ceil(self.fraction * total)


def parse_mix(text: str | None, given: Sequence[str], paths: MosaicPaths, *, deterministic: bool = False) -> list[Part]:
    """``random:0.8,expert:0.2`` with checkpoints, which are ``NAME=CHECKPOINT`` or take the names of the mix in their
    order. Raises DatasetsError and CheckpointsError."""
    if not given:
        raise DatasetsError("--from CHECKPOINT is needed: random actions too need the environment that it knows")
    named, unnamed = _given(given)
    fractions = _fractions(text) if text else _even([*named, *_names(len(unnamed))])
    waiting = [name for name in fractions if name != RANDOM and name not in named]
    if len(waiting) != len(unnamed) or set(named) - set(fractions):
        wanted = ", ".join(name for name in fractions if name != RANDOM) or "none"
        # A mix of random actions alone still needs a checkpoint for its environment.
        if not (set(fractions) == {RANDOM} and len(given) == 1):
            raise DatasetsError(f"the mix names policies ({wanted}) and --from gives {len(given)}: each needs one")
    registry = TrainingRegistry(paths)
    words = named | dict(zip(waiting, unnamed, strict=False))
    entries = {name: registry.find(word) for name, word in words.items()}
    first = next(iter(entries.values()), None) or registry.find(given[0].rpartition("=")[2])
    _require_one_environment([first, *entries.values()])
    mode = "deterministic" if deterministic else "sampled"
    return [
        Part(name, fraction, entries.get(name, first), RANDOM if name == RANDOM else mode)
        for name, fraction in fractions.items()
    ]


def _given(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    named: dict[str, str] = {}
    unnamed = []
    for word in words:
        name, equals, rest = word.partition("=")
        if equals and "/" not in name:
            named[_checked(name)] = rest
        else:
            unnamed.append(word)
    return named, unnamed


def _names(count: int) -> list[str]:
    return ["policy"] if count == 1 else [f"policy-{number + 1}" for number in range(count)]


def _even(names: Sequence[str]) -> dict[str, float]:
    return {name: 1 / len(names) for name in names}


def _fractions(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for word in text.split(","):
        name, colon, number = word.strip().partition(":")
        try:
            fraction = float(number)
        except ValueError:
            colon = ""
        if not colon or not 0 < fraction <= 1:
            raise DatasetsError(f"--mix is written random:0.8,expert:0.2, got {text[:60]!r}")
        found[_checked(name)] = fraction
    if abs(sum(found.values()) - 1) > 1e-6:
        raise DatasetsError(f"the parts of --mix are {sum(found.values()):g} together, not 1")
    return found


def _checked(name: str) -> str:
    try:
        return checked_name(name)
    except ValueError as error:
        raise DatasetsError(str(error)) from error


def _require_one_environment(entries: Sequence[CheckpointEntry]) -> None:
    found = {entry.env_id for entry in entries}
    if len(found) > 1:
        raise DatasetsError(f"the checkpoints are of different environments: {', '.join(sorted(found))}")


def collect(
    name: str,
    parts: Sequence[Part],
    steps: int,
    paths: MosaicPaths,
    seed: int = 1,
    progress: Callable[[str, int, int], None] = lambda part, done, of: None,
) -> DatasetEntry:
    """Play until there are so many steps, in whole episodes, and make the dataset; whole or not at all. ``progress`` is
    told the part that plays, the steps of all parts so far and those that are wanted. Raises DatasetsError,
    CheckpointsError, ToolError."""
    wanted, played = sum(part.steps_of(steps) for part in parts), 0
    with drafted(name, paths) as draft:
        folder = draft / _PARTS
        sources = []
        for number, part in enumerate(parts):
            place = folder / f"{number}-{part.name}"
            for length in _play(part, part.steps_of(steps), seed + number, place, paths):
                played += length
                progress(part.name, played, wanted)
            sources.append(of_folder(place / part.mode))
        told = _told(name, parts, sources, draft / DATA, seed, paths)
        shutil.rmtree(folder)
        finish(draft, told)
    return made(name, paths)


def _play(part: Part, wanted: int, seed: int, place: Path, paths: MosaicPaths) -> Iterator[int]:
    """The steps of each episode."""
    words = ["--episodes", str(_EPISODES), "--steps", str(wanted), "--seed", str(seed), "--mode", part.mode]
    words += ["--record", str(place), "--no-clips", "--actor", part.name, "--jobs", "1", "--parent", str(os.getpid())]
    done = 0
    with tool("evaluate", part.checkpoint, paths, words) as running:
        for message in running.messages():
            if message.get("at") == "episode":
                done += int(message["length"])
                yield int(message["length"])
    if done < wanted:
        raise ToolFailedError(f"{part.name} ended after {done:,} of {wanted:,} steps")


def _told(
    name: str, parts: Sequence[Part], sources: Sequence[StepSource], file: Path, seed: int, paths: MosaicPaths
) -> dict[str, Any]:
    told = write_episodes(sources, file, None)
    told |= {"name": name, **spaces_of(told.pop("seen"), sources[0], paths)}
    told["policy_mix"] = {part.name: part.fraction for part in parts}
    played = [{"policy": part.name, "mode": part.mode, **_played(part)} for part in parts]
    told["source"] = {"kind": "collection", "seed": seed, "parts": played}
    return told


def _played(part: Part) -> dict[str, Any]:
    entry = part.checkpoint
    told = {"algo": entry.algo, "worker": entry.worker, "step": entry.step, "sha256": entry.sha256}
    return {} if part.mode == RANDOM else {"checkpoint": {"id": entry.id, **told}}
