"""Runs one script inside this process, as ``python script …`` would, tied to the life of its supervisor."""

from __future__ import annotations

import argparse
import atexit
import builtins
import ctypes
import gc
import os
import signal
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from mosaic_protocol.full_disk import print_past_a_full_disk
from mosaic_worker.harness.run import HarnessOrder, run_under_harness
from mosaic_worker.scripts.content import script_bytes

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
    code = compile(script_bytes(path), str(path), "exec", dont_inherit=True)
    # Not runpy: its module is gone before the interpreter ends, and with it what the script left unflushed.
    script = sys.modules["__main__"] = ModuleType("__main__")
    vars(script).update(__file__=str(path), __builtins__=builtins, __cached__=None)
    exec(code, vars(script))  # noqa: S102 - the user's script is what this process is for


def become_script(path: Path, arguments: list[str], parent: int, order: HarnessOrder | None = None) -> NoReturn:
    """Execute the script in a fork of a warm process, under the harness if there is an order for it, to the end of
    that process."""
    print_past_a_full_disk()
    use_threads_of_this_run()
    try:
        if order is None:
            run_script(path, arguments, parent)
        else:
            die_with_parent(parent)
            run_under_harness(path, arguments, order)
        status = 0
    except SystemExit as ending:
        status = _status_of(ending.code)
    except BaseException:  # noqa: BLE001 - whatever it is, it ends this process as it would have ended Python
        sys.excepthook(*sys.exc_info())
        status = 1
    leave(status)


def use_threads_of_this_run() -> None:
    """Have PyTorch, where it was imported, use as many threads as the environment says now: a warm process imported it
    with one, for the sake of its forks, and the environment of this run came later. What numpy calculates with cannot
    be changed any more and stays as it was."""
    torch = sys.modules.get("torch")
    threads = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # nested levels may follow
    if torch is not None and threads.isdecimal() and int(threads) > 0:
        torch.set_num_threads(int(threads))


def leave(status: int) -> NoReturn:
    """End a fork of a warm process like an interpreter, except that what it inherited is not taken apart piece by
    piece: that takes longer than a short run, and happens when somebody waits for the end.

    Threads are waited for, exit functions run, and what the main module left open is closed.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    names = vars(sys.modules["__main__"])
    names.update(dict.fromkeys(names.keys() - {"__builtins__"}))
    gc.collect()  # the inherited heap is frozen and not looked at
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _status_of(code: object) -> int:
    """What :func:`sys.exit` makes of its argument."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def main() -> None:
    parser = argparse.ArgumentParser(description="Internal: run one training script under its supervisor.")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    print_past_a_full_disk()
    run_script(options.script, options.arguments, options.parent)


if __name__ == "__main__":
    main()
