"""A link to the daemon of another machine, over a real sshd: what it carries, what cuts it, and what it leaves."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gym_gui.services.live_connection import join_session
from gym_gui.services.remote.link import LinkError, LinkState, RemoteLink
from gym_gui.services.remote.paths import PathsElsewhere
from gym_gui.services.remote.server import Server, Servers
from gym_gui.services.trainer import VERSION
from gym_gui.services.trainer.client import DaemonAwayError, TrainerClient
from gym_gui.tests.support.daemon_process import wait_for
from gym_gui.tests.support.live_sessions import HELLO, MadeSession, met
from gym_gui.tests.support.servers import MadeServer, arguments_of_processes, has_ended, made_server
from mosaic_protocol.live.messages import Pause
from mosaic_protocol.ssh_command import SshError
from mosaic_protocol.tests.made_sshd import NAME, ssh_processes_of


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeServer]:
    with made_server(tmp_path_factory.mktemp("s")) as made:
        made.daemon.start()
        yield made


Linked = Callable[..., RemoteLink]


@pytest.fixture
def linked(server: MadeServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Linked]:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    made: list[RemoteLink] = []

    def link(
        name: str = server.name, home: str = "", on_change: Callable[[LinkState], None] = lambda _: None
    ) -> RemoteLink:
        made.append(RemoteLink(Server.parse(name), home, on_change=on_change))
        return made[-1]

    yield link
    for one in made:
        one.close()


def connected(link: RemoteLink, *, start: bool = False, patience: float = 30.0) -> TrainerClient:
    return TrainerClient.connect(PathsElsewhere(Path("/nonexistent"), link), start=start, patience=patience)


def ssh_commands() -> list[str]:
    """The ssh commands of this process that live, by what they were called with."""
    return [Path(f"/proc/{one}/cmdline").read_text().replace("\0", " ") for one in ssh_processes_of(os.getpid())]


# ---- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "destination", "place"),
    [
        ("server", "server", ""),
        ("me@server", "me@server", ""),
        ("me@server:/opt/mosaic", "me@server", "/opt/mosaic"),
        ("me@server:/opt/mosaic/", "me@server", "/opt/mosaic"),
        ("me@server:~/my code", "me@server", "~/my code"),
        ("ssh://me@server:2222", "ssh://me@server:2222", ""),
        ("ssh://me@server:2222/opt/mosaic", "ssh://me@server:2222", "/opt/mosaic"),
        ("ssh://server/~/mosaic", "ssh://server", "~/mosaic"),
        ("me@fe80::1:/opt", "me@fe80::1", "/opt"),
    ],
)
def test_a_server_is_named_as_for_scp(text: str, destination: str, place: str) -> None:
    found = Server.parse(text)
    assert (found.destination, found.place) == (destination, place)
    assert Server.parse(str(found)) == found


@pytest.mark.parametrize(
    "text", ["", ":/path", "-oX=y", "a b", "me@server:/a\nb", "server:relative", "me@server:/\x1b[0m"]
)
def test_what_names_no_server_is_refused(text: str) -> None:
    with pytest.raises(SshError) as refused:
        Server.parse(text)
    assert str(refused.value).isprintable()


def test_the_place_that_was_named_last_is_remembered_for_its_server(tmp_path: Path) -> None:
    servers = Servers(tmp_path)
    assert servers.all() == []
    for text in ("a:/one", "b", "a:/two"):
        servers.remember(Server.parse(text))
    assert list(map(str, servers.all())) == ["a:/two", "b"]
    assert servers.completed(Server.parse("a")) == Server("a", "/two")
    assert servers.completed(Server.parse("a:/three")) == Server("a", "/three")
    (tmp_path / "servers.json").write_text('["-oX=y", 7, "b"]')
    assert list(map(str, servers.all())) == ["7", "b"]
    (tmp_path / "servers.json").write_text("{")
    assert servers.all() == []


# ---- the link ----------------------------------------------------------------------------------------------------


def test_the_daemon_over_there_answers_and_its_token_stays_in_memory(server: MadeServer, linked: Linked) -> None:
    link = linked()
    with connected(link) as client:
        assert client.health().home == str(server.home)
        token = server.daemon.paths.token_file.read_text()
        assert token not in arguments_of_processes()
        folder = link.socket.parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(link.socket.stat().st_mode) == 0o600
        assert not any(token.encode() in file.read_bytes() for file in folder.iterdir() if file.is_file())
    assert link.warning == ""
    link.close()
    assert not folder.exists()
    assert ssh_commands() == []
    assert not [one.name for one in threading.enumerate() if one.name.startswith("server-link")]


@pytest.mark.parametrize("cut", ["the session over there is killed", "ssh is killed"])
def test_a_cut_link_is_told_and_made_again_under_the_same_client(server: MadeServer, linked: Linked, cut: str) -> None:
    told: list[LinkState] = []
    link = linked(on_change=told.append)
    with connected(link) as client:
        assert client.health().pid
        if cut == "ssh is killed":
            for process in ssh_processes_of(os.getpid()):
                os.kill(process, signal.SIGKILL)
        else:
            server.sshd.signal_sessions(signal.SIGKILL)
        wait_for("the cut to be told", lambda: any(not state.is_up for state in told))
        assert f"the link to {NAME} is cut" in next(state.sentence for state in told if not state.is_up)
        assert client.runs().total == 0
        assert link.state.is_up
    assert [state.is_up for state in told][:2] == [True, False]
    assert told[-1].is_up


def test_a_stream_is_told_of_the_cut_and_a_new_one_begins_where_it_ended(server: MadeServer, linked: Linked) -> None:
    run_id = server.daemon.submit(name="streamed", total_timesteps=3)
    server.daemon.wait_over(run_id)
    link = linked()
    with connected(link) as client:
        updates = client.watch()
        while (first := next(updates)).run.run_id != run_id:
            pass
        server.sshd.signal_sessions(signal.SIGKILL)
        with pytest.raises(DaemonAwayError, match=r"the link to server is cut|cannot be reached"):
            list(updates)
        again = client.run(run_id)  # with patience
        assert (again.run_id, again.last_step) == (run_id, first.run.last_step)
    server.daemon.client.delete(run_id, purge=True)


def test_a_live_session_over_there_is_joined_through_the_link(
    server: MadeServer, linked: Linked, tmp_path: Path
) -> None:
    session = MadeSession(server.daemon, tmp_path / "gate")
    try:
        paths = PathsElsewhere(tmp_path, linked())
        with closing(met("the session", lambda: join_session(paths, session.run_id))) as live:
            assert live.hello == HELLO
            live.send(Pause())
            assert session.next_command() == Pause()
    finally:
        session.close()
    server.daemon.wait_over(session.run_id)
    server.daemon.client.delete(session.run_id, purge=True)


def test_a_daemon_that_was_killed_over_there_is_found_again_with_its_new_token(
    server: MadeServer, linked: Linked
) -> None:
    link = linked()
    with connected(link) as client:
        before = client.health().pid
        server.daemon.kill()
        assert not link.daemon_runs()
        with pytest.raises(DaemonAwayError, match=r"the trainer daemon on server cannot be reached: see `mosaic --on"):
            client.health()
        server.daemon.start()
        assert client.workers().workers
        assert client.health().pid != before


def test_a_daemon_is_started_over_there_only_when_wanted(linked: Linked, server: MadeServer, tmp_path: Path) -> None:
    home = tmp_path / "another home"  # with a blank: ssh forwards a link to its socket
    link = linked(home=str(home))
    with pytest.raises(DaemonAwayError, match=rf"no trainer daemon runs on {NAME}: `mosaic --on .* daemon start`"):
        connected(link)
    with connected(link, start=True) as client:
        assert client.health().home == str(home)
        client.shutdown()
    wait_for("the note that it was stopped", link.was_stopped)


def test_a_data_root_that_cannot_be_used_is_told_with_the_words_of_over_there(linked: Linked, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Exception, match=rf"{NAME}: cannot use {tmp_path}/file") as refused:
        connected(linked(home=str(tmp_path / "file")), start=True)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo 'mosaic: there is no command '\"'answer'\" >&2; exit 2", "too old to be reached from elsewhere"),
        ('echo noise; echo \'mosaic-link {"link": 9, "version": "9.1"}\'; cat', "has MOSAIC 9.1, which speaks"),
        ("echo 'mosaic-link {'; cat", "cannot be reached"),
        ("printf 'dying \\033[31mwords\\n' >&2; exit 1", "cannot be reached: dying words"),
        ("exit 3", "cannot be reached: ssh ended with status 3"),
    ],
)
def test_what_answers_in_another_manner_is_told(server: MadeServer, linked: Linked, script: str, sentence: str) -> None:
    program = server.program("other", script)
    with pytest.raises(LinkError, match=sentence) as refused:
        linked(f"{NAME}:{program}").open()
    assert str(refused.value).isprintable()
    assert ssh_commands() == []


def test_another_version_is_warned_of(server: MadeServer, linked: Linked) -> None:
    hello = '{"link": 1, "version": "7.0", "socket": "/nonexistent"}'
    program = server.program("newer", f"echo 'mosaic-link {hello}'; cat")
    link = linked(f"{NAME}:{program}")
    link.open()
    assert link.warning == f"{NAME} has MOSAIC 7.0, and this is {VERSION}: what is new in one may fail"


def test_a_server_without_mosaic_is_told_what_to_do(linked: Linked, tmp_path: Path) -> None:
    with pytest.raises(LinkError, match=rf"there is no mosaic in {tmp_path} on {NAME}: name a checkout"):
        linked(f"{NAME}:{tmp_path}").open()


def test_a_link_that_failed_is_tried_again_when_something_is_asked(server: MadeServer, linked: Linked) -> None:
    link = linked()
    server.sshd.know_host(server.sshd.another_key())
    try:
        with pytest.raises(LinkError, match=r"Host key for .* has changed and you have requested strict checking"):
            link.open()
    finally:
        server.sshd.know_host()
    wait_for("the pause after a failure to be over", link.daemon_runs)


def test_a_host_key_that_changes_while_linked_is_told_until_it_is_right(server: MadeServer, linked: Linked) -> None:
    told: list[LinkState] = []
    link = linked(on_change=told.append)
    link.open()
    server.sshd.know_host(server.sshd.another_key())
    try:
        server.sshd.signal_sessions(signal.SIGKILL)
        wait_for("ssh's sentence", lambda: "has changed" in link.state.sentence)
        with pytest.raises(LinkError, match="has changed"):
            link.ask("state")
    finally:
        server.sshd.know_host()
    wait_for("the link to be back", lambda: link.state.is_up)


def test_a_link_that_is_closed_while_it_is_cut_leaves_nothing(server: MadeServer, linked: Linked) -> None:
    before = set(Path(tempfile.gettempdir()).glob("mosaic-ssh-*"))
    link = linked()
    link.open()
    server.sshd.stop()
    try:
        wait_for("the cut to be told", lambda: not link.state.is_up)
        link.close()
    finally:
        server.sshd.start()
    assert ssh_commands() == []
    assert set(Path(tempfile.gettempdir()).glob("mosaic-ssh-*")) <= before


@pytest.mark.nightly
def test_a_silent_link_is_taken_for_cut_and_made_again(server: MadeServer, linked: Linked) -> None:
    """What a cable that is pulled out looks like: nothing is refused, nothing comes."""
    link = linked()
    with connected(link, patience=60.0) as client:
        assert client.health().pid
        (ssh,) = ssh_processes_of(os.getpid())
        sessions = server.sshd.sessions()
        server.sshd.signal_sessions(signal.SIGSTOP)
        try:
            begun = time.monotonic()
            assert client.runs().total == 0
            assert time.monotonic() - begun < 40.0
            assert has_ended(ssh)
        finally:
            for process in sessions:
                os.kill(process, signal.SIGKILL)
