"""Records of a mind: changes are put together to the mind that they were taken from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic_protocol.mind import Belief, Considered, Intention, MindError, MindReader, MindRecord, Said, text_of

NEAR = Belief("near", (3, {"f": "goal"}), "percept")
SLIPPERY = Belief("slippery", (), "person")


def test_changes_are_put_together() -> None:
    reader = MindReader()
    first = MindRecord(
        whole=True,
        plan="explore",
        goal="play",
        confidence=0.1,
        added=[NEAR],
        goals=["learn", "play"],
        intentions=[Intention("learn", "learning"), Intention("play", "explore", ".run_episode(explore)")],
        considered=[Considered("reuse", "policy(cached)", "policy(cached) is not believed"), Considered("explore")],
        messages=[Said("in", "person", "tell", "slippery", 5.0)],
    )
    mind = reader.take(first.to_extra())
    assert mind.plan == "explore" and mind.beliefs == (NEAR,) and mind.added == ()
    assert mind.considered[0].why_not and not mind.considered[1].why_not
    mind = reader.take(MindRecord(plan="exploit", added=[SLIPPERY], removed=[NEAR], values=[0.1, 0.9]).to_extra())
    assert (mind.plan, mind.goal, mind.confidence, mind.goals) == ("exploit", "play", 0.1, ("learn", "play"))
    assert mind.beliefs == mind.added == (SLIPPERY,) and mind.removed == (NEAR,)
    assert mind.messages == () and mind.values == (0.1, 0.9)
    assert reader.take(MindRecord().to_extra()).values == ()


def test_an_unchanged_mind_costs_a_byte_or_two() -> None:
    assert MindRecord().to_extra() == {}


def test_changes_alone_are_refused() -> None:
    reader = MindReader()
    with pytest.raises(MindError, match="without a whole record"):
        reader.take({"plan": "explore"})
    with pytest.raises(MindError, match="cannot be read"):
        reader.take({"plan": 7})
    assert reader.take({"whole": True}).beliefs == ()


def test_the_same_belief_of_two_sources_is_two_beliefs() -> None:
    reader = MindReader()
    told = Belief("hole", (5,), "scout")
    sensed = Belief("hole", (5,), "percept")
    assert len(reader.take(MindRecord(whole=True, added=[told, sensed]).to_extra()).beliefs) == 2
    assert reader.take(MindRecord(removed=[told]).to_extra()).beliefs == (sensed,)


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (3, "3"),
        (3.0, "3"),
        (0.5, "0.5"),
        (True, "true"),
        ("a b", '"a b"'),
        ({"f": "goal"}, "goal"),
        ({"f": "at", "a": [1, {"f": "left"}]}, "at(1, left)"),
        ([1, [2]], "[1, [2]]"),
    ],
)
def test_terms_as_text(term: Any, text: str) -> None:
    assert text_of(term) == text


_BELIEFS = st.lists(
    st.builds(Belief, st.sampled_from("abc"), st.tuples(st.integers(0, 3)), st.sampled_from(["self", "percept"])),
    unique_by=repr,
)


@given(st.lists(_BELIEFS, min_size=1, max_size=6))
def test_any_history_of_beliefs_is_read_as_it_was(history: list[list[Belief]]) -> None:
    reader, before = MindReader(), list[Belief]()
    for number, now in enumerate(history):
        record = MindRecord(
            whole=number == 0,
            added=[one for one in now if one not in before],
            removed=[one for one in before if one not in now],
        )
        assert set(map(repr, reader.take(record.to_extra()).beliefs)) == set(map(repr, now))
        before = now
