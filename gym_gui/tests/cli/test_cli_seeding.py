"""``mosaic train … --seed-from RUN``: a table that begins with what somebody played in a session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gym_gui.tests.support.command_line import Answer, CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.support.live_sessions import submit_session
from mosaic_protocol.checkpoint_manifest import list_checkpoints, read_manifest
from mosaic_protocol.mind import MIND, MindReader

pytestmark = pytest.mark.usefixtures("workers_train")

pytest.importorskip("agentspeak")

TO_THE_GOAL = [1, 1, 2, 1, 2, 2]
GREEDY = "!go.\n+!go <- .run_episodes(exploit, 10); .done.\n"
TRAIN = ("train", "--worker", "spade_bdi_rl_worker", "q_learning", "--no-tensorboard")


def test_a_learner_that_was_shown_the_way_succeeds_at_once(daemon: DaemonProcess, tmp_path: Path) -> None:
    (tmp_path / "way.json").write_text(json.dumps(TO_THE_GOAL))
    (tmp_path / "greedy.asl").write_text(GREEDY)
    session = submit_session(
        daemon,
        "FrozenLake-v1",
        actor="scripted",
        script=str(tmp_path / "way.json"),
        slippery=False,
        episodes=2,
        speed=0,
    )
    assert daemon.wait_over(session).outcome == "completed"
    mosaic = CommandLine(daemon.paths.root)

    def train(name: str, *flags: str, env_id: str = "FrozenLake-v1") -> Answer:
        own = ("--plans", str(tmp_path / "greedy.asl"), "--epsilon-end", "0", *flags)
        return mosaic(*TRAIN, "--env-id", env_id, "--run-name", name, "--", *own)

    def returns(name: str) -> list[float]:
        return [one.total_reward for one in daemon.client.episodes(name)]

    # ---- refused before anything starts ----
    for flags, why in (
        (("--seed-from", "nobody"), "--seed-from: no run is called 'nobody'"),
        (("--seed-from", "play"), "was recorded with is_slippery false, and this run has true"),
    ):
        refused = train("refused", *flags)
        assert refused.code == 2 and why in refused.err and len(refused.err.splitlines()) == 1, refused
    silent = daemon.submit(name="silent", total_timesteps=1)
    daemon.wait_over(silent)
    assert "(silent) has no recorded steps" in train("refused", "--seed-from", silent).err
    assert len(daemon.client.runs().runs) == 2

    # ---- learned from ----
    answer = train("seeded", "--is-slippery", "false", "--seed-from", "play")
    assert answer.code == 0, answer
    assert returns("seeded") == [1.0] * 10
    assert "1 (mean of the last 10 episodes)" in answer.out, "not of rows, which stand for many episodes each"
    assert train("unseeded", "--is-slippery", "false").code == 0
    assert sum(returns("unseeded")) <= 3, "nobody showed it anything"

    # ---- and told ----
    seeded = daemon.client.run("seeded").run_id
    assert "The table begins with 12 steps in 2 episodes of play (" in mosaic("logs", "seeded").out
    step = next(iter(daemon.client.steps("seeded")))
    assert [(one.text, one.source) for one in MindReader().take(step.info[MIND]).beliefs] == [
        ("seeded(12)", "recording")
    ]
    known = mosaic("show", "seeded").out
    assert f"recorded steps of {session[-6:]} (play)" in known
    assert "1 (mean of the newest episodes)" in known and "(last episode)" not in known
    (checkpoint,) = list_checkpoints(daemon.paths.run(seeded).checkpoints)
    lineage = read_manifest(checkpoint).lineage
    assert (lineage["kind"], lineage["run_id"], lineage["steps"]) == ("recorded_steps", session, 12)
    assert f"began with 12 recorded steps in play ({session[-6:]})" in mosaic("checkpoints", "show", "seeded").out
    (copy,) = daemon.paths.beginnings.iterdir()
    config = json.loads(daemon.client.run("seeded").config_json)
    assert config["metadata"]["worker"]["config"]["params"]["seed_from"] == str(copy)

    # ---- a copy lives as long as both runs, and is made again while its session is there ----
    again = tmp_path / "again.json"
    again.write_text(json.dumps(config))
    assert mosaic("delete", "seeded", "--purge", "--yes").code == 0 and not copy.exists()
    told = mosaic("submit", str(again), "--dry-run").out
    assert "12 steps in 2 episodes of play" in told and copy.is_dir()
    assert mosaic("delete", session, "--purge", "--yes").code == 0 and not copy.exists()
    gone = mosaic("submit", str(again), "--dry-run")
    assert gone.code == 2 and "--seed-from: no run" in gone.err, gone
