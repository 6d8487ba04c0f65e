"""Why no worker could be started, and whether one may be later."""

from __future__ import annotations

import errno
from enum import StrEnum

from mosaic_protocol.full_disk import is_disk_full, may_pass

_NO_THREAD = "can't start new thread"
"""What Python says, with no type of its own."""
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOBUFS})


def is_shortage(error: Exception) -> bool:
    """Whether the machine was out of something (descriptors, memory, processes) that it will have again."""
    if isinstance(error, OSError):
        return error.errno in _SHORTAGES
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _NO_THREAD in str(error))


class Refusal(StrEnum):
    """What to make of a start that did not happen."""

    NEVER = "never"
    LATER = "later"
    """For a reason that passes or can be mended."""
    FULL = "full"
    """For lack of disk space."""


class StartError(Exception):
    """No process came to be; the sentence says why."""

    def __init__(self, refusal: Refusal, sentence: str) -> None:
        super().__init__(sentence)
        self.refusal = refusal


def start_error(error: OSError, sentence: str) -> StartError:
    """What an error of our own folders means for a run that is being started: most of them pass, and a run that has not
    begun can wait."""
    if is_disk_full(error):
        return StartError(Refusal.FULL, sentence)
    if is_shortage(error):
        return StartError(Refusal.LATER, sentence)
    if may_pass(error):
        return StartError(
            Refusal.LATER, f"waits: {sentence}. It is tried again and again: mend that, or cancel the run"
        )
    return StartError(Refusal.NEVER, f"never started: {sentence}")
