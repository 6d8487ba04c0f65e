"""Programs of tests are forked from a process that has imported what they need, and are what executed ones would be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.trainer.daemon_control import EXIT_ALREADY_RUNS
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.marked_processes import command_of, environment_of, processes_using
from gym_gui.tests.support.warm_popen import COLD

MakeDaemon = Callable[..., DaemonProcess]

# A worker only by its name. What it tells is what a program can find out about itself.
PROGRAM = """
import atexit, json, os, random, signal, sys, threading, time
from pathlib import Path

def tell():
    listed = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    fds = [number for number in listed if os.path.exists(f"/proc/self/fd/{number}")]
    ids = {"ppid": os.getppid(), "sid": os.getsid(0) == os.getpid(), "cwd": os.getcwd(), "umask": os.umask(0o77)}
    handlers = [str(signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)]
    streams = [(one.encoding, one.errors, one.line_buffering) for one in (sys.stdin, sys.stdout, sys.stderr)]
    searched = [sys.path[0], *sys.path[1:3]]
    return {**ids, "fds": fds, "argv": sys.argv, "orig": sys.orig_argv, "env": dict(os.environ), "path": searched,
            "handlers": handlers, "streams": streams, "main": sorted(vars(sys.modules["__main__"]))[:5],
            "threads": threading.active_count(), "executable": sys.executable, "spec": __spec__.name,
            "file": __file__, "flags": str(sys.flags), "modules": "odd_worker.cli" in sys.modules}

word = sys.argv[1] if len(sys.argv) > 1 else ""
if word == "tell":
    print(json.dumps(tell()))
elif word == "echo":
    print(sys.stdin.read().upper(), end="")
    print("err", file=sys.stderr)
elif word == "leave":
    atexit.register(print, "at exit")
    threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
    left_open = open("left.txt", "w")
    left_open.write("written")
    sys.exit(int(sys.argv[2]) if sys.argv[2].isdecimal() else sys.argv[2])
elif word == "raise":
    raise ValueError("broken")
elif word == "wait":
    print("waits", flush=True)
    time.sleep(60)
elif word == "signal_itself":
    other = threading.main_thread().ident
    signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))
    threading.Thread(target=lambda: (time.sleep(0.05), signal.pthread_kill(other, signal.SIGUSR1))).start()
    time.sleep(60)
elif word == "random":
    print(random.random())
"""


@pytest.fixture
def odd(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    package = tmp_path / "packages" / "odd_worker"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "cli.py").write_text(PROGRAM)

    def start(*words: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
        given = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        variables = {**os.environ, "PYTHONPATH": str(tmp_path / "packages"), **(env or {})}
        command = [sys.executable, "-m", "odd_worker.cli", *words]
        return subprocess.Popen(command, env=variables, cwd=options.pop("cwd", tmp_path), **{**given, **options})

    return start


Odd = Callable[..., "subprocess.Popen[str]"]


def both(odd: Odd, *words: str, **options: Any) -> list[tuple[int, str, str]]:
    """How it ends forked, and executed."""
    ended = []
    for more in ({}, {COLD: "1"}):
        with odd(*words, env=more, **options) as process:
            out, err = process.communicate("in", timeout=60)
        ended.append((process.returncode, out, err))
    return ended


def test_a_fork_is_told_from_an_execution_by_nothing(odd: Odd) -> None:
    reader, writer = os.pipe()
    before = os.umask(0o027)  # not the one that the warm process was started with
    try:
        forked, executed = (
            json.loads(out) for _, out, _ in both(odd, "tell", "a b", "", start_new_session=True, pass_fds=[writer])
        )
    finally:
        os.umask(before)
        os.close(reader)
        os.close(writer)
    assert executed["env"].pop(COLD) == "1"
    assert forked == executed
    assert forked["umask"] == 0o027
    assert forked["ppid"] == os.getpid() and forked["sid"] and writer in forked["fds"]


@pytest.mark.parametrize(
    "words", [("echo",), ("leave", "3"), ("leave", "0"), ("leave", "a sentence"), ("signal_itself",)]
)
def test_streams_and_ends_are_those_of_an_execution(odd: Odd, words: tuple[str, ...], tmp_path: Path) -> None:
    forked, executed = both(odd, *words)
    assert forked == executed
    assert words[0] != "leave" or (tmp_path / "left.txt").read_text() == "written"


def test_an_exception_is_shown_and_ends_it(odd: Odd) -> None:
    (code, _, err), _ = both(odd, "raise")
    assert code == 1 and err.splitlines()[-1] == "ValueError: broken"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_signal_ends_it_and_its_parent_sees_which(odd: Odd, number: signal.Signals) -> None:
    with odd("wait") as process:
        assert process.stdout is not None and process.stdout.readline() == "waits\n"
        assert command_of(process.pid) == f"{sys.executable} -m odd_worker.cli wait"
        process.send_signal(number)
        assert process.wait(60) == -number


def test_forks_do_not_share_their_random_numbers(odd: Odd) -> None:
    (first, _), (second, _) = both(odd, "random"), both(odd, "random")
    assert first[1] != second[1]


def test_packages_of_its_own_are_not_hidden_by_what_was_imported(odd: Odd, tmp_path: Path) -> None:
    other = tmp_path / "packages" / "msgspec" / "__init__.py"
    other.parent.mkdir()
    other.touch()
    (tmp_path / "packages" / "odd_worker" / "cli.py").write_text("import msgspec; print(msgspec.__file__)")
    with odd() as process:
        assert process.communicate(timeout=60)[0] == f"{other}\n"


# ---- daemons -----------------------------------------------------------------------------------------------------


def is_forked(pid: int) -> bool:
    """The block of a fork is longer than what it shows."""
    return Path(f"/proc/{pid}/environ").read_bytes().endswith(b"\0\0")


def test_a_forked_daemon_is_found_by_its_data_root_and_carries_its_environment(daemon: DaemonProcess) -> None:
    assert daemon.process is not None and is_forked(daemon.process.pid)
    assert processes_using(daemon.paths.root) == [daemon.process.pid]
    shown = environment_of(daemon.process.pid)
    assert daemon.env.items() - shown.items() == set()
    assert "MOSAIC_RUN_ID" not in shown
    run_id = daemon.submit(total_timesteps=10_000_000)
    daemon.wait_state(run_id, "EXEC")
    (worker,) = daemon.processes(run_id)
    assert is_forked(worker.pid) and environment_of(worker.pid)["MOSAIC_RUN_ID"] == run_id
    daemon.client.cancel(run_id)
    assert daemon.wait_over(run_id).outcome == "canceled"


def test_how_a_forked_daemon_ended_is_known_and_what_it_forks_from_ends_with_it(make_daemon: MakeDaemon) -> None:
    killed, stopped, refused = make_daemon(), make_daemon(), make_daemon()
    killed.start()
    assert killed.process is not None
    children = Path(f"/proc/{killed.process.pid}/task/{killed.process.pid}/children").read_text().split()
    assert refused.launch().wait(60) == EXIT_ALREADY_RUNS
    assert killed.process.poll() is None
    killed.kill()
    assert killed.process.poll() == -signal.SIGKILL
    wait_for("its warm parent to end", lambda: not any(command_of(int(pid)) for pid in children))
    assert stopped.start().terminate() == 0


@pytest.mark.parametrize("variable", ["PYTHONHASHSEED", "LD_BIND_NOW"])
def test_what_an_interpreter_reads_when_it_starts_has_a_daemon_executed(make_daemon: MakeDaemon, variable: str) -> None:
    daemon = make_daemon()
    daemon.env[variable] = "1"
    process = daemon.launch()
    wait_for("its environment to be there", lambda: environment_of(process.pid).get(variable) == "1")
    assert not is_forked(process.pid)
