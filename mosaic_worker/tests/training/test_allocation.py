"""Large blocks of memory are used again instead of being fetched from the system each time."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

COUNT_PAGE_FAULTS = """if True:
    import resource
    import sys
    import numpy as np
    from mosaic_worker.training.allocation import keep_large_blocks

    if sys.argv[1] == "keep":
        assert keep_large_blocks()
    for turn in range(21):
        if turn == 1:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        np.ones(5_000_000, dtype=np.float32)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(word: str) -> int:
    """Pages that twenty blocks of 20 MB, one after the other, had to fetch."""
    command = [sys.executable, "-c", COUNT_PAGE_FAULTS, word]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc knows how")
def test_freed_large_blocks_are_used_again() -> None:
    assert page_faults("keep") < page_faults("leave") / 5
