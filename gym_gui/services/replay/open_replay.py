"""One open replay: the process that simulates an episode again, or shows a clip, and what it says.

A thread of its own starts the process, reads from it and waits for its end: the process is tied to the thread that
started it, so that it dies with us however we die. Whatever becomes of it is one sentence; recorded steps are read
elsewhere and stay.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

from gym_gui.services.recorded_steps import REPLAY_MODULE, StepSource
from gym_gui.services.worker_tools import ToolError, command, environment
from mosaic_protocol.replay_messages import (
    Asked,
    CancelExport,
    Export,
    Ready,
    ReplayMessageError,
    Seek,
    Shown,
    Told,
    line_of,
    read_told,
)

if TYPE_CHECKING:
    from mosaic_protocol.paths import MosaicPaths
    from mosaic_protocol.worker_manifest import WorkerManifest

_END_SECONDS = 5.0


@dataclass(frozen=True)
class Gone:
    """The process is not there, or not any more; ``why`` is one sentence, empty after :meth:`OpenReplay.close`."""

    why: str


Take: TypeAlias = Callable[[Told | Gone], None]


class OpenReplay:
    """``take`` is called in the replay's thread with everything that the process says, and last with :class:`Gone`.

    All methods return at once and may be called in any thread. Of several seeks the newest counts: no second one is
    sent before the first is answered, so that nothing piles up in front of a slow environment.
    """

    def __init__(
        self,
        words: Sequence[str],
        manifest: Callable[[], WorkerManifest],
        paths: MosaicPaths,
        take: Take,
        folder: AbstractContextManager[Path | None] | None = None,
    ) -> None:
        """``folder`` is entered in the thread, and left when the process has ended; it becomes ``--recording``."""
        self._words, self._manifest, self._paths, self._take = list(words), manifest, paths, take
        self._folder = folder if folder is not None else nullcontext(None)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._is_closed = False
        self._last: int | None = None
        """The last place that there is, once the process is ready."""
        self._wanted: int | None = None
        self._asked: int | None = None
        self._thread = threading.Thread(target=self._live, name="trainer-replay", daemon=True)
        self._thread.start()

    @classmethod
    def of_episode(
        cls, source: StepSource, episode: int, paths: MosaicPaths, take: Take, films: Path | None = None
    ) -> OpenReplay:
        """An episode of a run or of a recorded evaluation. ``films``: where a session kept pictures of its episodes."""
        words = ["--serve", "--episode", str(episode)]
        words += ["--films", str(films)] if films is not None else []
        return cls(words, source.manifest, paths, take, source.as_folder(episode))

    @classmethod
    def of_clip(cls, clip: Path, manifest: Callable[[], WorkerManifest], paths: MosaicPaths, take: Take) -> OpenReplay:
        """A film, shown by what the worker has to read one."""
        return cls(["--serve", "--clip", str(clip)], manifest, paths, take)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def is_over(self) -> bool:
        """Whether its process, and its thread, are gone."""
        return not self._thread.is_alive()

    def seek(self, place: int) -> None:
        """Have a place shown; beyond the ends, the nearest one."""
        with self._lock:
            self._wanted = place
            self._send_seek()

    def export(self, file: Path) -> None:
        self._send(Export(str(file)))

    def cancel_export(self) -> None:
        self._send(CancelExport())

    def close(self, *, wait: bool = True) -> None:
        """End the process; an environment that hangs is killed. May be called more than once."""
        with self._lock:
            self._is_closed = True
            self._end_input()
        if wait and threading.current_thread() is not self._thread:
            self._thread.join(_END_SECONDS)
            if self._thread.is_alive() and self._process is not None:
                self._process.kill()
            self._thread.join()

    # ---- sending -------------------------------------------------------------------------------------------------

    def _end_input(self) -> None:
        """With the lock held: the process ends with it."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError, ValueError):
                self._process.stdin.close()

    def _send_seek(self) -> None:
        """With the lock held."""
        if self._last is not None and self._asked is None and self._wanted is not None:
            self._asked, self._wanted = min(max(self._wanted, 0), self._last), None
            self._write(Seek(self._asked))

    def _send(self, asked: Asked) -> None:
        with self._lock:
            self._write(asked)

    def _write(self, asked: Asked) -> None:
        """With the lock held. What cannot be written is dropped: the end of the process is told anyway."""
        process = self._process
        if process is not None and process.stdin is not None and not self._is_closed:
            with suppress(OSError, ValueError):
                process.stdin.write(line_of(asked))
                process.stdin.flush()

    # ---- the thread ----------------------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            with self._folder as folder:
                why = self._talk(folder)
        except ToolError as error:
            why = str(error)
        except OSError as error:
            why = f"the replay cannot be prepared: {error.strerror or error}"
        except Exception as error:  # noqa: BLE001 - whatever it was, the screen goes on and says it
            why = str(error) or type(error).__name__
        self._take(Gone("" if self._is_closed else why))

    def _talk(self, folder: Path | None) -> str:
        """Start the process and hand on what it says; why it ended."""
        manifest = self._manifest()
        words = [*self._words, "--parent", str(os.getpid())]
        words += ["--recording", str(folder)] if folder is not None else []
        with tempfile.TemporaryFile() as self._errors:
            with self._lock:
                if self._is_closed:
                    return ""
                self._process = subprocess.Popen(
                    command(manifest, self._paths, REPLAY_MODULE, words),
                    env=environment(manifest, self._paths),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._errors,
                )
            assert self._process.stdout is not None
            try:
                for line in self._process.stdout:
                    with suppress(ReplayMessageError):  # cut off by its death, or of a newer version
                        self._hear(read_told(line))
            finally:
                with self._lock:
                    self._end_input()
                status = self._ended(self._process)
            return self._why(status, f"{manifest.package}: ")

    def _ended(self, process: subprocess.Popen[bytes]) -> int:
        try:
            return process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        finally:
            if process.stdout is not None:
                process.stdout.close()

    def _hear(self, told: Told) -> None:
        with self._lock:
            if isinstance(told, Ready):
                self._last = told.steps
            elif isinstance(told, Shown) and told.place == self._asked:
                self._asked = None
            self._send_seek()
        self._take(told)

    def _why(self, status: int, prefix: str) -> str:
        assert self._errors is not None
        self._errors.seek(0)
        said = [line.strip() for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        own = [line.removeprefix(prefix) for line in said if line.startswith(prefix)]
        if own and status > 0:
            return own[-1]
        if status < 0:
            return f"the environment ended its process ({_signal_name(-status)})"
        return f"the replay ended with status {status}" + (f": {said[-1][:200]}" if said else "")


def _signal_name(number: int) -> str:
    names = {signal.SIGSEGV: "it crashed", signal.SIGABRT: "it aborted", signal.SIGKILL: "it was killed"}
    known = {int(one): text for one, text in names.items()}
    return known.get(number, f"signal {number}")
