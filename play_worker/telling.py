"""What those who watch are told of the sides of a session."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from mosaic_protocol.live.messages import Hello, SeatState
from play_worker.side import Side


def hello_of(sides: Sequence[Side], settings: dict[str, Any]) -> Hello:
    first, names = sides[0], tuple(side.name for side in sides)
    stage = first.stage
    return Hello(
        stage.env_id,
        stage.family,
        first.key_map,
        stage.waits,
        stage.fps,
        settings,
        action_names=action_names(first),
        seats=names if len(sides) > 1 else (),
    )


def action_names(side: Side) -> tuple[str, ...]:
    space = side.stage.env.action_space
    if not isinstance(space, gym.spaces.Discrete):
        return ()
    first = int(space.start)
    labels = side.stage.key_map.label_of
    return tuple(labels(first + at) or f"action {first + at}" for at in range(int(space.n)))


def seat_state(side: Side, *, waits: bool) -> SeatState:
    """``waits``: whether the session waits for persons now."""
    seat, begun = side.seat, side.episode >= 0
    opinion, policy = seat.last_opinion, seat.policy
    return SeatState(
        name=side.name,
        episode=max(side.episode, 0),
        step=side.step,
        total=finite(side.total),
        actor=seat.actor.name,
        checkpoint=seat.checkpoint,
        unseated=seat.unseated,
        action=side.action,
        acted=side.acted,
        loading=seat.expected,
        waiting=waits and side.is_waiting,
        over=side.over,
        best=finite(max(side.returns, default=-math.inf)),
        problem=side.problem or seat.problem or side.stage.picture_problem,
        text=side.stage.text() if begun else "",
        frames=side.stage.frames_path,
        advice=opinion.advice if opinion else (),
        advice_kind=opinion.kind if opinion else "",
        prefers=side.preferred(opinion.action) if opinion else "",
        value=opinion.value if opinion else None,
        advisor=policy.called if policy and (policy is seat.actor or seat.is_human) else "",
    )


def finite(total: float) -> float | None:
    return total if math.isfinite(total) else None
