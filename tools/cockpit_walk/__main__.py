"""``python -m tools.cockpit_walk``: see the package for what it does."""

from __future__ import annotations

import argparse
import atexit
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tools.cockpit_walk import first_stations, frame_stations, play_stations, run_stations, worker_stations
from tools.cockpit_walk.hands import Keys, Mouse
from tools.cockpit_walk.place import place
from tools.cockpit_walk.walk import Walk
from tools.tidy_end import end_tidily_on_sigterm

STATIONS = (
    *first_stations.STATIONS,
    *run_stations.STATIONS,
    *play_stations.STATIONS,
    *worker_stations.STATIONS,
    *frame_stations.STATIONS,
)
_GROUND = ("first-start", "demo", "form", "launch", "launch-more")
"""What the others stand on: walked also when only some stations are wanted."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    end_tidily_on_sigterm()
    options.out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as around:
        atexit.register(around.close)
        here = around.enter_context(place(options.size, options.theme))
        here.open_cockpit()
        hands = Keys(here.eyes) if options.hands == "keys" else Mouse(here.eyes)
        walk = Walk(here, hands, options.out)
        for name, station in STATIONS:
            if not options.only or name in _GROUND or any(word in name for word in options.only):
                walk.visit(name, station)
        report = walk.report()
        complaints = here.complaints()
    failed = [visit.name for visit in walk.visits if visit.trouble]
    print(f"{len(walk.visits) - len(failed)} of {len(walk.visits)} stations reached; {report}")
    print(f"failed: {', '.join(failed)}" if failed else "none failed")
    print(f"the cockpit complained:\n{complaints}" if complaints else "the cockpit printed nothing")
    return 1 if failed or "Traceback" in complaints else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.cockpit_walk", description="walk through the cockpit")
    parser.add_argument("--size", type=_size, default=(1280, 800), metavar="WxH", help="the screen, 1280x800")
    parser.add_argument("--theme", choices=("dark", "light"), default="dark")
    parser.add_argument("--hands", choices=("keys", "mouse"), default="keys", help="what to use the cockpit with")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for pictures and report.json")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="stations with this in their name")
    return parser.parse_args(arguments)


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    return int(width), int(height)


if __name__ == "__main__":
    sys.exit(main())
