"""Whether data can be what its name and its environment say. A hash cannot tell: it fits noise as well.

Every finding is one sentence. None of them keeps anybody from using the data: they are shown wherever it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gym_gui.services.datasets.d4rl_names import promise_of, quality_of
from gym_gui.services.datasets.survey import Columns, Survey
from mosaic_protocol.dataset_files import spaces

_MOST_NAMED = 5
_JUMPY = 0.85
_UNRELATED = 0.02
_MOST_BREAKS = 0.001
_TOLERANCE = 1e-3


def doubts(name: str, found: Survey, told: dict[str, Any]) -> list[str]:
    """What speaks against the data, most telling first. ``told``: the fields of its manifest."""
    return [*_numbers(found), *_movement(found), *_promised(name, found), *_of_environment(found, told)]


def _numbers(found: Survey) -> Iterator[str]:
    for name in ("observations", "actions", "rewards"):
        columns: Columns = getattr(found, name)
        if columns.not_finite:
            yield f"{columns.not_finite:,} of {found.steps:,} {name} are not finite (NaN or infinite)"
    for name, columns in (("observations", found.observations), ("actions", found.actions)):
        if columns.low is None or columns.high is None or found.steps < 2:
            continue
        constant = [number for number, same in enumerate(columns.low == columns.high) if same]
        if constant and len(constant) < len(columns.low) <= 1000:
            listed = ", ".join(map(str, constant[:_MOST_NAMED])) + (", …" if len(constant) > _MOST_NAMED else "")
            yield f"{len(constant)} of {len(columns.low)} columns of {name} never change ({listed})"
        elif constant and len(constant) == len(columns.low):
            yield f"all {name} are the same"
    if found.episodes > 1 and found.returns.min() == found.returns.max():
        yield f"all {found.episodes:,} episodes have the same return, so nothing tells good ones from bad ones"


def _movement(found: Survey) -> Iterator[str]:
    if found.follows and found.breaks > _MOST_BREAKS * found.follows:
        yield (
            f"{100 * found.breaks / found.follows:.1f} % of the steps within episodes lead to another observation than "
            "the next step begins with"
        )
    if found.jumpiness is not None and found.jumpiness > _JUMPY and found.steps >= 100:
        yield "consecutive observations are as unlike as any two: the rows are noise, or were shuffled"
    if found.reward_fit is not None and found.reward_fit < _UNRELATED:
        yield "rewards depend on neither observations nor actions, as far as a simple fit can see"


def _promised(name: str, found: Survey) -> Iterator[str]:
    promise = promise_of(name)
    if promise is None:
        return
    for what, columns, wanted in (
        ("observations", found.observations, promise.observations),
        ("actions", found.actions, promise.actions),
    ):
        if columns.low is not None and len(columns.low) != wanted:
            yield f"{what} have {len(columns.low)} numbers, where data called {name!r} has {wanted}"
    longest = int(found.lengths.max()) if found.episodes else 0
    if longest > promise.horizon + 1:
        yield f"an episode has {longest:,} steps, where those of {name!r} have at most {promise.horizon:,}"
    short = int((found.lengths < promise.least_length - 1).sum())
    if short > 1 and short > 0.01 * found.episodes:
        yield f"{short:,} episodes are shorter than {promise.least_length:,} steps, where those of {name!r} never are"
    if (quality := quality_of(name)) is not None and found.episodes:
        word, least, most = quality
        score = 100 * (float(found.returns.mean()) - promise.random) / (promise.expert - promise.random)
        if not least <= score <= most:
            yield (
                f"the mean return is {found.returns.mean():,.0f}, which is {score:.0f} on D4RL's scale: "
                f"data called {word!r} lies between {least:.0f} and {most:.0f}"
            )


def _of_environment(found: Survey, told: dict[str, Any]) -> Iterator[str]:
    limit = told.get("max_episode_steps")
    longest = int(found.lengths.max()) if found.episodes else 0
    if limit and longest > limit + 1:
        yield f"an episode has {longest:,} steps, where {told.get('env_id')} ends them after {limit:,}"
    for what, columns in (("observation", found.observations), ("action", found.actions)):
        if told.get(f"{what}_space_from") == "environment" and (beyond := outside(told[f"{what}_space"], columns)):
            yield f"{what}s {beyond}"


def outside(space: str, columns: Columns) -> str:
    """What lies beyond the bounds of a Box; nothing where all is within, or the space has none."""
    form = json.loads(space)
    if form.get("type") != "Box" or columns.low is None or columns.high is None:
        return ""
    low, high = spaces.bounds(form)
    if len(low) != len(columns.low):
        return f"have {len(columns.low)} numbers, where the environment's have {len(low)}"
    slack = _TOLERANCE * (1 + abs(high - low))
    beyond = (columns.low < low - slack) | (columns.high > high + slack)
    if not beyond.any():
        return ""
    first = int(beyond.argmax())
    return (
        f"reach from {columns.low[first]:g} to {columns.high[first]:g} in column {first}, where the environment's "
        f"bounds are {low[first]:g} and {high[first]:g}"
    )
