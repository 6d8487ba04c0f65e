"""A replay proves that an episode is what was recorded, or names the first step that is not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import av
import gymnasium as gym
import numpy as np
import pytest

from mosaic_protocol.steps.recorded_episodes import FormError, RecordedEpisode
from mosaic_protocol.steps.recordings import Recording
from mosaic_worker.errors import UsageError
from mosaic_worker.replay.comparing import observation_difference, same
from mosaic_worker.replay.simulation import Compared, Replay, repeats_itself
from mosaic_worker.replay.snapshots import Snapshots
from mosaic_worker.tests.replay.recorded import episode, made, record, start
from mosaic_worker.tests.replay.strange_envs import Broken, Forgetful, Nested, Sealed, Shaky, Vast

ENVIRONMENTS = ["FrozenLake-v1", "CartPole-v1", "Pendulum-v1", "InvertedPendulum-v5", "ALE/Pong-v5"]


def replayed(found: RecordedEpisode, make: Any, snapshots: Snapshots | None = None) -> Replay:
    with closing(Replay(found, make, snapshots)) as replay:
        for _ in replay.run():
            pass
    return replay


def finish(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    out, err = process.communicate(timeout=120)
    answers = [json.loads(line) for line in out.splitlines()]
    return process.returncode, answers[-1] if answers else {}, err


# ---- the same, or not ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_one_seed_gives_the_same_steps_twice_and_a_replay_verifies_them(env_id: str, tmp_path: Path) -> None:
    first, again = (episode(record(tmp_path / name, env_id, seeds=(5,))) for name in ("first", "again"))
    for field in ("observation", "action"):
        one, other = first.stacked(field), again.stacked(field)
        assert one.keys() == other.keys() and all(one[path].tobytes() == other[path].tobytes() for path in one)
    assert first.rewards.tobytes() == again.rewards.tobytes() and len(first) > 1
    replay = replayed(first, lambda: made(env_id))
    assert (replay.difference, replay.verified) == (None, len(first))


def test_every_episode_of_a_recording_has_its_own_seed(tmp_path: Path) -> None:
    recording = record(tmp_path, "CartPole-v1", seeds=(1, 2, 3))
    for number in range(3):
        found = episode(recording, number)
        assert found.seed == number + 1 and found.is_whole
        assert replayed(found, lambda: made("CartPole-v1")).verified == len(found)


def _other_reward(step: dict[str, Any]) -> None:
    step["reward"] = 0.5


def _other_observation(step: dict[str, Any]) -> None:
    step["observation"] = np.nextafter(step["observation"], np.float32(9))


def _other_end(step: dict[str, Any]) -> None:
    step["truncated"] = True


@pytest.mark.parametrize(
    ("change", "place", "what"),
    [(_other_reward, 4, "reward"), (_other_observation, 4, "observation[0]"), (_other_end, 4, "truncated")],
)
def test_a_changed_recording_is_found_at_its_step(change: Any, place: int, what: str, tmp_path: Path) -> None:
    found = episode(record(tmp_path, "CartPole-v1", changes={4: change}))
    replay = replayed(found, lambda: made("CartPole-v1"))
    assert replay.difference is not None
    assert (replay.difference.place, replay.difference.what, replay.verified) == (place, what, place)
    assert f"step {place} differs: {what} was" in str(replay.difference)
    assert repeats_itself(found, lambda: made("CartPole-v1"), 20)


def test_another_action_shows_where_it_leads_elsewhere(tmp_path: Path) -> None:
    def turned(step: dict[str, Any]) -> None:
        step["action"] = 1 - step["action"]

    found = episode(record(tmp_path, "CartPole-v1", changes={6: turned}))
    replay = replayed(found, lambda: made("CartPole-v1"))
    assert replay.difference is not None and replay.difference.place == 7


def test_what_the_last_step_led_to_is_compared_as_well(tmp_path: Path) -> None:
    def moved(step: dict[str, Any]) -> None:
        if "final_observation" in step:
            step["final_observation"] = step["final_observation"] + 1

    found = episode(record(tmp_path, "CartPole-v1", changes=dict.fromkeys(range(200), moved)))
    replay = replayed(found, lambda: made("CartPole-v1"))
    assert replay.difference is not None and replay.verified == len(found) - 1
    assert (replay.difference.place, replay.difference.what) == (len(found) - 1, "final observation[0]")


def test_other_settings_differ_from_the_first_observation_on(tmp_path: Path) -> None:
    found = episode(record(tmp_path, "FrozenLake-v1", seeds=(1,), most_steps=50))
    replay = replayed(found, lambda: made("FrozenLake-v1", is_slippery=False))
    assert replay.difference is not None and replay.verified == replay.difference.place


def test_an_environment_that_does_not_repeat_itself_is_named(tmp_path: Path) -> None:
    found = episode(record(tmp_path, Shaky()))
    replay = replayed(found, Shaky)
    assert replay.difference is not None
    assert (replay.difference.place, replay.difference.what) == (7, "observation[1]")
    assert not repeats_itself(found, Shaky, 7) and repeats_itself(found, Shaky, 6)


def test_a_reward_that_is_no_number_is_compared_as_it_is(tmp_path: Path) -> None:
    found = episode(record(tmp_path, Vast()))
    replay = replayed(found, Vast)
    assert (replay.difference, replay.verified, replay.compared) == (None, 4, Compared(observations=1, rewards=4))
    differs = replayed(found, lambda: Vast(reward=7.0))
    assert differs.difference is not None and differs.verified == 0
    assert str(differs.difference) == "step 0 differs: reward was [1.0, 2.0], now it is (7.0, 2.0)"


def test_a_step_of_which_nothing_was_recorded_is_not_verified(tmp_path: Path) -> None:
    def vast(step: dict[str, Any]) -> None:
        step["reward"] = np.zeros(1_000_000)

    recording = record(tmp_path, Vast(), changes=dict.fromkeys(range(4), vast))
    replay = replayed(episode(recording), lambda: Vast(reward=7.0))
    assert (replay.difference, replay.place, replay.verified) == (None, 4, 1), "the first one has its observation"
    assert replay.compared == Compared(observations=1, rewards=0)


def test_nested_observations_nan_and_text_are_compared(tmp_path: Path) -> None:
    found = episode(record(tmp_path / "right", Nested()))
    assert replayed(found, Nested).verified == 8

    def reworded(step: dict[str, Any]) -> None:
        step["observation"] = {**step["observation"], "said": "nothing"}

    changed = replayed(episode(record(tmp_path / "wrong", Nested(), changes={5: reworded})), Nested)
    assert changed.difference is not None
    assert (changed.difference.place, changed.difference.what) == (5, "observation/said")
    assert (changed.difference.recorded, changed.difference.came) == ("nothing (str)", "step 5 (str)")


@pytest.mark.parametrize(
    ("recorded", "came", "equal"),
    [
        (np.float32(0.1), np.float32(0.1), True),
        (np.array([1.0, np.nan]), np.array([1.0, np.nan]), True),
        (np.zeros(2, np.float32), np.zeros(2, np.float64), False),
        (np.zeros((2, 1)), np.zeros((1, 2)), False),
        (3, np.int64(3), True),
        (True, 1, False),
        (["a", 1], ("a", 1), True),
        ({"deep": [1, np.arange(3)]}, {"deep": (1, np.arange(3))}, True),
        ({"deep": [1, np.arange(3)]}, {"deep": (1, np.arange(1, 4))}, False),
        (float("nan"), float("nan"), True),
    ],
)
def test_equal_means_equal_in_type_form_and_value(recorded: Any, came: Any, equal: bool) -> None:
    assert same(recorded, came) is equal


def test_parts_that_come_or_go_are_differences() -> None:
    assert observation_difference({("a",): 1}, {"a": 1}) is None
    assert observation_difference({("a",): 1, ("b",): 2}, {"a": 1}) == ("observation/b", "2", "not there")
    assert observation_difference({("a",): 1}, {"a": 1, "b": 2}) == ("observation/b", "not there", "2")
    assert observation_difference({}, {"a": 1}) is None


def test_what_cannot_be_simulated_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="episode 0 was recorded without a seed"):
        replayed(episode(record(tmp_path / "seedless", "CartPole-v1", seeds=(None,))), lambda: made("CartPole-v1"))

    def unsaid(step: dict[str, Any]) -> None:
        step["action"] = None

    found = episode(record(tmp_path / "idle", "CartPole-v1", changes=dict.fromkeys(range(200), unsaid)))
    with pytest.raises(UsageError, match="the actions of episode 0 were not recorded"):
        replayed(found, lambda: made("CartPole-v1"))
    with pytest.raises(UsageError, match="the environment failed at step 2: ArithmeticError: it broke"):
        replayed(episode(record(tmp_path / "broken", Sealed())), Broken)


def test_values_that_change_their_form_fit_no_array(tmp_path: Path) -> None:
    def widened(step: dict[str, Any]) -> None:
        step["observation"] = np.zeros(7)

    found = episode(record(tmp_path, "CartPole-v1", changes={5: widened}))
    with pytest.raises(FormError, match="observation changes its form"):
        found.stacked("observation")
    assert len(found.stacked("action")[()]) == len(found)


# ---- seeking ---------------------------------------------------------------------------------------------------------


class Counting(gym.Wrapper[Any, Any, Any, Any]):
    """Counts the steps that were really made."""

    made_steps = 0

    def step(self, action: Any) -> Any:
        Counting.made_steps += 1
        return super().step(action)


@pytest.mark.parametrize("env_id", ["Taxi-v4", "CartPole-v1", "Pendulum-v1", "Swimmer-v5"])
def test_any_step_is_reached_from_the_nearest_kept_state(env_id: str, tmp_path: Path) -> None:
    """With a snapshot every 10 steps no seek makes more than 10; what is seen there is what was recorded."""
    found = episode(record(tmp_path, env_id, seeds=(11,)))
    with closing(Replay(found, lambda: Counting(made(env_id)), Snapshots(every=10))) as replay:
        for _ in replay.run():
            pass
        assert replay.difference is None and replay.snapshots.places[:2] == [10, 20]
        for place in np.random.default_rng(1).integers(len(found), size=12).tolist():
            before = Counting.made_steps
            replay.seek(place)
            assert (replay.place, replay.difference) == (place, None)
            assert Counting.made_steps - before <= 10
            assert observation_difference(found.observation(place), replay.observation) is None
        assert replay.snapshots.why_not == ""


def test_a_simulator_that_cannot_go_on_from_a_moment_is_met_from_an_earlier_one(tmp_path: Path) -> None:
    """Pong's emulator draws a frame otherwise after it was put back into some of its states."""
    found = episode(record(tmp_path, "ALE/Pong-v5", seeds=(11,)))
    with closing(Replay(found, lambda: made("ALE/Pong-v5"), Snapshots(every=10))) as replay:
        for place in (120, 5, 57, 118, 42, 112, 33, 99):
            replay.seek(place)
            assert (replay.place, replay.difference) == (place, None)
            if place < len(found):
                assert observation_difference(found.observation(place), replay.observation) is None
        assert len(replay.snapshots.places) > 5


@pytest.mark.parametrize("kind", [Sealed, Forgetful])
def test_where_no_state_can_be_kept_the_way_leads_over_the_beginning(kind: type, tmp_path: Path) -> None:
    found = episode(record(tmp_path, kind()))
    with closing(Replay(found, kind, Snapshots(every=5))) as replay:
        for place in (30, 12, 31, 0, 39, 7):
            replay.seek(place)
            while replay.place < len(found) and replay.advance():
                pass
            assert replay.difference is None and replay.verified == len(found)
            replay.seek(place)
            assert observation_difference(found.observation(place), replay.observation) is None
        assert replay.snapshots.why_not and not replay.snapshots.places
    with closing(Replay(found, kind)) as replay, pytest.raises(UsageError, match="there is no step 41"):
        replay.seek(41)


def test_snapshots_keep_within_their_room(tmp_path: Path) -> None:
    found = episode(record(tmp_path, "Pendulum-v1", most_steps=120))
    snapshots = Snapshots(every=1, most_bytes=20 * 3000)
    replay = replayed(found, lambda: made("Pendulum-v1"), snapshots)
    assert replay.verified == 120 and snapshots.every > 1
    assert 5 <= len(snapshots.places) <= 30 and all(place % snapshots.every == 0 for place in snapshots.places)


# ---- the process -----------------------------------------------------------------------------------------------------


def frames_in(file: Path) -> int:
    with av.open(str(file)) as container:
        return sum(1 for _ in container.decode(video=0))


@pytest.mark.parametrize("ending", ["mp4", "gif"])
def test_an_export_plays_with_a_frame_for_every_state(ending: str, tmp_path: Path) -> None:
    recording = record(tmp_path / "recording", "CartPole-v1")
    file = tmp_path / f"film.{ending}"
    status, result, err = finish(start(recording.folder, "--export", str(file)))
    assert (status, result["difference"]) == (0, None), err
    length = len(episode(recording))
    assert (result["verified"], result["steps"], result["frames"]) == (length, length, length + 1)
    assert (result["observations"], result["rewards"]) == (length, length)
    assert frames_in(file) == length + 1
    assert [path.name for path in tmp_path.iterdir() if path.name != "recording"] == [file.name]


def filming(recording: Path, film: Path) -> subprocess.Popen[str]:
    """A process that stands still in the middle of making a film."""
    while True:
        process = start(recording, "--export", str(film))
        while not (parts := list(film.parent.glob(".film.gif.*.draft"))):
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)
        process.send_signal(signal.SIGSTOP)
        # The signal takes effect after the system call that it meets, which may be the one that names the film.
        state = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if state is not None and state.si_code == os.CLD_STOPPED and parts[0].exists():
            return process
        process.kill()  # it was faster than this process on a busy machine
        process.communicate()
        film.unlink(missing_ok=True)


def test_a_film_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    record(tmp_path / "recording", "Pendulum-v1", most_steps=200)
    films = tmp_path / "films"
    process = filming(tmp_path / "recording", films / "film.gif")
    process.terminate()
    process.send_signal(signal.SIGCONT)
    while process.poll() is None:  # the kernel sends one for each thread of a parent that is killed
        process.terminate()
    process.communicate(timeout=60)
    assert list(films.iterdir()) == []


def test_a_film_that_was_killed_leaves_nothing_beyond_the_next(tmp_path: Path) -> None:
    record(tmp_path / "recording", "Pendulum-v1", most_steps=200)
    film = tmp_path / "films" / "film.gif"
    process = filming(tmp_path / "recording", film)
    process.kill()
    process.communicate(timeout=60)
    assert len(list(film.parent.iterdir())) == 1
    assert finish(start(tmp_path / "recording", "--export", str(film)))[0] == 0
    assert list(film.parent.iterdir()) == [film]


def test_the_process_shows_a_step_and_goes_no_further(tmp_path: Path) -> None:
    recording = record(tmp_path, "FrozenLake-v1", seeds=(4, 5), settings={"params": {"env_kwargs": {}}})
    found = episode(recording, 1)
    status, result, err = finish(start(tmp_path, "--episode", "1", "--step", "1"))
    assert (status, result["steps"], result["verified"]) == (0, 2, 2), err
    shown = result["step"]
    assert (shown["place"], shown["number"], shown["actor"]) == (1, int(found.numbers[1]), "policy")
    assert (shown["observation"], shown["action"]) == (found.observation(1)[()], found.action(1))


def test_the_process_names_the_step_that_differs_and_whose_fault_it_is(tmp_path: Path) -> None:
    record(tmp_path / "changed", "CartPole-v1", changes={3: _other_reward})
    status, result, err = finish(start(tmp_path / "changed"))
    assert (status, result["verified"], result["difference"]["what"]) == (0, 3, "reward"), err
    assert (result["difference"]["recorded"], result["difference"]["came"]) == ("0.5", "1.0")
    assert result["repeats_itself"] is True
    record(tmp_path / "shaky", "mosaic_worker.tests.replay.strange_envs:Shaky-v0")
    status, result, err = finish(start(tmp_path / "shaky"))
    assert (status, result["difference"]["place"], result["repeats_itself"]) == (0, 7, False), err


def test_settings_of_the_environment_are_part_of_the_replay(tmp_path: Path) -> None:
    firm = made("FrozenLake-v1", is_slippery=False)
    recording = record(tmp_path, firm, settings={"params": {"env_kwargs": {"is_slippery": False}}})
    Recording.new(tmp_path, {**recording.about, "env_id": "FrozenLake-v1"})
    status, result, err = finish(start(tmp_path))
    assert (status, result["difference"]) == (0, None), err


def test_spaces_are_told_as_datasets_hold_them(tmp_path: Path) -> None:
    record(tmp_path, "mosaic_worker.tests.replay.strange_envs:Nested-v0")
    status, result, err = finish(start(tmp_path, "--describe"))
    assert status == 0, err
    space = json.loads(result["observation_space"])
    assert space["type"] == "Dict" and space["subspaces"]["where"]["subspaces"][0]["n"] == 9
    assert json.loads(result["action_space"]) == {"type": "Discrete", "dtype": "int64", "start": 1, "n": 3}
    assert "gymnasium" in result["versions"] and "Nested-v0" in result["env_spec"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--episode", "9"), "there is no recorded episode 9"),
        (("--step", "999"), "episode 0 has the steps 0 to"),
        (("--export", "film.avi"), "film.avi has no known ending: an episode is exported as .mp4 or .gif"),
    ],
)
def test_mistakes_are_refused_in_one_sentence(words: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    record(tmp_path, "CartPole-v1")
    status, _, err = finish(start(tmp_path, *words))
    assert status == 2 and err.splitlines()[-1].startswith("toy_worker: ") and sentence in err


def test_an_environment_that_is_not_here_is_named(tmp_path: Path) -> None:
    recording = record(tmp_path, "CartPole-v1")
    for env_id, sentence in (
        ("CartPoel-v1", "there is no environment 'CartPoel-v1' here; did you mean 'CartPole-v1'?"),
        ("nowhere_at_all:Thing-v0", "nowhere_at_all:Thing-v0 cannot be made here: ModuleNotFoundError"),
        ("", "name no environment (env_id)"),
    ):
        Recording.new(tmp_path, {**recording.about, "env_id": env_id})
        status, _, err = finish(start(tmp_path))
        assert status == 2 and sentence in err, err
    (tmp_path / "recording.json").write_text("{")
    assert "it is not JSON" in finish(start(tmp_path))[2]
