"""The way to the agent of one host: an ``ssh`` that carries the calls of the daemon there and those of workers back.

One process does both. Its standard streams lead to the agent (``mosaic_host.attach``), and it forwards a socket with a
random name in a folder that only we can enter over there; workers dial a name that leads to the newest one. Random,
because a second forward of one path fails while an sshd that lost its client still holds the first.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import posixpath
import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_bug, log_event
from gym_gui.services.hosts.book import Host
from gym_gui.services.hosts.code import Code
from gym_gui.services.hosts.reach import AwayError, HostReport, ask
from gym_gui.services.hosts.way import way_to
from gym_gui.services.trainer.execution.executor import tell_of_host
from mosaic_host import attach, wire
from mosaic_host.client import AgentClient
from mosaic_host.hosted import CODE_VARIABLE
from mosaic_host.hosting import PROTOCOL, HostFacts
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.ssh_command import SshError, end, posix_script, remote_forward, said, socket_folder, start_tied

logger = logging.getLogger(__name__)

_PING_EVERY, _PING_PATIENCE = 2.0, 6.0
_LOOK_EVERY, _LOOK_PATIENCE = 15.0, 60.0
"""Between two looks at what the host has: environments are built there meanwhile. Asking for its GPUs may take long."""
_ATTACH_SECONDS = 60.0
_SOONEST, _LATEST = 0.5, 15.0
"""Between two tries to reach a host."""
_MOST_SAID = 4000


class HostAwayError(ConnectionError):
    """The host cannot be reached in this moment."""


def daemon_id(root: Path) -> str:
    """By what name the workers of a host know the daemon of a data root: the same after each restart."""
    boot = Path("/etc/machine-id")
    machine = boot.read_text().strip() if boot.is_file() else ""
    return hashlib.sha256(f"{machine}:{root.absolute()}".encode()).hexdigest()[:16]


class HostLink:
    """Belongs to the daemon's event loop. Once opened, the link is made again whenever it breaks, until closed.

    ``changed`` is called when the host was reached and when it was lost.
    """

    def __init__(
        self, host: Host, socket: Path, code: Callable[[], Code], changed: Callable[[], None] = lambda: None
    ) -> None:
        """``socket`` is where the daemon listens; ``code`` packs what the host is given, and may block."""
        self.host, self._socket, self.code, self._changed = host, socket, code, changed
        self.what = f"host {host.name}"
        self.why_away = f"{self.what} was not reached yet"
        self.away_since: float | None = time.monotonic()
        self.facts: HostFacts | None = None
        """What the host was when it was reached last."""
        self.code_folder = ""
        self._daemon = daemon_id(socket)
        self._client: AgentClient | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._moved = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def target(self) -> str:
        """Where workers over there find the daemon."""
        assert self.facts is not None
        return f"unix:{posixpath.join(self.facts.home, 'link', self._daemon)}.sock"

    @property
    def is_open(self) -> bool:
        return self._keeper is not None

    def open(self) -> None:
        """Begin to reach the host. May be repeated."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Let go of the host; workers go on."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])

    def client_now(self) -> AgentClient:
        """Raises :class:`HostAwayError` while the host is away."""
        self.open()
        if self._client is None:
            raise HostAwayError(self.why_away)
        return self._client

    async def client(self) -> AgentClient:
        """Wait until the host can be reached, however long that takes."""
        self.open()
        while self._client is None:
            await self.next_change()
        return self._client

    async def next_change(self) -> None:
        await self._moved.wait()

    # ---- keeping it ----------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        pause = _SOONEST
        while True:
            began = time.monotonic()
            try:
                await self._once()
            except (AwayError, SshError, OSError) as error:
                self._lost(one_line(str(error)))
            except asyncio.CancelledError:
                self._lost(f"{self.what} was let go")
                raise
            except Exception as error:  # noqa: BLE001 - a bug must not cut a host off for good
                log_bug(error, host=self.host.name)
                self._lost(f"{self.what} cannot be used: {error}")
            pause = _SOONEST if time.monotonic() - began > _LATEST else min(_LATEST, 2 * pause)
            await asyncio.sleep(pause)

    async def _once(self) -> None:
        """Reach the host, and return when it is lost."""
        if not self.host.is_known:
            name = self.host.name
            raise AwayError(f"host {name} is not in hosts.toml any more: `mosaic hosts add {name} …` brings it back")
        code = await asyncio.to_thread(self.code)
        report = await asyncio.to_thread(ask, self.host, code)
        if report.problem:
            raise AwayError(
                f"host {self.host.name} has no Python for workers ({report.python}: {report.problem}): "
                f"`mosaic hosts check {self.host.name}` says what to do"
            )
        with tempfile.TemporaryFile() as errors, socket_folder() as folder:
            process = await started(lambda: self._start(report, code, folder, errors))
            await self._hold(process, errors, code.sha256, posixpath.join(report.code_folder, code.sha256))

    async def _hold(self, process: subprocess.Popen[bytes], errors: IO[bytes], code: str, code_folder: str) -> None:
        """Speak to the agent behind the standard streams of a process until it is lost, and end the process."""
        client: AgentClient | None = None
        try:
            reader, writer, listening = await _streams(process)
        except BaseException:
            end(process)
            raise
        try:
            await self._greeted(process, reader, errors)
            client = await self._client_on(reader, writer)
            if await self._is_of_another_version(client, code):
                return
            self._reached(client, code_folder)
            await self._until_silent(client)
            self._lost(f"{self.what} cannot be reached: {_words(errors) or 'the connection broke'}")
        finally:
            if client is not None:
                await client.close()
            writer.close()
            listening.close()
            process.kill()
            await asyncio.to_thread(process.wait)

    async def _client_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AgentClient:
        return AgentClient(reader, writer, tell_of_host)

    def _start(self, report: HostReport, code: Code, folder: Path, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        here, name = folder / "daemon.sock", f"{secrets.token_hex(10)}.s"
        here.symlink_to(self._socket)  # a short name without odd characters, whatever the data root is called
        there = posixpath.join(report.home, "link", name)
        words = [report.python, "-m", "mosaic_host.attach", "--home", report.home]
        words += ["--daemon", self._daemon, "--socket", name]
        around = [f"PYTHONPATH={posixpath.join(report.code_folder, code.sha256)}", f"{CODE_VARIABLE}={code.sha256}"]
        command = posix_script('exec env "$@"', *around, *words)
        forwards = [] if self.host.is_batch_system else [remote_forward(there, here)]  # no worker is there
        arguments = way_to(self.host).arguments(command, forwards=forwards)
        return start_tied(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)

    async def _greeted(self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, errors: IO[bytes]) -> None:
        try:
            async with asyncio.timeout(_ATTACH_SECONDS):
                while (line := await reader.readline()) != attach.READY:
                    if not line:
                        with suppress(subprocess.TimeoutExpired):
                            await asyncio.to_thread(process.wait, 5.0)
                        words = _words(errors) or f"the way there ended with status {process.returncode}"
                        raise AwayError(f"{self.what} cannot be reached: {words}")
        except TimeoutError:
            raise AwayError(f"{self.what} did not answer within {_ATTACH_SECONDS:.0f} s") from None

    async def _is_of_another_version(self, client: AgentClient, code: str) -> bool:
        """Whether an agent of other code was asked to leave. One that has workers stays, if it can be spoken to."""
        self.facts = await client.describe()
        if self.facts.code == code:
            return False
        if await client.retire():
            return True
        if self.facts.protocol != PROTOCOL:
            raise AwayError(
                f"{self.what} has an agent of another version of MOSAIC with living workers: it is replaced "
                "when they are over"
            )
        return False

    async def _until_silent(self, client: AgentClient) -> None:
        gone, looked = asyncio.ensure_future(client.hung_up()), time.monotonic()
        try:
            while not gone.done():
                await asyncio.wait([gone], timeout=_PING_EVERY)
                with suppress(ConnectionError):
                    async with asyncio.timeout(_PING_PATIENCE):
                        await client.warm_servers()
                    if time.monotonic() - looked > _LOOK_EVERY:
                        async with asyncio.timeout(_LOOK_PATIENCE):
                            await self._look_again(client)
                        looked = time.monotonic()
        except TimeoutError:
            pass
        finally:
            gone.cancel()

    async def _look_again(self, client: AgentClient) -> None:
        before, self.facts = self.facts, await client.describe()
        if before is None or (before.pythons, before.capacity) != (self.facts.pythons, self.facts.capacity):
            self._tell()

    def _reached(self, client: AgentClient, code_folder: str) -> None:
        self._client, self.code_folder = client, code_folder
        self.why_away, self.away_since = "", None
        log_event(logger, codes.LOG_HOST_REACHED, host=self.host.name)
        self._tell()

    def _lost(self, sentence: str) -> None:
        if self._client is not None or sentence != self.why_away:
            log_event(logger, codes.LOG_HOST_AWAY, host=self.host.name, reason=sentence)
        self._client, self.why_away = None, sentence
        self.away_since = self.away_since or time.monotonic()
        self._tell()

    def _tell(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()
        self._changed()


async def started(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Start a process in a thread. One that comes to be after the caller was cancelled is ended."""
    starting = asyncio.ensure_future(asyncio.to_thread(start))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting])
        if starting.exception() is None:
            end(starting.result())
        raise


async def _streams(
    process: subprocess.Popen[bytes],
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, asyncio.ReadTransport]:
    """From it and to it, and what has to be closed besides."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=wire.LINE_BYTES)
    listening, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), process.stdin
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop), listening


def _words(errors: IO[bytes]) -> str:
    """What ssh, or the program over there, said last."""
    errors.seek(0)
    return said(errors.read()[-_MOST_SAID:])
