"""A link to the daemon of another machine: one SSH connection, kept up until it is closed.

OpenSSH forwards a socket of this machine to the daemon's and carries a conversation with ``mosaic daemon answer`` over
there, which tells the token and starts a daemon where none runs. Nothing listens on a port, here or there, and the
token is kept in memory alone.

A connection that breaks is made again, with longer and longer pauses. The socket keeps its path meanwhile, so gRPC's
channels find the daemon again by themselves.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym_gui.services.remote.answering import LINK_VERSION, MARK
from gym_gui.services.remote.server import Server
from gym_gui.services.remote.there import NOT_FOUND, not_found, there
from gym_gui.services.trainer import VERSION
from gym_gui.services.trainer.client import DaemonAwayError, TrainerClient
from gym_gui.services.trainer.errors import WorldError
from mosaic_protocol.endpoint import Endpoint
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.ssh_command import SshCommand, SshError, end, local_forward, said, socket_folder, start_tied

_HELLO_SECONDS = 60.0
_ASKED_HELLO_SECONDS = 300.0
"""Somebody types a password, or looks for the phone that shows a code."""
_ANSWER_SECONDS = 20.0
_START_SECONDS = 130.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
_MOST_ERRORS = 16_384
_LONGEST_ANSWER = 65_536
_REFUSED = 2
"""Exit status of a ``mosaic`` that does not know what it was asked for."""


class LinkError(DaemonAwayError):
    """The server cannot be reached, or not spoken to; the sentence says why."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, "UNAVAILABLE")


@dataclass(frozen=True)
class LinkState:
    """Whether the server is reached, and where it is not, why."""

    is_up: bool
    sentence: str = ""


class RemoteLink:
    """Thread-safe. Opened by what first asks for something; :meth:`close` leaves no process, thread or file.

    ``home`` is a data root of the server, "" its default. ``may_ask``: ssh may ask for a password on this terminal,
    when the link is first made and not later. ``on_change`` is called in a thread when the link breaks or is back.
    """

    def __init__(
        self,
        server: Server,
        home: str = "",
        *,
        may_ask: bool = False,
        on_change: Callable[[LinkState], None] = lambda state: None,
    ) -> None:
        self.server, self._home, self._may_ask, self.on_change = server, home, may_ask, on_change
        self.state = LinkState(False, f"{server.destination} was not reached yet")
        self.version = ""
        """Of the MOSAIC over there, once it was reached."""
        self._opening, self._asking = threading.Lock(), threading.Lock()
        self._closing = threading.Event()
        self._kept = ExitStack()
        self._folder: Path | None = None
        self._attempts = 0
        self._failure: LinkError | None = None
        self._pause, self._not_before = _FIRST_PAUSE, 0.0
        self._making: _Conversation | None = None
        """What is about to become :attr:`_talk`; :meth:`close` does not wait for it."""
        self._talk: _Conversation | None = None
        self._keeper: threading.Thread | None = None

    # ---- life ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Reach the server, once. Raises :class:`LinkError`; it may be tried again then, and for a moment that says the
        same without trying."""
        with self._opening:
            if self._keeper is not None:
                return
            if self._closing.is_set():
                raise LinkError("the link was closed")
            if self._failure is not None and time.monotonic() < self._not_before:
                raise LinkError(str(self._failure))
            try:
                self._talk = self._connected(may_ask=self._may_ask)
            except LinkError as error:
                self._failure, self._not_before = error, time.monotonic() + self._pause
                self._pause = min(2 * self._pause, _LONGEST_PAUSE)
                raise
            self._keeper = threading.Thread(target=self._keep, name="server-link", daemon=True)
            self._keeper.start()

    def close(self) -> None:
        self._closing.set()
        if (making := self._making) is not None:
            making.give_up()
        with self._opening:
            if self._talk is not None:
                self._talk.close()
            if self._keeper is not None:
                self._keeper.join()
            if self._talk is not None:
                self._talk.close()  # one that was made meanwhile
            self._kept.close()

    @property
    def socket(self) -> Path:
        """Our end of the tunnel; the same while the link lives. Opens the link. Raises :class:`LinkError`."""
        self.open()
        assert self._folder is not None
        return self._folder / "d"

    @property
    def warning(self) -> str:
        """A sentence where the two machines have different versions of MOSAIC."""
        if self.version in ("", VERSION):
            return ""
        return (
            f"{self.server.destination} has MOSAIC {self.version}, and this is {VERSION}: what is new in one may fail"
        )

    # ---- asking --------------------------------------------------------------------------------------------------

    def client(self, *, start: bool, patience: float, timeout: float) -> TrainerClient:
        """A connection to the daemon over there, starting it when ``start`` and none runs. Raises :class:`LinkError`,
        :class:`WorldError` with the daemon's own words when it does not start, and
        :class:`~gym_gui.services.trainer.client.DaemonAwayError` when none runs."""
        told = self.ask("start" if start else "state")
        if told["problem"]:
            raise WorldError(f"{self.server.destination}: {told['problem']}")
        if not told["runs"]:
            start_it = f"`mosaic --on {self.server} daemon start` starts it"
            raise DaemonAwayError(f"no trainer daemon runs on {self.server.destination}: {start_it}", "UNAVAILABLE")
        first = [str(told["token"])]
        read = lambda: first.pop() if first else str(self.ask("state")["token"])  # noqa: E731
        return TrainerClient(
            Endpoint(f"unix:{self.socket}"), read, patience=patience, timeout=timeout, why_away=self.why_away
        )

    def daemon_runs(self) -> bool:
        """Whether the server can be reached and a daemon listens there."""
        try:
            return bool(self.ask("state")["runs"])
        except LinkError:
            return False

    def was_stopped(self) -> bool:
        """Whether the last daemon over there was stopped on purpose; False while nobody can be asked."""
        try:
            return bool(self.ask("state")["stopped"])
        except LinkError:
            return False

    def why_away(self) -> str:
        """What to say of a call that did not reach the daemon."""
        if not self.state.is_up:
            return self.state.sentence
        see = f"see `mosaic --on {self.server} daemon status`"
        return f"the trainer daemon on {self.server.destination} cannot be reached: {see}"

    def ask(self, what: str) -> dict[str, Any]:
        """What ``mosaic daemon answer`` says. Raises :class:`LinkError`."""
        self.open()
        with self._asking:
            talk = self._talk
            if talk is None or not self.state.is_up:
                raise LinkError(self.state.sentence)
            try:
                return talk.ask(what, _START_SECONDS if what == "start" else _ANSWER_SECONDS)
            except _SilentError:
                talk.close()  # what it would say later would be taken for another answer
                raise LinkError(self._cut("it does not answer")) from None
            except _OverError:
                raise LinkError(self._cut(talk.said())) from None

    # ---- the connection ------------------------------------------------------------------------------------------

    def _connected(self, *, may_ask: bool) -> _Conversation:
        """A conversation and the socket that goes with it. Raises :class:`LinkError`."""
        if self._folder is None:
            try:
                self._folder = self._kept.enter_context(socket_folder())
            except (SshError, OSError) as error:
                raise LinkError(str(error)) from error
        self._attempts += 1
        control = self._folder / f"c{self._attempts}"  # ssh makes no master where a killed one left its socket
        ssh = SshCommand.to(self.server.destination, may_ask=may_ask, control=control)
        talk = None
        try:
            talk = self._making = _Conversation(ssh, there(self.server, self._home, ["daemon", "answer"]))
            if self._closing.is_set():
                raise LinkError("the link was closed")
            hello = talk.hello(_ASKED_HELLO_SECONDS if may_ask else _HELLO_SECONDS)
            self._require_understood(hello)
            (self._folder / "d").unlink(missing_ok=True)
            ssh.forward_now(local_forward(self._folder / "d", str(hello["socket"])))
        except _OverError:
            assert talk is not None
            raise LinkError(self._why_none(talk)) from None
        except _SilentError:
            raise LinkError(f"{self.server.destination} did not answer") from None
        except (SshError, OSError) as error:
            raise LinkError(f"{self.server.destination} cannot be reached: {error}") from error
        else:
            self.version = one_line(str(hello["version"]))
            self._change(LinkState(True))
            done, talk = talk, None
            return done
        finally:
            self._making = None
            if talk is not None:
                talk.close()

    def _require_understood(self, hello: dict[str, Any]) -> None:
        if hello.get("link") != LINK_VERSION:
            other = one_line(str(hello.get("version", "another version")))
            raise LinkError(
                f"{self.server.destination} has MOSAIC {other}, which speaks to other machines in another manner than "
                f"this {VERSION}: install the same version on both"
            )

    def _why_none(self, talk: _Conversation) -> str:
        name, words = self.server.destination, talk.said()
        if talk.status in NOT_FOUND:
            return not_found(self.server)
        if talk.status == _REFUSED and "answer" in words:
            return f"the MOSAIC on {name} is too old to be reached from elsewhere (this is {VERSION}): update it there"
        return f"{name} cannot be reached: {words or f'ssh ended with status {talk.status}'}"

    def _cut(self, why: str) -> str:
        return f"the link to {self.server.destination} is cut{f' ({why})' if why else ''}; it is made again by itself"

    def _keep(self) -> None:
        """Make the connection again whenever it is over."""
        while not self._closing.is_set():
            talk = self._talk
            assert talk is not None
            talk.over.wait()
            talk.close()
            if self._closing.is_set():
                return
            self._change(LinkState(False, self._cut(talk.said())))
            pause = _FIRST_PAUSE
            while not self._closing.wait(pause):
                try:
                    self._talk = self._connected(may_ask=False)
                    break
                except LinkError as error:
                    why = str(error).removeprefix(f"{self.server.destination} cannot be reached: ")
                    self._change(LinkState(False, self._cut(why)))
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _change(self, state: LinkState) -> None:
        if state != self.state:
            self.state = state
            self.on_change(state)


class _OverError(Exception):
    """ssh has ended."""


class _SilentError(Exception):
    """Nothing was answered in time."""


class _Conversation:
    """One ssh process with ``mosaic daemon answer`` behind it. ``over`` is set when nothing more will be said."""

    def __init__(self, ssh: SshCommand, command: str) -> None:
        self.over = threading.Event()
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._errors = b""
        pipe = subprocess.PIPE
        arguments = ssh.arguments(command, master=True)
        self._process = start_tied(
            arguments, is_apart=not ssh.may_ask, is_deaf=True, stdin=pipe, stdout=pipe, stderr=pipe
        )
        self._readers = [
            threading.Thread(target=work, name="server-link-reader", daemon=True)
            for work in (self._read_answers, self._read_errors)
        ]
        for reader in self._readers:
            reader.start()

    @property
    def status(self) -> int:
        return self._process.wait()

    def hello(self, seconds: float) -> dict[str, Any]:
        return self._next(seconds)

    def ask(self, what: str, seconds: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"ask": what}).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):  # ValueError: it was closed
            raise _OverError from None
        return self._next(seconds)

    def said(self) -> str:
        """ssh's own words, or the last ones of the program over there."""
        if self.over.is_set():
            self._readers[1].join(1.0)
        return said(self._errors).removeprefix("mosaic: ")

    def give_up(self) -> None:
        """Have it end soon; its users hear so."""
        self._process.kill()

    def close(self) -> None:
        """May be called twice, and from two threads."""
        self._process.kill()
        self._process.wait()
        for reader in self._readers:
            if reader is not threading.current_thread():
                reader.join()
        end(self._process)

    def _next(self, seconds: float) -> dict[str, Any]:
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise _SilentError from None
        if answer is None:
            self._answers.put(None)
            raise _OverError
        return answer

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline(_LONGEST_ANSWER):
            text = line.decode(errors="replace")
            if text.startswith(MARK):
                try:
                    self._answers.put(json.loads(text.removeprefix(MARK)))
                except ValueError:
                    break
        self._answers.put(None)
        self.over.set()
        try:
            self._process.wait(2.0)  # its own status says why
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while data := os.read(self._process.stderr.fileno(), 4096):
            self._errors = (self._errors + data)[-_MOST_ERRORS:]
