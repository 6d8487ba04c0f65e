"""Runs in processes of their own, on a real XMPP server: resumed exactly, warm-started, refused, failed, idle."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mosaic_protocol.checkpoint_manifest import list_checkpoints
from mosaic_worker.state import checkpoints

ROOT = Path(__file__).resolve().parents[2]
HANG_SECONDS = 120.0


class Place:
    """A folder in which runs are started by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, **config: Any) -> subprocess.Popen[str]:
        params = {"is_slippery": False, **config.pop("params", {})}
        file = self.folder / f"config-{len(list(self.folder.iterdir()))}.json"
        file.write_text(
            json.dumps({"algo": "q_learning", "env_id": "FrozenLake-v1", "seed": 3, **config, "params": params})
        )
        return subprocess.Popen(
            [sys.executable, "-m", "spade_bdi_rl_worker.cli", "--config", str(file)],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "MOSAIC_TENSORBOARD": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self, process: subprocess.Popen[str]) -> tuple[int, str, str]:
        try:
            out, err = process.communicate(timeout=HANG_SECONDS)
        finally:
            process.kill()
        return process.returncode, out, err

    def run(self, **config: Any) -> tuple[int, str, str]:
        return self.ended(self.start(**config))

    def last(self) -> Path:
        """The last checkpoint of the newest run."""
        newest = max((self.folder / "runs").iterdir(), key=lambda one: one.stat().st_mtime_ns)
        return list_checkpoints(newest / "checkpoints")[-1]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def until(what: str, probe: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not probe():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_run_that_was_stopped_ends_as_one_that_was_not(place: Place) -> None:
    """Wherever it was stopped: a resumed run comes to the very same table, beliefs and chance."""
    whole = {"params": {"episodes": 6000}}
    status, _, err = place.run(**whole)
    assert status == 0, err
    wanted = checkpoints.load(place.last())

    stopped = place.start(**whole)
    assert stopped.stdout is not None
    until("training", lambda: "Training" in stopped.stdout.readline())  # type: ignore[union-attr]
    time.sleep(0.15)  # the instant itself
    stopped.send_signal(signal.SIGINT)
    place.ended(stopped)
    middle = place.last()
    halfway = checkpoints.load(middle)
    if halfway.manifest.step >= wanted.manifest.step:
        pytest.skip("it was over before it was stopped")
    assert halfway.manifest.state["learner.mind"]["thoughts"]["is_exact"] is True

    status, _, err = place.run(**whole, start={"mode": "resume", "checkpoint": str(middle)})
    assert status == 0, err
    found = checkpoints.load(place.last())
    assert found.manifest.step == wanted.manifest.step
    assert found.tensors.keys() == wanted.tensors.keys()
    for name, table in wanted.tensors.items():
        assert np.array_equal(np.asarray(table), np.asarray(found.tensors[name])), name
    for part in ("learner.runtime", "learner.mind"):
        assert found.manifest.state[part] == wanted.manifest.state[part], part


def test_tables_are_taken_over_where_they_fit_and_refused_where_not(place: Place) -> None:
    status, _, err = place.run(params={"episodes": 1500})
    assert status == 0, err
    learned = place.last()
    start = {"mode": "warm_start", "checkpoint": str(learned)}
    plans = place.folder / "once.asl"
    plans.write_text("!go. +!go <- .cache_policy; .run_episode(cached); .done.\n")
    status, _, err = place.run(params={"plans": str(plans)}, start=start)
    assert status == 0, err
    assert checkpoints.load(place.last()).manifest.step == 6, "the shortest way, from the first episode on"

    status, _, err = place.run(params={"map_name": "8x8"}, start=start)
    assert status == 2 and "was learned on the map SFFF/FHFH/FFFH/HFFG, this run's is SFFFFFFF" in err
    status, _, err = place.run(env_id="Taxi-v4", params={"is_slippery": None}, start=start)
    assert status == 2 and "cannot be used" in err


def test_states_that_are_numbered_as_they_are_seen_survive_a_checkpoint(place: Place) -> None:
    config = {"env_id": "Blackjack-v1", "algo": "double_q"}
    status, _, err = place.run(**config, params={"is_slippery": None, "episodes": 300})
    assert status == 0, err
    first = place.last()
    start = {"mode": "resume", "checkpoint": str(first)}
    status, _, err = place.run(**config, params={"is_slippery": None, "episodes": 600}, start=start)
    assert status == 0, err
    before, after = (np.asarray(checkpoints.load(one).tensors["learner.runtime.seen"]) for one in (first, place.last()))
    assert len(after) > len(before) > 50 and np.array_equal(after[: len(before)], before)


def test_an_error_in_a_plan_fails_the_run_with_its_place(place: Place) -> None:
    plans = place.folder / "wrong.asl"
    plans.write_text("!go.\n+!go <- .run_episodes(20);\n   .run_episode(cached).\n")
    status, _, err = place.run(params={"plans": str(plans)})
    assert status == 2
    assert f"{plans}:3:4: no policy is cached" in err and "\n   .run_episode(cached).\n   ^\n" in err


def test_a_server_that_is_killed_ends_the_run_with_a_sentence_and_what_was_learned(place: Place) -> None:
    process = place.start(params={"episodes": 10_000_000})
    until("training", lambda: "Training" in process.stdout.readline())  # type: ignore[union-attr]
    servers = [pid for pid in children_of(process.pid) if "prosody" in command_of(pid) or "embedded" in command_of(pid)]
    assert servers
    for pid in servers:
        os.kill(pid, signal.SIGKILL)
    status, _, err = place.ended(process)
    assert status == 2 and "XMPP server" in err, err
    assert checkpoints.load(place.last()).manifest.step > 0


BROKEN = """
import gymnasium as gym

class Broken(gym.Env):
    action_space, observation_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.steps, self.render_mode = 0, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        self.steps += 1
        if self.steps > 200:
            raise RuntimeError("the lake is dry")
        return 1, 1.0, True, False, {}

gym.register("MiniGrid-Broken-v0", Broken)
"""


def test_an_environment_that_breaks_costs_nobody_what_was_learned(place: Place) -> None:
    (place.folder / "minigrid.py").write_text(BROKEN)  # a package whose environments the worker looks for
    status, _, err = place.run(env_id="MiniGrid-Broken-v0", params={"is_slippery": None})
    assert status not in (0, 2) and "RuntimeError: the lake is dry" in err
    assert checkpoints.load(place.last()).manifest.step == 200


def children_of(pid: int) -> list[int]:
    """And theirs."""
    found = [int(word) for file in Path(f"/proc/{pid}/task").glob("*/children") for word in file.read_text().split()]
    return found + [one for child in found for one in children_of(child)]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def test_a_program_that_cannot_be_read_is_refused_before_anything_starts(place: Place) -> None:
    plans = place.folder / "bad.asl"
    plans.write_text("!go.\n+!go <- .run_episde(explore).\n")
    status, _, err = place.run(params={"plans": str(plans)})
    assert status == 2 and not (place.folder / "runs").exists()
    assert f"{plans}:2:9: there is no action .run_episde; did you mean '.run_episode'?" in err
    assert "| +!go <- .run_episde(explore).\n" in err and "|         ^\n" in err


def test_agents_of_a_run_talk_to_each_other(place: Place) -> None:
    """Each waits for the other: messages arrive when they arrive."""
    scout, learner = place.folder / "a.asl", place.folder / "b.asl"
    scout.write_text(
        "!go.\n+!go <- .run_episodes(explore, 50); .q_values(Q); .send(learner, tell, q_values(Q));"
        " while (not thanks) { .wait(20) }; .run_episodes(explore, 350).\n"
    )
    learner.write_text(
        "+q_values(Q)[source(Peer)] <- .merge_q_values(Q); +heard_from(Peer); .send(Peer, tell, thanks);"
        " .run_episodes(exploit, 400).\n"
    )
    status, out, err = place.run(params={"agents": f"scout={scout},learner={learner}", "episodes": 400})
    assert status == 0, err
    found = checkpoints.load(place.last())
    beliefs = " ".join(found.manifest.state["learner.mind"]["thoughts"]["beliefs"])
    assert "heard_from(scout)" in beliefs, out
    assert found.manifest.state["scout.runtime"]["counted"]["episodes"] == 400


def test_an_idle_agent_sleeps_and_wakes_at_its_deadline(place: Place) -> None:
    plans = place.folder / "idle.asl"
    plans.write_text(
        "!go.\n+!go <- .run_episode(explore); !rest[deadline(8)]; .done.\n"
        '+!rest <- .wait("+never").\n-!rest <- .print("woke").\n'
    )
    process = place.start(params={"plans": str(plans)})
    assert process.stdout is not None
    until("training", lambda: re.search("Training", process.stdout.readline()))  # type: ignore[union-attr]
    time.sleep(1.0)
    before, began = cpu_seconds(process.pid), time.monotonic()
    time.sleep(3.0)
    share = (cpu_seconds(process.pid) - before) / (time.monotonic() - began)
    status, out, err = place.ended(process)
    assert status == 0 and "learner: woke" in out, err
    assert share < 0.15, "a stock agent takes all that it gets"
