"""Minds are recorded as they were: what a reader puts together is what the agent believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mosaic_protocol.live.messages import Tell
from mosaic_protocol.mind import MIND, WHOLE_EVERY, Belief, Mind, MindReader, MindRecord, text_of
from mosaic_worker.recording.step_recorder import StepRecorder
from mosaic_worker.tests.recording.step_journals import steps_in
from spade_bdi_rl_worker.agent.learner import LearningAgent
from spade_bdi_rl_worker.tests.alone import live, make_agent


def recorded(
    folder: Path, episodes: int, plans: str = "learner", **about: Any
) -> tuple[LearningAgent, list[Any], list[Mind]]:
    """An agent that lived, what it believed as each episode began, and its mind as a reader finds it."""
    recorder = StepRecorder(folder)
    agent = make_agent(plans, episodes, lane=recorder.lane("learner", "agent"), **about)
    believed: list[Any] = []
    record = agent.mind.record

    def listening(*where: int, **how: bool) -> dict[str, Any]:
        believed.append(keys(agent.mind.distinct_beliefs().values()))
        if len(believed) == 100:
            agent.tell(Tell("slippery"))
        return record(*where, **how)

    more = agent.mind.record_more

    def listening_on(confidences: list[float]) -> list[dict[str, Any]]:
        believed.extend([believed[-1]] * (len(confidences) - 1))
        return more(confidences)

    agent.mind.record = listening  # type: ignore[method-assign,assignment]
    agent.mind.record_more = listening_on  # type: ignore[method-assign,assignment]
    live(agent)
    recorder.close()
    reader = MindReader()
    minds = [reader.take(step.info[MIND]) for step in steps_in(folder) if MIND in step.info]
    return agent, believed, minds


def keys(beliefs: Any) -> set[str]:
    return {f"{one.text} from {one.source}" for one in beliefs}


def test_what_a_reader_finds_is_what_the_agent_believed(tmp_path: Path) -> None:
    agent, believed, minds = recorded(tmp_path, 1500)
    assert len(minds) == len(believed) == agent.runtime.episodes == 1500
    assert [keys(mind.beliefs) for mind in minds] == believed
    assert "slippery from person" in keys(minds[-1].beliefs)
    assert [said.text for mind in minds for said in mind.messages] == ["slippery"]
    assert {mind.plan for mind in minds} >= {"explore", "exploit", "cache", "reuse", "renew"}
    for mind in minds:
        (chosen,) = [one for one in mind.considered if not one.why_not]
        assert chosen.plan == mind.plan and mind.goal == "episode"
        confidence = [one.args[0] for one in mind.beliefs if one.functor == "confidence"]
        named = [one.why_not for one in mind.considered if one.plan == "exploit" and "confidence is" in one.why_not]
        assert all(why.endswith(f"confidence is {text_of(confidence[0])}") for why in named), "no stale reason"
    assert minds[-1].intentions[-1].doing.startswith(".run_episode")


def test_a_reader_can_begin_anywhere(tmp_path: Path) -> None:
    _, believed, minds = recorded(tmp_path, 3 * WHOLE_EVERY)
    records = [step.info[MIND] for step in steps_in(tmp_path) if MIND in step.info]
    assert [number for number, record in enumerate(records) if record.get("whole")] == [0, WHOLE_EVERY, 2 * WHOLE_EVERY]
    late = MindReader()
    minds_from_the_second = [late.take(record) for record in records[WHOLE_EVERY:]]
    assert [keys(mind.beliefs) for mind in minds_from_the_second] == believed[WHOLE_EVERY:]
    assert minds_from_the_second[-1] == minds[-1]


def test_beliefs_that_differ_in_other_marks_than_their_source_are_one_until_the_last_goes(tmp_path: Path) -> None:
    plans = (
        "seen(a)[at(5)]. seen(a)[at(9)]. seen(b)[at(7)]. !go(1)."
        " +!go(N) <- .run_episode(explore); -seen(X)[at(N)]; !!go(N + 1)."
    )
    _, believed, minds = recorded(tmp_path, 20, plans)
    assert [keys(mind.beliefs) for mind in minds] == believed
    assert ["seen(a) from self" in one for one in believed] == [number < 9 for number in range(20)]
    assert ["seen(b) from self" in one for one in believed] == [number < 7 for number in range(20)]


def test_episodes_of_one_action_have_a_record_each(tmp_path: Path) -> None:
    plans = "!go. +!go <- .run_episodes(explore, 40); !!go."
    _, believed, minds = recorded(tmp_path, 400, plans)
    assert len(minds) == 400 and [keys(mind.beliefs) for mind in minds] == believed


@pytest.mark.parametrize("every", [False, True])
def test_every_step_has_values_where_asked_for(every: bool, tmp_path: Path) -> None:
    recorder = StepRecorder(tmp_path)
    agent = make_agent(episodes=20, lane=recorder.lane("learner", "agent"))
    agent.runtime._every_value = every
    live(agent)
    recorder.close()
    with_values = [bool(step.info.get(MIND, {}).get("values")) for step in steps_in(tmp_path)]
    assert all(with_values) if every else not any(with_values)


def test_a_mind_is_seen_with_what_changed_since_the_last_look() -> None:
    agent = make_agent(episodes=100_000)
    live(agent, lambda: agent.runtime.episodes > 5)
    first = agent.seen()
    assert first.mind.added == () and first.mind.plan == "explore" and first.table is not None
    assert len(first.table.values) == 16 and first.table.terminal == (5, 7, 11, 12, 15)
    agent.reasoner.believe(agent.reasoner.beliefs and next(iter_literals("windy")))
    second = agent.seen()
    assert [one.text for one in second.mind.added] == ["windy"] and second.mind.removed == ()
    assert agent.look() == 0 and agent.seen().mind.values == agent.seen().table.values[0]  # type: ignore[union-attr]


def iter_literals(*texts: str) -> Any:
    from spade_bdi_rl_worker.agent.program import parse_term

    return (parse_term(text) for text in texts)


def test_a_record_is_small_when_nothing_changed() -> None:
    agent = make_agent("!go. +!go <- .run_episode(explore); !!go.", episodes=10)
    live(agent)
    agent.mind.record(10, 10)
    assert agent.mind.record(11, 11) == {} == MindRecord().to_extra()
    assert Belief("a").text == "a"
