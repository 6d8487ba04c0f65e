"""Nothing that a script, a name or a file says makes a terminal do anything; into a file every byte goes as it is."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from gym_gui.cli.commands.logs import LinePrinter
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.support.terminal import Terminal

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
HOSTILE = f"begin{CLIPBOARD}\x1b[2J\x1b[31mred\x9b0m \u202eend\x7f"
CLEANED = "beginred0m end"


@pytest.fixture
def mosaic(daemon: DaemonProcess) -> CommandLine:
    return CommandLine(daemon.paths.root, daemon.env)


@pytest.fixture
def hostile_run(daemon: DaemonProcess) -> str:
    """A run that says terrible things in its log, in a metric's name and in how it ends."""
    run_id = daemon.submit(total_timesteps=3, say=HOSTILE, also=f"tag{CLIPBOARD}", misbehave="exit", at_step=3)
    daemon.wait_over(run_id)
    return run_id


@pytest.fixture
def on_a_terminal(mosaic: CommandLine) -> Iterator[Callable[..., str]]:
    opened: list[Terminal] = []

    def run(*words: str) -> str:
        terminal = Terminal(mosaic, *words, columns=200)
        opened.append(terminal)
        terminal.wait_for_the_end()
        return terminal.written.replace("\r\n", "\n")

    yield run
    for terminal in opened:
        terminal.close()


def obeyed(text: str) -> set[str]:
    """The characters of a text that a terminal acts on, beside the colours of this program."""
    for color in ("\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"):
        text = text.replace(color, "")
    return {mark for mark in text if mark not in "\n\t" and not mark.isprintable()}


def test_what_a_script_says_reaches_a_terminal_in_printable_characters(
    hostile_run: str, mosaic: CommandLine, on_a_terminal: Callable[..., str]
) -> None:
    shown = on_a_terminal("logs", hostile_run)
    assert f"{CLEANED}\n" in shown
    assert not obeyed(shown)
    for words in (("metrics", hostile_run, "--csv"), ("metrics", hostile_run), ("show", hostile_run, "--history")):
        shown = on_a_terminal(*words)
        assert shown and not obeyed(shown), words
    assert "tag ]52;c;ZXZpbA==,1,1.0," in on_a_terminal("metrics", hostile_run, "--csv")
    shown = on_a_terminal("logs", hostile_run, "--raw")
    assert HOSTILE in shown


def test_what_a_script_says_goes_into_a_pipe_as_it_is(hostile_run: str, mosaic: CommandLine) -> None:
    assert HOSTILE in mosaic("logs", hostile_run).out
    assert f"tag{CLIPBOARD},1,1.0," in mosaic("metrics", hostile_run, "--csv").out
    refused = mosaic("logs", hostile_run, "--raw", "--json")
    assert (refused.code, refused.out) == (2, '{"error": ' + refused.out.partition('{"error": ')[2])
    assert "choose one of --raw and --json" in refused.err


def test_a_sentence_on_stderr_is_one_printable_line(mosaic: CommandLine) -> None:
    said = mosaic("show", f"nobody{CLIPBOARD}\nmosaic: all is well").err
    assert said.count("\n") == 1
    assert said.removesuffix("\n").isprintable()


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_nobody_cleaned_is_shown_instead_of_obeyed(stream: str) -> None:
    """The last line: whatever is printed, tracebacks included, only the program's own sequences pass."""
    code = "import sys; from gym_gui.cli import output; output.prepare()"
    code += f"; sys.{stream}.write('\\x1b]52;c;x\\x07\\x9b2J\\x1b[31mred\\x1b[0m\\u202e\\n')"
    ours, theirs = pty.openpty()
    done = subprocess.run([sys.executable, "-c", code], stdout=theirs, stderr=theirs, check=False, timeout=120)
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert done.returncode == 0
    assert shown == "\\u001b]52;c;x\\u0007\\u009b2J\x1b[31mred\x1b[0m\\u202e\r\n"


# ---- the printer -------------------------------------------------------------------------------------------------


def test_a_progress_bar_on_a_terminal_is_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    printer = LinePrinter(cleaned=True)
    printer.take("stderr", b"\x1b[A10%\r 20%\r")
    assert capsys.readouterr().out == " 20%"
    printer.take("stdout", b"a line\n")
    assert capsys.readouterr().out == "\r\x1b[Ka line\n"
    printer.take("stderr", b" 30%\r100%\r\ndone\r")
    printer.close()
    assert capsys.readouterr().out == "100%\ndone\n"
