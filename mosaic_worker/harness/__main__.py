"""Internal: ``python -m mosaic_worker.harness``, started by the supervisor for a script that does not know MOSAIC."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mosaic_worker.harness.run import OPTIONS, HarnessOrder
from mosaic_worker.supervision.launcher import become_script


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m mosaic_worker.harness", description=__doc__, allow_abbrev=False)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--algo", required=True)
    for name, kind in OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind)
    parser.add_argument("--search", action="append", default=[])
    parser.add_argument("--track", action="store_true")
    parser.add_argument("--origin", type=json.loads, default={})
    parser.add_argument("--dataset", type=json.loads, default={})
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    order = HarnessOrder(
        options.algo,
        **{name: getattr(options, name) for name in OPTIONS},
        search=tuple(options.search),
        track=options.track,
        origin=options.origin,
        dataset=options.dataset,
    )
    # Also here, where nothing was forked: a stop waits until the process is gone.
    become_script(options.script, options.arguments, options.parent, order)


if __name__ == "__main__":
    main()
