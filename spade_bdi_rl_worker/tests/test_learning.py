"""Each algorithm finds the best policy; confidence says when it can be relied on."""

from __future__ import annotations

import pytest

from spade_bdi_rl_worker.learning.confidence import Confidence
from spade_bdi_rl_worker.learning.runtime import TRIAL, QLearningRuntime
from spade_bdi_rl_worker.tests.alone import make_runtime


def trained(runtime: QLearningRuntime, episodes: int) -> QLearningRuntime:
    for number in range(episodes):
        runtime.progress = number / episodes
        runtime.run_episode("explore")
    return runtime


@pytest.mark.parametrize("algo", ["q_learning", "sarsa", "double_q", "dyna_q"])
def test_each_algorithm_finds_the_shortest_way(algo: str) -> None:
    runtime = trained(make_runtime(algo=algo), 1500)
    runtime.cache_policy()
    episode = runtime.run_episode("cached")
    assert (episode.steps, episode.total, episode.success) == (6, 1.0, True)
    promised = max(runtime.learner.q[0])
    if algo == "sarsa":
        assert 0.5 < promised < 0.95, "what exploring costs is in its values"
    else:
        assert promised == pytest.approx(0.99**5, abs=0.05)


def test_tables_go_into_a_checkpoint_and_back() -> None:
    for algo in ("q_learning", "sarsa", "double_q", "dyna_q"):
        whole = trained(make_runtime(algo=algo), 60)
        halved = trained(make_runtime(algo=algo), 60)
        resumed = make_runtime(algo=algo, seed=9)
        resumed.learner.tables, resumed.counted, resumed.chance_state = (
            halved.learner.tables,
            halved.counted,
            halved.chance_state,
        )
        resumed._first_seed = halved._first_seed
        for _ in range(40):
            for one in (whole, resumed):
                one.progress = 0.5
                one.run_episode("explore")
        assert whole.learner.q == resumed.learner.q and whole.counted == resumed.counted, algo


def test_confidence_is_the_agreement_of_promise_and_return() -> None:
    confidence = Confidence()
    assert confidence.value == 0.0, "nothing was promised, nothing came"
    for _ in range(100):
        confidence.note(0.5, 0.0)
    assert confidence.value == 0.0
    for _ in range(300):
        confidence.note(0.5, 0.4)
    assert confidence.value == pytest.approx(0.8, abs=0.01)
    for _ in range(300):
        confidence.note(-12.0, -12.0)
    assert confidence.value > 0.99


def test_a_cached_policy_that_brings_less_than_it_promised_fails() -> None:
    runtime = trained(make_runtime(), 1500)
    runtime.cache_policy()
    for _ in range(TRIAL):
        runtime.run_episode("cached")
    assert not runtime.is_policy_failing
    assert runtime.policy is not None
    runtime.policy = [0] * 16  # the way to the goal is not the way any more
    for _ in range(TRIAL):
        runtime.run_episode("cached")
    assert runtime.is_policy_failing
    runtime.drop_policy()
    assert not runtime.is_policy_failing


def test_values_of_others_count_by_experience() -> None:
    runtime = make_runtime()
    runtime.merge(3, [1.0, 0.0, 0.0, 0.0], 5)
    assert runtime.learner.q[3] == [1.0, 0.0, 0.0, 0.0]
    runtime.learner.visits[3] = 15
    runtime.merge(3, [0.0, 0.0, 1.0, 0.0], 5)
    assert runtime.learner.q[3] == [0.75, 0.0, 0.25, 0.0]
    with pytest.raises(ValueError, match="no state 99"):
        runtime.merge(99, [0.0] * 4, 1)
    with pytest.raises(ValueError, match="do not fit"):
        runtime.merge(3, [0.0] * 5, 1)


@pytest.mark.parametrize("algo", ["q_learning", "sarsa", "double_q", "dyna_q"])
def test_what_was_taken_over_from_others_is_learned_on_from(algo: str) -> None:
    runtime = make_runtime(algo=algo)
    runtime.merge(3, [0.0, 1.0, 0.0, 0.0], 5)
    runtime.learner.alpha = 0.5
    runtime.learner.update(3, 1, 1.0, 4, 0, 0.0, True)
    assert runtime.learner.q[3][1] == pytest.approx(1.0), "it was right, so nothing changes"
