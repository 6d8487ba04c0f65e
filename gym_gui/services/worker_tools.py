"""Small programs of workers, started in the worker's own environment: they speak JSON lines, and end with us.

A tool answers on stdout, one JSON object a line. Exit code 2 means that it refused, 0 that it is done; the last line of
its stderr says why when it is neither.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.worker_packages import worker_environment

if TYPE_CHECKING:
    from mosaic_protocol.worker_manifest import WorkerManifest

_REFUSED_STATUS = 2
_END_SECONDS = 10.0
_LONGEST_LINE = 64 * 1024 * 1024
_MOST_ERROR_BYTES = 256 * 1024


class ToolError(Exception):
    """A tool could not do its work; ``str()`` is one sentence."""


class ToolRefusedError(ToolError):
    """What was asked of it cannot be done. ``excerpt``: lines to show below the sentence, such as the one with the
    mistake and a caret under it."""

    def __init__(self, sentence: str, excerpt: tuple[str, ...] = ()) -> None:
        super().__init__(sentence)
        self.excerpt = excerpt


class ToolFailedError(ToolError):
    """It could not be started, or it broke."""


class ToolMissingError(ToolFailedError):
    """What it needs is not installed; the sentence says how to install it."""


def interpreter(manifest: WorkerManifest, paths: MosaicPaths) -> Path:
    """The Python that has what the worker needs, as the dispatcher will choose it. Raises ToolFailedError."""
    if not manifest.bundle:
        return Path(sys.executable)
    from gym_gui.services.trainer.bundles.manager import BundleManager, requirement_dirs
    from mosaic_protocol.worker_manifest import discover

    found = BundleManager(paths, requirement_dirs(discover().workers.values())).preflight(manifest.bundle)
    if found.python is None:
        raise ToolMissingError(found.advice)
    return found.python


def environment(manifest: WorkerManifest, paths: MosaicPaths) -> dict[str, str]:
    """The environment of a worker's program that no daemon started."""
    return worker_environment(manifest, os.environ, paths.root)


def command(manifest: WorkerManifest, paths: MosaicPaths, module: str, words: Sequence[str]) -> list[str]:
    return [str(interpreter(manifest, paths)), "-m", module, *words]


class WorkerTool:
    """One tool at work. Use it as a context manager: it has ended when the block is left."""

    def __init__(
        self,
        manifest: WorkerManifest,
        paths: MosaicPaths,
        module: str,
        words: Sequence[str],
        *,
        holds: Sequence[int] = (),
    ) -> None:
        """Start it. ``holds``: descriptors that it keeps open until it ends, such as that of a lock. Raises
        ToolFailedError."""
        self._what = module
        self._prefix = f"{manifest.package}: "
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        try:
            self._process = subprocess.Popen(
                command(manifest, paths, module, words),
                env=environment(manifest, paths),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                pass_fds=tuple(holds),
            )
        except (OSError, ToolError) as error:
            self._errors.close()
            raise ToolFailedError(f"cannot start {module}: {getattr(error, 'strerror', None) or error}") from error

    def messages(self) -> Iterator[dict[str, Any]]:
        """What it says, to its end. May be called again after an interruption. Raises ToolError when it failed."""
        assert self._process.stdout is not None
        while line := self._process.stdout.readline(_LONGEST_LINE):
            if len(line) == _LONGEST_LINE:
                raise ToolFailedError(f"{self._what} wrote a line of more than {_LONGEST_LINE // 2**20} MB")
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                continue  # cut off by its death, which is reported below
            if isinstance(message, dict):
                yield message
        self._check(self._process.wait())

    def stop(self) -> None:
        """Ask it to end with what it has. What it still has to say comes from :meth:`messages`."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def __enter__(self) -> WorkerTool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def _check(self, status: int) -> None:
        if status == 0:
            return
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _MOST_ERROR_BYTES))
        said = [line.strip() for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        last = said[-1].removeprefix(self._prefix) if said else "it said nothing"
        if status == _REFUSED_STATUS and said and said[-1].startswith(self._prefix):
            raise ToolRefusedError(last)
        ended = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        raise ToolFailedError(f"{self._what} {ended}: {last}")


class ToolHandle:
    """The tool that one thread has at work, for another one to end; a tool that is yet to start ends as it starts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tool: WorkerTool | None = None
        self.stopped = False

    def take(self, tool: WorkerTool) -> None:
        with self._lock:
            self._tool = tool
            if self.stopped:
                tool.stop()

    def stop(self) -> None:
        with self._lock:
            self.stopped = True
            if self._tool is not None:
                self._tool.stop()

    def kill(self) -> None:
        """As :meth:`stop`, for a tool that does not listen or is not to be waited for."""
        with self._lock:
            self.stopped = True
            if self._tool is not None:
                self._tool.kill()
