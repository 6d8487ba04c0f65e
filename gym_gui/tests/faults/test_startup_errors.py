"""A daemon that cannot start says in one sentence what is wrong and what to do, and damages nothing."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from gym_gui.services.trainer.client import ClientError
from gym_gui.services.trainer.daemon import _make_folders
from gym_gui.services.trainer.daemon_control import EXIT_ALREADY_RUNS, answers
from gym_gui.services.trainer.instance_lock import holder
from gym_gui.tests.faults.small_disk import SmallDisk, on_a_small_disk
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import refused, steps_of
from mosaic_protocol.paths import MosaicPaths

MakeDaemon = Callable[..., DaemonProcess]


def used_home(daemon: DaemonProcess) -> str:
    """Let a daemon live, finish one run and end; that run."""
    daemon.start()
    run_id = daemon.submit(total_timesteps=5)
    assert daemon.wait_over(run_id).outcome == "completed"
    assert daemon.terminate() == 0
    return run_id


# ---- the address -----------------------------------------------------------------------------------------------------


def test_a_port_in_use_is_reported_with_the_way_out(make_daemon: MakeDaemon) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = refused(make_daemon("--port", str(port)))
    assert f"127.0.0.1:{port}" in sentence
    assert "--port" in sentence


def test_an_address_of_another_machine_is_reported(make_daemon: MakeDaemon) -> None:
    assert "192.0.2.1" in refused(make_daemon("--host", "192.0.2.1"))


# ---- the data root ---------------------------------------------------------------------------------------------------


def test_a_file_in_place_of_the_data_root_is_reported(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("not a folder")
    sentence = refused(make_daemon(home=home))
    assert str(home) in sentence and "MOSAIC_HOME" in sentence
    assert home.read_text() == "not a folder"


@pytest.mark.parametrize("part", ["trainer/token", "logs/trainer/daemon.jsonl"])
def test_a_folder_in_place_of_a_file_is_reported(make_daemon: MakeDaemon, tmp_path: Path, part: str) -> None:
    home = tmp_path / "home"
    (home / part).mkdir(parents=True)
    sentence = refused(make_daemon(home=home))
    assert str(home / part) in sentence


@on_a_small_disk
def test_a_read_only_data_root_is_reported(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "disk", megabytes=4)
    disk.mount()
    try:
        subprocess.run(["mount", "-o", "remount,ro", str(disk.point)], check=True)
        sentence = refused(make_daemon(home=disk.point / "home"))
    finally:
        disk.unmount()
    assert "Read-only file system" in sentence and "MOSAIC_HOME" in sentence


@pytest.mark.parametrize("mode", [0o000, 0o500])
@pytest.mark.parametrize("part", ["home", "home/trainer", "home/logs"])
def test_a_data_root_without_permission_is_reported(
    make_daemon: MakeDaemon, tmp_path: Path, part: str, mode: int
) -> None:
    folder = tmp_path / part
    folder.mkdir(parents=True)
    folder.chmod(mode)
    daemon = make_daemon(home=tmp_path / "home")
    try:
        sentence = refused(daemon, prefix=bound_by_permissions())
    finally:
        folder.chmod(0o700)
    assert "Permission denied" in sentence and "MOSAIC_HOME" in sentence


def bound_by_permissions() -> tuple[str, ...]:
    """What takes from root the power to ignore permissions; nothing when we are not root."""
    if os.geteuid() != 0:
        return ()
    assert shutil.which("setpriv"), "setpriv is missing: install the package with `apt-get install util-linux`"
    return ("setpriv", "--inh-caps=-all", "--bounding-set=-all", "--")


def test_an_empty_token_file_left_by_a_crash_is_no_obstacle(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    token = tmp_path / "home" / "trainer" / "token"
    token.parent.mkdir(parents=True)
    token.touch()
    daemon = make_daemon().start()
    assert len(token.read_text()) > 20
    assert token.stat().st_mode & 0o777 == 0o600
    assert daemon.client.health().pid


# ---- the databases ---------------------------------------------------------------------------------------------------


def garbage(path: Path) -> None:
    path.write_bytes(b"this was a database once\n" * 400)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3000])


def scribbled_over(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:8192] = os.urandom(4096)
    path.write_bytes(content)


def scribbled_over_all_but_the_first_page(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:4096] + os.urandom(len(content) - 4096))


@pytest.mark.parametrize("damage", [garbage, cut_off, scribbled_over])
@pytest.mark.parametrize("name", ["registry_db", "telemetry_db"])
def test_a_damaged_database_is_kept_aside_and_reported(
    make_daemon: MakeDaemon, name: str, damage: Callable[[Path], None]
) -> None:
    daemon = make_daemon()
    run_id = used_home(daemon)
    path: Path = getattr(daemon.paths, name)
    damage(path)
    damaged = path.read_bytes()

    sentence = refused(daemon)
    assert str(path) in sentence and "damaged" in sentence
    kept = re.search(r"kept as (\S+)\. ", sentence)
    assert kept is not None and Path(kept[1]).read_bytes() == damaged
    assert "start the daemon again" in sentence

    daemon.start()
    fresh = daemon.submit(total_timesteps=5)
    assert daemon.wait_over(fresh).outcome == "completed"
    assert steps_of(daemon, fresh) == [1, 2, 3, 4, 5]
    assert Path(kept[1]).read_bytes() == damaged
    assert daemon.paths.run(run_id).directory.is_dir()


def test_a_damaged_registry_is_kept_as_it_is_also_after_a_kill(make_daemon: MakeDaemon) -> None:
    """A killed daemon leaves part of its database in the write-ahead log; that is kept untouched too."""
    daemon = make_daemon().start()
    blocker = daemon.submit(total_timesteps=1_000_000, cpus=8)
    for number in range(100):
        daemon.submit(name=f"fills-a-page-{number}", cpus=8)
    assert daemon.terminate() == 0
    daemon.start()
    daemon.client.cancel(blocker)
    daemon.wait_over(blocker)
    daemon.kill()
    path = daemon.paths.registry_db
    wal = path.with_name(path.name + "-wal")
    scribbled_over_all_but_the_first_page(path)
    before = path.read_bytes(), wal.read_bytes()
    assert before[1], "there is no write-ahead log to keep"
    kept = re.search(r"kept as (\S+)\. ", refused(daemon))
    assert kept is not None
    assert (Path(kept[1]).read_bytes(), Path(kept[1] + "-wal").read_bytes()) == before


def test_the_copy_beside_a_damaged_registry_can_be_brought_back(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    run_id = used_home(daemon)
    daemon.start()
    copy = daemon.paths.registry_db.with_name("registry.backup.sqlite")
    wait_for("the copy to hold the run", lambda: run_id in runs_in(copy))
    assert daemon.terminate() == 0
    garbage(daemon.paths.registry_db)
    command = re.search(r"(cp .*?); or ", refused(daemon))
    assert command is not None
    subprocess.run(shlex.split(command[1]), check=True)
    daemon.start()
    assert daemon.client.run(run_id).outcome == "completed"


def test_the_copy_outlives_a_daemon_that_began_an_empty_registry(make_daemon: MakeDaemon) -> None:
    """Any command starts the next daemon, perhaps before anybody has read the sentence of this one."""
    daemon = make_daemon()
    run_id = used_home(daemon)
    daemon.start()
    recent = daemon.paths.registry_db.with_name("registry.backup.sqlite")
    wait_for("the copy to hold the run", lambda: run_id in runs_in(recent))
    assert daemon.terminate() == 0
    garbage(daemon.paths.registry_db)
    told = re.search(r"cp (\S+) \S+; or ", refused(daemon))
    assert told is not None
    daemon.start()
    wait_for("the empty registry to be copied", lambda: recent.exists() and runs_in(recent) == set())
    assert run_id in runs_in(Path(told[1]))


def test_damaged_telemetry_that_is_too_large_to_be_checked_takes_no_run_with_it(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    daemon = make_daemon().start()
    run_id = daemon.submit(total_timesteps=20, gate=str(gate), gate_at=10)
    wait_for("the run to wait at its gate", lambda: len(steps_of(daemon, run_id)) == 9)
    assert daemon.terminate() == 0
    path = daemon.paths.telemetry_db
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = ((1, "step", row, "padding", row, b"x" * 900) for row in range(1, 90_000))
        connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", rows)
    with path.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(os.urandom(4096 * 40))
    daemon.start()
    assert daemon.client.run(run_id).state == "EXEC"
    with pytest.raises(ClientError, match="is damaged"):
        daemon.client.metrics(run_id)
    gate.touch()
    daemon.wait_over(run_id)
    assert daemon.client.health().reserved.cpus == 0


def runs_in(database: Path) -> set[str]:
    if not database.exists():
        return set()
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return {row[0] for row in connection.execute("SELECT run_id FROM runs")}


@pytest.mark.parametrize("name", ["registry_db", "telemetry_db"])
def test_a_database_of_a_newer_mosaic_is_left_alone(make_daemon: MakeDaemon, name: str) -> None:
    daemon = make_daemon()
    used_home(daemon)
    path: Path = getattr(daemon.paths, name)
    version = set_version(path, 99)
    sentence = refused(daemon)
    assert "schema version 99" in sentence and "update MOSAIC" in sentence
    assert path.exists() and not list(path.parent.glob("*.damaged-*"))
    set_version(path, version)
    assert daemon.start().client.runs().total == 1


def set_version(path: Path, version: int) -> int:
    """Change the schema version of a database; the one it had."""
    with closing(sqlite3.connect(path)) as connection:
        before = int(connection.execute("PRAGMA user_version").fetchone()[0])
        connection.execute(f"PRAGMA user_version={version}")
    return before


# ---- the lock --------------------------------------------------------------------------------------------------------


def test_a_second_daemon_says_who_holds_the_lock(make_daemon: MakeDaemon) -> None:
    first = make_daemon().start()
    assert first.process is not None
    sentence = refused(make_daemon())
    assert f"process {first.process.pid}" in sentence and str(first.paths.socket) in sentence
    assert first.client.health().pid == first.process.pid


def test_of_daemons_that_start_together_one_serves(make_daemon: MakeDaemon) -> None:
    daemons = [make_daemon() for _ in range(4)]
    processes = [daemon.launch() for daemon in daemons]
    try:
        wait_for("all but one to leave", lambda: sum(process.poll() == EXIT_ALREADY_RUNS for process in processes) == 3)
    except AssertionError as error:
        told = [(process.poll(), daemon.output()[-500:]) for process, daemon in zip(processes, daemons, strict=True)]
        raise AssertionError(f"{error}; statuses and last words: {told}") from error
    (winner,) = (daemon for daemon in daemons if daemon.process is not None and daemon.process.poll() is None)
    wait_for("the one that stayed to answer", lambda: answers(winner.paths))  # it has the lock before it listens
    run_id = winner.submit(total_timesteps=5)
    assert winner.wait_over(run_id).outcome == "completed"


def test_daemons_that_try_a_folder_at_once_are_not_in_each_others_way(tmp_path: Path) -> None:
    paths = MosaicPaths(tmp_path / "home")
    with ThreadPoolExecutor(8) as together:
        for done in [together.submit(_make_folders, paths) for _ in range(2000)]:
            done.result()
    assert not [path for path in paths.trainer.iterdir() if path.is_file()]


def test_the_lock_of_a_dead_daemon_is_no_obstacle(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    daemon.kill()
    left = json.loads(daemon.paths.daemon_file.read_text())
    assert left["pid"] and holder(daemon.paths) is None
    daemon.start()
    assert daemon.client.health().pid != left["pid"]


def test_asking_who_holds_the_lock_keeps_no_daemon_from_starting(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    daemon.paths.trainer.mkdir(parents=True)
    enough = threading.Event()

    def keep_asking() -> None:
        while not enough.is_set():
            holder(daemon.paths)

    askers = [threading.Thread(target=keep_asking) for _ in range(3)]
    for asker in askers:
        asker.start()
    try:
        for _ in range(3):
            daemon.start()
            daemon.kill()
    finally:
        enough.set()
        for asker in askers:
            asker.join()
