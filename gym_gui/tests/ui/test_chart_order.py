"""The order of charts: moved by a person, natural for everything else. No Qt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_gui.ui.plots.chart_order import FIRST, ChartOrder

RETURN, LENGTH, SPS = "charts/episodic_return", "charts/episodic_length", "charts/SPS"
POLICY, VALUE = "losses/policy_loss", "losses/value_loss"
TAGS = [RETURN, LENGTH, SPS, POLICY, VALUE]


def test_nobody_moved_anything() -> None:
    assert ChartOrder().arranged(TAGS) == {"charts": [RETURN, LENGTH, SPS], "losses": [POLICY, VALUE]}
    assert ChartOrder().as_json() is None


def test_a_chart_moves_within_its_group() -> None:
    natural = ChartOrder()
    order = natural.moved(SPS, -1, natural.arranged(TAGS))
    assert order.arranged(TAGS)["charts"] == [RETURN, SPS, LENGTH]
    assert order.moved(SPS, 1, order.arranged(TAGS)).arranged(TAGS)["charts"] == [RETURN, LENGTH, SPS]
    assert natural.moved(SPS, 1, natural.arranged(TAGS)) == natural, "it is the last one"


def test_before_its_group_a_chart_is_among_the_first_and_finds_back() -> None:
    natural = ChartOrder()
    order = natural.moved(POLICY, -1, natural.arranged(TAGS))
    assert order.arranged(TAGS) == {FIRST: [POLICY], "charts": [RETURN, LENGTH, SPS], "losses": [VALUE]}
    order = order.moved_first(VALUE, order.arranged(TAGS))
    assert order.arranged(TAGS) == {FIRST: [VALUE, POLICY], "charts": [RETURN, LENGTH, SPS]}
    assert order.moved(VALUE, -1, order.arranged(TAGS)) == order
    back = order.moved(POLICY, 1, order.arranged(TAGS))
    assert back.arranged(TAGS) == {FIRST: [VALUE], "charts": [RETURN, LENGTH, SPS], "losses": [POLICY]}


def test_a_chart_that_is_dropped_beside_another_stands_there() -> None:
    natural = ChartOrder()
    order = natural.moved_to(SPS, RETURN, natural.arranged(TAGS), behind=False)
    assert order.arranged(TAGS)["charts"] == [SPS, RETURN, LENGTH]
    order = natural.moved_to(RETURN, LENGTH, natural.arranged(TAGS), behind=True)
    assert order.arranged(TAGS)["charts"] == [LENGTH, RETURN, SPS]
    across = natural.moved_to(VALUE, RETURN, natural.arranged(TAGS), behind=True)
    assert across.arranged(TAGS)[FIRST] == [VALUE], "groups stay what they are"
    home = across.moved_to(VALUE, POLICY, across.arranged(TAGS), behind=True)
    assert home.arranged(TAGS) == natural.arranged(TAGS)
    assert natural.moved_to(SPS, SPS, natural.arranged(TAGS), behind=True) == natural


def test_a_tag_that_comes_new_stands_behind_its_natural_neighbour() -> None:
    few = [RETURN, SPS]
    order = ChartOrder().moved(SPS, -1, ChartOrder().arranged(few))
    assert order.arranged(few)["charts"] == [SPS, RETURN]
    assert order.arranged(TAGS)["charts"] == [SPS, RETURN, LENGTH]
    assert order.arranged([*few, "charts/a", "charts/z"])["charts"] == [SPS, "charts/a", "charts/z", RETURN]


def test_tags_of_other_runs_keep_their_places() -> None:
    order = ChartOrder({"losses": (VALUE, "losses/entropy", POLICY)})
    shown = order.arranged([VALUE, POLICY])
    order = order.moved(POLICY, -1, shown)
    assert order.arranged(["losses/entropy", VALUE, POLICY])["losses"] == [POLICY, VALUE, "losses/entropy"]


def test_what_is_hidden_is_gone_until_it_is_shown() -> None:
    order = ChartOrder().hiding(SPS).hiding(VALUE).hiding(SPS)
    assert order.arranged(TAGS) == {"charts": [RETURN, LENGTH], "losses": [POLICY]}
    assert order.hidden_among(TAGS) == [SPS, VALUE] and order.hidden_among([RETURN]) == []
    assert order.showing([SPS]).arranged(TAGS)["charts"] == [RETURN, LENGTH, SPS]
    assert order.showing([SPS, VALUE]).is_natural
    moved = order.moved_first(POLICY, order.arranged(TAGS))
    assert moved.in_natural_order() == order


def test_the_filter_leaves_the_order() -> None:
    order = ChartOrder().moved(VALUE, -1, ChartOrder().arranged(TAGS))
    assert order.arranged(TAGS, "loss") == {"losses": [VALUE, POLICY]}


def test_an_arrangement_is_remembered() -> None:
    order = ChartOrder().hiding(SPS).moved_first(VALUE, ChartOrder().arranged(TAGS))
    assert ChartOrder.from_json(json.loads(json.dumps(order.as_json()))) == order


@pytest.mark.parametrize("kept", [{}, {"groups": 3, "hidden": "x"}, {"groups": {"a": [1, None]}, "hidden": [{}, 7]}])
def test_a_damaged_memory_is_the_natural_arrangement(kept: dict[str, Any]) -> None:
    assert ChartOrder.from_json(kept).arranged(TAGS) == ChartOrder().arranged(TAGS)


_moves = st.tuples(st.sampled_from(["by", "first", "to", "hide", "show"]), st.sampled_from(TAGS), st.sampled_from(TAGS))


@given(st.lists(_moves, max_size=30), st.booleans())
def test_no_chart_is_ever_lost_or_doubled(moves: list[tuple[str, str, str]], behind: bool) -> None:
    order = ChartOrder()
    for kind, tag, other in moves:
        shown = order.arranged(TAGS)
        if kind == "by":
            order = order.moved(tag, 1 if behind else -1, shown)
        elif kind == "first":
            order = order.moved_first(tag, shown)
        elif kind == "to":
            order = order.moved_to(tag, other, shown, behind=behind)
        else:
            order = order.hiding(tag) if kind == "hide" else order.showing([tag])
    everything = [tag for tags in order.arranged(TAGS).values() for tag in tags] + order.hidden_among(TAGS)
    assert sorted(everything) == sorted(TAGS)
