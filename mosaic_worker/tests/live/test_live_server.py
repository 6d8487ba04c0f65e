"""A session is served to any number of watchers, and none of them can hold it up."""

from __future__ import annotations

import os
import queue
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from mosaic_protocol.live.client import LiveClient, SessionAwayError
from mosaic_protocol.live.key_map import Binding, KeyMap
from mosaic_protocol.live.messages import Act, Command, End, Hello, Pause, Press, State, line_of, socket_of
from mosaic_protocol.live.transport import LocalTransport
from mosaic_protocol.unix_socket import dialled
from mosaic_worker.live.server import LiveServer

HELLO = Hello("FrozenLake-v1", "toy_text", KeyMap((Binding(("left",), 0, "left"),)), True, 4.0)


class Session:
    """A server, and what it was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.heard: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self.trouble, self.turns, self.room = "", 0, 10**9
        self.server = LiveServer(folder, HELLO, self.heard.put, self._troubled, self._has_room)

    def _has_room(self) -> bool:
        return self.heard.qsize() < self.room

    def _troubled(self) -> str:
        self.turns += 1  # asked in each turn of the server
        return self.trouble

    def command(self) -> Command:
        """The next command; watchers that came are passed over."""
        while True:
            found = self.heard.get(timeout=10)
            if found is not None:
                return found


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = Session(tmp_path)
    yield made
    made.server.close()


def until(client: LiveClient, probe: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not probe():
        assert time.monotonic() < deadline, client.state
        client.receive(0.05)


def test_a_watcher_hears_hello_and_the_newest_state_and_sends_commands(session: Session) -> None:
    session.server.publish(State(steps=1))
    with closing(LiveClient(session.folder)) as client:
        assert client.wait_for_hello() == HELLO
        until(client, lambda: client.state.steps == 1)
        for steps in range(2, 500):
            session.server.publish(State(steps=steps))
        until(client, lambda: client.state.steps == 499)
        client.send(Press("left"), Pause())
        assert (session.command(), session.command()) == (Press("left"), Pause())
        assert session.server.watchers == 1


def test_the_socket_is_the_owners_alone_and_gone_with_the_session(tmp_path: Path) -> None:
    made = Session(tmp_path)
    assert socket_of(tmp_path).stat().st_mode & 0o777 == 0o600
    client = LiveClient(tmp_path)
    client.wait_for_hello()
    made.server.publish(State(steps=9))
    made.server.close()
    with pytest.raises(SessionAwayError, match="ended"):
        until(client, lambda: False)
    assert client.state.steps == 9, "the last state is told"
    client.close()
    assert not socket_of(tmp_path).exists()
    with pytest.raises(SessionAwayError, match="no live session"):
        LiveClient(tmp_path)


def test_a_folder_far_down_has_a_session_too(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a-rather-long-name-of-a-folder"] * 5)
    deep.mkdir(parents=True)
    made = Session(deep)
    try:
        with closing(LiveClient(deep)) as client:
            client.wait_for_hello()
            client.send(End())
            assert made.command() == End()
    finally:
        made.server.close()


def test_a_session_takes_the_place_of_one_that_was_killed(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(dialled(socket_of(tmp_path)))
    left.close()  # the file stays, as after kill -9
    made = Session(tmp_path)
    try:
        with closing(LiveClient(tmp_path)) as client:
            assert client.wait_for_hello() == HELLO
    finally:
        made.server.close()


def test_nonsense_is_refused_in_a_sentence_and_the_next_command_is_heard(session: Session) -> None:
    way = LocalTransport(session.folder)
    with closing(LiveClient(way)) as client:
        client.wait_for_hello()
        way.send(b"nonsense\n\n" + b'{"do":"pause"}\n')
        assert session.command() == Pause()
        until(client, lambda: client.refusals)
        assert [why.partition(":")[0] for why in client.refusals] == ["this is no command"]


def test_a_line_without_an_end_costs_its_watcher_the_connection(session: Session) -> None:
    with closing(LocalTransport(session.folder)) as rude, closing(LiveClient(session.folder)) as other:
        other.wait_for_hello()
        with pytest.raises(SessionAwayError, match=r"pipe|reset"):
            rude.send(b"x" * 64_000_000)
        other.send(Pause())
        assert session.command() == Pause()


def test_a_watcher_that_never_reads_holds_nobody_up(session: Session) -> None:
    with closing(LiveClient(session.folder)) as stalled, closing(LiveClient(session.folder)) as other:
        other.wait_for_hello()
        for steps in range(1, 400):
            session.server.publish(State(steps=steps, text="x" * 10_000))
            until(other, lambda steps=steps: other.state.steps == steps)
        until(stalled, lambda: stalled.state.steps == 399)


def test_who_sends_more_than_the_session_follows_waits_and_nobody_else_does(session: Session) -> None:
    session.room = 10
    with socket.socket(socket.AF_UNIX) as flood, closing(LiveClient(session.folder)) as other:
        flood.connect(dialled(socket_of(session.folder)))
        other.wait_for_hello()
        line = line_of(Press("left"))
        flood.settimeout(2.0)
        with pytest.raises(TimeoutError):  # nobody reads any more
            flood.sendall(line * 1_000_000)
        assert session.heard.qsize() <= session.room
        session.server.publish(State(steps=1))
        until(other, lambda: other.state.steps == 1)
        other.send(End())
        heard = 0
        while session.command() != End():
            heard += 1
            assert heard < 10 * session.room, "each in turn"


def test_a_process_without_descriptors_welcomes_when_it_has_some_again(session: Session) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    name, taken = dialled(socket_of(session.folder)), []
    with socket.socket(socket.AF_UNIX) as late:
        late.settimeout(10)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 2, hard))
        try:
            with suppress(OSError):
                while True:
                    taken.append(os.dup(late.fileno()))
            late.connect(name)
            turns = session.turns
            time.sleep(0.5)
            turns = session.turns - turns
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for one in taken:
                os.close(one)
        assert turns < 20, "it waits, and does not try all the time"
        assert b'"hello"' in late.recv(100)


def test_a_line_that_was_offered_in_part_is_sent_whole(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(dialled(socket_of(tmp_path)))
        listener.listen()
        with closing(LiveClient(tmp_path)) as client:
            deaf, _ = listener.accept()
            with deaf:
                long = Act("x" * 50_000)
                while client.offer(long):
                    pass
                reading = threading.Timer(0.1, lambda: received.extend(iter(lambda: deaf.recv(1 << 16), b"")))
                received: list[bytes] = []
                reading.start()
                client.send(End())
                client.close()
                reading.join()
    lines = b"".join(received).splitlines(keepends=True)
    assert {*lines[:-1]} == {line_of(long)} and lines[-1] == line_of(End())


def test_what_the_session_hangs_in_is_told_while_it_hangs(session: Session) -> None:
    with closing(LiveClient(session.folder)) as client:
        session.server.publish(State(steps=5))
        session.trouble = "the environment does not come back from step"
        until(client, lambda: client.state.problem == session.trouble)
        session.trouble = ""
        until(client, lambda: not client.state.problem)
        assert client.state.steps == 5
