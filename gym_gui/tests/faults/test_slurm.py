"""Runs under a real Slurm, whatever happens to their jobs, to the way there, to Slurm and to the daemon."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, toy_config, wait_for
from gym_gui.tests.support.dropped_worker import dropped_worker
from gym_gui.tests.support.fault_tools import steps_of
from gym_gui.tests.support.history import check_history
from gym_gui.tests.support.slurm_cluster import LoginNode, SlurmCluster

STEPS = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    made = SlurmCluster()
    try:
        yield made.start()
    finally:
        made.remove()


@pytest.fixture(scope="module")
def login(cluster: SlurmCluster) -> Iterator[LoginNode]:
    made = LoginNode(cluster)
    try:
        yield made.start()
    finally:
        made.remove()


@pytest.fixture(scope="module")
def daemon(
    tmp_path_factory: pytest.TempPathFactory, cluster: SlurmCluster, login: LoginNode
) -> Iterator[DaemonProcess]:
    made = DaemonProcess(tmp_path_factory.mktemp("slurm") / "home")
    made.env.update(cluster.environ, MOSAIC_SSH_CONFIG=str(login.ssh_config))
    learner = dropped_worker(tmp_path_factory.mktemp("workers"), "learner", needs=["dataset"])
    made.env["MOSAIC_WORKER_PATH"] += f"{os.pathsep}{learner}"
    cluster.add_to(made.paths)
    cluster.add_to(made.paths, "far", ssh="login", folder=str(cluster.folder / "far"))
    cluster.add_to(made.paths, "short", time="3")
    cluster.add_to(made.paths, "broken", folder=str(cluster.folder / "broken"))
    try:
        yield made.start()
        registry = made.registry()
        try:
            check_history(registry, **made.has_cpus)
        finally:
            registry.close()
        assert made.terminate() == 0
        wait_for("no step to be left", lambda: not processes("mosaic_host.job", "attach", str(cluster.folder)))
        wait_for("no job to be left", lambda: not cluster.living())
    finally:
        made.clean_up()


def processes(*words: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if all(word in line for word in words):
                found.append(int(entry.name))
    return found


def slurm_run(daemon: DaemonProcess, *, steps: int = STEPS, host: str = "cluster", **changes: Any) -> str:
    config = toy_config(total_timesteps=steps, params={"step_seconds": 0.02, **changes.pop("params", {})}, **changes)
    config["resources"]["host"] = host
    return daemon.client.submit(config).run.run_id


def wait_step(daemon: DaemonProcess, run_id: str, step: int) -> None:
    wait_for(f"step {step}", lambda: daemon.client.run(run_id).last_step >= step)


def assert_every_step_once(daemon: DaemonProcess, run_id: str, steps: int) -> None:
    assert steps_of(daemon, run_id) == list(range(1, steps + 1))
    assert daemon.starts(run_id) == 1


def test_a_run_under_slurm_has_its_numbers_and_its_files_here(daemon: DaemonProcess, cluster: SlurmCluster) -> None:
    run_id = slurm_run(daemon, params={"say": "hello from a job"})
    run = daemon.wait_over(run_id)
    assert (run.outcome, run.host) == ("completed", "cluster"), daemon._describe(run_id)
    assert_every_step_once(daemon, run_id, STEPS)
    assert "hello from a job" in (Path(run.log_dir) / "stderr.log").read_text()
    wait_for("its job to be over", lambda: f"mosaic-{run_id} COMPLETED" in cluster.jobs())
    wait_for("what is over there to go", lambda: not list(cluster.folder.glob(f"mosaic/trainer/runs/{run_id}")))


def test_a_check_asks_slurm_whether_it_would_take_a_job(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cluster.environ.items():
        monkeypatch.setenv(name, value)
    mosaic = CommandLine(tmp_path)
    for name, partition in (("good", "main"), ("poor", "nowhere")):
        where = ("--python", sys.executable, "--folder", str(cluster.folder / "checked"))
        mosaic("hosts", "add", name, "--slurm", "--partition", partition, *where)
    good, poor = (mosaic("hosts", "check", name, "--json") for name in ("good", "poor"))
    assert good.code == 0 and good.json["ok"], good.out
    (found,) = (check for check in poor.json["checks"] if check["check"] == "slurm")
    assert poor.code == 1 and found["status"] == "fail" and "partition" in found["finding"]
    assert cluster.living() == []


def test_a_login_node_behind_ssh_is_as_good_as_this_machine(daemon: DaemonProcess, cluster: SlurmCluster) -> None:
    run_id = slurm_run(daemon, host="far")
    run = daemon.wait_over(run_id)
    assert (run.outcome, run.host) == ("completed", "far"), daemon._describe(run_id)
    assert_every_step_once(daemon, run_id, STEPS)


def test_a_dataset_reaches_the_job_of_a_run(daemon: DaemonProcess, cluster: SlurmCluster) -> None:
    """By the login node, whose disk the job shares."""
    dataset = daemon.paths.dataset("swings")
    dataset.mkdir(parents=True)
    (dataset / "data.hdf5").write_bytes(data := os.urandom(70_001))
    (dataset / "manifest.json").write_text("{}")
    run_id = slurm_run(daemon, steps=100_000, worker="learner", dataset="swings")
    daemon.wait_state(run_id, "EXEC")
    worker = processes("learner_worker", run_id)[0]
    around = dict(word.split("=", 1) for word in Path(f"/proc/{worker}/environ").read_text().split("\0") if "=" in word)
    there = Path(around["MOSAIC_DATASETS"])
    assert there.is_relative_to(cluster.folder)
    assert (there / "swings" / "data.hdf5").read_bytes() == data
    daemon.client.cancel(run_id)
    assert daemon.wait_over(run_id).outcome == "canceled"
    wait_for("what it began from to go", lambda: not there.exists())


def test_a_job_in_which_no_agent_can_begin_fails_its_run_with_the_words_of_the_job(
    daemon: DaemonProcess, cluster: SlurmCluster
) -> None:
    home = cluster.folder / "broken"
    home.mkdir()
    (home / "jobs").write_text("no folder")
    run_id = slurm_run(daemon, host="broken")
    run = daemon.wait_over(run_id)
    assert run.outcome == "failed" and "ended as FAILED" in run.reason, daemon._describe(run_id)
    assert "FileExistsError" in run.reason


def test_a_run_that_waits_in_the_queue_says_so_keeps_its_place_and_is_canceled_with_its_job(
    daemon: DaemonProcess, cluster: SlurmCluster
) -> None:
    other = cluster.occupy()
    try:
        run_id, doomed = slurm_run(daemon), slurm_run(daemon)
        told = wait_for("the reason", lambda: _with(daemon.client.run(run_id).reason, "PENDING"))
        assert "waits in Slurm's queue" in told
        wait_for("the other to wait", lambda: _with(daemon.client.run(doomed).reason, "PENDING"))
        assert "starting (waits in Slurm's queue)" in CommandLine(daemon.paths.root)("runs").out
        job = cluster.job_of(run_id)
        daemon.kill()
        daemon.start()
        daemon.client.cancel(doomed)
        assert daemon.wait_over(doomed).outcome == "canceled"
        wait_for("its job to go", lambda: f"mosaic-{doomed} CANCELLED" in cluster.jobs())
        wait_for("the reason again", lambda: _with(daemon.client.run(run_id).reason, "PENDING"))
        assert cluster.job_of(run_id) == job, "it did not queue again"
        assert not daemon.client.run(run_id).host_away
    finally:
        cluster.run("scancel", other)
    assert daemon.wait_over(run_id).outcome == "completed", daemon._describe(run_id)
    assert_every_step_once(daemon, run_id, STEPS)
    assert cluster.job_of(run_id) == job


def _with(text: str, word: str) -> str | None:
    return text if word in text else None


def test_a_run_under_slurm_pauses_goes_on_and_is_canceled(daemon: DaemonProcess, cluster: SlurmCluster) -> None:
    run_id = slurm_run(daemon, steps=100_000)
    wait_step(daemon, run_id, 5)
    daemon.client.pause(run_id)
    daemon.wait_state(run_id, "PAUSE")
    daemon.client.resume(run_id)
    daemon.wait_state(run_id, "EXEC")
    daemon.client.cancel(run_id)
    assert daemon.wait_over(run_id).outcome == "canceled"
    assert processes("toy_worker", run_id) == []
    wait_for("its job to go", lambda: cluster.job_of(run_id) not in cluster.living())


def test_killing_the_daemon_and_the_way_costs_no_point(daemon: DaemonProcess, cluster: SlurmCluster) -> None:
    run_id = slurm_run(daemon, steps=800)
    wait_step(daemon, run_id, 20)
    daemon.kill()
    wait_for("srun to end with its daemon", lambda: not processes("srun", run_id))
    daemon.start()
    wait_for("the way to be there again", lambda: processes("mosaic_host.job", "attach", run_id))
    for pid in processes("mosaic_host.job", "attach", run_id):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert daemon.wait_over(run_id).outcome == "completed", daemon._describe(run_id)
    assert_every_step_once(daemon, run_id, 800)


def test_slurm_that_does_not_answer_fails_no_run(daemon: DaemonProcess, cluster: SlurmCluster) -> None:
    run_id = slurm_run(daemon, steps=800)
    wait_step(daemon, run_id, 20)
    cluster.stop_controller()
    try:
        daemon.kill()
        daemon.start()  # which cannot find out where the run is
        wait_for("the run to say so", lambda: daemon.client.run(run_id).host_away)
        waiting = slurm_run(daemon)
        assert daemon.client.run(run_id).state == "EXEC"
    finally:
        cluster.start_controller()
    for one, steps in ((run_id, 800), (waiting, STEPS)):
        assert daemon.wait_over(one).outcome == "completed", daemon._describe(one)
        assert_every_step_once(daemon, one, steps)


def test_a_job_that_is_about_to_end_lets_its_worker_write_a_checkpoint(
    daemon: DaemonProcess, cluster: SlurmCluster
) -> None:
    """The signal is the one that Slurm sends before the time limit."""
    run_id = slurm_run(daemon, steps=100_000)
    wait_step(daemon, run_id, 5)
    cluster.run("scancel", "--batch", "--signal=TERM", cluster.job_of(run_id))
    run = daemon.wait_over(run_id)
    assert run.outcome == "timed_out" and "Slurm ended its job" in run.reason, daemon._describe(run_id)
    steps = steps_of(daemon, run_id)
    assert steps == list(range(1, len(steps) + 1)) and "stopped" in run.reason


@pytest.mark.nightly
def test_a_job_that_nears_its_time_limit_lets_its_worker_stop_before_it(
    daemon: DaemonProcess, cluster: SlurmCluster
) -> None:
    """Three minutes, of which Slurm announces the last two."""
    run_id = slurm_run(daemon, steps=100_000, host="short")
    run = daemon.wait_over(run_id, timeout=400)
    assert run.outcome == "timed_out" and "near its time limit" in run.reason, daemon._describe(run_id)
    assert "stopped" in run.reason


def test_a_job_that_makes_way_for_another_one_is_told_as_that(daemon: DaemonProcess, cluster: SlurmCluster) -> None:
    run_id = slurm_run(daemon, steps=100_000)
    wait_step(daemon, run_id, 5)
    other = cluster.occupy("--partition=urgent")
    try:
        run = daemon.wait_over(run_id)
    finally:
        cluster.run("scancel", other)
    assert run.outcome == "canceled", daemon._describe(run_id)
    assert "PREEMPTED" in run.reason and "stopped" in run.reason, "there was time for a checkpoint"


@pytest.mark.nightly
def test_a_job_that_somebody_cancels_in_slurm_is_told_as_that(daemon: DaemonProcess, cluster: SlurmCluster) -> None:
    run_id = slurm_run(daemon, steps=100_000)
    wait_step(daemon, run_id, 5)
    cluster.run("scancel", cluster.job_of(run_id))
    run = daemon.wait_over(run_id)
    assert run.outcome == "canceled" and "was cancelled in Slurm" in run.reason, daemon._describe(run_id)
