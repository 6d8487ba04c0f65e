"""Writes checkpoints beside the training, and keeps a few of them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cleanrl_worker import checkpoints
from cleanrl_worker.checkpoints import CheckpointError


class CheckpointWriter:
    """The checkpoints of one run. `on_written` is called with step and path, in whichever thread wrote it.

    One checkpoint is written at a time: whoever asks for the next one before the last is on the disk waits for it,
    so that a slow disk slows the training down rather than filling the memory. `keep` of 0 keeps all.
    """

    def __init__(self, directory: Path, keep: int, on_written: Callable[[int, Path], None]) -> None:
        self.directory = directory
        self._keep = keep
        self._on_written = on_written
        self._at_work: threading.Thread | None = None

    def begin(self, **content: Any) -> None:
        """Write in a thread of its own (see :func:`cleanrl_worker.checkpoints.save`). A failure is told, not raised.

        The tensors must be copies that nobody changes any more.
        """
        self.wait()
        self._at_work = threading.Thread(target=self._try_to_write, kwargs=content, name="checkpoint-writer")
        self._at_work.start()

    def write(self, **content: Any) -> Path:
        """Write now. Raises CheckpointError."""
        self.wait()
        return self._write(**content)

    def wait(self) -> None:
        """Return when what was begun is on the disk, or has failed."""
        if self._at_work is not None:
            self._at_work.join()
            self._at_work = None

    def _try_to_write(self, **content: Any) -> None:
        try:
            self._write(**content)
        except CheckpointError as error:
            print(f"{error} Training goes on.", file=sys.stderr, flush=True)

    def _write(self, **content: Any) -> Path:
        path = checkpoints.save(self.directory, **content)
        self._on_written(content["step"], path)
        self._prune()
        return path

    def _prune(self) -> None:
        try:
            if self._keep:
                checkpoints.prune(self.directory, self._keep)
        except OSError as error:
            print(f"An old checkpoint could not be removed: {error}.", file=sys.stderr, flush=True)
