"""The fork server, spoken to over its socket as the daemon does."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mosaic_protocol.fork_server import is_warm
from mosaic_protocol.process_identity import ProcessIdentity, stat_fields

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0

_WARM = """
import os
def warm_up(): print("warmed up", flush=True)
def after_fork(): os.environ["AFTER_FORK"] = str(os.getpid())
"""
_WORKER = """
import os, random, sys, time
from mosaic_protocol.fork_server import is_warm
what, *rest = sys.argv[1:]
if what == "leave":
    sys.exit(int(rest[0]))
if what == "hold":
    time.sleep(600)
if what == "show":
    after_fork = os.environ.get("AFTER_FORK") == str(os.getpid())
    print(is_warm(), after_fork, os.environ.get("GIVEN", "unset"), random.random())
"""


class Server:
    """A fork server of one's own, and the daemon's end of its socket."""

    def __init__(self, folder: Path, warm: str = _WARM) -> None:
        self.folder = folder
        (folder / "served").mkdir()
        (folder / "served" / "__init__.py").touch()
        (folder / "served" / "warm.py").write_text(warm)
        (folder / "served" / "worker.py").write_text(_WORKER)
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(PATIENCE)
        self.workers: list[ProcessIdentity | None] = []
        self._lines = self.socket.makefile("rb")
        self._exits: dict[int, int] = {}
        command = [sys.executable, "-m", "mosaic_protocol.fork_server", "--socket-fd", str(theirs.fileno())]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
        with theirs, (folder / "server.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--warm", "served.warm"],
                env=env,
                pass_fds=[theirs.fileno()],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def hear(self) -> dict[str, Any]:
        line = self._lines.readline()
        return dict(json.loads(line)) if line else {}

    def ask(self, *argv: str, number: int = 1, module: str = "served.worker", **changes: Any) -> bytes:
        request = {
            "id": number,
            "module": module,
            "argv": argv,
            "env": {"PATH": os.environ["PATH"]},
            "cwd": str(self.folder),
            "stdout": str(self.folder / "out"),
            "stderr": str(self.folder / "err"),
            **changes,
        }
        return json.dumps(request).encode() + b"\n"

    def start(self, *argv: str, **more: Any) -> int:
        self.socket.sendall(self.ask(*argv, **more))
        while "pid" not in (answer := self.hear()):
            self._note_exit(answer)
        self.workers.append(ProcessIdentity.of(answer["pid"]))
        return int(answer["pid"])

    def status_of(self, pid: int) -> int:
        while pid not in self._exits:
            self._note_exit(self.hear())
        return self._exits[pid]

    def _note_exit(self, message: dict[str, Any]) -> None:
        assert "exit" in message, message
        self._exits[message["exit"]] = message["status"]

    def hang_up(self) -> None:
        self._lines.close()
        self.socket.close()

    def clean_up(self) -> None:
        self.hang_up()
        self.process.kill()
        self.process.wait()
        for worker in self.workers:
            if worker is not None and worker.is_alive():
                os.kill(worker.pid, signal.SIGKILL)


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def make(**more: str) -> Server:
        made.append(Server(tmp_path, **more))
        return made[-1]

    yield make
    for server in made:
        server.clean_up()


@pytest.fixture
def server(make_server: Callable[..., Server]) -> Server:
    made = make_server()
    assert made.hear() == {"ready": True}, (made.folder / "server.log").read_text()
    return made


def until(probe: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not probe():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_it_warms_up_once_before_it_is_ready(server: Server) -> None:
    assert (server.folder / "server.log").read_text() == "warmed up\n"


@pytest.mark.parametrize("status", [0, 3, 255])
def test_it_reports_the_pid_and_later_the_exit_status(server: Server, status: int) -> None:
    assert server.status_of(server.start("leave", str(status))) == status


def test_it_reports_the_signal_that_ended_a_worker(server: Server) -> None:
    pid = server.start("hold")
    os.kill(pid, signal.SIGTERM)
    assert server.status_of(pid) == -signal.SIGTERM


def test_a_worker_knows_that_it_is_warm_and_has_had_its_after_fork(server: Server) -> None:
    assert not is_warm()
    server.status_of(server.start("show", env={"GIVEN": "yes"}))
    assert (server.folder / "out").read_text().split()[:3] == ["True", "True", "yes"]


def test_workers_do_not_share_their_random_numbers_or_their_environment(server: Server) -> None:
    server.status_of(server.start("show", env={"GIVEN": "to the first"}))
    server.status_of(server.start("show", number=2))
    lines = (server.folder / "out").read_text().splitlines()
    assert lines[0].split()[-1] != lines[1].split()[-1]
    assert "unset" in lines[1]


def test_many_workers_leave_no_zombies(server: Server) -> None:
    pids = [server.start("leave", "0", number=number) for number in range(20)]
    assert len(set(pids)) == 20
    assert [server.status_of(pid) for pid in pids] == [0] * 20
    assert [pid for pid in pids if stat_fields(pid) is not None] == []


def test_requests_may_come_in_pieces_or_several_at_once(server: Server) -> None:
    first, rest = (
        server.ask("leave", "1", number=1),
        server.ask("leave", "2", number=2) + server.ask("leave", "3", number=3),
    )
    server.socket.sendall(first[:10])
    time.sleep(0.05)
    server.socket.sendall(first[10:] + rest)
    heard = [server.hear() for _ in range(6)]
    server.workers += [ProcessIdentity.of(message["pid"]) for message in heard if "pid" in message]
    assert sorted(message["id"] for message in heard if "id" in message) == [1, 2, 3]
    assert sorted(message["status"] for message in heard if "exit" in message) == [1, 2, 3]


def test_a_large_environment_fits(server: Server) -> None:
    pid = server.start("show", env={"GIVEN": "x" * 120_000})
    assert server.status_of(pid) == 0
    assert (server.folder / "out").stat().st_size > 120_000


def test_a_module_that_does_not_exist_is_the_workers_failure_and_not_the_servers(server: Server) -> None:
    assert server.status_of(server.start(module="served.nowhere")) == 1
    assert "served.nowhere" in (server.folder / "err").read_text()
    assert server.status_of(server.start("leave", "0", number=2)) == 0


def test_when_the_daemon_goes_the_server_ends_and_its_workers_live_on(server: Server) -> None:
    pid = server.start("hold")
    worker = ProcessIdentity.of(pid)
    assert worker is not None
    server.hang_up()
    assert server.process.wait(PATIENCE) == 0
    assert worker.is_alive()


def test_a_daemon_that_goes_without_listening_is_no_error(server: Server) -> None:
    pid = server.start("hold")
    os.kill(pid, signal.SIGKILL)
    until(lambda: ProcessIdentity.of(pid) is None)
    server.hang_up()
    assert server.process.wait(PATIENCE) == 0
    assert "Traceback" not in (server.folder / "server.log").read_text()


def test_a_worker_outlives_the_death_of_the_server(server: Server) -> None:
    worker = ProcessIdentity.of(server.start("hold"))
    assert worker is not None
    server.process.kill()
    server.process.wait()
    assert worker.is_alive()


def test_an_interrupt_from_the_keyboard_does_not_end_the_server(server: Server) -> None:
    server.process.send_signal(signal.SIGINT)
    assert server.status_of(server.start("leave", "0")) == 0


def test_the_server_stays_single_threaded(server: Server) -> None:
    server.status_of(server.start("leave", "0"))
    assert len(os.listdir(f"/proc/{server.process.pid}/task")) == 1


def test_a_worker_keeps_nothing_of_the_servers_open(server: Server) -> None:
    pid = server.start("hold")
    until(lambda: os.readlink(f"/proc/{pid}/fd/1") == str(server.folder / "out"))
    until(lambda: len(os.listdir(f"/proc/{pid}/fd")) == 3)


def test_threads_after_the_warm_up_are_refused(make_server: Callable[..., Server]) -> None:
    threaded = "import threading\ndef warm_up(): threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    server = make_server(warm=threaded)
    answer = server.hear()
    assert "2 threads" in answer["refused"]
    assert server.process.wait(PATIENCE) == 1


def test_a_warm_up_that_fails_ends_the_server_with_its_traceback(make_server: Callable[..., Server]) -> None:
    server = make_server(warm="def warm_up(): raise ImportError('no such library')\n")
    assert server.hear() == {}
    assert server.process.wait(PATIENCE) == 1
    assert "ImportError: no such library" in (server.folder / "server.log").read_text()


@pytest.mark.parametrize("missing", ["stdout", "stderr", "cwd"])
def test_a_worker_waits_for_a_folder_that_is_away_for_a_moment(server: Server, tmp_path: Path, missing: str) -> None:
    """It could not say why it died: its log is what it cannot open."""
    away = tmp_path / "away"
    pid = server.start("leave", "7", **{missing: str(away if missing == "cwd" else away / "log")})
    until(lambda: b"waiting to" in (tmp_path / "server.log").read_bytes() + _read(tmp_path / "err"))
    away.mkdir()
    assert server.status_of(pid) == 7


def _read(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""
