"""CartPole, MountainCar and Acrobot in words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from llm_worker.describing.describer import PlainDescriber, Seen, shown_number


def _side(value: float, less: str, more: str) -> str:
    return f"{shown_number(abs(value))} {more if value > 0 else less}"


class CartPole(PlainDescriber):
    family = "classic control"
    actions = ("push left", "push right")
    rules = (
        "A pole stands on a cart. Push the cart so that the pole stays upright and the cart stays within 2.4 of the "
        "middle. The pole has fallen beyond 12 degrees. Every step that it stands gives the reward 1. Push towards the "
        "side to which the pole falls."
    )

    def describe(self, observation: Any) -> Seen:
        place, speed, angle, turning = (float(one) for one in np.asarray(observation))
        return Seen(
            f"The cart is {_side(place, 'left', 'right')} of the middle and moves "
            f"{_side(speed, 'to the left', 'to the right')} a second. The pole leans "
            f"{_side(math.degrees(angle), 'degrees to the left', 'degrees to the right')} and turns "
            f"{_side(math.degrees(turning), 'degrees a second to the left', 'degrees a second to the right')}."
        )


class MountainCar(PlainDescriber):
    family = "classic control"
    actions = ("push left", "coast", "push right")
    idle = 1
    rules = (
        "A car stands in a valley between two hills; its engine is too weak to climb at once. Swing back and forth to "
        "reach the flag at position 0.5 on the right. The lowest point is at -0.52. Each step costs 1."
    )

    def describe(self, observation: Any) -> Seen:
        place, speed = (float(one) for one in np.asarray(observation))
        moves = "stands still" if abs(speed) < 1e-6 else f"moves {'right' if speed > 0 else 'left'}"
        return Seen(f"The car is at {shown_number(place)} and {moves} at {abs(speed):.4f} a step.")

    def progression(self, observation: Any) -> float | None:
        return float(min(max((float(np.asarray(observation)[0]) + 0.52) / 1.02, 0.0), 1.0))


class Acrobot(PlainDescriber):
    family = "classic control"
    actions = ("turn left", "let swing", "turn right")
    idle = 1
    rules = (
        "Two links hang from a joint; you turn the joint between them. Swing the free end above the height of 1 over "
        "the upper joint. Each step costs 1."
    )

    def describe(self, observation: Any) -> Seen:
        c1, s1, c2, s2, first, second = (float(one) for one in np.asarray(observation))
        one, two = math.degrees(math.atan2(s1, c1)), math.degrees(math.atan2(s2, c2))
        height = -c1 - (c1 * c2 - s1 * s2)
        return Seen(
            f"The first link is {shown_number(one)} degrees from hanging straight down and turns at "
            f"{shown_number(first)} radians a second. The second is {shown_number(two)} degrees from the first and"
            f" turns at {shown_number(second)}. "
            f"The free end is at the height {shown_number(height)}."
        )
