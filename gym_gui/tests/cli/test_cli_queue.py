"""``mosaic queue``: the line with what each run waits for, and other orders, rightly and wrongly asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gym_gui.cli.errors import ExitCode
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess


@pytest.fixture
def waiting(make_daemon: Callable[..., DaemonProcess]) -> DaemonProcess:
    """A daemon with two CPUs, which are taken, and three runs that wait."""
    daemon = make_daemon(cpus=2).start()
    daemon.wait_state(daemon.submit(name="blocker", cpus=2, total_timesteps=10**7), "EXEC")
    for name in ("run-a", "run-b", "run-c"):
        daemon.submit(name=name, cpus=2, total_timesteps=10**7)
    return daemon


def order(mosaic: CommandLine) -> list[str]:
    return [one["name"] for one in mosaic("queue", "--json").json["queue"]]


def test_the_queue_is_listed_and_put_in_another_order(waiting: DaemonProcess) -> None:
    mosaic = CommandLine(waiting.paths.root, waiting.env)
    text = mosaic("queue").out
    places = [line.split()[0::2][:2] for line in text.splitlines()]
    assert places == [["PLACE", "NAME"], ["1st", "run-a"], ["2nd", "run-b"], ["3rd", "run-c"]]
    assert "2 CPUs, 0 free" in text and "its turn: run-a is before it" in text
    listed = mosaic("queue", "--json").json["queue"]
    assert listed[0] == {
        "position": 1,
        "interactive": False,
        "run_id": waiting.client.run("run-a").run_id,
        "name": "run-a",
        "asks_for": "2 CPUs",
        "waits_for": "2 CPUs, 0 free",
    }
    c = waiting.client.run("run-c").run_id
    assert mosaic("queue", "move", "run-c", "--first").out == f"{c[-6:]} (run-c) is 1st in line\n"
    assert order(mosaic) == ["run-c", "run-a", "run-b"]
    assert mosaic("queue", "move", "run-c", "--after", "run-a", "--json").json["runs"][0]["queue_position"] == 2
    assert mosaic("queue", "move", "run-b", "--before", "run-a").code == ExitCode.OK
    assert order(mosaic) == ["run-b", "run-a", "run-c"]
    assert mosaic("queue", "move", "run-b", "--last").code == ExitCode.OK
    assert order(mosaic) == ["run-a", "run-c", "run-b"]
    both = mosaic("queue", "move", "run-b", "run-c", "--first").out
    assert [line.split(" ", 1)[1] for line in both.splitlines()] == ["(run-b) is 1st in line", "(run-c) is 2nd in line"]
    assert order(mosaic) == ["run-b", "run-c", "run-a"]


def test_a_move_that_cannot_be_says_why_and_moves_the_others(waiting: DaemonProcess) -> None:
    mosaic = CommandLine(waiting.paths.root, waiting.env)
    for words, code, sentence in (
        (("move", "run-a"), ExitCode.REFUSED, "say where to, with just one of --first, --last"),
        (("move", "run-a", "--first", "--last"), ExitCode.REFUSED, "just one of"),
        (("move", "run-a", "--first", "--before", "run-b"), ExitCode.REFUSED, "just one of"),
        (("move", "--first"), ExitCode.REFUSED, "RUN"),
        (("move", "run-a", "--before", "run-a"), ExitCode.REFUSED, "itself: name another run"),
        (("move", "run-a", "--before", ""), ExitCode.REFUSED, "no place was named"),
        (("move", "nobody", "--first"), ExitCode.NO_SUCH_RUN, "no run is called 'nobody'"),
        (("move", "run-a", "--after", "nobody"), ExitCode.NO_SUCH_RUN, "no run is called 'nobody'"),
        (("move", "blocker", "--first"), ExitCode.REFUSED, "not in the queue any more: it has started"),
        (("mvoe", "run-a", "--first"), ExitCode.REFUSED, "move"),
        (("--json", "move", "run-a", "--last"), ExitCode.REFUSED, "--json goes behind `move`"),
    ):
        answer = mosaic("queue", *words)
        assert (answer.code, sentence in answer.err) == (code, True), (words, answer)
    assert order(mosaic) == ["run-a", "run-b", "run-c"]
    answer = mosaic("queue", "move", "blocker", "run-c", "--first", "--json")
    assert answer.code == ExitCode.REFUSED
    assert [run["name"] for run in answer.json["runs"]] == ["run-c"]
    assert "it has started" in answer.json["errors"][0]["message"]
    assert order(mosaic) == ["run-c", "run-a", "run-b"]


def test_an_empty_queue_says_so(daemon: DaemonProcess) -> None:
    mosaic = CommandLine(daemon.paths.root, daemon.env)
    assert mosaic("queue").out.startswith("Nothing waits.")
    assert mosaic("queue", "--json").json == {"queue": []}
