"""Live sessions for tests: real ones of the play worker, and what a screen from another machine has of them."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from gym_gui.tests.support.daemon_process import HANG_GUARD, DaemonProcess, wait_for
from mosaic_protocol.live.client import LiveClient, SessionAwayError
from mosaic_protocol.live.key_map import KeyMap
from mosaic_protocol.live.messages import Command, Hello
from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.live.server import LiveServer

HELLO = Hello("Game-v0", "other", KeyMap(), waits=True, fps=30.0)


class MadeSession:
    """The run of a worker that waits, whose live channel this process serves: it can be made to say anything."""

    def __init__(self, daemon: DaemonProcess, gate: Path) -> None:
        self.run_id = daemon.submit(name="made", total_timesteps=3, params={"gate": str(gate), "gate_at": 1})
        self._gate = gate
        daemon.wait_state(self.run_id, "EXEC")
        self.heard: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        folder = daemon.paths.run(self.run_id).directory
        self.server = LiveServer(folder, HELLO, self.heard.put, lambda: "")

    def next_command(self) -> Command:
        while True:
            if (command := self.heard.get(timeout=HANG_GUARD)) is not None:
                return command

    def close(self) -> None:
        self.server.close()
        self._gate.touch()


def submit_session(daemon: DaemonProcess, env_id: str, **params: Any) -> str:
    """A run of the play worker; its id."""
    worker = {"type": "play", "module": "play_worker.cli"}
    config = {"algo": "play", "env_id": env_id, "seed": 7, "params": params}
    described = {
        "run_name": "play",
        "resources": {"cpus": {"requested": 1}},
        "artifacts": {"tensorboard": {"enabled": False}},
        "metadata": {"worker": {**worker, "config": config}},
    }
    return daemon.client.submit(described).run.run_id


def met(what: str, join: Callable[[], LiveClient]) -> LiveClient:
    """A client whose session has said hello, once there is one."""

    def tried() -> LiveClient | None:
        client = None
        try:
            client = join()
            client.wait_for_hello()
        except SessionAwayError:
            if client is not None:
                client.close()
            return None
        return client

    return wait_for(what, tried)


@contextmanager
def watched(daemon: DaemonProcess, run_id: str) -> Iterator[LiveClient]:
    """On the session's own machine."""
    with closing(met("the session to listen", lambda: LiveClient(daemon.paths.run(run_id).directory))) as client:
        yield client


def until(client: LiveClient, what: str, probe: Callable[[], object]) -> None:
    """Receive until something is so."""
    deadline = time.monotonic() + HANG_GUARD
    while not probe():
        assert time.monotonic() < deadline, f"waited in vain for {what}: {client.state}"
        client.receive(0.05)


def elsewhere(daemon: DaemonProcess, home: Path) -> MosaicPaths:
    """A data root as behind a socket that SSH forwards: it has the daemon's socket and token, and no run."""
    paths = MosaicPaths(home)
    paths.trainer.mkdir(parents=True, mode=0o700)
    paths.socket.symlink_to(daemon.paths.socket)
    paths.token_file.symlink_to(daemon.paths.token_file)
    return paths


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
