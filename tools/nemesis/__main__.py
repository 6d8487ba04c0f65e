"""``python -m tools.nemesis``: break a trainer daemon for some minutes and prove that it kept its promises.

The seed fixes the schedule of faults, the runs and each client's choices; how they interleave depends on the machine: a
seed that found something may have to be repeated. Exit status 0: no rule was broken.
"""

from __future__ import annotations

import argparse
import random
import shlex
import sys
import tempfile
from pathlib import Path

from mosaic_protocol.suggest import did_you_mean
from tools.nemesis.campaign import Campaign, Options
from tools.nemesis.faults import KINDS
from tools.nemesis.place import enter, place
from tools.nemesis.report import Progress, Report, keep
from tools.tidy_end import end_tidily_on_sigterm

_KEPT = Path(__file__).resolve().parents[2] / "var" / "nemesis"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.nemesis", description="Break a trainer daemon and prove that it kept its promises."
    )
    parser.add_argument("--minutes", type=float, default=3.0, help="how long faults are made (default 3)")
    parser.add_argument("--seed", type=int, default=None, help="repeat a campaign; drawn and printed when not given")
    parser.add_argument("--where", default="disk", metavar="disk|tmpfs|DIR", help="tmpfs also fills up (default disk)")
    parser.add_argument("--gap", type=float, default=4.0, help="seconds between two faults, on average (default 4)")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between a client's operations (default 1)")
    parser.add_argument("--clients", type=int, default=3, help="Python clients beside the command line (default 3)")
    parser.add_argument("--without", type=_kinds, default=(), metavar="A,B", help=f"leave out: {', '.join(KINDS)}")
    parser.add_argument("--only", type=_kinds, default=(), metavar="A,B", help="make only these faults")
    parser.add_argument("--keep", type=Path, default=_KEPT, metavar="DIR", help="where to keep a failed campaign")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    return parser.parse_args()


def _kinds(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, text.split(",")))
    for name in names:
        if name not in KINDS:
            raise argparse.ArgumentTypeError(f"there is no fault {name!r}{did_you_mean(name, KINDS)}")
    return names


def main() -> int:
    arguments = _arguments()
    end_tidily_on_sigterm()
    enter(arguments.where, sys.argv[1:])
    seed = random.SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    kinds = tuple(kind for kind in arguments.only or KINDS if kind not in arguments.without)
    report = Report(seed, arguments.where, 60 * arguments.minutes, _again(arguments, seed))
    progress = Progress()
    progress.tell(f"seed {seed}, {arguments.minutes:g} minutes on {arguments.where}; again: {report.repeat}", now=True)
    options = Options(
        seed, 60 * arguments.minutes, arguments.gap, arguments.pause, arguments.clients, _possible(kinds, arguments)
    )
    with (
        place(arguments.where, arguments.minutes) as found,
        tempfile.TemporaryDirectory(prefix="nemesis-history-") as folder,
    ):
        history = Path(folder) / "history.jsonl"
        campaign = Campaign(found, options, history, progress)
        try:
            campaign.run(report)
        finally:
            if sys.exc_info()[0] is not None or not report.ok:
                report.kept = str(keep(campaign.paths, history, arguments.keep / f"seed-{seed}"))
    print(report.as_json() if arguments.json else report)
    return 0 if report.ok else 1


def _possible(kinds: tuple[str, ...], arguments: argparse.Namespace) -> tuple[str, ...]:
    """A disk that others use is not filled."""
    return tuple(kind for kind in kinds if kind != "disk" or arguments.where == "tmpfs")


def _again(arguments: argparse.Namespace, seed: int) -> str:
    words = {
        "--minutes": f"{arguments.minutes:g}",
        "--seed": str(seed),
        "--where": arguments.where,
        "--gap": f"{arguments.gap:g}",
        "--pause": f"{arguments.pause:g}",
        "--clients": str(arguments.clients),
        "--without": ",".join(arguments.without),
        "--only": ",".join(arguments.only),
    }
    told = " ".join(f"{name} {shlex.quote(value)}" for name, value in words.items() if value)
    return f'make nemesis ARGS="{told}"'


if __name__ == "__main__":
    sys.exit(main())
