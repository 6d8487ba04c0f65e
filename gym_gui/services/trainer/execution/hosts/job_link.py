"""The way to the agent in a job of Slurm: a step of the job, started by ``srun`` on the login node.

Slurm forwards no sockets: the standard streams of the step carry the calls of the daemon there and the connections of
the worker back (:class:`mosaic_host.carrier.Carrier`).
"""

from __future__ import annotations

import asyncio
import posixpath
import socket
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from gym_gui.services.hosts.reach import AwayError
from gym_gui.services.hosts.way import way_to
from gym_gui.services.trainer.execution.executor import tell_of_host
from gym_gui.services.trainer.execution.hosts.link import HostLink, started
from gym_gui.services.trainer.execution.hosts.slurm_jobs import Job, step
from mosaic_host import wire
from mosaic_host.carrier import Carrier, Streams
from mosaic_host.client import AgentClient
from mosaic_host.hosted import CODE_VARIABLE
from mosaic_host.hosting import HostFacts
from mosaic_protocol.ssh_command import posix_command, start_tied
from mosaic_protocol.unix_socket import dialled


def words_of(facts: HostFacts, code_folder: str, what: str, run_id: str) -> tuple[list[str], list[str]]:
    """Environment and command of ``mosaic_host.job``."""
    environment = [f"PYTHONPATH={code_folder}", f"{CODE_VARIABLE}={posixpath.basename(code_folder)}"]
    return environment, [facts.python, "-m", "mosaic_host.job", what, "--home", facts.home, "--run", run_id]


class JobLink(HostLink):
    """Like the link to a host, for one job. ``login`` is the link to the login node, with what was found there."""

    def __init__(self, login: HostLink, job: Job, daemon: Path, changed: Callable[[], None]) -> None:
        super().__init__(login.host, daemon, login.code, changed)
        self.job = job
        self._login, self._daemon_socket = login, daemon
        self.what = f"job {job.number} of {login.host.name}"
        self.why_away = f"{self.what} was not reached yet"
        self._carrying: asyncio.Task[None] | None = None

    async def _once(self) -> None:
        facts = self._login.facts
        if facts is None or not self._login.code_folder:
            raise AwayError(self._login.why_away)
        environment, command = words_of(facts, self._login.code_folder, "attach", self.job.run_id)
        arguments = way_to(self.host).arguments("exec " + posix_command(*step(self.job, environment, command)))
        with tempfile.TemporaryFile() as errors:
            process = await started(
                lambda: start_tied(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
            )
            try:
                await self._hold(process, errors, posixpath.basename(self._login.code_folder), self._login.code_folder)
            finally:
                if self._carrying is not None:
                    self._carrying.cancel()

    async def _client_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AgentClient:
        carrier = Carrier((reader, writer), self._dial_daemon, is_first=True)
        mine, carried = socket.socketpair()
        carrier.carry_along(*await asyncio.open_unix_connection(sock=carried))
        self._carrying = asyncio.create_task(carrier.run())
        return AgentClient(*await asyncio.open_unix_connection(sock=mine, limit=wire.LINE_BYTES), tell_of_host)

    async def _dial_daemon(self) -> Streams:
        return await asyncio.open_unix_connection(dialled(self._daemon_socket))
