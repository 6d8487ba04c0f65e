"""`mosaic runs --watch`: a list that follows the runs on a real terminal, across the death of the daemon."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gym_gui.cli.session import CliSession
from gym_gui.cli.watch import Watch
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import HANG_GUARD, DaemonProcess
from gym_gui.tests.support.terminal import Terminal

LINES, COLUMNS = 12, 70


@pytest.fixture
def mosaic(daemon: DaemonProcess) -> CommandLine:
    return CommandLine(daemon.paths.root, daemon.env)


class Watched:
    """`mosaic runs --watch` on a terminal; ``frames`` are the pictures that it drew."""

    def __init__(self, mosaic: CommandLine, *words: str) -> None:
        self.terminal = Terminal(mosaic, "runs", "--watch", *words, lines=LINES, columns=COLUMNS)

    @property
    def frames(self) -> list[str]:
        """Whole ones: each ends by turning the wrapping of lines on again."""
        *whole, _ = self.terminal.written.split("\x1b[?7h")
        return [frame.partition("\x1b[J")[2] for frame in whole]

    def wait_for_a_frame(self, what: str, wanted: Callable[[str], bool], after: int = 0) -> str:
        self.terminal.wait_until(what, lambda: any(map(wanted, self.frames[after:])))
        return [frame for frame in self.frames[after:] if wanted(frame)][-1]


@pytest.fixture
def watch(mosaic: CommandLine) -> Iterator[Callable[..., Watched]]:
    opened: list[Watched] = []

    def start(*words: str) -> Watched:
        opened.append(Watched(mosaic, *words))
        return opened[-1]

    yield start
    for watched in opened:
        watched.terminal.close()


def test_the_list_follows_the_runs_until_ctrl_c_and_leaves_them_alone(
    daemon: DaemonProcess, watch: Callable[..., Watched]
) -> None:
    watched = watch()
    watched.wait_for_a_frame("an empty list", lambda frame: "0 live, 0 queued" in frame and "No runs yet" in frame)
    run_id = daemon.submit(name="counting", total_timesteps=100_000, step_seconds=0.01)
    watched.wait_for_a_frame("the run", lambda frame: "1 live, 0 queued" in frame and "training" in frame)
    daemon.client.pause(run_id)
    frame = watched.wait_for_a_frame("the pause", lambda frame: "paused" in frame)
    assert "reserved" in frame and "Ctrl-C ends this list, not the runs." in frame
    watched.terminal.process.send_signal(signal.SIGINT)
    assert watched.terminal.process.wait(HANG_GUARD) == 0
    assert daemon.client.run(run_id).state == "PAUSE"


def test_what_does_not_fit_on_the_screen_is_left_out_and_counted(
    daemon: DaemonProcess, watch: Callable[..., Watched]
) -> None:
    for number in range(LINES + 5):
        daemon.submit(name=f"run-{number}", total_timesteps=1)
    frame = watch("--limit", "100").wait_for_a_frame("the list", lambda frame: "runs" in frame and "run-" in frame)
    assert frame.count("\n") < LINES, "a line that left the screen cannot be written over"
    assert f"of {LINES + 5} runs" in frame


def test_a_daemon_that_is_away_is_waited_for_beside_the_last_picture(
    daemon: DaemonProcess, watch: Callable[..., Watched]
) -> None:
    daemon.submit(name="lasting", total_timesteps=100_000, step_seconds=0.01)
    watched = watch()
    watched.wait_for_a_frame("the run", lambda frame: "lasting" in frame)
    daemon.kill()
    watched.wait_for_a_frame("the absence", lambda frame: "daemon away" in frame and "lasting" in frame)
    seen = len(watched.frames)
    daemon.start()
    watched.wait_for_a_frame("the return", lambda frame: "Ctrl-C" in frame and "lasting" in frame, after=seen)


@pytest.mark.parametrize("words", [("--watch",), ("--watch", "--json"), ("--watch", "--all")])
def test_without_a_terminal_watching_is_refused_with_a_sentence(mosaic: CommandLine, words: tuple[str, ...]) -> None:
    answer = mosaic("runs", *words)
    assert answer.code == 2
    assert "--watch draws one page on a terminal" in answer.err + answer.out


def test_a_daemon_that_is_away_is_shown_without_colour_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(CliSession.at(str(tmp_path)), lambda client, room: "a list")
    watch._last = "a list"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[33mtrainer daemon away" in watch._look()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in watch._look()


def test_a_picture_that_is_the_last_one_ends_the_watch(
    daemon: DaemonProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    pictures = iter(["first", "last"])
    drawn: list[str] = []

    def picture(client: object, room: int) -> str:
        drawn.append(next(pictures))
        return drawn[-1]

    session = CliSession.at(str(daemon.paths.root))
    Watch(session, picture, "Ctrl-C ends this view.", is_last=lambda: drawn[-1:] == ["last"]).until_interrupted()
    first, last = capsys.readouterr().out.split("\x1b[?7h")[:2]
    assert "first\nCtrl-C ends this view." in first
    assert "last" in last and "Ctrl-C" not in last
