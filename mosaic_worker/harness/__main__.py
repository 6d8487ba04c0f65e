"""Internal: ``python -m mosaic_worker.harness``, started by the supervisor for a script that does not know MOSAIC."""

from __future__ import annotations

import argparse
from pathlib import Path

from mosaic_worker.harness.run import HarnessOrder
from mosaic_worker.supervision.launcher import become_script


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m mosaic_worker.harness", description=__doc__, allow_abbrev=False)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--algo", required=True)
    parser.add_argument("--checkpoint-every", type=int)
    parser.add_argument("--checkpoint-keep", type=int)
    parser.add_argument("--resume")
    parser.add_argument("--warm-start")
    parser.add_argument("--search", action="append", default=[])
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    order = HarnessOrder(
        options.algo,
        options.checkpoint_every,
        options.checkpoint_keep,
        options.resume,
        options.warm_start,
        tuple(options.search),
    )
    # Also here, where nothing was forked: a stop waits until the process is gone.
    become_script(options.script, options.arguments, options.parent, order)


if __name__ == "__main__":
    main()
