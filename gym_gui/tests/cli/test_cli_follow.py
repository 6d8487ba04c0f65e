"""Following a run: on a terminal, through a pipe, across Ctrl-C and across the death of the daemon."""

from __future__ import annotations

import json
import os
import pty
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest

from gym_gui.cli.errors import ExitCode
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import HANG_GUARD, DaemonProcess, wait_for
from gym_gui.tests.support.terminal import Terminal


@pytest.fixture
def mosaic(daemon: DaemonProcess) -> CommandLine:
    return CommandLine(daemon.paths.root, daemon.env)


class Following:
    """A command in a process of its own whose output can be read while it runs."""

    def __init__(self, mosaic: CommandLine, folder: Path, *words: str) -> None:
        folder.mkdir()
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = mosaic.process(*words, stdout=out, stderr=err)

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def wait_until_it_says(self, text: str) -> None:
        def said() -> bool:
            assert self.process.poll() is None or text in self.out + self.err, f"it ended: {self.out}{self.err}"
            return text in self.out + self.err

        wait_for(f"the command to say {text!r}", said)

    def ended(self) -> int:
        return self.process.wait(HANG_GUARD)


Follow: TypeAlias = Callable[..., Following]


@pytest.fixture
def follow(mosaic: CommandLine, tmp_path: Path) -> Iterator[Follow]:
    """Start commands that are ended with the test, whatever becomes of it."""
    started: list[Following] = []

    def start_following(*words: str) -> Following:
        started.append(Following(mosaic, tmp_path / f"following-{len(started)}", *words))
        return started[-1]

    yield start_following
    for one in started:
        one.process.kill()
        one.process.wait(HANG_GUARD)


def gated(folder: Path) -> tuple[Path, tuple[str, ...]]:
    """A file to create and the words that make a toy run wait for it."""
    gate = folder / "gate"
    return gate, ("--total-timesteps", "20", "--gate", str(gate), "--gate-at", "5")


def start(mosaic: CommandLine, *words: str) -> str:
    answer = mosaic("train", "count", "--env-id", "Toy-v0", "--detach", "--json", *words)
    assert answer.code == 0, answer.err
    return str(answer.json["run_id"])


def on_a_terminal(mosaic: CommandLine, columns: int, *words: str) -> tuple[int, str]:
    """Run a command whose output is a terminal; its exit code and everything it wrote."""
    with closing(Terminal(mosaic, *words, columns=columns)) as terminal:
        return terminal.wait_for_the_end(), terminal.written


def test_a_terminal_gets_one_line_that_is_written_over(mosaic: CommandLine) -> None:
    words = ("train", "count", "--env-id", "Toy-v0", "--total-timesteps", "60", "--step-seconds", "0.02")
    code, written = on_a_terminal(mosaic, 50, *words)
    first, live, *_ = written.split("\r\n", 2)
    frames = [frame.removesuffix("\x1b[K") for frame in live.split("\r") if "/60" in frame]
    assert code == 0
    assert "submitted to toy" in first
    assert len(frames) > 2
    assert all("\n" not in frame for frame in frames)
    assert max(len(frame.replace("\x1b[36m", "").replace("\x1b[0m", "")) for frame in frames) < 50
    assert "\r\x1b[K" in written
    assert "completed" in written.rpartition("\r\x1b[K")[2]


def test_ctrl_c_leaves_the_run_alone_and_says_how_to_come_back(
    mosaic: CommandLine, daemon: DaemonProcess, follow: Follow
) -> None:
    words = ("train", "count", "--env-id", "Toy-v0", "--total-timesteps", "1M")
    following = follow(*words)
    following.wait_until_it_says("training  ")
    following.process.send_signal(signal.SIGINT)
    assert following.ended() == ExitCode.INTERRUPTED
    (run,) = daemon.client.runs().runs
    short = run.run_id[-6:]
    assert f"run {short} goes on" in following.err
    assert f"mosaic follow {short}" in following.err
    assert f"mosaic cancel {short}" in following.err
    assert "Traceback" not in following.err
    assert run.state == "EXEC"


def test_with_json_ctrl_c_is_an_error_object_that_names_the_run(
    mosaic: CommandLine, daemon: DaemonProcess, follow: Follow
) -> None:
    run_id = start(mosaic, "--total-timesteps", "1M")
    following = follow("logs", "-f", run_id, "--json")
    following.wait_until_it_says("toy worker starts")
    following.process.send_signal(signal.SIGINT)
    assert following.ended() == ExitCode.INTERRUPTED
    error = json.loads(following.out.splitlines()[-1])["error"]
    assert (error["kind"], error["run_id"]) == ("interrupted", run_id)


def test_a_follower_waits_for_the_daemon_to_come_back(
    mosaic: CommandLine, daemon: DaemonProcess, follow: Follow, tmp_path: Path
) -> None:
    gate, words = gated(tmp_path)
    following = follow("train", "count", "--env-id", "Toy-v0", *words)
    following.wait_until_it_says("training  ")
    daemon.kill()
    following.wait_until_it_says("trainer daemon away, waiting")
    daemon.start()  # on another port
    gate.touch()
    assert following.ended() == 0
    assert "completed: finished at step 20" in following.out
    assert following.err == ""


def test_followed_logs_go_on_without_repeating_after_the_daemon_was_away(
    mosaic: CommandLine, daemon: DaemonProcess, follow: Follow, tmp_path: Path
) -> None:
    gate, words = gated(tmp_path)
    run_id = start(mosaic, *words)
    following = follow("logs", "-f", run_id)
    following.wait_until_it_says("toy worker starts")
    daemon.kill()
    following.wait_until_it_says("trainer daemon away, waiting")
    daemon.start()
    gate.touch()
    assert following.ended() == 0
    assert following.out.count("toy worker starts") == 1


def test_a_daemon_that_leaves_politely_does_not_end_following(
    mosaic: CommandLine, daemon: DaemonProcess, follow: Follow, tmp_path: Path
) -> None:
    gate, words = gated(tmp_path)
    run_id = start(mosaic, *words)
    following = follow("logs", "-f", run_id)
    following.wait_until_it_says("toy worker starts")
    daemon.terminate()
    following.wait_until_it_says("trainer daemon away, waiting")
    daemon.start()
    gate.touch()
    assert following.ended() == 0
    assert daemon.wait_over(run_id).outcome == "completed"


def test_a_paused_and_a_queued_run_are_shown_as_such(
    mosaic: CommandLine, daemon: DaemonProcess, follow: Follow
) -> None:
    first = start(mosaic, "--total-timesteps", "1M", "--cpus", "8")
    second = start(mosaic, "--total-timesteps", "5", "--cpus", "8")
    daemon.wait_state(first, "EXEC")
    following = follow("follow", second)
    following.wait_until_it_says("queued, 1st in line")
    mosaic("pause", first)
    watching = follow("follow", first)
    watching.wait_until_it_says("paused  ")
    mosaic("cancel", first)
    assert watching.ended() == ExitCode.CANCELED
    assert following.ended() == 0


def test_a_run_does_not_notice_that_the_reader_of_its_progress_left(mosaic: CommandLine, daemon: DaemonProcess) -> None:
    process = mosaic.process("train", "count", "--env-id", "Toy-v0", "--total-timesteps", "1M")
    assert process.stdout is not None and process.stderr is not None
    assert b"submitted" in process.stdout.readline()
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait(HANG_GUARD) == ExitCode.PIPE_CLOSED
    (run,) = daemon.client.runs().runs
    daemon.wait_state(run.run_id, "EXEC")


def test_purging_on_a_terminal_asks_first(mosaic: CommandLine, daemon: DaemonProcess) -> None:
    run_id = start(mosaic, "--total-timesteps", "1")
    daemon.wait_over(run_id)
    ours, theirs = pty.openpty()
    os.write(ours, b"n\n")
    process = mosaic.process("delete", run_id, "--purge", stdin=theirs)
    out, err = process.communicate(timeout=HANG_GUARD)
    assert process.returncode == ExitCode.REFUSED
    assert b"for good?" in out
    assert err == b"mosaic: nothing was deleted\n"
    os.write(ours, b"y\n")
    process = mosaic.process("delete", run_id, "--purge", stdin=theirs)
    out, _ = process.communicate(timeout=HANG_GUARD)
    assert process.returncode == 0
    assert b"is gone" in out
    os.close(ours)
    os.close(theirs)
