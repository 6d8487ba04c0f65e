"""A session without a daemon, as a program meets it: a process, its socket, and the steps it recorded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mosaic_protocol.events import TrainingStep
from mosaic_protocol.live.client import LiveClient, SessionAwayError
from mosaic_protocol.live.messages import Command
from mosaic_worker.tests.recording.step_journals import steps_in

ROOT = Path(__file__).resolve().parents[2]
FAULTY = "play_worker.tests.faulty_games:Faulty-v0"
HANG_GUARD = 60.0


class Session:
    """One process of the worker. Use as a context manager: it has ended when the block is left."""

    def __init__(self, folder: Path, env_id: str, environment: Mapping[str, str] | None = None, **params: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        config = folder / "config.json"
        seed = params.pop("seed", 7)
        content = {"algo": "play", "env_id": env_id, "seed": seed, "total_timesteps": params.pop("total", None)}
        config.write_text(json.dumps({**content, "params": params}))
        self._output = (folder / "output").open("wb")
        variables = {**os.environ, "PYTHONPATH": str(ROOT), "MOSAIC_TENSORBOARD": "0", **(environment or {})}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "play_worker.cli", "--config", str(config)],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        self._client: LiveClient | None = None

    @property
    def run_dir(self) -> Path:
        (found,) = (self.folder / "runs").iterdir()
        return found

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text()

    @property
    def client(self) -> LiveClient:
        deadline = time.monotonic() + HANG_GUARD
        while self._client is None:
            assert self.process.poll() is None and time.monotonic() < deadline, self.output
            try:
                self._client = LiveClient(self.run_dir)
                self._client.wait_for_hello()
            except (SessionAwayError, OSError, ValueError):
                time.sleep(0.02)
        return self._client

    def forget_client(self) -> None:
        """Leave without a word; the next look is that of another watcher."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def send(self, *commands: Command) -> None:
        self.client.send(*commands)

    def until(self, what: str, probe: Callable[[], object]) -> None:
        """Look at what the session tells until a probe holds."""
        deadline = time.monotonic() + HANG_GUARD
        while not probe():
            assert time.monotonic() < deadline, f"waited in vain for {what}: {self.client.state} {self.output}"
            self.client.receive(0.05)

    def ended(self) -> int:
        """Wait for its end; the exit status."""
        return self.process.wait(HANG_GUARD)

    def steps(self) -> list[TrainingStep]:
        return steps_in(self.run_dir / "outbox")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(HANG_GUARD)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._output.close()


def told(step: TrainingStep) -> tuple[Any, ...]:
    """What two recordings of the same session have in common."""
    ended = (step.terminated, step.truncated)
    return step.step, step.episode, step.actor, step.observation, step.action, step.reward, *ended
