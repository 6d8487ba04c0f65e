"""Evaluations can be repeated, and their numbers are what they are called."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mosaic_protocol.steps.recorded_episodes import read_episodes
from mosaic_protocol.steps.recordings import Recording
from mosaic_worker.errors import UsageError
from mosaic_worker.policies.acting import LoadedPolicy, load_acting
from mosaic_worker.policies.evaluation import Episode, Player, RandomPolicy, interquartile_mean, seeds_of, summary
from mosaic_worker.policies.evaluation_team import EvaluationError, Task, play
from mosaic_worker.tests.policies.toys import TOY_WORKER, environment, new_checkpoint, start


def never() -> bool:
    return False


@pytest.fixture(autouse=True)
def _the_toy_worker_is_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOY_WORKER.parent))


def loaded_from(path: Path) -> LoadedPolicy:
    return load_acting(path, TOY_WORKER)


def test_the_interquartile_mean_is_that_of_the_middle_half() -> None:
    assert interquartile_mean([8, 1, 7, 2, 6, 3, 5, 4]) == (3 + 4 + 5 + 6) / 4
    # Of ten a quarter is two and a half: two are left out at either end, as rliable's trimmed mean does.
    assert interquartile_mean([100, 1, 2, 3, 4, 5, 6, 7, 8, -50]) == pytest.approx((2 + 3 + 4 + 5 + 6 + 7) / 6)
    assert interquartile_mean([1, 2, 30]) == 11
    assert interquartile_mean([4]) == 4
    assert np.isnan(interquartile_mean([]))


def test_the_summary_is_in_the_order_of_episodes_and_plain_json() -> None:
    told = summary([Episode(2, 30.0, 3), Episode(0, 10.0, 1), Episode(1, 20.0, 2)])
    assert (told["returns"], told["lengths"], told["episodes"]) == ([10.0, 20.0, 30.0], [1, 2, 3], 3)
    assert (told["mean"], told["median"], told["min"], told["max"]) == (20.0, 20.0, 10.0, 30.0)
    assert told["std"] == pytest.approx(np.std([10, 20, 30]))
    endless = summary([Episode(0, float("inf"), 1)])
    assert json.loads(json.dumps(endless, allow_nan=False))["mean"] is None
    assert summary([])["episodes"] == 0


def test_every_episode_has_seeds_of_its_own() -> None:
    seeds = {seeds_of(seed, number)[0] for seed in range(20) for number in range(20)}
    assert len(seeds) == 400
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seeds_of(1, 2)[1].random() != seeds_of(2, 1)[1].random()


@pytest.mark.parametrize("algo", ["toy_discrete", "toy_continuous"])
@pytest.mark.parametrize("deterministic", [True, False])
def test_an_episode_is_the_same_however_many_are_played_and_in_whatever_order(
    algo: str, deterministic: bool, tmp_path: Path
) -> None:
    loaded = loaded_from(new_checkpoint(tmp_path, algo))

    def played(numbers: Any, seed: int = 7) -> dict[int, Episode]:
        with closing(loaded.make_env()) as env:
            player = Player(loaded.policy, env, seed, deterministic=deterministic)
            return {episode.number: episode for episode in player.play(numbers, never) if episode is not None}

    forwards, backwards = played(range(6)), played(reversed(range(12)))
    assert forwards == {number: backwards[number] for number in range(6)}
    assert forwards == played(range(6))
    assert forwards != played(range(6), seed=8)


def test_the_number_of_processes_makes_no_difference_to_any_episode(tmp_path: Path) -> None:
    task = Task(loaded_from(new_checkpoint(tmp_path, "toy_continuous")), None, 7, deterministic=False)

    def played(jobs: int) -> set[Episode]:
        return {event for event in play(task, 7, jobs, never) if isinstance(event, Episode)}

    assert len(played(1)) == 7
    assert played(1) == played(2) == played(3)


def test_what_keeps_every_process_from_playing_is_reported_once(tmp_path: Path) -> None:
    loaded = loaded_from(new_checkpoint(tmp_path, "toy_discrete"))
    with pytest.raises(UsageError, match="does not fit Acrobot-v1"):
        list(play(Task(loaded, "Acrobot-v1", 7, deterministic=True), 10, 2, never))
    assert multiprocessing.active_children() == []


def test_a_process_that_is_killed_ends_the_evaluation_with_a_sentence(tmp_path: Path) -> None:
    task = Task(loaded_from(new_checkpoint(tmp_path, "toy_discrete")), None, 7, deterministic=True)
    events = play(task, 10**7, 2, never)
    next(events)
    victim = multiprocessing.active_children()[0]
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    with pytest.raises(EvaluationError, match="was ended by signal 9"):
        list(events)
    assert multiprocessing.active_children() == []


def test_a_player_that_missed_the_signal_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was forked a moment ago forgets the signals that it got before."""
    task = Task(loaded_from(new_checkpoint(tmp_path, "toy_discrete")), None, 7, deterministic=True)
    stopped, missed, terminate = threading.Event(), set(), BaseProcess.terminate

    def miss_the_first(process: BaseProcess) -> None:
        if process.pid in missed:
            terminate(process)
        missed.add(process.pid)

    before = signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    try:
        monkeypatch.setattr(BaseProcess, "terminate", miss_the_first)
        events = play(task, 10**7, 2, stopped.is_set)
        next(events)
        stopped.set()
        assert len(list(events)) < 10**7
    finally:
        signal.signal(signal.SIGTERM, before)
    assert len(missed) == 2 and multiprocessing.active_children() == []


# ---- the process -------------------------------------------------------------------------------------------------


def finish(process: subprocess.Popen[str]) -> tuple[int, list[dict[str, Any]], str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, [json.loads(line) for line in out.splitlines()], err


def test_the_process_reports_each_episode_and_then_the_result(tmp_path: Path) -> None:
    path = new_checkpoint(tmp_path, "toy_discrete")
    status, told, _ = finish(start("evaluate", path, "--episodes", "5", "--seed", "5"))
    assert status == 0
    ready, *_, result = told
    assert (ready["at"], result["at"], result["complete"]) == ("ready", "result", True)
    assert result["sha256"] == loaded_from(path).manifest.tensor_sha256
    for mode in ("deterministic", "sampled"):
        episodes = [one for one in told if one["at"] == "episode" and one["mode"] == mode]
        episodes.sort(key=lambda one: one["number"])  # two processes finish in any order
        assert [one["return"] for one in episodes] == result["results"][mode]["returns"]
        assert len(episodes) == 5


def test_asked_to_end_the_process_reports_what_it_has(tmp_path: Path) -> None:
    process = start("evaluate", new_checkpoint(tmp_path, "toy_discrete"), "--episodes", "1000000", "--mode", "sampled")
    assert process.stdout is not None
    while json.loads(process.stdout.readline())["at"] != "episode":
        pass
    process.send_signal(signal.SIGINT)  # a terminal's Ctrl-C reaches it too, and is not for it
    process.send_signal(signal.SIGTERM)
    status, told, _ = finish(process)
    assert (status, told[-1]["at"], told[-1]["complete"]) == (0, "result", False)
    assert 1 <= told[-1]["results"]["sampled"]["episodes"] < 1_000_000


def test_a_recorded_evaluation_keeps_every_step_and_measures_the_same(tmp_path: Path) -> None:
    path, folder = new_checkpoint(tmp_path, "toy_continuous"), tmp_path / "recorded"
    words = ("--episodes", "3", "--seed", "5")
    plain = finish(start("evaluate", path, *words))[1][-1]
    status, told, err = finish(start("evaluate", path, *words, "--record", str(folder)))
    result = told[-1]
    assert (status, result["results"]) == (0, plain["results"]), err
    assert result["recordings"] == {mode: str(folder / mode) for mode in ("deterministic", "sampled")}
    for mode in result["recordings"]:
        recording = Recording.at(folder / mode)
        assert recording.about["checkpoint"]["sha256"] == result["sha256"] and recording.about["worker"] == "toy"
        episodes = list(read_episodes(recording.chunks()))
        assert [one.seed for one in episodes] == [seeds_of(5, number)[0] for number in range(3)]
        assert [float(one.rewards.sum()) for one in episodes] == pytest.approx(result["results"][mode]["returns"])
        assert all(one.is_whole and one.final is not None and set(one.actors) == {"policy"} for one in episodes)


def test_a_recorded_evaluation_that_is_killed_leaves_what_it_played(tmp_path: Path) -> None:
    path, folder = new_checkpoint(tmp_path, "toy_discrete"), tmp_path / "recorded"
    process = start("evaluate", path, "--episodes", "1000000", "--mode", "sampled", "--record", str(folder))
    assert process.stdout is not None
    finished = 0
    while finished < 20:
        finished += json.loads(process.stdout.readline())["at"] == "episode"
    process.kill()
    process.communicate(timeout=60)
    whole = [one for one in read_episodes(Recording.at(folder / "sampled").chunks()) if one.is_whole]
    assert len(whole) >= 20 and [one.number for one in whole] == list(range(len(whole)))


def test_an_evaluation_ends_with_the_process_that_wanted_it(tmp_path: Path) -> None:
    path = new_checkpoint(tmp_path, "toy_discrete")
    program = (
        "import subprocess, sys, os; p = subprocess.Popen([sys.executable, '-m', 'mosaic_worker.policies.evaluate',"
        f" '--episodes', '1000000', '--parent', str(os.getpid()), '--checkpoint', {str(path)!r}],"
        " stdout=subprocess.PIPE); p.stdout.readline(); print(p.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    words = [sys.executable, "-c", program]
    parent = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False, timeout=120)
    child = int(parent.stdout)
    with pytest.raises(ChildProcessError):  # not ours to wait for
        os.waitpid(child, 0)
    assert _ends(child)


def _ends(pid: int) -> bool:
    import time

    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: (path / "model.safetensors").write_bytes(b"x"), "model.safetensors has 1 bytes"),
        (lambda path: (path / "checkpoint.json").unlink(), "checkpoint.json cannot be read"),
    ],
)
def test_a_damaged_checkpoint_is_refused_in_one_sentence(damage: Any, words: str, tmp_path: Path) -> None:
    path = new_checkpoint(tmp_path, "toy_discrete")
    damage(path)
    status, told, err = finish(start("evaluate", path))
    assert (status, told) == (2, [])
    assert words in err.splitlines()[-1]
    assert "Traceback" not in err


def test_random_actions_are_those_of_their_episode() -> None:
    def played(numbers: list[int]) -> list[tuple[int, float]]:
        env = gym.make("CartPole-v1")
        player = Player(RandomPolicy(env.action_space), env, 3, deterministic=False)
        found = [(one.length, one.total) for one in player.play(numbers, lambda: False) if one is not None]
        env.close()
        return found

    assert played([0, 1, 2])[1:] == played([1, 2]) and len(set(played([0, 1, 2, 3]))) > 1
