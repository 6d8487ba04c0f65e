"""Runs on another machine, whatever happens to it, to the way there, and to the daemon."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from gym_gui.logging_config.log_constants import LOG_HOST_REACHED
from gym_gui.services.hosts.book import HostBook
from gym_gui.services.hosts.code import pack
from gym_gui.services.hosts.environments import BuildError, build
from gym_gui.services.hosts.reach import ask
from gym_gui.services.trainer.client import NoSuchRunError
from gym_gui.tests.support.daemon_process import DaemonProcess, toy_config, wait_for
from gym_gui.tests.support.dropped_worker import dropped_worker
from gym_gui.tests.support.far_hosts import FarHost
from gym_gui.tests.support.fault_tools import steps_of
from gym_gui.tests.support.history import check_history
from gym_gui.tests.support.wheels import make_wheel
from mosaic_protocol.proto import trainer_pb2 as pb

STEPS = 150
_OWN_SCRIPTS = """
[choices.script]
help = "A script of one's own."
kind = "file"
metavar = "FILE"
replaces_algorithm = true
algorithm = "{stem}"
needs = []
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hosts")


@pytest.fixture(scope="module")
def node(root: Path) -> Iterator[FarHost]:
    made = FarHost(root, "node1", hidden=[root / "home"])
    (root / "home").mkdir()
    try:
        yield made.start()
    finally:
        made.remove()


@pytest.fixture(scope="module")
def daemon(root: Path, node: FarHost) -> Iterator[DaemonProcess]:
    made = DaemonProcess(root / "home")
    made.env["MOSAIC_SSH_CONFIG"] = str(node.write_ssh_config())
    learner = dropped_worker(
        root / "workers", "learner", needs=["dataset"], capabilities={"foreign_scripts": True}, more=_OWN_SCRIPTS
    )
    made.env["MOSAIC_WORKER_PATH"] += f"{os.pathsep}{learner}"
    node.add_to(made.paths)
    try:
        yield made.start()
        registry = made.registry()
        try:
            check_history(registry, **made.has_cpus)
        finally:
            registry.close()
        assert made.terminate() == 0
        assert ssh_processes(node) == [], "no ssh is ever left"
    finally:
        made.clean_up()


def ssh_processes(node: FarHost) -> list[str]:
    """The command lines of ssh on this side."""
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "args="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [line for line in listed if line.startswith("ssh ") and str(node.folder) in line]


def far_run(daemon: DaemonProcess, *, steps: int = STEPS, host: str = "node1", **changes: Any) -> str:
    config = toy_config(total_timesteps=steps, params={"step_seconds": 0.02, **changes.pop("params", {})}, **changes)
    config["resources"]["host"] = host
    return daemon.client.submit(config).run.run_id


def times_reached(daemon: DaemonProcess) -> int:
    return daemon.structured_log().count(LOG_HOST_REACHED.code)


def wait_reached(daemon: DaemonProcess, before: int) -> None:
    wait_for("the daemon to reach the host again", lambda: times_reached(daemon) > before)


def wait_step(daemon: DaemonProcess, run_id: str, step: int) -> None:
    wait_for(f"step {step}", lambda: daemon.client.run(run_id).last_step >= step)


def assert_whole(daemon: DaemonProcess, node: FarHost, run_id: str, *, steps: int = STEPS) -> pb.Run:
    """It completed, each of its points was stored once, it began once, and nothing of it is left over there."""
    run = daemon.wait_over(run_id)
    assert (run.outcome, run.host) == ("completed", "node1"), daemon._describe(run_id)
    assert steps_of(daemon, run_id) == list(range(1, steps + 1))
    assert daemon.starts(run_id) == 1
    wait_for("what is over there to go", lambda: run_id not in node.run("ls", str(node.disk / "mosaic/trainer/runs")))
    return run


def test_a_run_on_a_host_has_its_numbers_and_its_files_here(daemon: DaemonProcess, node: FarHost) -> None:
    run_id = far_run(daemon, params={"say": "hello from afar"})
    daemon.wait_state(run_id, "EXEC")
    assert node.pids("toy_worker", run_id), "it runs over there"
    run = assert_whole(daemon, node, run_id)
    assert "hello from afar" in (Path(run.log_dir) / "stderr.log").read_text()
    written = {file.name for file in Path(run.run_dir).rglob("*") if file.is_file()}
    assert {"analytics.json", "starts"} <= written
    listing = node.run("ls", "-ld", str(node.disk / "mosaic/link"))
    assert listing.startswith("drwx------"), "no other user of the host gets in"


def test_a_run_on_a_host_pauses_goes_on_and_is_canceled(daemon: DaemonProcess, node: FarHost) -> None:
    run_id = far_run(daemon, steps=100_000)
    wait_step(daemon, run_id, 5)
    daemon.client.pause(run_id)
    daemon.wait_state(run_id, "PAUSE")
    daemon.client.resume(run_id)
    daemon.wait_state(run_id, "EXEC")
    daemon.client.cancel(run_id)
    run = daemon.wait_over(run_id)
    assert run.outcome == "canceled"
    assert node.pids("toy_worker", run_id) == []
    steps = steps_of(daemon, run_id)
    assert steps == list(range(1, len(steps) + 1)) and len(steps) >= 5


def test_killing_the_daemon_the_way_and_the_agent_costs_no_point(daemon: DaemonProcess, node: FarHost) -> None:
    gate = node.disk / "gate"
    run_id = far_run(daemon, steps=600, params={"gate": str(gate), "gate_at": 500})
    wait_step(daemon, run_id, 20)
    reached = times_reached(daemon)
    daemon.kill()
    wait_for("ssh to end with its daemon", lambda: not ssh_processes(node))
    daemon.start()
    for victim in ("mosaic_host.attach", "-m mosaic_host --home", "sshd: root@"):
        wait_reached(daemon, reached)
        reached = times_reached(daemon)
        assert node.kill(victim) == 1, victim
    wait_reached(daemon, reached)
    assert daemon.client.run(run_id).state == "EXEC"
    node.run("touch", str(gate))
    assert_whole(daemon, node, run_id, steps=600)


def test_a_cut_link_is_told_and_costs_no_point(daemon: DaemonProcess, node: FarHost) -> None:
    gate = node.disk / "after the cut"
    run_id = far_run(daemon, steps=600, params={"gate": str(gate), "gate_at": 590})
    other = far_run(daemon, steps=100_000)
    wait_step(daemon, run_id, 20)
    wait_step(daemon, other, 20)
    node.cut()
    try:
        wait_for("the run to say so", lambda: daemon.client.run(run_id).host_away)
        began = time.monotonic()
        daemon.client.cancel(other)
        assert time.monotonic() - began < 5.0, "a cancel does not wait for the way"
        assert daemon.client.run(run_id).state == "EXEC"
    finally:
        node.mend()
    node.run("touch", str(gate))
    assert_whole(daemon, node, run_id, steps=600)
    causes = [move.cause for move in daemon.client.history(run_id)]
    assert causes.count("host unreachable") == causes.count("host reached") == 1
    assert daemon.wait_over(other).outcome == "canceled", "what was asked for meanwhile is done"
    assert node.pids("toy_worker", other) == []


def test_a_host_that_is_not_known_is_refused_with_the_nearest_name(daemon: DaemonProcess) -> None:
    from gym_gui.services.trainer.client import ClientError

    with pytest.raises(ClientError, match=r"no host 'nod1'.*did you mean 'node1'"):
        far_run(daemon, host="nod1")


def test_a_changed_host_key_is_told_with_the_words_of_ssh(root: Path, node: FarHost, daemon: DaemonProcess) -> None:
    other = FarHost(root, "node2", hidden=[root / "home"])
    try:
        other.change_host_key()
        other.start(check=False)
        Path(daemon.env["MOSAIC_SSH_CONFIG"]).write_text(node.ssh_lines() + "\n" + other.ssh_lines())
        other.add_to(daemon.paths)
        run_id = far_run(daemon, host="node2")
        sentence = wait_for("the reason", lambda: daemon.client.run(run_id).reason)
        assert "changed" in wait_for("ssh's words", lambda: _with(daemon.client.run(run_id).reason, "key")), sentence
        here = daemon.submit(name="here", total_timesteps=3)
        assert daemon.wait_over(here).outcome == "completed", "nobody here waits for a host"
        daemon.client.cancel(run_id)
        daemon.wait_over(run_id)
    finally:
        HostBook(daemon.paths).remove("node2")
        other.remove()


def _with(text: str, word: str) -> str | None:
    return text if word in text else None


@pytest.mark.nightly
def test_a_host_that_stays_away_has_its_runs_closed_as_lost_and_read_later(root: Path, node: FarHost) -> None:
    home = root / "short"
    home.mkdir()
    daemon = DaemonProcess(home, host_hours=10 / 3600, journal_seconds=1)
    daemon.env["MOSAIC_SSH_CONFIG"] = str(node.write_ssh_config())
    node.add_to(daemon.paths)
    try:
        daemon.start()
        run_id = far_run(daemon, steps=100_000)
        wait_step(daemon, run_id, 20)
        node.cut()
        try:
            run = daemon.wait_over(run_id)
        finally:
            node.mend()
        assert run.outcome == "lost" and "was away" in run.reason
        wait_for("its journal to be read", lambda: not daemon.client.run(run_id).journal_unread)
        assert node.pids("toy_worker", run_id) == [], "what is lost is ended when it is found"
        steps = steps_of(daemon, run_id)
        assert steps == list(range(1, len(steps) + 1))
    finally:
        daemon.clean_up()


@pytest.mark.nightly
def test_runs_spread_over_two_hosts_lose_nothing_to_a_cut_and_a_killed_daemon(root: Path, node: FarHost) -> None:
    """In the middle one host is cut off, and the daemon killed while it is."""
    home = root / "spread"
    home.mkdir()
    other = FarHost(root, "node2", hidden=[home])
    daemon = DaemonProcess(home, cpus=1)
    daemon.env["MOSAIC_SSH_CONFIG"] = str(node.write_ssh_config(other))
    try:
        other.start()
        for host in (node, other):
            host.add_to(daemon.paths, cpus=2)
        daemon.start()
        runs = [far_run(daemon, steps=400, host="any", name=f"run-{number}") for number in range(8)]
        wait_for("both hosts to have runs", lambda: {"node1", "node2"} <= {daemon.client.run(one).host for one in runs})
        wait_for("them to train", lambda: any(daemon.client.run(one).last_step > 20 for one in runs))
        other.cut()
        try:
            wait_for("the cut to be told", lambda: any(daemon.client.run(one).host_away for one in runs))
            daemon.kill()
            daemon.start()
        finally:
            other.mend()
        for run_id in runs:
            assert daemon.wait_over(run_id, timeout=120).outcome == "completed", daemon._describe(run_id)
            assert steps_of(daemon, run_id) == list(range(1, 401))
            assert daemon.starts(run_id) == 1
        registry = daemon.registry()
        try:
            check_history(registry, **daemon.has_cpus)
        finally:
            registry.close()
        for host in (node, other):
            wait_for("nothing to be left there", lambda host=host: not left_on(host, runs))
    finally:
        daemon.clean_up()
        other.remove()


def left_on(host: FarHost, runs: list[str]) -> list[str]:
    return [run_id for run_id in host.run("ls", str(host.disk / "mosaic/trainer/runs")).split() if run_id in runs]


# ---- environments --------------------------------------------------------------------------------------------------


def test_an_environment_is_built_over_there_and_a_build_that_ends_early_leaves_nothing(
    root: Path, node: FarHost, daemon: DaemonProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = dropped_worker(tmp_path / "workers")
    bundles = next(folder.glob("*/worker.toml")).parent / "requirements"
    bundles.mkdir()
    wheel = make_wheel(tmp_path, "tiny", "1.0")
    (bundles / "tiny.txt").write_text(f"tiny @ {wheel.as_uri()}\n")
    (bundles / "slow.txt").write_text(f"tiny @ {wheel.as_uri()}\nnowhere @ {wheel.as_uri()}\n")
    monkeypatch.setenv("MOSAIC_WORKER_PATH", str(folder))
    monkeypatch.setenv("MOSAIC_SSH_CONFIG", daemon.env["MOSAIC_SSH_CONFIG"])
    host, said = HostBook(daemon.paths).get("node1"), list[str]()
    built = build(host, ["tiny"], said.append)
    assert list(built.directories) == ["tiny"] and not built.uses_built_python, "its interpreter has the base"
    assert any(line.startswith("Creating") for line in said)
    assert node.run(f"{built.directories['tiny']}/bin/python", "-c", "import tiny; print(tiny.version)") == "1.0\n"
    cancel = threading.Event()
    with pytest.raises(BuildError, match="it was cancelled"):
        build(host, ["slow"], lambda line: cancel.set() if line.startswith("Creating") else None, cancel=cancel)
    wait_for("what was under way to end", lambda: not node.pids("hosts.building") and not node.pids("-m pip"))
    assert ask(host, pack()).bundles == ("tiny",)
    run_id = far_run(daemon)
    assert_whole(daemon, node, run_id)


# ---- what runs begin from ------------------------------------------------------------------------------------------


def learner_run(daemon: DaemonProcess, **settings: Any) -> str:
    config = toy_config(worker="learner", total_timesteps=100_000, params={"step_seconds": 0.02}, **settings)
    config["resources"]["host"] = "node1"
    if "script" in settings:
        config["metadata"]["worker"]["config"].pop("algo")
    return daemon.client.submit(config).run.run_id


def test_a_dataset_travels_once_and_a_script_of_ones_own_is_the_one_that_was_allowed(
    root: Path, daemon: DaemonProcess, node: FarHost
) -> None:
    dataset = daemon.paths.dataset("swings")
    dataset.mkdir(parents=True)
    data = os.urandom(3 * 2**20 + 17)
    (dataset / "data.hdf5").write_bytes(data)
    (dataset / "manifest.json").write_text("{}")
    script = root / "my_script.py"
    script.write_text("print('mine')\n")
    inputs = node.disk / "mosaic" / "trainer" / "inputs"

    def there(run_id: str, name: str) -> list[str]:
        return node.run("stat", "-c", "%i %s", str(inputs / run_id / name)).split()

    runs = [learner_run(daemon, dataset="swings") for _ in range(2)]
    for run_id in runs:
        daemon.wait_state(run_id, "EXEC")
    first, second = (there(run_id, "datasets/swings/data.hdf5") for run_id in runs)
    assert first == second and first[1] == str(len(data)), "it is there once, whole, for both"
    pid = str(node.pids("learner_worker", runs[0])[0])
    around = node.run("cat", f"/proc/{pid}/environ").split("\0")
    assert f"MOSAIC_DATASETS={inputs / runs[0] / 'datasets'}" in around
    for one in runs:  # a host in a test may have few CPUs
        daemon.client.cancel(one)
    run_id = learner_run(daemon, script=str(script))
    daemon.wait_state(run_id, "EXEC")
    assert node.run("cat", str(inputs / run_id / "script" / "my_script.py")) == script.read_text()
    pid = str(node.pids("learner_worker", run_id)[0])
    digest = hashlib.sha256(script.read_bytes()).hexdigest()
    assert f"MOSAIC_SCRIPT_SHA256={digest}" in node.run("cat", f"/proc/{pid}/environ").split("\0")
    daemon.client.cancel(run_id)
    for one in (*runs, run_id):
        assert daemon.wait_over(one).outcome == "canceled"
        wait_for("what it began from to go", lambda one=one: one not in node.run("ls", str(inputs)))


# ---- more that goes wrong ------------------------------------------------------------------------------------------


def test_a_second_daemon_on_the_same_host_leaves_the_runs_of_the_first_alone(
    root: Path, daemon: DaemonProcess, node: FarHost
) -> None:
    """They share the agent and its folder, and each knows its own runs alone."""
    (root / "second").mkdir()
    other = DaemonProcess(root / "second")
    other.env["MOSAIC_SSH_CONFIG"] = daemon.env["MOSAIC_SSH_CONFIG"]
    node.add_to(other.paths)
    gate = node.disk / "after the second"
    first = far_run(daemon, steps=200, params={"gate": str(gate), "gate_at": 190})
    wait_step(daemon, first, 5)
    try:
        other.start()
        second = far_run(other, steps=20)
        assert other.wait_over(second).outcome == "completed"
        assert steps_of(other, second) == list(range(1, 21))
        with pytest.raises(NoSuchRunError):
            other.client.run(first)
        wait_for("its files to go", lambda: second not in node.run("ls", str(node.disk / "mosaic/trainer/runs")))
        assert other.terminate() == 0
    finally:
        other.clean_up()
    node.run("touch", str(gate))
    assert_whole(daemon, node, first, steps=200)


def test_a_disk_that_is_full_over_there_costs_no_point(daemon: DaemonProcess, node: FarHost) -> None:
    run_id = far_run(daemon, steps=400)
    wait_step(daemon, run_id, 20)
    used = node.run("df", "--output=used", "-k", str(node.disk)).split()[1]
    node.run("mount", "-o", f"remount,size={used}k", str(node.disk))
    try:
        wait_for("the run to say so", lambda: daemon.client.run(run_id).throttled)
    finally:
        node.run("mount", "-o", "remount,size=50%", str(node.disk))
    assert_whole(daemon, node, run_id, steps=400)


_VICTIMS = ("daemon", "mosaic_host.attach", "-m mosaic_host --home", "sshd: root@")


@pytest.mark.nightly
@pytest.mark.parametrize("pair", list(permutations(_VICTIMS, 2)), ids=" then ".join)
def test_two_that_are_killed_in_any_order_cost_no_point(
    daemon: DaemonProcess, node: FarHost, pair: tuple[str, str]
) -> None:
    """The second one while the first is being missed."""
    gate = node.disk / f"gate {_VICTIMS.index(pair[0])} {_VICTIMS.index(pair[1])}"
    run_id = far_run(daemon, steps=300, params={"gate": str(gate), "gate_at": 290})
    wait_step(daemon, run_id, 20)
    for victim in pair:
        if victim == "daemon":
            daemon.kill()
        else:
            node.kill(victim)
    if "daemon" in pair:
        daemon.start()
    node.run("touch", str(gate))
    assert_whole(daemon, node, run_id, steps=300)


@pytest.mark.nightly
@pytest.mark.parametrize("seconds", [20, 90])
def test_a_link_that_is_cut_for_a_while_costs_no_point(daemon: DaemonProcess, node: FarHost, seconds: int) -> None:
    gate = node.disk / f"after {seconds}"
    run_id = far_run(daemon, steps=600, params={"gate": str(gate), "gate_at": 590})
    wait_step(daemon, run_id, 20)
    node.cut()
    try:
        time.sleep(seconds)  # what is tested is how long
    finally:
        node.mend()
    node.run("touch", str(gate))
    assert_whole(daemon, node, run_id, steps=600)
