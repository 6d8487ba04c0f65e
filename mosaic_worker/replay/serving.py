"""How a served replay listens and answers, and what it says when the environment does not come back."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from mosaic_protocol.replay_messages import (
    LONGEST_LINE,
    Asked,
    ReplayMessageError,
    Seek,
    Told,
    Trouble,
    line_of,
    read_asked,
)

HANGING_SECONDS = 2.0
_LOOK_SECONDS = 0.5
_LEAVE_SECONDS = 2.0


class Conversation:
    """What is asked arrives in a thread of its own; answers may be given in any. The process ends with its input, also
    when the environment hangs at that moment."""

    def __init__(self, questions: int, answers: TextIO) -> None:
        """``questions``: the descriptor to read from. It has no buffer of Python's: a thread that waits in one keeps
        the interpreter from ending in peace."""
        self._questions, self._answers = questions, answers
        self._lock = threading.Lock()
        self._inbox: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._doing: tuple[str, float] | None = None
        self._left = threading.Event()
        self.is_over = False
        for work in (self._listen, self._watch):
            threading.Thread(target=work, daemon=True).start()

    def tell(self, message: Told) -> None:
        """Raises BrokenPipeError when nobody listens any more."""
        with self._lock:
            self._answers.write(line_of(message).decode())
            self._answers.flush()

    def asked(self, *, wait: bool = False) -> list[Asked]:
        """What came, in order, of several seeks the last one only; ``wait`` until something does."""
        found: list[Asked] = []
        while wait or not self._inbox.empty():
            wait = False
            one = self._inbox.get()
            if one is None:
                self.is_over = True
                return []
            if isinstance(one, Seek):
                found = [other for other in found if not isinstance(other, Seek)]
            found.append(one)
        return found

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """While the environment is asked for this."""
        self._doing = (what, time.monotonic())
        try:
            yield
        finally:
            self._doing = None

    def close(self) -> None:
        self._left.set()

    # ---- threads -------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        rest = b""
        while (data := os.read(self._questions, 1 << 16)) and len(rest) < LONGEST_LINE:
            *lines, rest = (rest + data).split(b"\n")
            for line in filter(None, lines):
                try:
                    self._inbox.put(read_asked(line))
                except ReplayMessageError as error:
                    self._say(Trouble(str(error)))
        self._inbox.put(None)
        if not self._left.wait(_LEAVE_SECONDS):
            os._exit(0)  # the environment does not come back, and nobody waits for it

    def _watch(self) -> None:
        told = ""
        while not self._left.wait(_LOOK_SECONDS):
            doing = self._doing
            hangs = doing is not None and time.monotonic() - doing[1] > HANGING_SECONDS
            why = f"the environment does not come back from {doing[0]}" if doing is not None and hangs else ""
            if why != told:
                told = why
                self._say(Trouble(why))

    def _say(self, message: Told) -> None:
        try:
            self.tell(message)
        except (OSError, ValueError):
            return  # nobody listens: the input ends as well
