"""What was played: read from the recordings of an entry, which are the only truth."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gym_gui.services.arena.errors import ArenaError
from mosaic_protocol.events import RecordError
from mosaic_protocol.steps.chunk import ChunkError
from mosaic_protocol.steps.recorded_episodes import RecordedEpisode, read_episodes
from mosaic_protocol.steps.recordings import Recording, RecordingError, is_recording

SPENT = "spent"
"""What the last step of an episode says of its cost; see ``mosaic_worker.policies.evaluation``."""
VERDICTS = "verdicts.jsonl"


@dataclass(frozen=True)
class Verdict:
    """What a replay of an episode found."""

    steps: int
    verified: int
    sentence: str = ""
    """The first difference, or why it could not be simulated; empty where there is none."""
    repeats_itself: bool | None = None
    """Of a difference: whether two simulations agree with each other."""

    @property
    def is_good(self) -> bool:
        return not self.sentence and self.verified == self.steps


@dataclass(frozen=True)
class Result:
    """One episode that was played to its end."""

    seed: int
    total: float
    length: int
    outcome: str
    recording: Path
    episode: int
    """Its number in the recording."""
    actors: Mapping[str, int]
    """How many steps each made."""
    spent: Mapping[str, float] = field(default_factory=dict)
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Played:
    """All that counts of an entry, by seed. ``others``: seeds of episodes that the arena does not have. ``again``:
    seeds of which there are several episodes, of which the first counts."""

    results: Mapping[int, Result]
    others: Sequence[int] = ()
    again: Sequence[int] = ()
    rules: Mapping[str, Any] = field(default_factory=dict)

    def missing(self, seeds: Sequence[int]) -> list[int]:
        return [seed for seed in seeds if seed not in self.results]

    @property
    def actors(self) -> set[str]:
        return {actor for result in self.results.values() for actor in result.actors}

    @property
    def verified(self) -> int:
        return sum(result.verdict is not None and result.verdict.is_good for result in self.results.values())


def returns_of(results: Sequence[Result]) -> list[NDArray[np.float64]]:
    """What was reached after each step. Blocking."""
    found = []
    for one in results:
        chunks = Recording.at(one.recording).chunks(one.episode)
        episode = next(iter(read_episodes(chunks, one.episode)), None)
        found.append(np.cumsum(episode.rewards) if episode is not None else np.zeros(0))
    return found


def parts_of(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "parts").glob("[0-9]*") if path.is_dir())


def new_part(folder: Path) -> Path:
    """A place that nobody has used; nothing is made yet."""
    taken = [int(path.name) for path in parts_of(folder)]
    return folder / "parts" / f"{max(taken, default=0) + 1:06d}"


def recordings_of(folder: Path) -> Iterator[Path]:
    """The recordings of an entry, oldest first: a part is one, or holds one in a folder named after its mode."""
    for part in parts_of(folder):
        for place in (part, *sorted(path for path in part.glob("*") if path.is_dir())):
            if is_recording(place):
                yield place
                break


def read_played(folder: Path, seeds: Sequence[int]) -> Played:
    """Of an entry. Raises ArenaError for a recording that cannot be read."""
    return _read(recordings_of(folder), seeds)


def read_recording(place: Path, seeds: Sequence[int]) -> Played:
    """Of one recording. Raises ArenaError where it cannot be read."""
    return _read([place], seeds)


def _read(places: Iterable[Path], seeds: Sequence[int]) -> Played:
    wanted, results, others, again = set(seeds), dict[int, Result](), list[int](), list[int]()
    rules: Mapping[str, Any] = {}
    for place in places:
        try:
            recording = Recording.at(place)
            rules = recording.about.get("rules") or rules
            verdicts = read_verdicts(place)
            for episode in read_episodes(recording.chunks()):
                if not episode.is_whole or episode.seed is None:
                    continue
                if episode.seed not in wanted:
                    others.append(episode.seed)
                elif episode.seed in results:
                    again.append(episode.seed)
                else:
                    results[episode.seed] = _result(episode, place, verdicts.get(episode.number))
        except (RecordingError, ChunkError, RecordError) as error:
            raise ArenaError(str(error)) from error
    return Played(results, others, sorted(set(again)), rules)


def _result(episode: RecordedEpisode, place: Path, verdict: Verdict | None) -> Result:
    assert episode.seed is not None
    told = episode.extras.get(len(episode) - 1, {}).get(SPENT)
    spent = (
        {str(name): float(value) for name, value in told.items() if _is_number(value)} if isinstance(told, dict) else {}
    )
    actors = {actor: episode.actors.count(actor) for actor in dict.fromkeys(episode.actors)}
    total = float(np.sum(episode.rewards))
    return Result(episode.seed, total, len(episode), episode.outcome, place, episode.number, actors, spent, verdict)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


# ---- verdicts ----------------------------------------------------------------------------------------------------


def read_verdicts(place: Path) -> dict[int, Verdict]:
    """By the number of the episode; a line that was cut off is no verdict, and its episode is simulated once more."""
    found: dict[int, Verdict] = {}
    try:
        text = (place / VERDICTS).read_text(encoding="utf-8")
    except OSError:
        return found
    for line in text.splitlines():
        try:
            told = json.loads(line)
            found[int(told["episode"])] = Verdict(
                int(told["steps"]), int(told["verified"]), str(told["sentence"]), told["repeats_itself"]
            )
        except (ValueError, KeyError, TypeError):
            continue
    return found


def keep_verdict(place: Path, told: Mapping[str, Any]) -> None:
    """Raises OSError."""
    kept = {name: told[name] for name in ("episode", "steps", "verified", "sentence", "repeats_itself")}
    with (place / VERDICTS).open("a+b") as file:
        # After a line that was cut off: an end of its own, so that this one is whole.
        file.seek(0, 2)
        if file.tell():
            file.seek(-1, 2)
            file.write(b"" if file.read(1) == b"\n" else b"\n")
        file.write(json.dumps(kept).encode() + b"\n")
