"""What a look inside a dataset finds: how returns and lengths are spread, ranges against what the environment allows,
some episodes, and rows of one of them. Needs neither NumPy nor h5py: :mod:`looking` does the looking."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Histogram:
    """``edges`` has one more than ``counts``."""

    edges: list[float]
    counts: list[int]


@dataclass(frozen=True)
class Range:
    """One column: what the data has, and what the environment allows. None: no number, or no bound."""

    name: str
    low: float | None
    high: float | None
    least: float | None
    most: float | None

    @property
    def is_outside(self) -> bool:
        below = self.low is not None and self.least is not None and self.low < self.least - 1e-6 * abs(self.least)
        above = self.high is not None and self.most is not None and self.high > self.most + 1e-6 * abs(self.most)
        return below or above


@dataclass(frozen=True)
class Sample:
    """An episode that is worth looking at. ``recorded_as``: its number in the run that it was recorded in."""

    why: str
    number: int
    total: float
    length: int
    end: str
    actors: str
    recorded_as: int | None


@dataclass(frozen=True)
class Row:
    step: int
    observation: str
    action: str
    reward: float | None
    actor: str
    end: str


@dataclass(frozen=True)
class Inside:
    """Everything that a look finds. ``rows`` are those of ``episode``."""

    name: str
    sha256: str
    returns: Histogram
    lengths: Histogram
    terminated: int
    observations: list[Range]
    actions: list[Range]
    columns_left_out: int
    samples: list[Sample]
    episode: int
    rows: list[Row]
    rows_left_out: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Inside:
        """What :meth:`as_json` gave."""
        kinds: dict[str, Any] = {"observations": Range, "actions": Range, "samples": Sample, "rows": Row}
        parts: dict[str, Any] = {name: [kind(**one) for one in told[name]] for name, kind in kinds.items()}
        parts |= {name: Histogram(**told[name]) for name in ("returns", "lengths")}
        return cls(**{**told, **parts})
