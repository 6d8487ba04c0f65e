"""Commands of watchers: what is understood, and the one sentence for what is not."""

from __future__ import annotations

import math

import pytest

from mosaic_protocol.live import messages as m
from mosaic_protocol.mind import AgentMind, Belief, Mind, PlanSpan, ValueTable


@pytest.mark.parametrize(
    "command",
    [
        m.Hold(("left", "up")),
        m.Press("space"),
        m.Act([0.5, -1.0]),
        m.Pause(),
        m.Go(),
        m.SingleStep(),
        m.Speed(0.25),
        m.Restart(),
        m.Restart("same"),
        m.Restart(12),
        m.HandOver("policy", checkpoint="runs/a/checkpoints/c", deterministic=False),
        m.HandOver("human", seat=2),
        m.Advise("runs/a/checkpoints/c"),
        m.Undo(),
        m.Undo(12),
        m.Keys({"a": 0, "left+space": [1.0, 0.0], "x": None}),
        m.Tell("slippery"),
        m.Tell("rest(5)", "goal", agent="scout"),
        m.End(),
    ],
)
def test_every_command_arrives_as_it_was_sent(command: m.Command) -> None:
    line = m.line_of(command)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert m.read_command(line) == command


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "this is no command"),
        (b"\xff\xfe", "this is no command"),
        (b"[]", "this is no command"),
        (b'{"do":"fly"}', "this is no command"),
        (b'{"do":"pause","now":true}', "this is no command"),
        (b"[" * 100_000, "this is no command"),
        (b'{"do":"speed","times":-1}', "between 0"),
        (b'{"do":"speed","times":1e9}', "between 0"),
        (b'{"do":"restart","seed":-1}', "seed must be"),
        (b'{"do":"undo","steps":0}', "1 step or more"),
        (b'{"do":"tell","text":" "}', "nothing to tell"),
        (b'{"do":"tell","text":"' + b"a" * 2001 + b'"}', "2,000 characters"),
        (b'{"do":"tell","text":"a","kind":"order"}', "this is no command"),
        (b'{"do":"hand_over","actor":"policy"}', "checkpoint"),
        (b'{"do":"hand_over","actor":"scripted"}', "file"),
        (b'{"do":"hand_over","actor":"cat"}', "this is no command"),
    ],
)
def test_what_is_no_command_is_refused_in_one_sentence(line: bytes, said: str) -> None:
    with pytest.raises(m.MessageError, match=said) as refused:
        m.read_command(line)
    assert "\n" not in str(refused.value)


def test_a_state_survives_a_return_that_is_no_number() -> None:
    told = m.read_told(m.line_of(m.State(steps=3, total=math.nan, actor="policy")))
    assert told == m.State(steps=3, total=None, actor="policy")


def test_the_seats_of_a_session_arrive_as_they_were_told() -> None:
    seats = (
        m.SeatState("seat-1", advice=(0.25, 0.75), advice_kind="probability"),
        m.SeatState("seat-2", over="truncated"),
    )
    state = m.State(seats=seats, rounds=(m.Round(7, (21.0, None), (21, 500)),))
    assert m.read_told(m.line_of(state)) == state


def test_a_newer_session_may_tell_more_than_is_known_here() -> None:
    assert m.read_told(b'{"at":"state","steps":4,"mood":"good"}') == m.State(steps=4)
    with pytest.raises(m.MessageError):
        m.read_told(b'{"at":"song"}')


def test_a_mind_arrives_as_it_was_told() -> None:
    table = ValueTable(("left", "right"), ((0.0, 0.5), (0.0, 0.0)), (3, 0), ("SG",), (1,), 0)
    mind = Mind("explore", "play", 0.4, (Belief("near", ({"f": "goal"},), "percept"),))
    agent = AgentMind("learner", 12, mind, (PlanSpan(0, "explore", 13),), {"epsilon": 0.5}, table)
    state = m.State(mind=(agent,))
    assert m.read_told(m.line_of(state)) == state
    assert m.read_told(m.line_of(m.State())) == m.State(mind=None)
