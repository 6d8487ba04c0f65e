"""``python -m mosaic_host``: a host agent of its own, for an executor that is not in the same process.

It prints the agent's pid and returns as soon as the agent can be reached. It leaves the agent running.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import signal
import socket
import sys
from pathlib import Path

from mosaic_host.hosted import HostedAgent
from mosaic_host.server import AgentServer
from mosaic_host.warm_pool import WarmPool
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.unix_socket import dialled, listener


def main() -> None:
    options = _parsed()
    os.umask(0o077)
    paths = MosaicPaths(options.home.absolute())
    paths.logs.mkdir(parents=True, exist_ok=True)
    listening = bound(options.socket.absolute())
    if not options.foreground:
        _leave_the_session(paths.logs / "host_agent.log")
    reset_signals()
    asyncio.run(_serve(paths, listening, options))
    options.socket.unlink(missing_ok=True)


def bound(path: Path) -> socket.socket:
    """A socket that listens at a path where nobody else does. An agent that was killed leaves its file behind; a lock,
    which its process cannot leave behind, keeps two that start at once from taking each other's away."""
    lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # for as long as this process, or its fork, lives
    except BlockingIOError:
        sys.exit(f"mosaic_host: another agent has {path}: give another --socket, or end that one first")
    if path.is_socket() and listener(path) is None:
        path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(dialled(path))
    except OSError as error:
        sys.exit(f"mosaic_host: cannot listen at {path}: {error.strerror}")
    listening.listen()
    return listening


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mosaic_host", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="the data root with the runs of this machine")
    parser.add_argument("--socket", type=Path, required=True, help="where to listen; in a folder that is yours alone")
    parser.add_argument("--linger", type=float, default=600.0, help="seconds to stay when no client is connected")
    parser.add_argument("--stay", action="store_true", help="stay also without a client while a worker lives")
    parser.add_argument("--cold", action="store_true", help="spawn every worker, without fork servers")
    parser.add_argument("--foreground", action="store_true", help="stay in this session, for a service manager")
    return parser.parse_args()


async def _serve(paths: MosaicPaths, listening: socket.socket, options: argparse.Namespace) -> None:
    agents: list[HostedAgent] = []
    server = AgentServer(options.linger, lambda: options.stay and any(agent.has_workers() for agent in agents))
    pool = WarmPool(paths.logs / "fork_server.log", enabled=not options.cold, tell=server.tell)
    agent = HostedAgent(paths, pool, server.tell)
    agents.append(agent)
    agent.leave = server.leave
    await server.serve(agent, listening)


def reset_signals() -> None:
    """Whoever started it may ignore some, and workers would inherit that."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _leave_the_session(log: Path) -> None:
    """Two forks and a session in between: no terminal, and no parent that has to wait. The process that was called ends
    here, with the socket already listening."""
    told, tells = os.pipe()
    if child := os.fork():
        os.close(tells)
        os.waitpid(child, 0)
        print(os.read(told, 20).decode())
        sys.stdout.flush()
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    os.write(tells, str(os.getpid()).encode())
    os.close(told)
    os.close(tells)
    nothing, said = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.close(nothing)
    os.close(said)


if __name__ == "__main__":
    main()
