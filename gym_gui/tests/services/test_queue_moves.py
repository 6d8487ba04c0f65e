"""Undoing moves in the queue: everything stands as it stood, as far as it still waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_gui.services.queue_moves import AFTER, BEFORE, FIRST, Spot, way_back


def put(line: list[str], run_id: str, spot: Spot) -> list[str]:
    rest = [one for one in line if one != run_id]
    at = 0 if spot.where == FIRST else rest.index(spot.anchor) + (spot.where == AFTER)
    return [*rest[:at], run_id, *rest[at:]]


@given(st.data())
def test_whatever_was_moved_goes_back_before_what_followed_it(data: st.DataObject) -> None:
    line = list("abcdef")
    moved = data.draw(st.sets(st.sampled_from(line), min_size=1))
    waiting = data.draw(st.sets(st.sampled_from(line)))
    now = [*data.draw(st.permutations(sorted(moved))), *(one for one in line if one not in moved)]
    now = [one for one in now if one in waiting] + ["newer"]
    for run_id, spot in way_back(line, moved, waiting):
        assert spot.where in (BEFORE, AFTER, FIRST)
        now = put(now, run_id, spot)
    assert now == [one for one in line if one in waiting] + ["newer"]


@pytest.mark.parametrize("waiting", [set(), {"b", "c"}])
def test_a_run_that_has_started_is_not_moved_back(waiting: set[str]) -> None:
    assert way_back(["a", "b", "c"], {"a"}, waiting) == []
