"""Building one managed environment with venv and pip. A build that dies at any instant leaves nothing running."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from packaging.requirements import Requirement

from gym_gui.services.trainer.bundles.requirements import Bundle, BundleError, finder_in, installed, missing_in

MARKER_NAME = ".mosaic-bundle.json"
POLL_SECONDS = 0.1
TORCH_INDEX = "MOSAIC_TORCH_INDEX"
"""The package index to take torch from, and torch alone; without it, pip's own. As set-up reads it."""

_PROGRESS = ("Collecting ", "Downloading ", "Using cached ", "Building ", "Installing ", "Successfully ")
# Settings that would send what pip installs somewhere else than into the environment, or its cache elsewhere.
_MISLEADING = frozenset({"PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_DRY_RUN", "PIP_NO_CACHE_DIR"})

# Runs a command and, when its own standard input closes, kills the whole process group: pip and all that it
# started die with the installing process, however that one ended.
_TETHER = """
import os, signal, subprocess, sys, threading
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
def watch():
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=watch, daemon=True).start()
sys.exit(child.wait())
"""


class BundleCancelled(BundleError):
    """An installation was cancelled; the previous environment is still the one in use."""


def python_of(directory: Path) -> Path:
    """The interpreter of an environment."""
    return directory / "bin" / "python"


class EnvironmentBuild:
    """One build, in its final place: an environment cannot be moved. Its processes keep the lock held."""

    def __init__(
        self,
        bundle: Bundle,
        directory: Path,
        pip_cache: Path,
        log: Path,
        progress: Callable[[str], None],
        cancel: threading.Event,
        lock: int,
    ) -> None:
        self._bundle, self._directory, self._log = bundle, directory, log
        self._progress, self._cancel, self._lock = progress, cancel, lock
        self._environ = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
        self._environ |= {"PIP_CACHE_DIR": str(pip_cache), "PIP_PROGRESS_BAR": "off", "PIP_NO_INPUT": "1"}
        self._environ |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUNBUFFERED": "1"}

    def run(self, torch: Requirement | None) -> None:
        python = str(python_of(self._directory))
        pip = [python, "-I", "-m", "pip", "install"]
        self._log.write_bytes(b"")
        self._step(f"Creating {self._directory}", [sys.executable, "-I", "-m", "venv", str(self._directory)])
        if torch is not None:
            self._install_torch(pip, torch)
        listed = self._directory / "requirements.txt"
        listed.write_text("".join(f"{line}\n" for line in self._bundle.lines))
        self._step(f"Installing the requirements of {self._bundle.name}", [*pip, "-r", str(listed)])
        for step in self._bundle.steps:
            place = ["--no-deps", "--target", str(step.folder(self._directory))] if step.beside else []
            self._step(f"Installing {', '.join(step.lines)}", [*pip, *step.options, *place, *step.lines])
        self._finish()

    def _install_torch(self, pip: list[str], torch: Requirement) -> None:
        """What torch depends on comes with the other requirements when its index is one for torch alone."""
        index = os.environ.get(TORCH_INDEX, "").strip()
        options, settings = (["--no-deps"], {"PIP_INDEX_URL": index}) if index else ([], {})
        self._step(f"Installing {torch}", [*pip, *options, str(torch)], settings)

    def _finish(self) -> None:
        if missing := missing_in(self._bundle, self._directory):
            raise BundleError(f"pip ended well but did not install {missing[0]}: see {self._log}")
        marker = {
            "schema": 1,
            "bundle": self._bundle.name,
            "hash": self._bundle.hash,
            "python": platform.python_version(),
            "requirements": [*self._bundle.lines, *(line for step in self._bundle.steps for line in step.lines)],
            "installed": installed(self._bundle, finder_in(self._directory)),
            "built_at": time.time(),
        }
        _write_durably(self._directory / MARKER_NAME, json.dumps(marker, indent=2))

    def _step(self, title: str, command: list[str], settings: Mapping[str, str] | None = None) -> None:
        self._progress(title)
        with self._log.open("ab") as log, self._log.open("rb") as reader:
            reader.seek(0, os.SEEK_END)
            last_lines = self._follow(command, log, _LineReader(reader), {**self._environ, **(settings or {})})
        if last_lines is not None:
            raise BundleError(
                f"{title} failed: {_complaint(last_lines)} (log: {self._log}). "
                f"Mend the cause, then run `mosaic bundles install {self._bundle.name}` again."
            )

    def _follow(
        self, command: list[str], log: IO[bytes], output: _LineReader, environ: dict[str, str]
    ) -> list[str] | None:
        """Run a command to its end, reporting its progress. None is success, else the last lines it wrote."""
        tail: deque[str] = deque(maxlen=20)
        with self._started(command, log, environ) as process:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=POLL_SECONDS)
                for line in output.new_lines():
                    tail.append(line)
                    if line.startswith(_PROGRESS):
                        self._progress(line)
                if process.returncode is not None:
                    return None if process.returncode == 0 else list(tail)
                if self._cancel.is_set():
                    raise BundleCancelled(f"Installing {self._bundle.name} was cancelled; nothing changed.")

    @contextmanager
    def _started(
        self, command: list[str], log: IO[bytes], environ: dict[str, str]
    ) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _TETHER, *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=True,
            pass_fds=(self._lock,),
        )
        with process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)


class _LineReader:
    """Whole lines of a file that another process appends to."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._partial = b""

    def new_lines(self) -> Iterator[str]:
        *lines, self._partial = (self._partial + self._file.read()).split(b"\n")
        yield from filter(None, (line.decode(errors="replace").strip() for line in lines))


def _complaint(lines: Sequence[str]) -> str:
    errors = [line for line in lines if line.startswith("ERROR:")] or list(lines[-1:]) or ["it wrote nothing"]
    return errors[0].removeprefix("ERROR:").strip()


def _write_durably(path: Path, text: str) -> None:
    spare = path.with_name(path.name + ".tmp")
    with spare.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    spare.replace(path)
