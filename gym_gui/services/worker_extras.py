"""Optional sets of requirements of a worker: which there are, and installing them, by a program of the worker's own.

The program is named in the manifest (``extras.module``) and runs in the worker's environment. Nothing of a worker is
imported here.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gym_gui.services.kept_answers import KEPT, KeptAnswers, question
from gym_gui.services.worker_tools import ToolError, ToolFailedError, command, environment
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.worker_manifest import WorkerManifest

READY = "ready"
_LIST = ["--list", "--json"]
_END_SECONDS = 10.0


class InstallCanceledError(ToolError):
    """A person stopped the installation before it changed anything."""


@dataclass(frozen=True)
class ExtraSet:
    """One set. Sizes in megabytes, of what is missing of it."""

    name: str
    summary: str
    installed: bool
    megabytes: int = 0
    download_megabytes: int = 0


class ExtrasTool:
    """The extras of one worker. Blocking: use it in a thread, one call at a time. :meth:`stop` is for any thread.

    ``find`` looks for the worker when its program is started, so that making one of these costs nothing.
    """

    def __init__(self, find: Callable[[], WorkerManifest], paths: MosaicPaths, kept: KeptAnswers = KEPT) -> None:
        self._find, self._paths, self._kept = find, paths, kept
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self.stopped = False

    def sets(self) -> list[ExtraSet]:
        """Which sets there are. Raises ToolFailedError."""
        told = self._kept.answer(self._question, lambda: self._run(_LIST, lambda line: None))
        try:
            return [
                ExtraSet(
                    str(one["name"]),
                    str(one.get("summary") or ""),
                    one.get("installed") is True,
                    int(one.get("megabytes") or 0),
                    int(one.get("download_megabytes") or 0),
                )
                for one in told["sets"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise ToolFailedError("the worker does not tell its extras in a manner that is understood") from error

    def install(self, names: Iterable[str], tell: Callable[[str], None]) -> None:
        """Install sets; ``tell`` is called in this thread with each line of progress.

        Raises InstallCanceledError when it was stopped in time, ToolFailedError with the reason when it failed.
        """
        try:
            told = self._run(["--set", ",".join(names), "--json", "--yes"], tell)
        finally:
            self._kept.forget()  # an interpreter may keep its packages where no change of a folder is seen
        if told.get("status") != READY:
            raise ToolFailedError(one_line(str(told.get("problem") or "the extras were not installed")))

    def stop(self) -> None:
        """Ask it to stop, as Ctrl-C would: an environment that is being changed is made whole first."""
        with self._lock:
            self.stopped = True
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(signal.SIGINT)

    def _question(self) -> str:
        manifest = self._find()
        asked = command(manifest, self._paths, str(manifest.extras_module), _LIST)
        return question(manifest, asked, environment(manifest, self._paths))

    def _run(self, words: list[str], tell: Callable[[str], None]) -> dict[str, Any]:
        process = self._started(words)
        try:
            assert process.stderr is not None and process.stdout is not None
            last = ""
            for line in process.stderr:  # the answer on stdout is small: it waits in its pipe
                if text := line.rstrip():
                    last = text
                    tell(text)
            said = process.stdout.read()
            process.wait(_END_SECONDS)
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            with self._lock:
                self._process = None
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        return self._understood(said, last)

    def _started(self, words: list[str]) -> subprocess.Popen[str]:
        manifest = self._find()
        module = manifest.extras_module
        if module is None:
            raise ToolFailedError(f"the worker {manifest.type!r} has no extras")
        with self._lock:
            if self.stopped:
                raise InstallCanceledError("nothing was installed")
            try:
                self._process = subprocess.Popen(
                    command(manifest, self._paths, module, words),
                    env={**environment(manifest, self._paths), "PYTHONUNBUFFERED": "1"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                )
            except OSError as error:
                raise ToolFailedError(f"cannot start {module}: {error.strerror}") from error
            return self._process

    def _understood(self, said: str, last: str) -> dict[str, Any]:
        try:
            told = json.loads(said)
        except ValueError:
            told = None
        if isinstance(told, dict) and not (self.stopped and told.get("status") != READY):
            return told
        if self.stopped:
            raise InstallCanceledError("the installation was stopped; the environment is as it was")
        raise ToolFailedError(f"the worker's program for extras failed: {one_line(last) or 'it said nothing'}")
