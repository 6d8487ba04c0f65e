"""The two servers that a run starts for itself keep the same promises."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from spade_bdi_rl_worker.tests.xmpp.agents_for_tests import (
    Elsewhere,
    agent_for,
    in_a_loop,
    is_gone,
    listener,
    listening_sockets,
    sentence_of,
    wait_until,
)
from spade_bdi_rl_worker.xmpp import (
    Account,
    Pulse,
    ServerError,
    XmppServer,
    XmppSettings,
    check,
    choose_server,
    connect,
    leave,
)
from spade_bdi_rl_worker.xmpp.certificate import make_pair
from spade_bdi_rl_worker.xmpp.embedded import EmbeddedServer
from spade_bdi_rl_worker.xmpp.prosody import find_prosody

KINDS = [
    pytest.param("prosody", marks=pytest.mark.skipif(not find_prosody(), reason="prosody is not installed")),
    "embedded",
]
RUN_ID = "01K9ZQ3V7X0000000000000000"
REGISTER = (
    "<iq type='set' id='r'><query xmlns='jabber:iq:register'><username>stranger</username>"
    "<password>secret</password></query></iq>"
)
STREAM = (
    "<stream:stream to='localhost' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>"
)


def started(kind: str, run_dir: Path) -> Any:
    return choose_server(XmppSettings(server=kind), run_dir)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One server for all tests that do it no harm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOSAIC_RUN_ID", RUN_ID)
        patch.setenv("MOSAIC_XMPP_PASSWORD", "of another server")
        run_dir, elsewhere = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("elsewhere")
        patch.setenv("TMPDIR", str(elsewhere))
        with started(request.param, run_dir) as server:
            server.run_dir = run_dir
            yield server
        assert is_gone(server.pid)
        assert not list(elsewhere.iterdir()), "whatever it leaves is in the folder of its run"


async def refused_login(account: Account, server: XmppServer) -> str:
    try:
        await connect(agent_for(account), server, timeout=20)
    except ServerError as error:
        return str(error)
    raise AssertionError("it was let in")


def test_agents_log_in_and_write_to_each_other(server: Any) -> None:
    from spade.behaviour import OneShotBehaviour
    from spade.message import Message

    heard: list[tuple[str, str]] = []

    class Listen(OneShotBehaviour):
        async def run(self) -> None:
            message = await self.receive(timeout=30)
            heard.append((message.sender.bare, message.body))

    class Speak(OneShotBehaviour):
        async def run(self) -> None:
            # Agents of one process hand messages over directly; this one goes through the server.
            message = Message(to="agent_2@localhost", body="slippery", metadata={"performative": "tell"})
            await self._xmpp_send(message)

    async def main() -> None:
        speaker, hearer = agent_for(server.account("agent-1")), agent_for(server.account("agent_2"))
        listening = Listen()
        hearer.add_behaviour(listening)
        await connect(hearer, server)
        await connect(speaker, server)
        speaker.add_behaviour(Speak())
        await listening.join(timeout=30)
        await leave(speaker)
        await leave(hearer)

    in_a_loop(main)
    assert heard == [("agent-1@localhost", "slippery")]
    assert server.problem() == ""


def test_it_listens_on_the_loopback_interface_at_one_port_and_nowhere_else(server: Any) -> None:
    assert listening_sockets(server.pid) == [("0100007F", server.port)]


def test_nobody_can_register(server: Any) -> None:
    with closing(_secured(server)) as stream:
        stream.sendall(REGISTER.encode())
        said = stream.recv(4096)
    assert b"type='result'" not in said and b'type="result"' not in said

    said_to_stranger = in_a_loop(lambda: refused_login(Account("stranger@localhost", "secret"), server))
    assert "password is wrong, or there is no such account" in said_to_stranger


@pytest.mark.parametrize("is_secured", [False, True])
def test_who_does_not_log_in_is_cut_off_before_the_memory_is_full(server: Any, is_secured: bool) -> None:
    def open_stream() -> socket.socket:
        if is_secured:
            return _secured(server)
        plain = socket.create_connection((server.host, server.port), 20)
        plain.sendall(STREAM.encode())
        return plain

    with closing(open_stream()) as stream:
        assert _is_cut_off(stream, b"<auth>" + b"x" * 2**20)


def _is_cut_off(stream: socket.socket, talk: bytes) -> bool:
    """Whether the server hangs up on somebody who talks and talks; not when it is silent."""
    try:
        for _ in range(64):
            stream.sendall(talk)
        while stream.recv(2**16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def _secured(server: Any) -> ssl.SSLSocket:
    """A stream after the handshake, before the login."""
    plain = socket.create_connection((server.host, server.port), 20)
    plain.sendall(STREAM.encode())
    _heard(plain, b"features>")
    plain.sendall(b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")
    _heard(plain, b"proceed")
    stream = ssl.create_default_context(cafile=server.certificate).wrap_socket(plain, server_hostname=server.domain)
    stream.sendall(STREAM.encode())
    assert b"iq-register" not in _heard(stream, b"features>")
    return stream


def _heard(stream: socket.socket, last: bytes) -> bytes:
    heard = b""
    while last not in heard:
        more = stream.recv(4096)
        assert more, f"it hung up after {heard!r}"
        heard += more
    return heard


def test_a_wrong_password_and_a_wrong_certificate_are_told_apart(server: Any, tmp_path: Path) -> None:
    account = server.account("agent-1")
    wrong = dataclasses.replace(account, password="wrong")
    assert "password is wrong" in in_a_loop(lambda: refused_login(wrong, server))

    other = tmp_path / "other.pem"
    other.write_bytes(make_pair(server.domain).certificate)
    impostor = Elsewhere(server.host, server.port, server.domain, other)
    assert "is not trusted" in in_a_loop(lambda: refused_login(account, impostor))
    assert server.problem() == ""


def test_secrets_are_in_no_file_no_command_line_and_no_log(server: Any) -> None:
    account = server.account("agent-1")
    assert account.password not in repr(account)
    files = [path for path in (server.run_dir / "xmpp").rglob("*") if path.is_file()]
    assert files
    for path in [*files, Path(f"/proc/{server.pid}/cmdline"), Path(f"/proc/{server.pid}/environ")]:
        content = path.read_bytes()
        assert account.password.encode() not in content and b"PRIVATE KEY" not in content, path
    for path in (server.run_dir / "xmpp").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert (server.run_dir / "xmpp").stat().st_mode & 0o077 == 0


def test_the_process_carries_the_mark_of_its_run_and_not_the_password_of_another_server(server: Any) -> None:
    environment = Path(f"/proc/{server.pid}/environ").read_bytes().split(b"\0")
    assert f"MOSAIC_RUN_ID={RUN_ID}".encode() in environment
    assert not any(variable.startswith(b"MOSAIC_XMPP_PASSWORD") for variable in environment)


def test_a_name_that_is_no_part_of_a_jid_is_refused(server: Any) -> None:
    for name in ("", "Agent 1", "../agent", "a@b", "a/b", "-"):
        assert "cannot be called" in sentence_of(lambda name=name: server.account(name))


@pytest.mark.parametrize("kind", KINDS)
def test_a_port_that_is_taken_is_named(kind: str, tmp_path: Path) -> None:
    with listener() as port:
        settings = XmppSettings(server=kind, port=port)  # type: ignore[arg-type]
        assert f"Port {port} of 127.0.0.1 is taken" in sentence_of(lambda: check(settings))
        assert f"Port {port} of 127.0.0.1 is taken" in sentence_of(choose_server(settings, tmp_path).__enter__)


async def what_the_pulse_says(server: Any, harm: Callable[[], None], timeout: float = 30) -> tuple[str, float]:
    agent = agent_for(server.account("agent"))
    await connect(agent, server)
    said: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with Pulse(agent, server, said.set_result) as pulse:
        await asyncio.sleep(0)  # the watch has begun
        began = time.monotonic()
        harm()
        sentence = await asyncio.wait_for(said, timeout)
        assert pulse.problem == sentence
        seconds = time.monotonic() - began
    await leave(agent)
    return sentence, seconds


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_server_is_noticed_and_named(kind: str, tmp_path: Path) -> None:
    with started(kind, tmp_path) as server:
        sentence, _ = in_a_loop(lambda: what_the_pulse_says(server, lambda: os.kill(server.pid, signal.SIGKILL)))
        assert "killed by signal 9" in sentence
        assert server.problem() == sentence
        account = server.account("agent") if kind == "prosody" else Account("agent@localhost", "any")
        assert "No XMPP server listens" in in_a_loop(lambda: refused_login(account, server))


@pytest.mark.skipif(not find_prosody(), reason="prosody is not installed")
def test_a_frozen_server_is_noticed_and_named(tmp_path: Path) -> None:
    async def refused_by_the_frozen(server: Any) -> str:
        try:
            await connect(agent_for(server.account("agent")), server, timeout=0.5)
        except ServerError as error:
            return str(error)
        raise AssertionError("it was let in")

    with started("prosody", tmp_path) as server:
        freeze = lambda: os.kill(server.pid, signal.SIGSTOP)  # noqa: E731
        sentence, seconds = in_a_loop(lambda: what_the_pulse_says(server, freeze))
        assert f"pid {server.pid}) is stopped by a signal" in sentence
        assert seconds < 20, "four seconds, on a machine that has time"
        # Somebody else's frozen server is known by its silence alone.
        elsewhere = Elsewhere(server.host, server.port, server.domain, server.certificate)
        elsewhere.account = server.account  # type: ignore[method-assign]
        assert "frozen or overloaded" in in_a_loop(lambda: refused_by_the_frozen(elsewhere))
    assert is_gone(server.pid), "a stopped process ends with its run all the same"


@pytest.mark.skipif(not find_prosody(), reason="prosody is not installed")
def test_a_pulse_notices_silence_by_itself_and_blames_nobody_while_its_own_loop_is_busy(tmp_path: Path) -> None:
    async def main(server: Any) -> tuple[str, str]:
        elsewhere = Elsewhere(server.host, server.port, server.domain, server.certificate)
        agent = agent_for(server.account("agent"))
        await connect(agent, server)
        said: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        async with Pulse(agent, elsewhere, said.set_result, interval=0.05, patience=1.5) as pulse:
            os.kill(server.pid, signal.SIGSTOP)
            await asyncio.sleep(0.2)  # a ping is under way now
            time.sleep(2)  # noqa: ASYNC251 - an agent that computes
            await asyncio.sleep(0.2)  # late by the clock, though this loop has waited for a moment only
            os.kill(server.pid, signal.SIGCONT)
            await asyncio.sleep(1.5)
            while_busy = pulse.problem
            os.kill(server.pid, signal.SIGSTOP)
            when_frozen = await asyncio.wait_for(said, 30)
        await leave(agent)
        return while_busy, when_frozen

    with started("prosody", tmp_path) as server:
        while_busy, when_frozen = in_a_loop(lambda: main(server))
    assert while_busy == ""
    assert "has stopped answering" in when_frozen


@pytest.mark.skipif(not find_prosody(), reason="prosody is not installed")
def test_a_server_dies_with_its_worker_and_not_with_the_thread_that_started_it(tmp_path: Path) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", _WORKER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    try:
        assert worker.stdout is not None
        pid, problem = worker.stdout.readline().split(" ", 1)
        assert problem.strip() == "" and not is_gone(int(pid)), problem
        os.kill(int(pid), signal.SIGSTOP)  # also when it cannot do anything about it itself
    finally:
        worker.kill()
        worker.communicate()
    wait_until(lambda: is_gone(int(pid)), "the end of the server")


_WORKER = textwrap.dedent(
    """
    import sys, threading, time
    from pathlib import Path
    from spade_bdi_rl_worker.xmpp import XmppSettings, choose_server

    server = choose_server(XmppSettings(server="prosody"), Path(sys.argv[1]))
    starter = threading.Thread(target=server.__enter__)
    starter.start()
    starter.join()
    server.account("agent")
    print(server.pid, server.problem(), flush=True)
    time.sleep(600)
    """
)


@pytest.mark.skipif(not find_prosody(), reason="prosody is not installed")
def test_a_server_that_dies_while_it_is_asked_is_not_waited_for(tmp_path: Path) -> None:
    class JustDying:
        """Its end is not known yet; only its answers have ended."""

        def problem(self) -> str:
            return ""

        def end(self) -> None:
            pass

    server = EmbeddedServer(tmp_path)
    server._answers, theirs = os.pipe()
    server._process = JustDying()  # type: ignore[assignment]
    os.close(theirs)
    said: list[str] = []
    asking = threading.Thread(target=lambda: said.append(sentence_of(server._read_line)), daemon=True)
    asking.start()
    wait_until(lambda: said, "the answer")
    server.__exit__(None, None, None)
    assert "has ended while it was asked something" in said[0]


def test_a_log_does_not_fill_the_disk(tmp_path: Path) -> None:
    from spade_bdi_rl_worker.xmpp.server_process import ServerProcess

    flood = "import sys\nfor _ in range(20_000): print('x' * 90)\nprint('\\x1b[31mthe last line')\nsys.exit(3)"
    process = ServerProcess("flood", [sys.executable, "-c", flood], tmp_path)
    process.start()
    wait_until(process.problem, "its end")
    process.end()
    assert process.problem().startswith("The XMPP server of this run (flood) ended with status 3.")
    assert "the last line" in process.problem() and "\x1b" not in process.problem()
    assert (tmp_path / "flood.log").stat().st_size < 300_000
