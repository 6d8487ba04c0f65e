"""Writes checkpoints beside the training, and keeps a few of them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mosaic_worker.state import checkpoints
from mosaic_worker.state.checkpoints import CheckpointError, NotNowError

FULL_DISK_RETRY_SECONDS = 0.5


class CheckpointWriter:
    """The checkpoints of one run. `on_written` is called with step and path, in whichever thread wrote it.

    One checkpoint is written at a time: a caller that asks for the next before the last is on the disk waits for it,
    so that a slow disk slows the training down rather than filling the memory. `keep` of 0 keeps all.
    """

    def __init__(self, directory: Path, keep: int, on_written: Callable[[int, Path], None]) -> None:
        self.directory = directory
        self._keep = keep
        self._on_written = on_written
        self._at_work: threading.Thread | None = None
        self._last_written: int | None = None

    def begin(self, **content: Any) -> None:
        """Write in a thread of its own (see :func:`checkpoints.save`). A failure is reported, not raised.

        The tensors must be copies that nobody changes any more.
        """
        self.wait()
        self._at_work = threading.Thread(target=self._try_to_write, kwargs=content, name="checkpoint-writer")
        self._at_work.start()

    def write(self, **content: Any) -> Path:
        """Write now. Raises CheckpointError."""
        self.wait()
        return self._write(**content)

    def write_when_there_is_space(
        self, content: Mapping[str, Any], give_up: Callable[[NotNowError], bool], meanwhile: Callable[[], None]
    ) -> Path:
        """Write now, or as soon as a full disk has room and the folder takes files. Between attempts it calls
        `meanwhile`.

        Raises NotNowError once `give_up` says so, CheckpointError for any other obstacle at once.
        """
        told = False
        while True:
            try:
                return self.write(**content)
            except NotNowError as error:
                if give_up(error):
                    raise
                if not told:
                    told = True
                    what = "disk space" if error.full else "its folder"
                    how_on = f"Waiting for {what} to write it: mend that, or stop the run to do without it."
                    print(f"{error} {how_on}", file=sys.stderr, flush=True)
            meanwhile()
            time.sleep(FULL_DISK_RETRY_SECONDS)

    def wait(self) -> None:
        """Return when what was begun is on the disk, or has failed."""
        if self._at_work is not None:
            self._at_work.join()
            self._at_work = None

    def has_written(self, step: int) -> bool:
        """Whether the newest checkpoint on the disk is that of a step; waits for one that was begun."""
        self.wait()
        return self._last_written == step

    def _try_to_write(self, **content: Any) -> None:
        try:
            self._write(**content)
        except CheckpointError as error:
            print(f"{error} Training goes on.", file=sys.stderr, flush=True)

    def _write(self, **content: Any) -> Path:
        folder = self.directory.parent
        try:
            folder.stat()
        except OSError as error:  # what is made in place of a folder that is away would be in the way later
            raise NotNowError(
                f"The folder of the run, {folder}, is not there: {error.strerror}.", full=False
            ) from error
        path = checkpoints.save(self.directory, **content)
        self._last_written = content["step"]
        self._on_written(content["step"], path)
        self._prune()
        return path

    def _prune(self) -> None:
        try:
            if self._keep:
                checkpoints.prune(self.directory, self._keep)
        except OSError as error:
            print(f"An old checkpoint could not be removed: {error}.", file=sys.stderr, flush=True)
