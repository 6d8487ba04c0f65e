"""Minds arranged for a screen: grids and tables of values, their colours, beliefs with changes, plans along a line."""

from __future__ import annotations

import pytest

from gym_gui.ui.mind.beliefs import SEEN_SECONDS, RecentChanges, belief_rows, summary
from gym_gui.ui.mind.heat import contrast, ink, shade
from gym_gui.ui.mind.plan_spans import PlanNumbers, Stretch, newest, shares, stretches
from gym_gui.ui.mind.values import best_of, grid_of, reading, shelves_of, short, span_of
from mosaic_protocol.mind import Belief, Mind, PlanSpan, ValueTable

LAKE = ("SFFF", "FHFH", "FFFH", "HFFG")
ACTIONS = ("left", "down", "right", "up")
HOLES = (5, 7, 11, 12, 15)


def lake(**changes: object) -> ValueTable:
    values = tuple((0.1, 0.5, 0.2, 0.1) if state == 9 else (0.0,) * 4 for state in range(16))
    fields: dict[str, object] = {"actions": ACTIONS, "values": values, "cells": LAKE, "terminal": HOLES, "state": 9}
    return ValueTable(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_lake_is_a_grid_with_holes_a_start_a_goal_and_the_agent() -> None:
    grid = grid_of(lake(visits=tuple(range(16))))
    assert grid is not None and (grid.columns, grid.rows, grid.agent) == (4, 4, 9)
    kinds = [cell.kind for cell in grid.cells]
    assert (kinds[0], kinds[5], kinds[15], kinds[9]) == ("start", "hole", "goal", "free")
    assert [cell.state for cell in grid.cells if cell.values is None] == list(HOLES)
    assert grid.cells[9].best == ("down",) and grid.cells[9].visits == 9 and grid.place(9) == (1, 2)
    assert grid.cells[0].best == (), "an agent that knows nothing prefers nothing"


def test_directions_in_any_order_and_by_compass_are_turned_to_their_sides() -> None:
    table = lake(actions=("move_up", "East", "south", "go left"), values=((4.0, 3.0, 2.0, 1.0),) * 16, terminal=())
    grid = grid_of(table)
    assert grid is not None and grid.cells[0].values == (1.0, 2.0, 3.0, 4.0) and grid.cells[0].best == ("up",)


@pytest.mark.parametrize(
    "changes",
    [
        {"cells": ()},
        {"cells": ("SF", "F")},
        {"cells": ("SFFF",)},
        {"actions": ("left", "right", "forward", "pick up the key")},
        {"actions": ("left", "left", "left", "left")},
        {"actions": ("left", "right")},
        {"values": ((0.0,) * 3,) * 16},
    ],
)
def test_what_is_no_grid_is_shown_as_a_table(changes: dict[str, object]) -> None:
    assert grid_of(lake(**changes)) is None


def test_an_agent_outside_of_its_world_is_nowhere() -> None:
    grid = grid_of(lake(state=99))
    assert grid is not None and grid.agent is None


def test_ties_are_all_best_and_equal_values_are_none() -> None:
    assert best_of((1.0, 0.0, 1.0)) == (0, 2) and best_of((2.0, 2.0)) == () and best_of(()) == ()


@pytest.mark.parametrize(("states", "actions"), [(500, 6), (1000, 4), (32, 2), (1, 1)])
@pytest.mark.parametrize("room", [(300.0, 200.0), (700.0, 240.0), (1100.0, 700.0)])
def test_every_state_of_a_table_has_its_place(states: int, actions: int, room: tuple[float, float]) -> None:
    shelves = shelves_of(states, actions, *room)
    assert shelves.wide > 0 and shelves.high > 0
    for state in (0, states // 2, states - 1):
        x, y = shelves.place(state)
        assert x + shelves.wide * actions <= room[0] + 1e-6 and y + shelves.high <= room[1] + 1e-6
        assert shelves.state_at(x + shelves.wide / 2, y + shelves.high / 2) == state
    assert shelves.state_at(-1, 0) is None and shelves.state_at(0, room[1] + 99) is None


def test_a_table_without_states_has_no_place_to_point_at() -> None:
    assert shelves_of(0, 0, 100, 100).state_at(500, 500) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.534, ".53"), (0.0, "0"), (-0.001, "0"), (0.999, "1.0"), (1.0, "1.0"), (-3.25, "−3.2"), (-12.4, "−12")),
        *((12345.0, "1e4"), (float("nan"), "?"), (float("inf"), "?")),
    ],
)
def test_values_in_a_few_characters(value: float, text: str) -> None:
    assert short(value) == text


def test_one_fall_does_not_take_the_colours_from_everything_else() -> None:
    values = tuple((-100.0 if state == 3 else -1.0 - state / 100, -1.0, -1.0, -1.0) for state in range(48))
    span = span_of(ValueTable(values=values))
    assert span.low > -3 and span.share(-100.0) == 0.0 and span.share(0.0) == 1.0
    assert span_of(ValueTable()).share(5.0) == 0.0


def test_a_reading_says_everything_of_a_state() -> None:
    table = lake(visits=(0,) * 9 + (4210,) + (0,) * 6)
    assert reading(table, 9) == "state 9 · left .10 · down .50 (best) · right .20 · up .10 · visited 4,210 times"
    assert "an episode ends here" in reading(table, 5)
    assert reading(ValueTable(values=((1.0, 0.0),)), 0) == "state 0 · action 0 1.0 (best) · action 1 0"


@pytest.mark.parametrize("look", ["dark", "light"])
def test_numbers_can_be_read_on_every_shade(look: str) -> None:
    shades = [shade(step / 50, look) for step in range(51)]
    assert min(contrast(ink(one), one) for one in shades) >= 4.5
    assert len(set(shades)) == 51, "different values look different"


# ---- beliefs -----------------------------------------------------------------------------------------------------


def confidence(value: float) -> Belief:
    return Belief("confidence", (value,), "learned")


def test_beliefs_are_rows_with_what_is_new_and_what_was_dropped_beside_each_other() -> None:
    held = (Belief("slippery", (), "person\x1b[31m"), confidence(0.410004), Belief("at", ({"f": "cell", "a": [9]},)))
    mind = Mind(beliefs=held, added=(held[1],), removed=(confidence(0.4),))
    rows = [(row.mark, row.name, row.value, row.source) for row in belief_rows(mind)]
    assert rows == [
        ("", "at", "cell(9)", ""),
        ("−", "confidence", "0.4", "learned"),
        ("+", "confidence", "0.41", "learned"),
        ("", "slippery", "", "person [31m"),
    ]
    assert [row.mark for row in belief_rows(mind, only_changes=True)] == ["−", "+"] and summary(mind) == (3, 1, 1)


def test_a_change_stays_marked_for_a_moment_and_a_busy_belief_shows_its_last_change() -> None:
    recent, slippery = RecentChanges(), Belief("slippery", (), "person")
    first = recent.take(Mind(beliefs=(slippery, confidence(0.1)), added=(slippery,)), 0.0)
    assert first.added == (slippery,)
    for step in range(1, 6):
        now, old = confidence(step / 10 + 0.1), confidence(step / 10)
        mind = recent.take(Mind(beliefs=(slippery, now), added=(now,), removed=(old,)), step * 0.2)
    assert mind.added == (slippery, now) and mind.removed == (old,)
    later = recent.take(Mind(beliefs=(slippery, now)), 1.0 + SEEN_SECONDS)
    assert later.added == later.removed == ()


def test_a_belief_that_came_back_is_not_shown_as_dropped() -> None:
    recent, one = RecentChanges(), Belief("hole", (5,), "scout")
    recent.take(Mind(removed=(one,)), 0.0)
    assert recent.take(Mind(beliefs=(one,), added=(one,)), 0.2).removed == ()


# ---- plans -------------------------------------------------------------------------------------------------------


SPANS = [PlanSpan(0, "explore", 900), PlanSpan(900, "exploit", 90), PlanSpan(990, "repair", 10)]


def test_plans_along_a_line() -> None:
    assert stretches(SPANS, 100) == [
        Stretch(0, 90, "explore"),
        Stretch(90, 99, "exploit"),
        Stretch(99, 100, "repair"),
    ]
    assert shares(SPANS) == [("explore", 900), ("exploit", 90), ("repair", 10)]
    assert stretches([], 100) == stretches(SPANS, 0) == []


def test_the_newest_episodes_alone() -> None:
    assert newest(SPANS, 20) == [PlanSpan(980, "exploit", 10), PlanSpan(990, "repair", 10)]
    assert [one.plan for one in stretches(newest(SPANS, 20), 40)] == ["exploit", "repair"]


def test_what_is_too_short_for_a_column_gives_way_to_what_fills_it() -> None:
    flicker = [PlanSpan(2 * n, "exploit", 1) for n in range(100)] + [PlanSpan(2 * n + 1, "repair", 1) for n in range(1)]
    assert {one.plan for one in stretches(flicker, 10)} == {"exploit"}


def test_a_gap_in_what_is_known_stays_empty() -> None:
    assert stretches([PlanSpan(0, "a", 10), PlanSpan(90, "b", 10)], 10) == [Stretch(0, 1, "a"), Stretch(9, 10, "b")]


def test_plans_keep_their_numbers() -> None:
    numbers = PlanNumbers()
    assert [numbers.of(name) for name in ("explore", "exploit", "explore")] == [0, 1, 0]
