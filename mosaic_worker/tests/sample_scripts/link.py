"""The script's end of the control socket in plain Python: what a `TrainingSession` speaks, without torch."""

from __future__ import annotations

import json
import os
import select
import socket
from pathlib import Path
from typing import Any

from mosaic_worker.supervision.control import CONTROL_FD_VARIABLE, RUN_DIR_VARIABLE


class Link:
    """One conversation with the supervisor that started this process."""

    def __init__(self) -> None:
        self.run_dir = Path(os.environ[RUN_DIR_VARIABLE])
        self._socket = socket.socket(fileno=int(os.environ.pop(CONTROL_FD_VARIABLE)))
        self._socket.set_inheritable(False)
        self._pending = b""

    def say(self, **message: Any) -> None:
        self.send(json.dumps(message).encode() + b"\n")

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError:
            return  # the supervisor is gone, which hear() reports

    def hear(self, timeout: float | None = None) -> str | None:
        """The next word, None when none came in time. A supervisor that is gone wants what it would say last: stop."""
        while b"\n" not in self._pending:
            if not select.select([self._socket], [], [], timeout)[0]:
                return None
            received = self._socket.recv(4096)
            if not received:
                return "stop"
            self._pending += received
        line, _, self._pending = self._pending.partition(b"\n")
        return str(json.loads(line)["do"])

    def wait_for_go(self, **plan: int) -> bool:
        """Say that everything is prepared and wait until training may begin; False when it may not."""
        self.say(at="ready", **plan)
        while (word := self.hear()) not in ("go", "stop"):
            pass
        return word == "go"

    def save_checkpoint(self, step: int) -> None:
        """A folder that looks like a checkpoint from outside, whole or absent."""
        name = f"step-{step:012d}"
        folder = self.run_dir / "checkpoints"
        building = folder / f".{name}"
        building.mkdir(parents=True)
        (building / "checkpoint.json").write_text(json.dumps({"step": step}))
        building.rename(folder / name)
        self.say(at="checkpoint", step=step, path=f"checkpoints/{name}")
