"""A line now and then from work that takes long and steps no environment."""

from __future__ import annotations

import time

SECONDS = 10.0


class NowAndThen:
    """Prints a sentence when the last one is some seconds old."""

    def __init__(self) -> None:
        self._said_at = time.monotonic()

    def say(self, sentence: str) -> None:
        if time.monotonic() - self._said_at >= SECONDS:
            self._said_at = time.monotonic()
            print(sentence, flush=True)
