"""How the C library gives out memory, tuned for networks on pictures."""

from __future__ import annotations

import ctypes

# Names and numbers of <malloc.h>.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGEST_ALLOWED = 32 * 1024 * 1024


def keep_large_blocks() -> bool:
    """Let freed blocks of many megabytes be used again instead of going back to the system; returns whether it works.

    A pass over a batch of pictures makes and drops a dozen such blocks, and by default each comes fresh from the
    system, page by page: that took a tenth of the training time. Affects the whole process, harmlessly: its memory
    stays as large as it once had to be. Only glibc knows how; elsewhere nothing changes.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return bool(set_option(_M_MMAP_THRESHOLD, _LARGEST_ALLOWED) and set_option(_M_TRIM_THRESHOLD, 2**31 - 1))
