"""Tables that begin with what somebody played: what recorded steps are worth, and which are refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mosaic_protocol.checkpoint_manifest import CheckpointManifest
from mosaic_protocol.steps.recordings import COPIED_STEPS, ENVIRONMENT, Recording
from mosaic_worker.errors import UsageError
from mosaic_worker.recording.step_lane import StepLane
from mosaic_worker.recording.step_recorder import StepRecorder
from mosaic_worker.settings import Settings
from spade_bdi_rl_worker.agent.terms import RECORDING, sourced
from spade_bdi_rl_worker.learning.algorithms import make_learner
from spade_bdi_rl_worker.learning.environments import make_env
from spade_bdi_rl_worker.learning.offline import Experience, teach
from spade_bdi_rl_worker.learning.runtime import new_chance
from spade_bdi_rl_worker.learning.worlds import open_world
from spade_bdi_rl_worker.seeding import Seed, is_wanted, read_seed
from spade_bdi_rl_worker.tests.alone import believed, live, make_agent, make_runtime

SURE = {"is_slippery": False}
TO_THE_GOAL = (1, 1, 2, 1, 2, 2)
INTO_A_HOLE = (2, 1)
GAMMA = 0.9


def learned(algo: str, *rows: Sequence[float], states: int = 4, actions: int = 2) -> Any:
    """Rows of state, action, reward, state after it, whether it was over, the next action, and how often."""
    table = np.array(rows, np.float64)
    learner = make_learner(algo, states, actions, GAMMA, new_chance(1, 0), 5)
    teach(learner, Experience.of(table[:, :6], table[:, 6].astype(np.int64)))
    return learner


# ---- what steps are worth --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ["q_learning", "double_q", "dyna_q"])
def test_a_prize_is_worth_less_the_further_it_is_away(algo: str) -> None:
    learner = learned(algo, [0, 1, 0, 1, 0, 0, 1], [1, 0, 0, 2, 0, 1, 1], [2, 1, 1, 3, 1, -1, 1])
    assert learner.q[0] == pytest.approx([0.0, 0.81], abs=1e-6)
    assert learner.q[1] == pytest.approx([0.9, 0.0], abs=1e-6)
    assert learner.q[2] == pytest.approx([0.0, 1.0]) and learner.q[3] == [0.0, 0.0]
    assert learner.visits == [1, 1, 1, 0]


def test_an_action_is_worth_the_mean_of_what_it_led_to() -> None:
    learner = learned("q_learning", [0, 0, 1, 3, 1, -1, 1], [0, 0, 0, 1, 1, -1, 3], [1, 0, 0, 1, 1, -1, 1])
    assert learner.q[0][0] == pytest.approx(0.25) and learner.visits[:2] == [4, 1]


def test_where_steps_cost_something_nothing_untried_seems_better_than_what_was_shown() -> None:
    """Left at 0, what nobody tried would be preferred to the way that somebody showed."""
    way = [[0, 1, -1, 1, 0, 1, 1], [1, 1, -1, 2, 0, 1, 1], [2, 1, -1, 3, 1, -1, 1], [1, 0, -9, 0, 0, 1, 1]]
    learner = learned("q_learning", *way)
    assert [row.index(max(row)) for row in learner.q[:3]] == [1, 1, 1]
    worst = -9 + GAMMA * (-1 + GAMMA * (-1 + GAMMA * -1))
    assert learner.q[1] == pytest.approx([worst, -1.9], abs=1e-6)
    assert learner.q[0][0] == pytest.approx(worst, abs=1e-6), "no more than the worst that is known"
    assert learner.q[3] == [0.0, 0.0], "of a state that nobody was in nothing is known"


def test_sarsa_judges_by_what_was_done_and_the_others_by_the_best_that_was_tried() -> None:
    steps = [[0, 0, 0, 1, 0, 1, 1], [1, 1, 0, 3, 1, -1, 1], [1, 0, 1, 3, 1, -1, 1]]
    assert learned("q_learning", *steps).q[0][0] == pytest.approx(0.9)
    assert learned("sarsa", *steps).q[0][0] == 0.0


def test_wandering_for_ever_is_worth_what_it_costs() -> None:
    """An episode that was cut off in a state that nobody ever left."""
    learner = learned("q_learning", [0, 0, -1, 1, 0, 0, 1], [1, 0, -1, 2, 0, -1, 1])
    assert learner.q[1][0] == pytest.approx(-1 / (1 - GAMMA), abs=1e-3)
    undiscounted = make_learner("q_learning", 4, 2, 1.0, new_chance(1, 0), 5)
    teach(undiscounted, Experience.of(np.array([[0.0, 0, -1, 0, 0, 0]]), np.array([1])))
    assert np.isfinite(undiscounted.q).all()


def test_each_algorithm_goes_on_from_what_it_was_taught() -> None:
    rows = [[0, 1, 0, 1, 0, 0, 1], [1, 0, 1, 3, 1, -1, 1]]
    double = learned("double_q", *rows)
    assert all(np.array_equal(double.tables[half], double.tables["q"]) for half in ("first", "second"))
    dyna = learned("dyna_q", *rows, [1, 0, 0, 2, 0, -1, 5])
    assert [0, 1, 0, 1, 0] in dyna.tables["memories"].tolist()
    assert [1, 0, 0, 2, 0] in dyna.tables["memories"].tolist(), "what came most often"
    assert len(dyna.tables["memories"]) == 2


# ---- recordings ------------------------------------------------------------------------------------------------------


@contextmanager
def recorder_in(folder: Path, **about: Any) -> Iterator[StepRecorder]:
    told = {"kind": "run", "worker": "play", "env_id": "FrozenLake-v1", "run_id": "01ABCDEFSEVENX", "run_name": "shown"}
    with closing(StepRecorder(Recording.new(folder, told | about).folder)) as recorder:
        yield recorder


def play(lane: StepLane, env: gym.Env[Any, Any], actions: Sequence[int], seed: int = 1, actor: str = "human") -> None:
    """One episode, to its end or as far as the actions go."""
    observation, _ = env.reset(seed=seed)
    lane.begin_episode(seed)
    for action in actions:
        after, reward, terminated, truncated, _ = env.step(action)
        last = after if terminated or truncated else None
        lane.append(observation, action, float(reward), terminated, truncated, actor=actor, final_observation=last)
        observation = after


@pytest.fixture
def shown(tmp_path: Path) -> Callable[..., Path]:
    """A recorded session: each argument is an episode."""

    def record(*episodes: Sequence[int], params: dict[str, Any] | None = None, **about: Any) -> Path:
        folder = tmp_path / f"recording-{len(list(tmp_path.iterdir()))}"
        with recorder_in(folder, **about) as recorder, make_env("FrozenLake-v1", params or SURE) as env:
            for number, actions in enumerate(episodes):
                play(recorder.lane(actor="human"), env, actions, seed=number)
        return folder

    return record


def read(folder: Path | str, env_id: str = "FrozenLake-v1", actor: str | None = None, **params: Any) -> Seed:
    with closing(make_env(env_id, params or SURE)) as env:
        return read_seed({"seed_from": str(folder), "seed_actor": actor}, env_id, env, open_world(env))


def test_a_table_that_was_seeded_knows_the_way_from_the_first_episode_on(shown: Callable[..., Path]) -> None:
    seed = read(shown(TO_THE_GOAL, INTO_A_HOLE, TO_THE_GOAL))
    assert (seed.steps, seed.episodes) == (14, 3)
    assert str(seed) == "14 steps in 3 episodes of shown (SEVENX)"
    assert seed.origin == {
        "kind": "recorded_steps",
        "recording": "shown (SEVENX)",
        "run_id": "01ABCDEFSEVENX",
        "run_name": "shown",
        "steps": 14,
        "episodes": 3,
    }
    for algo in ("q_learning", "sarsa", "double_q", "dyna_q"):
        runtime = make_runtime(algo=algo)
        seed.fill(runtime.learner)
        assert max(runtime.learner.q[0]) == pytest.approx(0.99**5, abs=1e-5)
        runtime.strategy.epsilon_end = 0.0
        assert [runtime.run_episode("exploit").steps for _ in range(5)] == [6] * 5


def test_steps_that_were_undone_teach_nothing(tmp_path: Path) -> None:
    with recorder_in(tmp_path / "r") as recorder:
        lane = recorder.lane(actor="human")
        lane.begin_episode(1)
        lane.append(0, 2, 0.0)
        lane.append(1, 1, 0.0, True, final_observation=5)
        lane.undo(2, 0.0)
        lane.append(0, 1, 0.0)
        lane.append(4, 1, 0.0)
    seed = read(tmp_path / "r")
    assert seed.experience.states.tolist() == [0] and seed.experience.actions.tolist() == [1]
    assert seed.steps == 1, "of the last one nobody knows where it led"


def test_only_the_steps_of_one_actor_are_learned_from_if_that_is_asked(tmp_path: Path) -> None:
    with recorder_in(tmp_path / "r") as recorder, make_env("FrozenLake-v1", SURE) as env:
        lane = recorder.lane()
        play(lane, env, TO_THE_GOAL)
        play(lane, env, INTO_A_HOLE, actor="random")
    assert read(tmp_path / "r").steps == 8
    assert (read(tmp_path / "r", actor="human").steps, read(tmp_path / "r", actor="random").steps) == (6, 2)
    with pytest.raises(UsageError, match=r"'humn' made no step of shown .*human 6, random 2.*did you mean 'human'"):
        read(tmp_path / "r", actor="humn")


def test_hands_of_cards_are_learned_from_as_the_game_shows_them_and_as_this_worker_does(tmp_path: Path) -> None:
    with recorder_in(tmp_path / "r", env_id="Blackjack-v1") as recorder, gym.make("Blackjack-v1") as env:
        for seed in range(20):
            play(recorder.lane(), env, (0,), seed)
    with recorder_in(tmp_path / "own", env_id="Blackjack-v1") as recorder, make_env("Blackjack-v1", {}) as flat:
        for seed in range(20):
            play(recorder.lane(), flat, (0,), seed)
    seeds = [read(tmp_path / name, "Blackjack-v1", sab=None) for name in ("r", "own")]
    assert [one.steps for one in seeds] == [20, 20]
    assert np.array_equal(seeds[0].world.seen, seeds[1].world.seen)  # type: ignore[union-attr]
    runtime = make_runtime("Blackjack-v1", {})
    seeds[0].prepare(runtime.world)
    runtime.learner.grow(runtime.world.states)
    seeds[0].fill(runtime.learner)
    assert sum(runtime.learner.visits) == 20
    runtime.run_episode("exploit")


def test_a_recording_of_another_world_is_refused_in_one_sentence(shown: Callable[..., Path], tmp_path: Path) -> None:
    def spec(**settings: Any) -> dict[str, Any]:
        with closing(make_env("FrozenLake-v1", settings)) as env:
            assert env.spec is not None
            return {ENVIRONMENT: env.spec.to_json()}

    with pytest.raises(UsageError, match=r"shown \(SEVENX\) was recorded in Taxi-v4, and this run learns in"):
        read(shown(TO_THE_GOAL, env_id="Taxi-v4"))
    with pytest.raises(UsageError, match="recorded with map_name 8x8, and this run has 4x4"):
        read(shown(INTO_A_HOLE, **spec(map_name="8x8", is_slippery=False)))
    with pytest.raises(UsageError, match="recorded with is_slippery true, and this run has false"):
        read(shown(TO_THE_GOAL, **spec()))
    own = {"worker": "spade_bdi_rl_worker", "settings": {"params": {"is_slippery": True}}}
    with pytest.raises(UsageError, match="recorded with is_slippery true, and this run has false"):
        read(shown(TO_THE_GOAL, **own))
    assert read(shown(TO_THE_GOAL, **spec(is_slippery=False))).steps == 6, "what was left out is as it usually is"


def test_where_nobody_knows_the_settings_steps_that_cannot_happen_give_it_away(
    shown: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="it shows states that this environment, which has 16, does not have"):
        read(shown([2, 2, 1, 1, 1, 1], params={"map_name": "8x8", "is_slippery": False}))
    with pytest.raises(UsageError, match="in state 1 action 1 led to state 9 with reward 0, which cannot happen"):
        read(shown([2, 1, 1], params={"map_name": "8x8", "is_slippery": False}))
    with recorder_in(tmp_path / "bad") as recorder:
        lane = recorder.lane()
        lane.begin_episode(1)
        lane.append(0, 9, 0.0)
    with pytest.raises(UsageError, match="its actions are not the 4 of this environment"):
        read(tmp_path / "bad")


def test_what_is_no_use_is_refused_in_one_sentence(shown: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no-such-run holds no recording: .*copies the steps of a run that you name"):
        read("no-such-run")
    empty = tmp_path / "empty"
    Recording.new(empty, {"kind": "run", "env_id": "FrozenLake-v1", "run_name": "empty"})
    with pytest.raises(UsageError, match="empty has no recorded step to learn from"):
        read(empty)
    with recorder_in(tmp_path / "cards") as recorder, gym.make("Blackjack-v1") as env:
        play(recorder.lane(), env, (0,))
    with pytest.raises(UsageError, match="its observations are no whole numbers, one for each step"):
        read(tmp_path / "cards")
    with pytest.raises(UsageError, match="its observations are not those of this environment"):
        read(shown(TO_THE_GOAL, env_id="Blackjack-v1"), "Blackjack-v1", sab=None)
    with recorder_in(tmp_path / "vector") as recorder:
        lane = recorder.lane()
        lane.begin_episode(1)
        lane.append(0, 1, np.array([0.0, 1.0]))
        lane.append(4, 1, np.array([0.0, 1.0]))
    with pytest.raises(UsageError, match="its rewards are no numbers"):
        read(tmp_path / "vector")


def test_a_recording_that_was_cut_off_or_damaged_is_refused(shown: Callable[..., Path], tmp_path: Path) -> None:
    folder = shown(*[TO_THE_GOAL] * 20, **{COPIED_STEPS: 120})
    assert read(folder).steps == 120
    (journal,) = [file for file in folder.rglob("*") if file.is_file() and file.name != "recording.json"]
    cut = tmp_path / "cut"
    shutil.copytree(folder, cut)
    (cut / journal.relative_to(folder)).write_bytes(journal.read_bytes()[:-40])
    with pytest.raises(UsageError, match=r"it holds 0 of 120 steps, because it was cut off"):
        read(cut)
    damaged = bytearray(journal.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    journal.write_bytes(damaged)
    with pytest.raises(UsageError, match="--seed-from: "):
        read(folder)


# ---- runs ------------------------------------------------------------------------------------------------------------


def begun(args: dict[str, Any]) -> CheckpointManifest:
    return CheckpointManifest("q_learning", "FrozenLake-v1", 5, "", args, {}, {}, {}, "", 0)


def test_a_table_is_filled_once() -> None:
    def wanted(folder: str | None, checkpoint: CheckpointManifest | None = None, **start: Any) -> bool:
        return is_wanted(Settings("q_learning", params={"seed_from": folder}, **start), checkpoint)

    assert wanted("/a") and not wanted(None)
    assert not wanted(None, begun({}), warm_start="c")
    assert not wanted("/a", begun({"seed_from": "/a"}), resume="c"), "a resumed run goes on with what it had"
    with pytest.raises(UsageError, match="give --seed-from or --resume, not both"):
        wanted("/b", begun({"seed_from": "/a"}), resume="c")
    with pytest.raises(UsageError, match="give --seed-from or --warm-start, not both"):
        wanted("/a", begun({}), warm_start="c")


def test_the_shipped_plans_try_what_was_shown_before_they_explore(shown: Callable[..., Path]) -> None:
    agent = make_agent("learner", episodes=60)
    agent.reasoner.intentions.clear()
    seed = read(shown(*[TO_THE_GOAL] * 3))
    seed.fill(agent.runtime.learner)
    agent.reasoner.believe(sourced("seeded", (seed.steps,), RECORDING))
    agent.reasoner.pursue(sourced("learn", (), "self"))
    live(agent, lambda: agent.runtime.episodes >= 20)
    assert agent.runtime.success_rate >= 0.8
    live(agent)
    assert {"seeded(18)", "policy(cached)"} <= believed(agent)
