"""``mosaic --on SERVER`` over a real sshd: every command knows what it does with a daemon of another machine."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gym_gui.cli.elsewhere import WAYS, Way, way_of
from gym_gui.cli.main import mosaic
from gym_gui.services.remote.link import RemoteLink
from gym_gui.services.remote.server import Server, Servers
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import wait_for
from gym_gui.tests.support.servers import MadeServer, arguments_of_processes, has_ended, made_server
from mosaic_protocol.tests.made_sshd import NAME, ssh_processes_of

_TRAIN = ("train", "count", "--worker", "toy", "--no-preflight")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeServer]:
    with made_server(tmp_path_factory.mktemp("s")) as made:
        made.daemon.start()
        yield made


@pytest.fixture
def here(server: MadeServer, tmp_path: Path) -> CommandLine:
    """The command line of a machine without a daemon."""
    return CommandLine(tmp_path / "here", server.environment)


@pytest.fixture
def over_there(server: MadeServer) -> CommandLine:
    return CommandLine(server.home)


@pytest.fixture
def words_told(server: MadeServer) -> str:
    """A server whose mosaic prints the words it is given and fails with status 6."""
    program = server.program("telling", 'printf "<%s>" "$MOSAIC_TYPED" "$@"; exit 6')
    return f"{NAME}:{program}"


# ---- every command -----------------------------------------------------------------------------------------------


def test_every_command_has_a_way_to_a_daemon_elsewhere() -> None:
    assert set(WAYS) == set(mosaic.commands)


_AS_SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
exec sh -c "$3"
"""
"""Stands in for ssh where every command is tried: it runs here what ssh would run over there."""


@pytest.mark.parametrize("name", ["checkpoints", "tensorboard"])
def test_words_reach_the_server_as_they_were_typed(
    here: CommandLine, words_told: str, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    assert here("--on", words_told, name, "it's", "*", "", '"', "--port", "7").code == 6
    assert capfd.readouterr().out == f"<mosaic --on {words_told}><{name}><it's><*><><\"><--port><7>"


def test_what_needs_files_of_the_server_runs_over_there_word_for_word(
    here: CommandLine, words_told: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "ssh").write_text(_AS_SSH)
    (tmp_path / "ssh").chmod(0o755)
    here.environment["PATH"] = f"{tmp_path}:{here.environment['PATH']}"
    for name in (name for name, its in WAYS.items() if its in (Way.THERE, Way.PORT)):
        answer = here("--on", words_told, "--home", "/data root", name, "a b", "--x=$HOME", "--port", "7")
        assert answer.code == 6, name
        assert capfd.readouterr().out == (
            f"<mosaic --on {words_told}><--home></data root><{name}><a b><--x=$HOME><--port><7>"
        )
        assert not Path(here.environment["MOSAIC_HOME"], "trainer").exists()


@pytest.mark.parametrize("option", ["--media", "--histograms=x", "--archive", "--tensorboard"])
def test_metrics_that_are_files_are_read_over_there(option: str) -> None:
    assert way_of("metrics", ["last", option]) is Way.THERE
    assert way_of("metrics", ["last", "--csv"]) is Way.THROUGH
    assert way_of("logs", ["last", "--help"]) is Way.HERE


@pytest.fixture
def one_link(server: MadeServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has command lines of this process share a link, which is what takes them time."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    shared = RemoteLink(Server.parse(server.name))
    monkeypatch.setattr("gym_gui.services.remote.link.RemoteLink", lambda *_, **__: shared)
    with monkeypatch.context() as kept:
        kept.setattr(shared, "close", lambda: None)
        yield
    shared.close()


@pytest.mark.usefixtures("one_link")
def test_what_asks_the_daemon_answers_as_over_there(
    server: MadeServer, here: CommandLine, over_there: CommandLine
) -> None:
    run_id = server.daemon.submit(name="asked", total_timesteps=5)
    server.daemon.wait_over(run_id)
    tried = {
        "runs": ("runs", "--json"),
        "follow": ("follow", run_id, "--json"),
        "logs": ("logs", run_id),
        "metrics": ("metrics", run_id, "--csv"),
        "episodes": ("episodes", run_id, "--json"),
        "steps": ("steps", run_id, "--json"),
        "mind": ("mind", run_id, "--episode", "0"),
        "tell": ("tell", run_id, "slippery"),
        "workers": ("workers", "--json"),
        "plot": ("plot", run_id),
        "pause": ("pause", run_id),
        "cancel": ("cancel", run_id, "--json"),
        "queue": ("queue", "--json"),
        "rename": ("rename", run_id, "asked"),
        "tag": ("tag", run_id, "paper"),
        "note": ("note", run_id, "good"),
        "delete": ("delete", run_id),
        "restore": ("restore", run_id),
    }
    assert set(tried) == {name for name, way in WAYS.items() if way is Way.THROUGH}
    for name, words in tried.items():
        far = here("--on", server.name, *words)
        if name == "delete":
            assert over_there("restore", run_id).code == 0
        if name == "restore":
            assert over_there("delete", run_id).code == 0
        near = over_there(*words)
        if name == "queue":  # a moment is in it
            near, far = near.__class__(near.code, "", ""), far.__class__(far.code, "", "")
        advice = far.err.replace(f"mosaic --on {server.name} ", "mosaic ")
        assert (far.code, far.out.replace(f"--on {server.name} ", ""), advice) == (near.code, near.out, near.err), name
    server.daemon.client.delete(run_id, purge=True)
    assert not Path(here.environment["MOSAIC_HOME"], "trainer").exists()


def test_help_asks_nobody(here: CommandLine) -> None:
    answer = here("--on", "nowhere.invalid", "runs", "--help")
    assert (answer.code, answer.err) == (0, "")


# ---- starting runs -----------------------------------------------------------------------------------------------


def test_a_run_is_checked_and_submitted_over_there_and_followed_from_here(
    server: MadeServer, here: CommandLine
) -> None:
    answer = here("--on", server.name, *_TRAIN, "--run-name", "far", "--total-timesteps", "7", "--json")
    assert (answer.code, answer.err) == (0, "")
    told = answer.json
    assert (told["name"], told["outcome"], told["last_step"]) == ("far", "completed", 7)
    assert server.daemon.client.run(told["run_id"]).name == "far"


def test_what_is_refused_over_there_is_refused_here(
    server: MadeServer, here: CommandLine, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = here("--on", server.name, "train", "count", "--worker", "toi")
    assert answer.code == 2
    assert "did you mean 'toy'" in capfd.readouterr().err


def test_a_config_of_this_machine_is_submitted_over_there(
    server: MadeServer, here: CommandLine, tmp_path: Path
) -> None:
    from gym_gui.tests.support.daemon_process import toy_config

    file = tmp_path / "config.json"
    file.write_text(json.dumps(toy_config(name="from a file", total_timesteps=4)))
    answer = here("--on", server.name, "submit", "--no-preflight", str(file), "--json")
    assert (answer.code, answer.err) == (0, "")
    assert (answer.json["name"], answer.json["outcome"]) == ("from a file", "completed")


def test_following_survives_a_link_that_is_cut_and_a_daemon_that_is_killed(
    server: MadeServer, here: CommandLine
) -> None:
    run_id = server.daemon.submit(name="followed", total_timesteps=10**9, step_seconds=0.05)
    server.daemon.wait_state(run_id, "EXEC")
    following = here.process("--on", server.name, "follow", run_id)
    assert following.stdout is not None
    heard: list[str] = []
    listening = threading.Thread(target=lambda: heard.extend(line.decode() for line in following.stdout or ()))
    listening.start()
    try:
        wait_for("the first line", lambda: any("training" in line for line in heard))
        server.sshd.signal_sessions(signal.SIGKILL)
        wait_for("the cut to be told", lambda: any(f"the link to {NAME} is cut" in line for line in heard))
        begun = len(heard)
        wait_for("the run to be shown again", lambda: any("training" in line for line in heard[begun:]))
        server.daemon.kill()
        server.daemon.start()
        server.daemon.client.cancel(run_id)
        assert following.wait(60) == 5
    finally:
        following.kill()
        listening.join()
        following.wait()
        for pipe in (following.stdout, following.stderr):
            if pipe is not None:
                pipe.close()


def test_logs_go_on_after_a_cut_without_a_doubled_line(server: MadeServer, here: CommandLine) -> None:
    run_id = server.daemon.submit(name="printing", total_timesteps=10**9, step_seconds=0.05)
    server.daemon.wait_state(run_id, "EXEC")
    log = server.daemon.paths.run_logs(run_id) / "stdout.log"
    wait_for("the first line", log.read_bytes)
    with here.process("--on", server.name, "logs", "-f", run_id, "--source", "stdout") as reading:
        assert reading.stdout is not None
        heard = [reading.stdout.readline()]
        for cut in range(3):
            with log.open("ab") as printing:
                printing.writelines(b"line %d of part %d\n" % (line, cut) for line in range(50))
            if cut < 2:
                heard += [reading.stdout.readline() for _ in range(50)]
                server.sshd.signal_sessions(signal.SIGKILL)
        heard += [reading.stdout.readline() for _ in range(50)]
        server.daemon.client.cancel(run_id)
        server.daemon.wait_over(run_id)
        heard += reading.stdout.readlines()
        assert reading.wait(60) == 0
    assert b"".join(heard) == log.read_bytes()


@pytest.mark.parametrize("tail", [(), ("--tail", "5")])
def test_recorded_steps_go_on_after_a_cut_where_they_were(
    server: MadeServer, here: CommandLine, tail: tuple[str, ...]
) -> None:
    run_id = server.daemon.submit(name="recording", total_timesteps=10**9, step_seconds=0.02, record=3)
    wait_for("the first steps", lambda: server.daemon.client.step_totals(run_id).steps > 20)
    with here.process("--on", server.name, "steps", run_id, "--follow", "--json", *tail) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        heard = [json.loads(reading.stdout.readline()) for _ in range(10)]
        for _ in range(2):
            server.sshd.signal_sessions(signal.SIGKILL)
            heard += [json.loads(reading.stdout.readline()) for _ in range(200)]
        server.daemon.client.cancel(run_id)
        heard += [json.loads(line) for line in reading.stdout]
        assert reading.wait(60) == 0
        told = reading.stderr.read().decode()
    server.daemon.wait_over(run_id)
    numbers = [one["step"] for one in heard]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert numbers[-1] == server.daemon.client.step_totals(run_id).steps - 1
    assert f"the link to {NAME} is cut" in told
    assert f"{NAME} is reached again" in told


# ---- what goes wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nobody-here@" + NAME, "Permission denied"),
        (NAME + ":/nowhere", "there is no mosaic in /nowhere on server"),
    ],
)
@pytest.mark.parametrize("words", [("runs",), ("doctor",), _TRAIN])
def test_a_server_that_cannot_be_used_is_told_in_a_sentence(
    here: CommandLine, capfd: pytest.CaptureFixture[str], name: str, sentence: str, words: tuple[str, ...]
) -> None:
    answer = here("--on", name, *words, "--json")
    assert answer.code == 4
    assert answer.json["error"]["kind"] == "daemon_away"
    assert sentence in answer.err + capfd.readouterr().err


def test_a_name_that_ssh_would_take_for_an_option_is_refused(here: CommandLine) -> None:
    answer = here("--on", "-oProxyCommand=touch /tmp/x", "runs")
    assert answer.code == 2
    assert "is no destination for SSH" in answer.err


def test_no_secret_stands_on_a_command_line_and_no_ssh_outlives_a_killed_client(
    server: MadeServer, here: CommandLine
) -> None:
    run_id = server.daemon.submit(name="long", total_timesteps=10**9, step_seconds=0.05)
    following = here.process("--on", server.name, "follow", run_id)
    with following:
        assert following.stdout is not None
        following.stdout.readline()
        ssh = ssh_processes_of(following.pid)
        assert len(ssh) == 1
        assert server.daemon.paths.token_file.read_text() not in arguments_of_processes()
        following.kill()
    wait_for("ssh to end", lambda: all(map(has_ended, ssh)))
    wait_for("the session over there to end", lambda: not server.sshd.sessions())
    server.daemon.client.cancel(run_id)
    server.daemon.wait_over(run_id)


def test_an_interrupted_follower_ends_as_here(server: MadeServer, here: CommandLine) -> None:
    run_id = server.daemon.submit(name="interrupted", total_timesteps=10**9, step_seconds=0.05)
    with here.process("--on", server.name, "follow", run_id) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        while b"training" not in following.stdout.readline():
            pass
        following.send_signal(signal.SIGINT)
        assert following.wait(30) == 130
        assert f"mosaic --on {server.name} follow" in following.stderr.read().decode()
    assert Servers(Path(here.environment["MOSAIC_HOME"])).all() == [Server.parse(server.name)]
    server.daemon.client.cancel(run_id)
    server.daemon.wait_over(run_id)


# ---- naming it ---------------------------------------------------------------------------------------------------


def test_the_environment_names_the_server_and_the_place_is_remembered(server: MadeServer, here: CommandLine) -> None:
    assert here("--on", server.name, "runs").code == 0
    here.environment["MOSAIC_ON"] = NAME
    answer = here("daemon", "status", "--help")
    assert answer.code == 0
    listed = here("runs", "--json")
    assert (listed.code, listed.json["total"]) == (0, server.daemon.client.runs().total)
    assert ssh_processes_of(os.getpid()) == []
    assert here("--on", "", "daemon", "status").code == 4  # this machine, which has none


def test_tab_offers_the_servers_that_were_reached_and_runs_over_there(server: MadeServer, here: CommandLine) -> None:
    assert here("--on", server.name, "runs").code == 0
    run_id = server.daemon.submit(name="completed-by-tab", total_timesteps=1)
    here.environment |= {"_MOSAIC_COMPLETE": "bash_complete", "COMP_WORDS": "mosaic --on ser", "COMP_CWORD": "2"}
    assert server.name in here().out
    here.environment |= {"COMP_WORDS": f"mosaic --on {NAME} show completed", "COMP_CWORD": "4"}
    assert "completed-by-tab" in here().out
    here.environment |= {"COMP_WORDS": f"mosaic --on {NAME} checkpoints show ", "COMP_CWORD": "5"}
    assert here().out.strip() == ""
    server.daemon.wait_over(run_id)


def test_what_answers_elsewhere_is_not_for_people(over_there: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("sys.stdin.isatty", lambda: True, raising=False)
        answer = over_there("daemon", "answer")
    assert answer.code == 2
    assert "`mosaic daemon status` is for people" in answer.err


def test_every_way_is_used() -> None:
    assert set(WAYS.values()) == set(Way)
    assert all(isinstance(command, click.Command) for command in mosaic.commands.values())
