"""A process that is asked one thing: what it prints until it ends, within bounds of time and memory.

It leads a session of its own, and what it started ends with it. So neither a child that keeps its pipes open nor one
that prints for ever outlives the patience of who asks.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

MOST_BYTES = 16 * 1024 * 1024
"""No answer is longer."""
_MOST_ERROR_BYTES = 256 * 1024
_BLOCK_BYTES = 64 * 1024
_MOST_PIPE_BYTES = 1024 * 1024
"""What a pipe may hold when its process is gone."""


class LongAnswerError(Exception):
    """It printed more than :data:`MOST_BYTES`."""


@dataclass(frozen=True)
class Answer:
    """How a process ended, what it printed, and the last it printed to stderr."""

    status: int
    said: str
    errors: str


class AskedProcess:
    """:meth:`answer` is called once, and has ended the process when it returns or raises; :meth:`kill` comes from any
    thread before that."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it. Raises OSError."""
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def kill(self) -> None:
        """End it and what it started. Its number is its own until :meth:`answer` has returned."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def answer(self, patience: float) -> Answer:
        """Raises TimeoutError, :class:`LongAnswerError`, and OSError when the machine is short of descriptors."""
        assert self._process.stdout is not None and self._process.stderr is not None
        said, errors = bytearray(), bytearray()
        try:
            self._listen({self._process.stdout: said, self._process.stderr: errors}, patience)
        finally:
            self.kill()
            status = self._process.wait()
            self._process.stdout.close()
            self._process.stderr.close()
        return Answer(status, said.decode(errors="replace"), errors.decode(errors="replace"))

    def _listen(self, pipes: Mapping[IO[bytes], bytearray], patience: float) -> None:
        """Until the process itself is gone; another one may hold its pipes longer."""
        deadline = time.monotonic() + patience
        ended = os.pidfd_open(self._process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(ended, selectors.EVENT_READ)
                for pipe in pipes:
                    os.set_blocking(pipe.fileno(), False)
                    selector.register(pipe, selectors.EVENT_READ)
                while (left := deadline - time.monotonic()) > 0:
                    ready = [key.fileobj for key, _ in selector.select(left)]
                    for pipe in pipes.keys() & ready:
                        if not self._take(pipe, pipes[pipe]):
                            selector.unregister(pipe)
                    if ended in ready:
                        break
                else:
                    raise TimeoutError
        finally:
            os.close(ended)
        for pipe, text in pipes.items():
            most = len(text) + _MOST_PIPE_BYTES
            with suppress(BlockingIOError):  # somebody else has it open
                while len(text) < most and self._take(pipe, text):
                    pass

    def _take(self, pipe: IO[bytes], text: bytearray) -> bool:
        """Read a block; False at the end."""
        block = os.read(pipe.fileno(), _BLOCK_BYTES)
        text += block
        if pipe is self._process.stderr:
            del text[:-_MOST_ERROR_BYTES]
        elif len(text) > MOST_BYTES:
            raise LongAnswerError
        return bool(block)


__all__ = ["MOST_BYTES", "Answer", "AskedProcess", "LongAnswerError"]
