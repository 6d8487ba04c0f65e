"""``python -m mosaic_host.job agent|attach``: a host agent for one run, in the foreground of a job of a batch system.

``agent`` is the job: it serves until it is told to leave, until nobody needs it, or until the batch system sends
SIGTERM because the job is about to end. Then it lets the worker stop politely, with a checkpoint, and leaves a note of
that in the folder of the run. ``attach`` is the way to it: a step of the job whose standard streams a :class:`Carrier`
shares between the calls of the daemon and the connections of the worker, since a batch system forwards no sockets.

The data root is on a disk that the login node and the job share; the sockets are in a folder of the job's machine, to
which a link in ``jobs/`` leads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mosaic_host import wire
from mosaic_host.__main__ import bound, reset_signals
from mosaic_host.attach import READY, take_over
from mosaic_host.carrier import Carrier, Streams
from mosaic_host.executor import WorkerHandle
from mosaic_host.hosted import HostedAgent
from mosaic_host.hosting import LEFT_NOTE
from mosaic_host.server import AgentServer
from mosaic_host.telling import Tell
from mosaic_host.warm_pool import WarmPool
from mosaic_protocol.paths import MosaicPaths, checked_run_id
from mosaic_protocol.unix_socket import dialled, listener
from mosaic_protocol.whole_files import write_whole

ANNOUNCED, PREEMPTED = "about to end", "preempted"
"""Why the agent of a job left before its worker had come to an end."""
_STEP_SIGNALLED = signal.SIGUSR1
"""What a step sends the agent when it is told to end itself."""
_ASK_TIMES = 5
AGENT, DAEMON = "agent.sock", "d.sock"
"""Names in the folder of a job."""
_SILENT_SECONDS = 30.0
"""A daemon that is there asks for something every other second."""
_LAST_ANSWERS_SECONDS = 3.0
"""How long the agent stays after its last worker, so that the daemon learns how that ended."""
_LOOK_SECONDS = 0.2


def job_folder(home: Path, run_id: str) -> Path:
    """Where the sockets of a run's job are found, in the job."""
    return home / "jobs" / checked_run_id(run_id)


def main() -> None:
    options = _parsed()
    os.umask(0o077)
    if options.what == "agent":
        reset_signals()
        asyncio.run(_agent(MosaicPaths(options.home.absolute()), options.run, options.linger))
    else:
        asyncio.run(_attach(job_folder(options.home.absolute(), options.run)))
        os._exit(0)  # a thread may hang in a read that nobody answers any more


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mosaic_host.job", description=__doc__)
    parser.add_argument("what", choices=["agent", "attach"])
    parser.add_argument("--home", type=Path, required=True, help="MOSAIC's folder on the disk that the job shares")
    parser.add_argument("--run", required=True, help="the run that the job is for")
    parser.add_argument("--linger", type=float, default=300.0, help="seconds to stay without a worker or a daemon")
    return parser.parse_args()


class JobAgent(HostedAgent):
    """Several jobs of a user may be on one machine, with one data root."""

    def __init__(self, paths: MosaicPaths, run_id: str, warm_pool: WarmPool, tell: Tell) -> None:
        super().__init__(paths, warm_pool, tell)
        self._run_id = run_id

    def has_workers(self) -> bool:
        return self.is_alive_here(self._run_id)


# ---- the agent ---------------------------------------------------------------------------------------------------


async def _agent(paths: MosaicPaths, run_id: str, linger: float) -> None:
    agents: list[HostedAgent] = []
    server = AgentServer(linger, lambda: any(agent.has_workers() for agent in agents))
    agent = JobAgent(paths, run_id, WarmPool(paths.logs / "fork_server.log", enabled=False), server.tell)
    agents.append(agent)
    agent.leave = server.leave
    with _sockets(job_folder(paths.root, run_id)) as folder:
        leaving: list[asyncio.Task[None]] = []
        asking: list[asyncio.Task[None]] = []

        def leave(why: str) -> None:
            if not leaving:
                leaving.append(asyncio.create_task(_leave_politely(agent, paths, run_id, why)))

        async def leave_if_preempted() -> None:
            if await asyncio.to_thread(_is_preempted):
                leave(PREEMPTED)

        def on_step_signalled() -> None:
            asking.append(asyncio.create_task(leave_if_preempted()))

        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, leave, ANNOUNCED)
        loop.add_signal_handler(_STEP_SIGNALLED, on_step_signalled)
        await server.serve(agent, bound(folder / AGENT))


@contextmanager
def _sockets(link: Path) -> Iterator[Path]:
    """A folder on a disk of this machine, where sockets work and nobody else gets in."""
    folder = Path(tempfile.mkdtemp(prefix="mosaic-job-"))
    try:
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = link.with_name(f".{link.name}.{folder.name}")
        draft.symlink_to(folder)
        draft.replace(link)
        yield folder
    finally:
        with suppress(OSError):
            if link.readlink() == folder:
                link.unlink()
        shutil.rmtree(folder, ignore_errors=True)


def _is_preempted() -> bool:
    """Whether Slurm gives the place of this job to another one. It tells the steps of a job alone, and so does anybody
    who ends the ``srun`` of a step."""
    words = ["squeue", "--noheader", f"--jobs={os.environ.get('SLURM_JOB_ID', '')}", "--Format=PreemptTime:40"]
    for _ in range(_ASK_TIMES):
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
            if done.returncode == 0:
                return done.stdout.strip()[:1].isdigit()
        time.sleep(_LOOK_SECONDS)
    return False


async def _leave_politely(agent: HostedAgent, paths: MosaicPaths, run_id: str, why: str) -> None:
    """The batch system ends the job soon: ask the worker to stop, and stay until it has."""
    print(f"mosaic_host: the job is {why}: run {run_id} is asked to stop", file=sys.stderr, flush=True)
    with suppress(OSError):
        note = json.dumps({"why": why, "at": time.time()})
        await asyncio.to_thread(write_whole, paths.run(run_id).directory / LEFT_NOTE, note, mode=0o600)
    for attempt in await asyncio.to_thread(agent.attempts, run_id):
        handle = WorkerHandle(run_id, attempt)
        claimant = await agent.claimant(handle)
        if claimant is not None and claimant.alive:
            await agent.ask_to_stop(WorkerHandle(run_id, attempt, claimant.locator))
    while await asyncio.to_thread(agent.has_workers):  # noqa: ASYNC110 - processes tell nobody that they end
        await asyncio.sleep(_LOOK_SECONDS)
    await asyncio.sleep(_LAST_ANSWERS_SECONDS)
    agent.leave()


# ---- the way to it -----------------------------------------------------------------------------------------------


async def _attach(link: Path) -> None:
    folder = await asyncio.to_thread(link.resolve)

    async def agent() -> Streams:
        return await asyncio.open_unix_connection(dialled(folder / AGENT), limit=wire.LINE_BYTES)

    try:
        _, probe = await agent()
    except OSError as error:
        sys.exit(f"mosaic_host: the agent of the job does not answer at {link / AGENT}: {error.strerror}")
    probe.close()
    reader, writer = await _standard_streams()
    carrier = Carrier((reader, writer), agent, is_first=False, patience=_SILENT_SECONDS)
    name = f"{secrets.token_hex(10)}.s"
    listening = await asyncio.start_unix_server(carrier.carry, dialled(folder / name))
    await asyncio.to_thread(take_over, folder, Path(DAEMON).stem, name, signal.SIGKILL)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _tell_agent, folder / AGENT)
    writer.write(READY)
    await writer.drain()
    try:
        await carrier.run()
    finally:
        listening.close()
        with suppress(OSError):
            (folder / name).unlink()


def _tell_agent(path: Path) -> None:
    """Slurm is about to end this step. What the worker says last still goes through it until then."""
    if pid := listener(path):
        os.kill(pid, _STEP_SIGNALLED)


async def _standard_streams() -> Streams:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=wire.LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), sys.stdout.buffer
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


if __name__ == "__main__":
    main()
