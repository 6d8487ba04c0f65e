"""`mosaic runs --watch`: a list that follows the runs on a real terminal, across the death of the daemon."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator

import pytest

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import HANG_GUARD, DaemonProcess

LINES, COLUMNS = 12, 70


@pytest.fixture
def mosaic(daemon: DaemonProcess) -> CommandLine:
    return CommandLine(daemon.paths.root, daemon.env)


class Terminal:
    """A command on a terminal of its own; ``frames`` are the pictures that it drew."""

    def __init__(self, mosaic: CommandLine, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        mosaic.environment |= {"TERM": "xterm", "NO_COLOR": "1"}
        for name in ("COLUMNS", "LINES"):
            mosaic.environment.pop(name, None)
        self.process = mosaic.process(*words, stdout=theirs, stderr=subprocess.DEVNULL)
        os.close(theirs)
        self._written = ""

    @property
    def frames(self) -> list[str]:
        return self._written.split("\x1b[J")[1:]

    def wait_for_a_frame(self, what: str, wanted: Callable[[str], bool], after: int = 0) -> str:
        deadline = time.monotonic() + HANG_GUARD
        while not (found := [frame for frame in self.frames[after:] if wanted(frame) and frame.endswith("\x1b[?7h")]):
            assert time.monotonic() < deadline, f"waited in vain for {what}: {self.frames[-1:]}"
            if select.select([self._ours], [], [], 0.1)[0]:
                self._written += os.read(self._ours, 65536).decode()
        return found[-1]

    def close(self) -> None:
        self.process.kill()
        self.process.wait(HANG_GUARD)
        os.close(self._ours)


@pytest.fixture
def watch(mosaic: CommandLine) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*words: str) -> Terminal:
        opened.append(Terminal(mosaic, "runs", "--watch", *words))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


def test_the_list_follows_the_runs_until_ctrl_c_and_leaves_them_alone(
    daemon: DaemonProcess, watch: Callable[..., Terminal]
) -> None:
    terminal = watch()
    terminal.wait_for_a_frame("an empty list", lambda frame: "0 live, 0 queued" in frame and "No runs yet" in frame)
    run_id = daemon.submit(name="counting", total_timesteps=100_000, step_seconds=0.01)
    terminal.wait_for_a_frame("the run", lambda frame: "1 live, 0 queued" in frame and "training" in frame)
    daemon.client.pause(run_id)
    frame = terminal.wait_for_a_frame("the pause", lambda frame: "paused" in frame)
    assert "reserved" in frame and "Ctrl-C ends this list, not the runs." in frame
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.process.wait(HANG_GUARD) == 0
    assert daemon.client.run(run_id).state == "PAUSE"


def test_what_does_not_fit_on_the_screen_is_left_out_and_counted(
    daemon: DaemonProcess, watch: Callable[..., Terminal]
) -> None:
    for number in range(LINES + 5):
        daemon.submit(name=f"run-{number}", total_timesteps=1)
    frame = watch("--limit", "100").wait_for_a_frame("the list", lambda frame: "runs" in frame and "run-" in frame)
    assert frame.count("\n") < LINES, "a line that left the screen cannot be written over"
    assert f"of {LINES + 5} runs" in frame


def test_a_daemon_that_is_away_is_waited_for_beside_the_last_picture(
    daemon: DaemonProcess, watch: Callable[..., Terminal]
) -> None:
    daemon.submit(name="lasting", total_timesteps=100_000, step_seconds=0.01)
    terminal = watch()
    terminal.wait_for_a_frame("the run", lambda frame: "lasting" in frame)
    daemon.kill()
    terminal.wait_for_a_frame("the absence", lambda frame: "daemon away" in frame and "lasting" in frame)
    seen = len(terminal.frames)
    daemon.start()
    terminal.wait_for_a_frame("the return", lambda frame: "Ctrl-C" in frame and "lasting" in frame, after=seen)


@pytest.mark.parametrize("words", [("--watch",), ("--watch", "--json"), ("--watch", "--all")])
def test_without_a_terminal_watching_is_refused_with_a_sentence(mosaic: CommandLine, words: tuple[str, ...]) -> None:
    answer = mosaic("runs", *words)
    assert answer.code == 2
    assert "--watch draws one page on a terminal" in answer.err + answer.out
