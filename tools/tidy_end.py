"""How a tool that starts processes ends when it is asked to."""

from __future__ import annotations

import signal
import sys
from types import FrameType


def end_tidily_on_sigterm() -> None:
    """Leave through every ``finally`` at the first SIGTERM, so that nothing is left behind.

    Further ones are ignored: a shell, ``timeout`` and ``make`` each send their own, and a second one would cut the
    clearing up short.
    """
    signal.signal(signal.SIGTERM, _leave)


def _leave(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, _stay)  # not SIG_IGN, which what is started while clearing up would inherit
    sys.exit(128 + number)


def _stay(_number: int, _frame: FrameType | None) -> None:
    pass
