"""The ``mosaic`` command as a person or a script meets it: words in, exit code and two texts out."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from gym_gui.cli.main import main
from gym_gui.tests.support.daemon_process import WORKERS

PROJECT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Answer:
    """What a command line led to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class CommandLine:
    """Runs command lines against one data root. Output is not a terminal unless a test makes it one."""

    def __init__(self, home: Path, environment: Mapping[str, str] | None = None) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MOSAIC_")}
        self.environment = {
            **kept,
            "MOSAIC_HOME": str(home),
            "MOSAIC_WORKER_PATH": str(WORKERS),
            "MOSAIC_TRAINER_PORT": "0",
            **{name: value for name, value in (environment or {}).items() if name.startswith("MOSAIC_")},
        }

    def __call__(self, *words: str) -> Answer:
        """Run one command line in this process."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with mock.patch.dict(os.environ, self.environment, clear=True), redirect_stdout(out), redirect_stderr(err):
            code = main(list(words))
        return Answer(code, _text(out), _text(err))

    def process(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start one command line in a process of its own."""
        command = [sys.executable, "-m", "gym_gui.cli", *words]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **options}
        return subprocess.Popen(command, cwd=PROJECT, env=self.environment, **options)


def _text(stream: io.TextIOWrapper) -> str:
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode()
