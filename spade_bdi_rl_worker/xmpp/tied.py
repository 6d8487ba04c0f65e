"""Internal: become another program that dies with the one that started it. ``tied.py PARENT PROGRAM ARGUMENT…``

A program of its own and not code between fork and exec: the worker has threads, and what runs there could wait for a
lock that none of them will ever give back. Imports little, because every run waits for it.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_GONE = 71


def main() -> None:
    parent, program = int(sys.argv[1]), sys.argv[2]
    # SIGKILL also ends a process that is stopped. The wish survives exec.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel was asked
        sys.exit(_GONE)
    os.execv(program, sys.argv[2:])


if __name__ == "__main__":
    main()
