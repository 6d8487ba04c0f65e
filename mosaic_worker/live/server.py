"""Serves a live session to those who watch it, in a thread of its own.

A watcher that does not read costs one line of memory: it gets the newest state when it reads again. One that sends
nonsense hears a sentence. One that sends more than the session follows is not read until there is room. None of them
can hold up the session, or each other.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from mosaic_protocol.live.messages import (
    LONGEST_LINE,
    Command,
    Hello,
    Hold,
    MessageError,
    Refused,
    State,
    line_of,
    read_command,
    socket_of,
)
from mosaic_protocol.unix_socket import dialled

_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_MOST_PEERS = 64
_MOST_SAID = 8
_LOOK_SECONDS = 0.5
_SHORTEST_PAUSE = 1 / 120
_ROOM_SECONDS = 0.01
"""How soon it is looked again whether the session takes more commands."""


class _Peer:
    """One watcher."""

    def __init__(self, connection: socket.socket, hello: bytes) -> None:
        self.connection = connection
        self.received = b""
        self.unheard: deque[bytes] = deque()
        """Lines that the session had no room for yet; until it has, nothing more is read."""
        self.heard = 0
        """When a line of it was heard last, in the order of all."""
        self.sending = hello
        self.said: deque[bytes] = deque(maxlen=_MOST_SAID)
        """Refusals, and a new hello, that go out before the next state."""
        self.seen = -1
        """The number of the state that was sent last."""
        self.sent_at = 0.0
        self.holds: set[int] = set()
        """The seats whose keys it holds down."""
        self.events = selectors.EVENT_READ
        """What is listened for."""


class LiveServer:
    """:meth:`publish` and :attr:`watchers` may be used in any thread; ``take`` is called in the server's. ``trouble``
    is asked twice a second for a sentence about what the session hangs in, and for nothing else."""

    def __init__(
        self,
        run_directory: Path,
        hello: Hello,
        take: Callable[[Command | None], None],
        trouble: Callable[[], str],
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        """Listen. ``take`` gets each command, and None when a watcher came or left; keys that one who left held down
        are let go first. While ``has_room`` says no, what watchers send waits in their connections. Raises OSError."""
        self._path = socket_of(run_directory.absolute())
        self._hello, self._take, self._trouble, self._has_room = line_of(hello), take, trouble, has_room
        with suppress(FileNotFoundError):
            self._path.unlink()  # of an earlier process of this run: only one lives at a time
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name = dialled(self._path)
        self._listener.bind(name)
        os.chmod(name, 0o600)  # noqa: PTH101 - the short name
        self._listener.listen(_MOST_PEERS)
        self._listener.setblocking(False)
        self._ear, self._bell = socket.socketpair()
        self._ear.setblocking(False)
        self._bell.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._ear, selectors.EVENT_READ)
        self._peers: dict[int, _Peer] = {}
        self.times_left_alone = 0
        """How often the last watcher left. Only grows, so that nobody misses it who looks now and then."""
        self._heard = 0
        self._welcome_at = 0.0
        """When to accept again; 0 while the listener is looked at."""
        self._state, self._number, self._told_trouble = State(), 0, ""
        self._over = False
        self._thread = threading.Thread(target=self._serve, name="live-server", daemon=True)
        self._thread.start()

    @property
    def watchers(self) -> int:
        return len(self._peers)

    def publish(self, state: State) -> None:
        """The state to tell from now on."""
        self._state = state
        self._number += 1
        if self._peers:
            self._ring()

    def close(self) -> None:
        """Tell the last state to those who read, and end."""
        self._over = True
        self._ring()
        self._thread.join()

    # ---- the thread ----------------------------------------------------------------------------------------------

    def _ring(self) -> None:
        with suppress(OSError):  # a full pipe rings already
            self._bell.send(b"!")

    def _serve(self) -> None:
        patience = _LOOK_SECONDS
        try:
            while not self._over:
                for key, _ in self._selector.select(patience):
                    self._attend(key.fileobj)
                self._look_for_trouble()
                self._welcome_again()
                full = self._hear_in_turn()
                patience = min([self._tell(peer) for peer in list(self._peers.values())], default=_LOOK_SECONDS)
                patience = min(patience, _ROOM_SECONDS) if full else patience
            for peer in list(self._peers.values()):
                peer.sent_at = 0.0
                self._tell(peer)
        finally:
            for peer in self._peers.values():
                peer.connection.close()
            for one in (self._listener, self._ear, self._bell):
                one.close()
            self._selector.close()
            with suppress(OSError):
                self._path.unlink()

    def _attend(self, ready: object) -> None:
        if ready is self._listener:
            self._welcome()
        elif ready is self._ear:
            with suppress(OSError):
                self._ear.recv(4096)
        elif isinstance(ready, socket.socket) and (peer := self._peers.get(ready.fileno())) is not None:
            self._hear(peer)

    def _welcome(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _SHORTAGES:  # it still waits there, and would be looked at without end
                self._selector.unregister(self._listener)
                self._welcome_at = time.monotonic() + _LOOK_SECONDS
            return  # or it left again
        if len(self._peers) >= _MOST_PEERS:
            connection.close()
            return
        connection.setblocking(False)
        self._peers[connection.fileno()] = _Peer(connection, self._hello)
        self._selector.register(connection, selectors.EVENT_READ)
        self._take(None)

    def _welcome_again(self) -> None:
        if self._welcome_at and time.monotonic() >= self._welcome_at:
            self._welcome_at = 0.0
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _hear(self, peer: _Peer) -> None:
        try:
            data = peer.connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._part_with(peer)
            return
        *lines, peer.received = (peer.received + data).split(b"\n")
        if len(peer.received) > LONGEST_LINE:
            self._part_with(peer)
            return
        peer.unheard.extend(filter(None, lines))

    def _hear_in_turn(self) -> bool:
        """Hand over what was read, one line of each watcher after the other; whether there is no room for the rest."""
        while waiting := [peer for peer in self._peers.values() if peer.unheard]:
            if not self._has_room():
                for peer in waiting:
                    self._listen_to(peer)
                return True
            peer = min(waiting, key=lambda one: one.heard)
            self._heard += 1
            peer.heard = self._heard
            try:
                command = read_command(peer.unheard.popleft())
            except MessageError as error:
                peer.said.append(line_of(Refused(str(error))))
                continue
            if isinstance(command, Hold):
                (peer.holds.add if command.keys else peer.holds.discard)(command.seat)
            self._take(command)
        return False

    def refuse(self, sentence: str) -> None:
        """Tell everybody that a command could not be followed. Any thread."""
        self._say(line_of(Refused(sentence)))

    def greet(self, hello: Hello) -> None:
        """What is told of the session changed: those who watch hear it, and those who come. Any thread."""
        self._hello = line_of(hello)
        self._say(self._hello)

    def _say(self, line: bytes) -> None:
        for peer in list(self._peers.values()):
            peer.said.append(line)
        self._ring()

    def _tell(self, peer: _Peer) -> float:
        """Send what is due; seconds until there may be more to send."""
        if not peer.sending:
            said = [peer.said.popleft() for _ in range(len(peer.said))]  # the session may add one meanwhile
            peer.sending = b"".join(said)
            left = peer.sent_at + _SHORTEST_PAUSE - time.monotonic()
            if peer.seen != self._number:
                if left > 0 and not peer.sending:
                    return left
                peer.seen, state = self._number, self._state
                problem = self._told_trouble or state.problem
                peer.sending += line_of(msgspec.structs.replace(state, problem=problem))
                peer.sent_at = time.monotonic()
        try:
            while peer.sending:
                peer.sending = peer.sending[peer.connection.send(peer.sending) :]
        except BlockingIOError:
            self._listen_to(peer)
            return _LOOK_SECONDS
        except OSError:
            self._part_with(peer)
            return _LOOK_SECONDS
        self._listen_to(peer)
        return _LOOK_SECONDS if peer.seen == self._number and not peer.said else 0.0

    def _listen_to(self, peer: _Peer) -> None:
        """For more from it, unless some of it waits; and for room to send, if something waits for that."""
        wanted = (0 if peer.unheard else selectors.EVENT_READ) | (selectors.EVENT_WRITE if peer.sending else 0)
        if wanted == peer.events:
            return
        if not wanted:
            self._selector.unregister(peer.connection)
        elif not peer.events:
            self._selector.register(peer.connection, wanted)
        else:
            self._selector.modify(peer.connection, wanted)
        peer.events = wanted

    def _look_for_trouble(self) -> None:
        found = self._trouble()
        if found != self._told_trouble:
            self._told_trouble = found
            self._number += 1

    def _part_with(self, peer: _Peer) -> None:
        if peer.events:
            self._selector.unregister(peer.connection)
        del self._peers[peer.connection.fileno()]
        peer.connection.close()
        for seat in peer.holds:
            self._take(Hold((), seat))
        self.times_left_alone += not self._peers
        self._take(None)
