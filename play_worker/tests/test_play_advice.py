"""A policy that is loaded says what it thinks: of its own steps, and of a person's while it watches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mosaic_protocol.live.messages import Act, Advise, End, HandOver, Keys
from mosaic_worker.tests.policies.toys import new_checkpoint
from play_worker.opinions import Opinion, opinion_of
from play_worker.tests.by_hand import Session
from play_worker.tests.dropped import dropped_policies

DISCRETE = gym.spaces.Discrete(2)


def pole(tmp_path: Path, act: str = "", **params: Any) -> Session:
    workers = {"MOSAIC_WORKER_PATH": str(dropped_policies(tmp_path / "workers", act))}
    return Session(tmp_path / "session", "CartPole-v1", workers, turns="wait", **params)


def test_a_policy_watches_a_person_and_takes_the_seat_at_once(tmp_path: Path) -> None:
    checkpoint = str(new_checkpoint(tmp_path / "checkpoints"))
    with pole(tmp_path, checkpoint=checkpoint) as session:
        assert session.client.wait_for_hello().action_names == ("push left", "push right")
        session.until("advice", lambda: session.client.state.advice)
        state = session.client.state
        assert (state.advisor, state.advice_kind, state.actor) == ("toy_discrete at step 1,000", "value", "human")
        assert state.value == max(state.advice)
        assert state.prefers == ("push left", "push right")[state.advice.index(max(state.advice))]
        preferred = state.advice.index(max(state.advice))
        session.send(Act(1 - preferred))
        session.until("a step", lambda: session.client.state.steps == 1 and session.client.state.advice != state.advice)
        session.send(HandOver("policy", checkpoint=checkpoint))
        session.until("the policy", lambda: session.client.state.actor == "policy" and session.client.state.steps > 3)
        session.send(HandOver("human"))
        session.until("the person", lambda: session.client.state.actor == "human")
        assert session.client.state.acted == "policy", "the person has not acted yet"
        session.send(Advise())
        session.until("nobody", lambda: not session.client.state.advisor)
        assert not session.client.state.advice and session.client.state.value is None
        taken = session.client.state.steps
        session.send(Act(0))
        session.until("a step", lambda: session.client.state.steps == taken + 1)
        assert session.client.state.acted == "human"
        session.send(End())
        assert session.ended() == 0
        steps = session.steps()
    assert (steps[0].actor, steps[0].action, steps[0].info["advised"]) == ("human", 1 - preferred, preferred)
    assert steps[0].value == pytest.approx(state.value)
    assert steps[0].info["advisor"]["checkpoint"] == checkpoint
    policy = [step for step in steps if step.actor == "policy"]
    for step in policy:
        values = step.info["action_values"]
        assert step.value == pytest.approx(max(values)) and step.action == values.index(max(values))
    assert steps[-1].value is None and not steps[-1].info


def test_a_policy_that_thinks_for_long_does_not_hold_up_the_person(tmp_path: Path) -> None:
    checkpoint = str(new_checkpoint(tmp_path / "checkpoints"))
    slow = f"import time; time.sleep(3600 if __import__('os').path.exists({str(tmp_path / 'stuck')!r}) else 0)"
    with pole(tmp_path, slow, env_kwargs={}) as session:
        session.send(Advise(checkpoint))
        session.until("advice", lambda: session.client.state.advice)
        (tmp_path / "stuck").touch()
        for number in range(3):
            session.send(Act(number % 2))
            session.until("a step", lambda number=number: session.client.state.steps == number + 1)
        assert session.client.state.advisor, "it still thinks"
        session.send(End())
        assert session.ended() == 0
        assert [step.value is None for step in session.steps()] == [False, True, True]


def test_one_who_watches_and_fails_costs_its_advice_and_nothing_else(tmp_path: Path) -> None:
    checkpoint = str(new_checkpoint(tmp_path / "checkpoints"))
    with pole(tmp_path, "import os; os._exit(4)") as session:
        session.send(Advise(checkpoint))
        session.until("the sentence", lambda: "status 4" in session.client.state.problem)
        assert not session.client.state.advisor
        session.send(Act(0))
        session.until("a step", lambda: session.client.state.steps == 1)
        session.send(End())
        assert session.ended() == 0


def test_keys_are_changed_while_playing_and_everybody_hears_it(tmp_path: Path) -> None:
    with Session(tmp_path, "FrozenLake-v1", slippery=False) as session:
        session.until("its first move", lambda: session.client.state.waiting)
        session.send(Keys({"d": 2, "left": None}))
        session.until("the keys", lambda: any(one.keys == ("d",) for one in bindings(session)))
        assert {one.keys: one.label for one in bindings(session)}[("d",)] == "right"
        assert not any(one.keys == ("left",) for one in bindings(session))
        session.send(Keys({"hyper": 1}))
        session.until("a refusal", lambda: session.client.refusals)
        assert "no key 'hyper'" in session.client.refusals[0]
        session.send(End())
        assert session.ended() == 0


def bindings(session: Session) -> tuple[Any, ...]:
    hello = session.client.hello
    assert hello is not None
    return hello.key_map.bindings


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, Opinion(1)),
        ({"value": np.array([2.5], np.float32)}, Opinion(1, value=2.5)),
        (
            {"value": np.array([np.nan]), "probabilities": np.array([[0.25, 0.75]])},
            Opinion(1, (0.25, 0.75), "probability"),
        ),
        ({"action_values": np.array([[3, 1]])}, Opinion(1, (3.0, 1.0), "value")),
        ({"action_values": np.array([[3, 1, 2]]), "value": np.zeros(2)}, Opinion(1)),
        ({"probabilities": np.array([[np.inf, 0]]), "value": np.array(["a"])}, Opinion(1)),
    ],
)
def test_of_an_opinion_counts_what_fits_the_actions(told: Mapping[str, Any], expected: Opinion) -> None:
    assert opinion_of(1, told, DISCRETE) == expected
    assert opinion_of(1, told, gym.spaces.Box(-1, 1)).advice == ()
