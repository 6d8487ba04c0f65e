"""``python -m benchmarks``: measure, print the page, and keep it in ``benchmarks/RESULTS.md`` when it is complete."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import machine
from benchmarks.daemon import BenchmarkError
from benchmarks.report import Section, exit_status, page
from gym_gui.services.trainer.errors import TrainerError
from mosaic_protocol.suggest import did_you_mean

NAMES = ("daemon_overhead", "start_latency", "ppo_versus_upstream", "registry_speed", "idle_daemon")
RESULTS = Path(__file__).with_name("RESULTS.md")


def main() -> int:
    options = _options()
    names = [name for name in NAMES if name in (options.only or NAMES)]
    header = _header(options)
    machine.SCRATCH.mkdir(parents=True, exist_ok=True)
    with machine.plain_environment():
        sections = [_measured(name, quick=options.quick) for name in names]
    header["Load after"] = machine.load()
    text = page(header, sections)
    print(f"\n{text}")
    if options.write or (not options.quick and len(names) == len(NAMES)):
        RESULTS.write_text(text)
        print(f"Written to {RESULTS.relative_to(machine.ROOT)}.", file=sys.stderr)
    return exit_status(sections)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", type=_known_name, help=f"measure just these of: {', '.join(NAMES)}"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter measurements; a first impression")
    parser.add_argument("--write", action="store_true", help="keep the page also when it is quick or not complete")
    return parser.parse_args()


def _known_name(name: str) -> str:
    if name not in NAMES:
        raise argparse.ArgumentTypeError(f"there is no benchmark {name!r}{did_you_mean(name, NAMES)}")
    return name


def _header(options: argparse.Namespace) -> dict[str, str]:
    words = ["python -m benchmarks", *(["--only", *options.only] if options.only else [])]
    command = " ".join(words + ["--quick"] * options.quick)
    header = {"Date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), "Command": f"`{command}`"}
    if doubts := list(_doubts(quick=options.quick)):
        header["Mind"] = "; ".join(doubts)
    return {**header, **machine.description(), "Load before": machine.load()}


def _doubts(*, quick: bool) -> Iterator[str]:
    """Why the figures are not to be relied on."""
    if quick:
        yield "a quick run, with too few samples"
    if machine.is_busy():
        yield "the machine was busy with other work, and verdicts on times mean little"


def _measured(name: str, *, quick: bool) -> Section:
    """One benchmark; one that cannot be made is told on the page and does not stop the others."""
    benchmark = importlib.import_module(f"benchmarks.{name}")
    _say(f"{name}: begun")
    began = time.monotonic()
    try:
        section: Section = benchmark.run(quick=quick)
    except (BenchmarkError, TrainerError, OSError) as error:
        section = Section(name, benchmark.TITLE, benchmark.METHOD, problem=str(error))
    for line in section.lines:
        _say(f"  {line.what}: {line.measured}, {line.verdict.strip('*')}")
    _say(f"{name}: {section.problem or 'done'} ({time.monotonic() - began:.0f} s)")
    return section


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
