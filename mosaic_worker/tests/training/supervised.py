"""A script's process with the supervisor's end of its control socket in the test's hand."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mosaic_worker
from mosaic_protocol import events
from mosaic_protocol.outbox import OutboxReader
from mosaic_worker.state import checkpoints
from mosaic_worker.supervision import control

HANG_SECONDS = 60.0
CHECKOUT = Path(mosaic_worker.__file__).parents[1]


class Supervised:
    """A script's process and the supervisor's end of its control socket."""

    def __init__(self, arguments: list[str], run_dir: Path, **environment: str) -> None:
        self.run_dir = run_dir
        self.socket, theirs = socket.socketpair()
        variables = {
            "PYTHONPATH": str(CHECKOUT),
            control.CONTROL_FD_VARIABLE: str(theirs.fileno()),
            control.RUN_DIR_VARIABLE: str(run_dir),
            control.TENSORBOARD_VARIABLE: "0",
        }
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **variables, **environment},
            cwd=run_dir,
            pass_fds=[theirs.fileno()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        theirs.close()
        self._lines = self.socket.makefile("rb")
        self.socket.settimeout(HANG_SECONDS)

    def tell(self, word: str) -> None:
        self.socket.sendall(json.dumps({"do": word}).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._lines.readline() or '{"at": "closed"}')
        return message

    def hear_until(self, at: str) -> list[dict[str, Any]]:
        heard = [self.hear()]
        while heard[-1]["at"] not in (at, "closed"):
            heard.append(self.hear())
        assert heard[-1]["at"] == at, (heard, self.process.communicate(timeout=HANG_SECONDS))
        return heard

    def hang_up(self) -> None:
        self._lines.close()
        self.socket.close()

    def end(self) -> int:
        self.output, self.errors = self.process.communicate(timeout=HANG_SECONDS)
        return self.process.returncode

    def cpu_ticks(self) -> int:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def rows(self) -> list[events.MetricRow]:
        reader = OutboxReader(self.run_dir / "outbox", "script")
        records = [events.decode(line) for line in reader.read(10**6)]
        reader.close()
        assert all(isinstance(record, events.MetricRow) for record in records)
        return records  # type: ignore[return-value]

    def wait_for_rows(self, more_than: int) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        while len(self.rows()) <= more_than:
            assert time.monotonic() < deadline, "the journal does not grow"
            time.sleep(0.01)

    def last_checkpoint(self) -> checkpoints.Checkpoint:
        return checkpoints.load(checkpoints.list_checkpoints(self.run_dir / "checkpoints")[-1])

    def clean_up(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.hang_up()


Start = Callable[..., Supervised]


@contextmanager
def starting(folder: Path) -> Iterator[Start]:
    """Starts scripts that are gone after the block."""
    started: list[Supervised] = []

    def start(*arguments: str, **environment: str) -> Supervised:
        started.append(Supervised(list(arguments), folder, **environment))
        return started[-1]

    yield start
    for script in started:
        script.clean_up()


def ticks_used_within(script: Supervised, seconds: float) -> int:
    before = script.cpu_ticks()
    time.sleep(seconds)
    return script.cpu_ticks() - before
