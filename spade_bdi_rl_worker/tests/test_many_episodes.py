"""Many episodes at once are those that would have been played one by one, to the bit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from mosaic_protocol.events import TrainingStep
from mosaic_worker.recording.step_recorder import StepRecorder
from mosaic_worker.tests.recording.step_journals import steps_in
from spade_bdi_rl_worker.learning.confidence import in_hundredths
from spade_bdi_rl_worker.learning.runtime import How, QLearningRuntime
from spade_bdi_rl_worker.learning.strategy import Budget, Strategy
from spade_bdi_rl_worker.tests.alone import live, make_agent, make_runtime

WORLDS: list[tuple[str, dict[str, Any]]] = [
    ("FrozenLake-v1", {"is_slippery": False}),
    ("CliffWalking-v1", {"max_episode_steps": 30}),
    ("Taxi-v4", {"max_episode_steps": 25}),
]
STRATEGIES = [
    Strategy(),
    Strategy(exploration=0.0),
    Strategy(fixed={"alpha": 0.3, "epsilon": 0.0}),
    Strategy(fixed={"exploration": 0.9}),
]


def everything(runtime: QLearningRuntime) -> tuple[Any, ...]:
    learner = runtime.learner
    return learner.q, learner.visits, runtime.counted, runtime.chance_state, runtime.progress, runtime.path


def one_by_one(runtime: QLearningRuntime, how: How, count: int, budget: Budget) -> None:
    for _ in range(count):
        if runtime.progress < 1.0:
            runtime.run_episode(how, {"confidence": in_hundredths(runtime.confidence.value)})
            runtime.progress = budget.progress(runtime.steps, runtime.episodes)


def at_once(runtime: QLearningRuntime, how: How, count: int, budget: Budget) -> None:
    if runtime.progress < 1.0:
        before = in_hundredths(runtime.confidence.value)
        runtime.run_episodes(
            how, count, budget, lambda found: [{"confidence": one} for one in [before, *found][: len(found)]]
        )


def steps_of(folder: Path) -> list[TrainingStep]:
    found = steps_in(folder)
    for step in found:
        step.t, step.seq = 0.0, 0
    return found


@pytest.mark.parametrize(("env_id", "params"), WORLDS)
@pytest.mark.parametrize("budget", [Budget(None, 150), Budget(700, None), Budget(5000, 100)])
def test_episodes_at_once_are_those_one_by_one(
    env_id: str, params: dict[str, Any], budget: Budget, tmp_path: Path
) -> None:
    for number, strategy in enumerate(STRATEGIES):
        found = []
        for way in (one_by_one, at_once):
            folder = tmp_path / f"{way.__name__}{number}"
            recorder = StepRecorder(folder, seal_seconds=3600)
            runtime = make_runtime(env_id, params, lane=recorder.lane("a", "agent"), strategy=strategy)
            draw = random.Random(number)
            runtime.strategy.fixed = dict(strategy.fixed)
            assert runtime.plays_many("explore") and not runtime.plays_many("cached")
            for _ in range(30):
                way(runtime, draw.choice(("explore", "exploit", "repair")), draw.randint(1, 20), budget)
                if draw.random() < 0.2:
                    runtime.record()
                if draw.random() < 0.2:  # in between one that cannot be played at once
                    runtime.cache_policy()
                    runtime.run_episode("cached", {"cached": True})
                    runtime.progress = budget.progress(runtime.steps, runtime.episodes)
            before = everything(runtime)
            runtime.record()
            assert everything(runtime) == before
            recorder.close()
            found.append((before, steps_of(folder)))
        assert found[0] == found[1] and len(found[0][1]) > 200


@pytest.mark.parametrize(
    "plans",
    [
        "!go. +!go <- .run_episodes(explore, 16); !!go.",
        "!go. +!go <- .run_episodes(explore, 50); .run_episode(exploit); .run_episodes(repair, 3); !!go.",
        "!go. +!go <- .run_episodes(70); .cache_policy; .run_episodes(cached, 20); !!go.",
    ],
)
def test_an_agent_does_and_believes_the_same_either_way(
    plans: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for way in ("one", "many"):
        recorder = StepRecorder(tmp_path / way)
        agent = make_agent(plans, episodes=500, lane=recorder.lane("learner", "agent"))
        if way == "one":
            monkeypatch.setattr(agent.runtime, "plays_many", lambda how: False)
        live(agent)
        recorder.close()
        found.append((everything(agent.runtime), agent.thoughts, agent.seen(), agent.last, steps_of(tmp_path / way)))
    assert found[0] == found[1] and found[0][0][2]["episodes"] == 500


def test_what_ended_is_kept_when_the_next_episode_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = StepRecorder(tmp_path)
    runtime = make_runtime(lane=recorder.lane("a", "agent"))
    begin, begun = runtime.world.begin, []

    def failing(seed: int) -> int:
        begun.append(seed)
        if len(begun) == 6:
            raise KeyboardInterrupt
        return begin(seed)

    monkeypatch.setattr(runtime.world, "begin", failing)
    with pytest.raises(KeyboardInterrupt):
        runtime.run_episodes("explore", 16, Budget(None, 100), lambda found: [{"n": one} for one in found])
    assert runtime.episodes == 5
    runtime.run_episode("explore")
    runtime.record()
    recorder.close()
    steps = steps_in(tmp_path)
    assert len(steps) == runtime.steps and {step.episode for step in steps} == set(range(6))
    assert sum("n" in step.info for step in steps) == 5


def test_hundredths_are_those_of_round() -> None:
    draw = random.Random(1)
    numbers = [draw.random() for _ in range(20_000)] + [number / 1000 for number in range(1001)] + [0.0, 1.0]
    numbers += [number / 200 + step * 2.0**-53 for number in range(201) for step in (-1, 0, 1) if number]
    for number in numbers:
        assert in_hundredths(min(number, 1.0)) == round(min(number, 1.0), 2)
