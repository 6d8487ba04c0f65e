"""Agents, loops and foreign servers for the tests of the XMPP room."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from spade_bdi_rl_worker.xmpp import Account, ServerError
from spade_bdi_rl_worker.xmpp.certificate import KeyPair

pytest.importorskip("spade", reason="what agents need is not installed")
pytest.importorskip("pyjabber", reason="what agents need is not installed")

T = TypeVar("T")
GUARD = 60.0
"""Seconds after which a test would hang for ever."""


@dataclass
class Elsewhere:
    """A server as a client knows it, whoever started it."""

    host: str
    port: int
    domain: str
    certificate: Path | None
    description: str = "a server of the test"

    def __enter__(self) -> Elsewhere:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def account(self, name: str) -> Account:
        raise NotImplementedError

    def problem(self) -> str:
        return ""


def in_a_loop(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run agents in a loop of their own. SPADE keeps one container, and with it the first loop, for the whole process,
    and replaces the policy that makes loops; the next test finds both as they were."""
    from spade.container import Container

    policy = asyncio.get_event_loop_policy()

    async def with_a_fresh_container() -> T:
        Container().reset()
        return await asyncio.wait_for(main(), GUARD)

    try:
        return asyncio.run(with_a_fresh_container())
    finally:
        asyncio.set_event_loop_policy(policy)


def agent_for(account: Account) -> Any:
    from spade.agent import Agent

    return Agent(account.jid, account.password)


def sentence_of(action: Callable[[], object]) -> str:
    """What an action that must fail says."""
    try:
        action()
    except ServerError as error:
        text = str(error)
        assert text[-1] in ".!" and "\n" not in text, f"not a sentence: {text}"
        return text
    raise AssertionError("it did not fail")


def wait_until(condition: Callable[[], T], what: str) -> T:
    deadline = time.monotonic() + GUARD
    while not (found := condition()):
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.02)
    return found


@contextmanager
def listener(behave: Callable[[socket.socket], None] | None = None) -> Iterator[int]:
    """The port of something that takes connections. Without behaviour it never says a word, like a frozen server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        if behave is None:
            yield server.getsockname()[1]
            return
        thread = threading.Thread(target=_serve, args=(server, behave))
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(server: socket.socket, behave: Callable[[socket.socket], None]) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            try:
                behave(connection)
            except OSError:  # the client hung up, which is what it is here for
                pass


def xmpp_with(pair: KeyPair, folder: Path) -> Callable[[socket.socket], None]:
    """The first words of an XMPP server that shows this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    file = folder / "pair.pem"
    file.write_bytes(pair.key + pair.certificate)
    context.load_cert_chain(file)

    def behave(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(
            b"<?xml version='1.0'?><stream:stream xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>"
            b"<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:features>"
        )
        connection.recv(4096)
        connection.sendall(b"<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(1)

    return behave


def listening_sockets(pid: int) -> list[tuple[str, int]]:
    """Every TCP address at which a process listens, over both versions of IP; addresses as /proc writes them."""
    own = {os.readlink(f"/proc/{pid}/fd/{entry}") for entry in os.listdir(f"/proc/{pid}/fd")}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            address, _, port = fields[1].rpartition(":")
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                found.append((address, int(port, 16)))
    return found


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True
