"""Runs one script inside this process, as ``python script …`` would, tied to the life of its supervisor."""

from __future__ import annotations

import argparse
import ctypes
import os
import runpy
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_GONE = 71


def die_with_parent(parent: int) -> None:
    """Have the kernel send SIGTERM when the supervisor dies, so that the script writes a last checkpoint and ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel was asked
        sys.exit(_GONE)


def run_script(path: Path, arguments: list[str], parent: int) -> None:
    """Execute the script with its own command line; its exit is the process's."""
    die_with_parent(parent)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent))
    runpy.run_path(str(path), run_name="__main__")


def main() -> None:
    parser = argparse.ArgumentParser(description="Internal: run one training script under its supervisor.")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    run_script(options.script, options.arguments, options.parent)


if __name__ == "__main__":
    main()
