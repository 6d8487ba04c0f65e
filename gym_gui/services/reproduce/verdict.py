"""Whether two runs made the same: to the bit, within noise, or not. Reads numbers, decides purely.

Numbers that depend on how busy a machine is (speeds, seconds, memory) are left out, and named. The noise of training is
the spread of the final return over other seeds of the same settings; without three seeds nobody knows it, and only
differences that rounding explains are noise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import stdev
from typing import TYPE_CHECKING, Any

import numpy as np

from gym_gui.services.reproduce.again import reproduced_run
from gym_gui.services.run_words import counted, quantity
from gym_gui.services.scalars.metric_table import every_point
from gym_gui.services.seed_groups import seed_group
from mosaic_protocol.headline import EPISODES_TAG, MEAN_RETURN, RECENT_EPISODES
from mosaic_protocol.states import Outcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

RELATIVE, ABSOLUTE = 1e-3, 1e-6
"""What rounding may do to a point where no spread over seeds is known."""
FEWEST_SEEDS = 3
EPISODE = "episode "
"""What the name of a series begins with that has a number for each episode, in place of a metric."""
DEVIATIONS = 2.0
_MOST_SIBLINGS = 1000
_OF_TIME = re.compile(
    r"(?:^|[/_.\-])(?:sps|fps|seconds?|secs?|ms|(?:wall|cpu|step|total)?_?time|wall|elapsed|duration|throughput|rss)"
    r"(?:$|[/_.\-])",
    re.IGNORECASE,
)


class Kind(StrEnum):
    SAME = "same"
    NOISE = "within noise"
    DIFFERENT = "different"
    UNKNOWN = "nothing to compare"


@dataclass(frozen=True)
class Points:
    """One metric of a run, in the order in which it was written."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    @classmethod
    def of(cls, steps: Sequence[int], values: Sequence[float]) -> Points:
        return cls(np.asarray(steps, np.int64), np.asarray(values, np.float64))

    def first(self, count: int) -> Points:
        return Points(self.steps[:count], self.values[:count])

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True)
class FirstDifference:
    """The first point that differs: None stands for one that a side does not have."""

    tag: str
    index: int
    step: int
    then: float | None
    now: float | None

    def sentence(self) -> str:
        then, now = (("no point" if one is None else repr(one)) for one in (self.then, self.now))
        place = "episode" if self.tag.startswith(EPISODE) else "step"
        return f"first at {place} {self.step:,}, {self.tag}: {then} then, {now} now ({self.index:,} equal before it)"


@dataclass(frozen=True)
class Noise:
    """The spread of the final return over seeds, the one of the reproduced run included."""

    seeds: int
    deviation: float


@dataclass(frozen=True)
class Verdict:
    """``tags`` were compared. ``left_out`` depend on the machine's speed, and ``by_clock`` are written every so many
    seconds, so that each run has other points. ``notes`` say what else a reader must know."""

    kind: Kind
    sentence: str
    points: int = 0
    tags: Sequence[str] = ()
    left_out: Sequence[str] = ()
    by_clock: Sequence[str] = ()
    first: FirstDifference | None = None
    noise: Noise | None = None
    scores: tuple[float | None, float | None] = (None, None)
    notes: Sequence[str] = field(default_factory=list)

    def as_object(self) -> dict[str, Any]:
        first, noise = self.first, self.noise
        return {
            "verdict": str(self.kind),
            "sentence": self.sentence,
            "points": self.points,
            "tags": list(self.tags),
            "left_out": list(self.left_out),
            "by_clock": list(self.by_clock),
            "first_difference": None
            if first is None
            else {
                "tag": first.tag,
                "index": first.index,
                "step": first.step,
                "then": _finite(first.then),
                "now": _finite(first.now),
            },
            "noise": None if noise is None else {"seeds": noise.seeds, "standard_deviation": noise.deviation},
            "final_return": {"then": self.scores[0], "now": self.scores[1]},
            "notes": list(self.notes),
        }


def depends_on_speed(tag: str) -> bool:
    return tag.startswith("system/") or _OF_TIME.search(tag) is not None


# ---- deciding ----------------------------------------------------------------------------------------------------


def judged(
    then: Mapping[str, Points],
    now: Mapping[str, Points],
    *,
    scores: tuple[float | None, float | None] = (None, None),
    noise: Noise | None = None,
    ended_at: int | None = None,
    by_clock: Sequence[str] = (),
) -> Verdict:
    """Compare two runs metric by metric. ``ended_at``: the reproduced run did not complete but was ended at this step,
    so that what the other one did later is not looked at; its final return says nothing then."""
    every = sorted(then.keys() | now.keys())
    left_out = sorted({tag for tag in [*every, *by_clock] if depends_on_speed(tag)})
    timed = [tag for tag in by_clock if tag not in left_out]
    tags = [tag for tag in every if not depends_on_speed(tag)]
    notes = [] if ended_at is None else [f"compared up to step {ended_at:,}, where the reproduced run was ended"]
    empty = Points.of([], [])
    firsts, points, is_close = [], 0, True
    for tag in tags:
        one, other = then.get(tag, empty), now.get(tag, empty)
        if ended_at is not None:
            other = other.first(len(one))
        points += len(one)
        if (first := first_difference(tag, one, other)) is not None:
            firsts.append(first)
            is_close = is_close and close(one, other)
    told: dict[str, Any] = {"points": points, "tags": tags, "left_out": left_out, "by_clock": timed}
    told |= {"scores": scores, "notes": notes}
    if not points:
        return Verdict(Kind.UNKNOWN, "the reproduced run has no numbers that could be compared", **told)
    if not firsts:
        of = f"{len(tags)} {'metric' if len(tags) == 1 else 'metrics'}" if not by_clock else "all episodes"
        sentence = f"the same to the bit: no difference in {counted(points, 'point')} of {of}"
        return Verdict(Kind.SAME, sentence, **told)
    first = min(firsts, key=lambda one: (one.step, one.index, one.tag))
    told |= {"first": first, "noise": noise}
    kind, why = _beyond_equal(scores, noise if ended_at is None else None, is_close=is_close)
    return Verdict(kind, why, **told)


def _beyond_equal(
    scores: tuple[float | None, float | None], noise: Noise | None, *, is_close: bool
) -> tuple[Kind, str]:
    if is_close:
        return Kind.NOISE, f"within noise: no point is more than {RELATIVE:.1%} away, as rounding makes them"
    one, other = scores
    if noise is None or one is None or other is None:
        why = f"fewer than {FEWEST_SEEDS} seeds of these settings completed, so the noise of training is not known"
        return Kind.DIFFERENT, f"different: points are more than {RELATIVE:.1%} away, and {why}"
    most = DEVIATIONS * noise.deviation
    ends = f"the mean return of the last {RECENT_EPISODES} episodes was {quantity(one)} and is {quantity(other)}"
    spread = f"{quantity(most)}, twice the standard deviation over {noise.seeds} seeds"
    if abs(one - other) <= most:
        return Kind.NOISE, f"within noise: {ends}, not further apart than {spread}"
    return Kind.DIFFERENT, f"different: {ends}, further apart than {spread}"


def first_difference(tag: str, then: Points, now: Points) -> FirstDifference | None:
    """Numbers that are not finite are equal to each other: the store keeps no difference between them."""
    common = min(len(then), len(now))
    same = (then.steps[:common] == now.steps[:common]) & _same_bits(then.values[:common], now.values[:common])
    if same.all() and len(then) == len(now):
        return None
    index = common if same.all() else int(np.argmin(same))
    has, has_now = index < len(then), index < len(now)
    step = min(int(one.steps[index]) for one, there in ((then, has), (now, has_now)) if there)
    return FirstDifference(
        tag,
        index,
        step,
        float(then.values[index]) if has else None,
        float(now.values[index]) if has_now else None,
    )


def close(then: Points, now: Points) -> bool:
    if len(then) != len(now) or not np.array_equal(then.steps, now.steps):
        return False
    return bool(np.allclose(now.values, then.values, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True))


def _same_bits(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.bool_]:
    bits: NDArray[np.bool_] = one.view(np.int64) == other.view(np.int64)
    return bits | (np.isnan(one) & np.isnan(other))


def noise_of(siblings: Iterable[pb.Run]) -> Noise | None:
    """From the final returns of runs that differ in their seeds alone, one for each seed; None for too few."""
    scores: dict[int, float] = {}
    for run in siblings:
        score = run.headline.get(MEAN_RETURN)
        if run.HasField("seed") and score is not None and math.isfinite(score):
            scores.setdefault(run.seed, score)
    return Noise(len(scores), stdev(scores.values())) if len(scores) >= FEWEST_SEEDS else None


# ---- reading -----------------------------------------------------------------------------------------------------


def verdict_of(client: TrainerClient, then: pb.Run, now: pb.Run) -> Verdict:
    """Judge two runs that are over. Blocking; raises ClientErrors."""
    ended_at = None if then.outcome == Outcome.COMPLETED else int(then.last_step)
    scores = _finite(then.headline.get(MEAN_RETURN)), _finite(now.headline.get(MEAN_RETURN))
    one, other = points_of(client, then.run_id), points_of(client, now.run_id)
    by_clock: list[str] = []
    if _written_by_clock(one, other):
        by_clock = sorted(one.keys() | other.keys())
        one, other = episodes_of(client, then.run_id), episodes_of(client, now.run_id)
    noise = noise_of(_siblings(client, then))
    return judged(one, other, scores=scores, noise=noise, ended_at=ended_at, by_clock=by_clock)


def _written_by_clock(then: Mapping[str, Points], now: Mapping[str, Points]) -> bool:
    """Whether a row stands for the episodes of a while, and the two runs wrote theirs at different steps."""
    if EPISODES_TAG not in then or EPISODES_TAG not in now:
        return False
    return not np.array_equal(then[EPISODES_TAG].steps, now[EPISODES_TAG].steps)


def episodes_of(client: TrainerClient, run_id: str) -> dict[str, Points]:
    """Return and length of each recorded episode by its number, for every agent."""
    numbers: dict[str, list[int]] = {}
    values: dict[str, list[float]] = {}
    for one in client.episodes(run_id):
        whose = f" of {one.agent_id}" if one.agent_id else ""
        told = {"return": math.nan if one.total_reward is None else one.total_reward, "length": float(one.length)}
        for name, value in told.items():
            numbers.setdefault(f"{EPISODE}{name}{whose}", []).append(one.episode)
            values.setdefault(f"{EPISODE}{name}{whose}", []).append(value)
    return {tag: Points.of(numbers[tag], values[tag]) for tag in numbers}


def points_of(client: TrainerClient, run_id: str) -> dict[str, Points]:
    found: dict[str, list[Points]] = {}
    for one in every_point(client, run_id):
        found.setdefault(one.tag, []).append(Points.of(one.steps, one.values))
    return {tag: _joined(parts) for tag, parts in found.items()}


def _joined(parts: Sequence[Points]) -> Points:
    if len(parts) == 1:
        return parts[0]
    return Points(np.concatenate([one.steps for one in parts]), np.concatenate([one.values for one in parts]))


def _siblings(client: TrainerClient, run: pb.Run) -> list[pb.Run]:
    """Completed runs of the same settings with any seed, the run itself first; a repetition is no seed more."""
    group = seed_group(run.run_id, run.config_json)
    where = " ".join(
        f'{name}="{value}"' for name, value in (("algo", run.algo), ("env", run.env_id)) if value.isprintable()
    )
    where = where if where.count('"') == 4 else ""
    listed = client.runs(size=_MOST_SIBLINGS, outcomes=[Outcome.COMPLETED], where=where).runs
    others = [one for one in listed if one.run_id != run.run_id and not reproduced_run(one)]
    return [run, *(one for one in others if seed_group(one.run_id, one.config_json) == group)]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
