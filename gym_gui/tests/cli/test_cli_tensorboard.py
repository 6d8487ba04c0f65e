"""``mosaic tensorboard``: a real server until Ctrl-C, and one sentence where there is nothing to show."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Iterator

import pytest

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.keepers import keepers_below, servers_below


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path_factory.mktemp("tensorboard") / "home")
    try:
        daemon.start()
        for run_id in [daemon.submit(name=f"toy-{n}", total_timesteps=5, step_seconds=0) for n in (1, 2)]:
            daemon.wait_over(run_id)
        yield daemon
    finally:
        daemon.clean_up()


@pytest.fixture(scope="module")
def mosaic(daemon: DaemonProcess) -> CommandLine:
    return CommandLine(daemon.paths.root, daemon.env)


def test_runs_are_served_until_interrupted_and_nothing_stays(mosaic: CommandLine, daemon: DaemonProcess) -> None:
    servers = daemon.paths.tensorboard_servers
    with mosaic.process("tensorboard", "--where", "name=toy-*", "--json") as command:
        assert command.stdout is not None
        text = b""
        while (line := command.stdout.readline()) and not line.startswith(b"}"):
            text += line
        told = json.loads(text + b"}")
        assert sorted(run["name"] for run in told["runs"]) == ["toy-1", "toy-2"], "their metrics were exported"

        def listed() -> bool | None:
            with urllib.request.urlopen(f"{told['address']}data/runs", timeout=60) as page:
                return True if json.load(page) == ["toy-1", "toy-2"] else None

        wait_for("TensorBoard to list both", listed)
        command.send_signal(signal.SIGINT)
        assert command.wait(120) == 0
    wait_for("the server to go", lambda: None if keepers_below(servers) or servers_below(servers) else True)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("nobody",), 3, "nobody"),
        (("toy-1", "--where", "name=toy-1"), 2, "name runs, or filter them: not both"),
        (("--where", "name=nobody"), 2, "there is nothing to show: there are no such runs"),
        (("--where", "naem=x"), 2, "did you mean 'name'?"),
        (("--port", "70000"), 2, "at most 65,535"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(
    mosaic: CommandLine, words: tuple[str, ...], code: int, sentence: str
) -> None:
    answer = mosaic("tensorboard", *words)
    assert answer.code == code and sentence in answer.err, answer.err
