"""The CleanRL worker through the real daemon: PPO trains, is watched, paused, cancelled and kept, cold and warm."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gym_gui.tests.support.cleanrl_runs import (
    SCRIPTS,
    cleanrl_config,
    cleanrl_daemon,
    cpu_ticks,
    script_of,
    submit_ppo,
    wait_until_warm,
)
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import HANG_GUARD, DaemonProcess, wait_for
from mosaic_host.threads import THREAD_VARIABLES
from mosaic_protocol import events
from mosaic_protocol.outbox import OutboxReader
from mosaic_protocol.run_manifest import read_manifest

ENDLESS = 100_000_000
STEPS = 10_000


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, DaemonProcess]]:
    """One that starts runs cold, and one that warms up while the other is busy."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        for name in THREAD_VARIABLES:
            patch.delenv(name, raising=False)
        homes = {mode: tmp_path_factory.mktemp(mode) / "home" for mode in ("warm", "cold")}
        yield {mode: stack.enter_context(cleanrl_daemon(home, mode)) for mode, home in homes.items()}


@pytest.fixture(scope="module")
def cold(daemons: dict[str, DaemonProcess]) -> DaemonProcess:
    return daemons["cold"]


@pytest.fixture(scope="module")
def warm(daemons: dict[str, DaemonProcess]) -> DaemonProcess:
    wait_until_warm(daemons["warm"])
    return daemons["warm"]


def closed_manifest(daemon: DaemonProcess, run_id: str) -> dict[str, Any]:
    """``analytics.json`` after the daemon's last touch."""
    folders = daemon.paths.run(run_id)
    wait_for("analytics.json to be closed", lambda: read_manifest(folders).get("outcome"))
    return read_manifest(folders)


def journalled_series(daemon: DaemonProcess, run_id: str) -> dict[str, list[tuple[int, float | None]]]:
    """What the script wrote to its journal, by tag, as (step, value) in order."""
    reader = OutboxReader(daemon.paths.run(run_id).outbox, "script")
    series: dict[str, list[tuple[int, float | None]]] = defaultdict(list)
    try:
        while lines := reader.read():
            for record in map(events.decode, lines):
                assert isinstance(record, events.MetricRow)
                for tag, value in record.values.items():
                    series[tag].append((record.step, value))
    finally:
        reader.close()
    return dict(series)


def stored_series(daemon: DaemonProcess, run_id: str) -> dict[str, list[tuple[int, float | None]]]:
    """What the daemon has stored, in the same shape."""
    found = daemon.client.metrics(run_id, max_points=1_000_000)
    return {
        series.tag: [
            (step, None if math.isnan(value) else value)
            for step, value in zip(series.steps, series.values, strict=True)
        ]
        for series in found
    }


def tensor_hash(daemon: DaemonProcess, run_id: str) -> str:
    """The fingerprint of the parameters that a run ended with."""
    newest = max(daemon.paths.run(run_id).checkpoints.glob("step-*"))
    told: dict[str, Any] = json.loads((newest / "checkpoint.json").read_text())
    return str(told["tensor_sha256"])


# ---- surroundings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["cold", "warm"])
def test_a_run_has_as_many_threads_as_it_reserved_cpus(mode: str, request: pytest.FixtureRequest) -> None:
    daemon: DaemonProcess = request.getfixturevalue(mode)
    for cpus in (1, 2):
        config = cleanrl_config(script=str(SCRIPTS / "threads_manner.py"), cpus=cpus)
        run_id = daemon.client.submit(config).run.run_id
        run = daemon.wait_over(run_id, timeout=2 * HANG_GUARD)
        assert (run.outcome, run.start_mode) == ("completed", mode), run.reason
        told = json.loads((daemon.paths.run_logs(run_id) / "stdout.log").read_text().splitlines()[-1])
        assert told.pop("torch") == min(cpus, os.cpu_count() or 1)
        assert told == dict.fromkeys(THREAD_VARIABLES, str(cpus))


# ---- a run that completes --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def completed(cold: DaemonProcess) -> str:
    """A run of PPO that was left alone."""
    run_id = submit_ppo(cold, total_timesteps=STEPS)
    cold.wait_over(run_id)
    return run_id


def test_ppo_goes_through_its_states_and_completes(cold: DaemonProcess, completed: str) -> None:
    run = cold.client.run(completed)
    assert (run.outcome, run.reason, run.last_step) == ("completed", f"completed {STEPS:,} steps", STEPS)
    told = json.loads(run.capabilities_json)
    assert (run.start_mode, told) == ("cold", {"algo": "ppo", "env_id": "CartPole-v1", "extras": {}})
    moves = [(t.from_state, t.to_state) for t in cold.client.history(completed) if t.from_state != t.to_state]
    assert moves == [("INIT", "HSHK"), ("HSHK", "RDY"), ("RDY", "EXEC"), ("EXEC", "TERM")]


def test_every_metric_of_the_script_is_stored_once(cold: DaemonProcess, completed: str) -> None:
    written, stored = journalled_series(cold, completed), stored_series(cold, completed)
    assert {"charts/episodic_return", "charts/SPS", "losses/policy_loss"} <= set(written)
    assert {tag: len(points) for tag, points in stored.items()} == {tag: len(points) for tag, points in written.items()}
    assert stored == written


def test_the_headline_is_the_newest_of_the_metrics(cold: DaemonProcess, completed: str) -> None:
    stored = stored_series(cold, completed)
    headline = cold.client.run(completed).headline
    for tag in ("charts/episodic_return", "charts/episodic_length", "charts/SPS"):
        assert headline[tag] == stored[tag][-1][1]


def test_the_manifest_names_what_the_run_left(cold: DaemonProcess, completed: str) -> None:
    told = closed_manifest(cold, completed)
    expected = {
        "run_id": completed,
        "worker": "cleanrl",
        "algo": "ppo",
        "env_id": "CartPole-v1",
        "seed": 1,
        "total_timesteps": STEPS,
        "tensorboard_dir": "tensorboard",
        "checkpoints": [f"checkpoints/step-{STEPS:012d}"],
        "outcome": "completed",
        "reason": f"completed {STEPS:,} steps",
        "ending": "run_completed",
        "script_status": 0,
    }
    assert expected.items() <= told.items()
    folder = cold.paths.run(completed).directory
    assert list((folder / told["tensorboard_dir"]).glob("events.out.tfevents.*"))


def test_ppo_is_reproduced_to_the_bit_and_its_record_says_what_it_ran_on(cold: DaemonProcess, completed: str) -> None:
    told = closed_manifest(cold, completed)
    assert told["environment"]["threads"] == "1" and told["environment"]["cpu_model"]
    assert len(told["settings_sha256"]) == 64 and told["command"][1:3] == ["-m", "cleanrl_worker.cli"]
    assert {"sha256", "files", "cut", "problem"} <= told["code_changes"].keys()
    answer = CommandLine(cold.paths.root, cold.env)("reproduce", completed, "--json")
    assert (answer.code, answer.json["verdict"]) == (0, "same"), answer.out
    assert {"charts/episodic_return", "losses/policy_loss"} <= set(answer.json["tags"])
    assert answer.json["left_out"] == ["charts/SPS", "system/cpu_seconds", "system/memory_mb"]
    again = answer.json["run"]["run_id"]
    assert closed_manifest(cold, again)["settings_sha256"] == told["settings_sha256"]
    assert tensor_hash(cold, again) == tensor_hash(cold, completed)


def test_the_last_checkpoint_can_be_loaded(cold: DaemonProcess, completed: str) -> None:
    from mosaic_worker.state import checkpoints  # brings torch, which the other tests do without

    folder = cold.paths.run(completed).checkpoints / f"step-{STEPS:012d}"
    loaded = checkpoints.load(folder)
    assert (loaded.manifest.algo, loaded.manifest.env_id, loaded.manifest.step) == ("ppo", "CartPole-v1", STEPS)
    assert any("actor" in name for name in loaded.tensors)


# ---- runs that do not ------------------------------------------------------------------------------------------


@pytest.fixture(params=["cold", "warm"])
def daemon(request: pytest.FixtureRequest) -> DaemonProcess:
    """Each in turn: the same behaviour both ways."""
    chosen: DaemonProcess = request.getfixturevalue(request.param)
    return chosen


def test_headline_metrics_are_live_and_a_cancelled_run_keeps_its_last_checkpoint(daemon: DaemonProcess) -> None:
    run_id = submit_ppo(daemon, total_timesteps=ENDLESS)

    def watched() -> bool:
        run = daemon.client.run(run_id)
        assert run.state != "TERM", run.reason
        return {"charts/episodic_return", "charts/SPS"} <= set(run.headline) and run.last_step > 0

    wait_for("metrics of a run that trains", watched)
    daemon.client.cancel(run_id, "seen enough")
    run = daemon.wait_over(run_id)
    told = closed_manifest(daemon, run_id)
    (checkpoint,) = told["checkpoints"]
    assert run.outcome == "canceled"
    assert run.reason == f"canceled: seen enough; stopped at step {run.last_step:,}; last checkpoint {checkpoint}"
    assert checkpoint == f"checkpoints/step-{run.last_step:012d}"
    assert (told["outcome"], told["ending"]) == ("canceled", "run_stopped")
    assert (daemon.paths.run(run_id).directory / checkpoint / "model.safetensors").is_file()
    assert daemon.processes(run_id) == []


def test_a_run_that_its_script_refuses_fails_with_the_words_of_the_script(warm: DaemonProcess) -> None:
    run_id = submit_ppo(warm, total_timesteps=STEPS, flags={"num_minibatches": 0})
    run = warm.wait_over(run_id)
    sentence = "the script exited with status 2: ppo: --num-minibatches must be at least 1, got 0."
    assert (run.outcome, run.reason) == ("failed", sentence)
    told = closed_manifest(warm, run_id)
    assert (told["outcome"], told["script_status"], told["checkpoints"]) == ("failed", 2, [])
    moves = [(t.from_state, t.to_state) for t in warm.client.history(run_id) if t.from_state != t.to_state]
    assert moves == [("INIT", "HSHK"), ("HSHK", "RDY"), ("RDY", "FAULT"), ("FAULT", "TERM")]


def test_a_config_that_the_worker_refuses_fails_with_the_words_of_the_worker(daemon: DaemonProcess) -> None:
    run_id = submit_ppo(daemon, flags={"num_env": 4})
    run = daemon.wait_over(run_id)
    assert run.outcome == "failed"
    assert run.reason.endswith("ppo has no flag --num-env; did you mean '--num-envs'?")


# ---- warm starts -----------------------------------------------------------------------------------------------


def test_a_warm_run_ends_with_the_same_parameters_as_a_cold_one(
    cold: DaemonProcess, completed: str, warm: DaemonProcess
) -> None:
    again = submit_ppo(warm, total_timesteps=STEPS)
    run = warm.wait_over(again)
    assert (run.outcome, run.start_mode) == ("completed", "warm"), run.reason
    assert tensor_hash(warm, again) == tensor_hash(cold, completed)
    tag = "charts/episodic_return"
    assert stored_series(warm, again)[tag] == stored_series(cold, completed)[tag]


def test_a_paused_run_uses_no_cpu_and_goes_on_where_it_was(warm: DaemonProcess) -> None:
    run_id = submit_ppo(warm, total_timesteps=ENDLESS)
    wait_for("the first steps", lambda: warm.client.run(run_id).last_step > 0)
    script = script_of(warm, run_id)
    warm.client.pause(run_id)
    held_at = warm.wait_state(run_id, "PAUSE").last_step
    used = cpu_ticks(script)
    time.sleep(0.5)  # the measurement itself: a script that trained would use about 50 ticks meanwhile
    assert cpu_ticks(script) - used <= 2
    assert warm.client.run(run_id).last_step == held_at
    warm.client.resume(run_id)
    wait_for("steps after the pause", lambda: warm.client.run(run_id).last_step > held_at)
    warm.wait_state(run_id, "EXEC")
    warm.client.cancel(run_id)
    assert warm.wait_over(run_id).outcome == "canceled"


# ---- without a daemon ------------------------------------------------------------------------------------------


@pytest.fixture
def by_hand(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """PPO for ever, started by hand."""
    command = [sys.executable, "-m", "cleanrl_worker.cli", "--algo", "ppo", "--env-id", "CartPole-v1"]
    with subprocess.Popen(
        [*command, "--total-timesteps", str(ENDLESS)], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def test_a_run_by_hand_stops_at_a_signal_with_a_checkpoint(by_hand: subprocess.Popen[str], tmp_path: Path) -> None:
    assert by_hand.stdout is not None
    begun = [json.loads(by_hand.stdout.readline()) for _ in range(2)]
    assert [line["event"] for line in begun] == ["run_planned", "run_started"]
    assert begun[0]["total_steps"] == ENDLESS
    by_hand.send_signal(signal.SIGTERM)
    said = [line for line in map(json.loads, by_hand.stdout) if line["event"] != "heartbeat"]
    assert by_hand.wait(HANG_GUARD) == 0
    assert [line["event"] for line in said] == ["run_stopping", "artifact", "run_stopped"]
    (run_dir,) = (tmp_path / "runs").iterdir()
    told = json.loads((run_dir / "analytics.json").read_text())
    assert told["checkpoints"] == [said[1]["path"]]
    assert told["tensorboard_dir"] == "tensorboard"


def test_a_run_by_hand_completes_with_status_zero(tmp_path: Path) -> None:
    words = ["--algo", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "1024"]
    told = subprocess.run(
        [sys.executable, "-m", "cleanrl_worker.cli", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANG_GUARD,
        check=True,
    )
    said = [line for line in map(json.loads, told.stdout.splitlines()) if line["event"] != "heartbeat"]
    assert [line["event"] for line in said] == ["run_planned", "run_started", "artifact", "run_completed"]
    assert said[-1]["sentence"] == "completed 1,024 steps"
