"""Take pictures of every screen of the cockpit into docs/screenshots, dark and light.

    python -m tools.screenshots [--only NAME ...] [--theme dark|light] [--into DIR]
    python -m tools.screenshots --home DIR --minutes 9      # again and again, until it says that none is missing

Nothing is staged but the checkout's own path, which is shown as ~/mosaic: an X server without a screen, a daemon on a
data root that is thrown away, short runs, and the real window. What is started here is ended here. A picture waits
for the runs that it shows and for no others; with ``--home`` they are kept, and the next call finds them again and
goes on with the pictures that are missing. The scenes themselves are in :mod:`tools.screenshot_scenes`.
"""

from __future__ import annotations

import argparse
import atexit
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from math import inf
from pathlib import Path

from PyQt6.QtWidgets import QApplication

from tools.headless import data_root, x_server
from tools.screenshot_camera import LARGE_SIZE, ROOT, THEMES, Camera, TimeIsUp
from tools.screenshot_scenes import CHAPTERS, take_all
from tools.tidy_end import end_tidily_on_sigterm

PICTURES = ROOT / "docs" / "screenshots"
TAKEN = "pictures-taken.json"
NOT_YET = 3
"""The exit status when the minutes were over before the pictures."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.list:
        print("\n".join(name for chapter in CHAPTERS for name in chapter.pictures))
        return 0
    end_tidily_on_sigterm()
    begin, kept = time.monotonic(), options.home
    had = set() if kept is None or options.again else _read(kept / TAKEN)
    end = begin + 60 * options.minutes if options.minutes else inf
    status = 0
    with ExitStack() as around:
        # Where a signal comes while Qt calls Python, sys.exit does not unwind: runs would train on for days.
        atexit.register(around.close)
        around.enter_context(x_server(LARGE_SIZE))
        paths = around.enter_context(data_root(kept))
        themes = [options.theme] if options.theme else THEMES
        camera = Camera(QApplication(["mosaic"]), options.into, options.only, themes, had=had, until=end)
        try:
            take_all(camera, paths)
        except TimeIsUp:
            status = NOT_YET
        finally:
            camera.finish()
            if kept is not None:
                taken = _read(kept / TAKEN) | {path.name for path in camera.taken}
                (kept / TAKEN).write_text(json.dumps(sorted(taken)))
    size = sum(path.stat().st_size for path in camera.taken)
    print(f"{len(camera.taken)} pictures, {size / 1e6:.1f} MB, {time.monotonic() - begin:.0f} s")
    print("\n".join(camera.failures), end="\n" if camera.failures else "")
    if status == NOT_YET:
        print("The time is up before all pictures were taken; the same command goes on.")
    elif camera.failures or not (camera.taken or had):
        status = 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="pictures with this in their name")
    parser.add_argument("--theme", choices=THEMES, help="one theme instead of both")
    parser.add_argument("--into", type=Path, default=PICTURES, metavar="DIR", help="where to put them")
    parser.add_argument("--home", type=Path, metavar="DIR", help="a data root that stays, for the next call")
    parser.add_argument("--again", action="store_true", help="also what an earlier call took with the same --home")
    parser.add_argument("--minutes", type=float, metavar="M", help="stop after so long")
    parser.add_argument("--list", action="store_true", help="print the names of the pictures")
    return parser


def _read(file: Path) -> set[str]:
    with suppress(OSError, ValueError):
        return {str(name) for name in json.loads(file.read_text())}
    return set()


if __name__ == "__main__":
    sys.exit(main())
