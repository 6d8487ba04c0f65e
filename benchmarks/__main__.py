"""``python -m benchmarks``: measure, print, and keep each section with when and how it was measured.

A section that was measured replaces the one kept in ``benchmarks/results``, and ``benchmarks/RESULTS.md`` is made of
all that are kept. A quick run is a first impression and keeps nothing unless told to.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import machine
from benchmarks.daemon import BenchmarkError
from benchmarks.report import Section, exit_status, page
from gym_gui.services.trainer.errors import TrainerError
from mosaic_protocol.suggest import did_you_mean

NAMES = (
    "daemon_overhead",
    "harness_overhead",
    "start_latency",
    "scripts_versus_upstream",
    "learning",
    "learning_from_a_teacher",
    "learning_pong",
    "checkpoint_cost",
    "registry_speed",
    "idle_daemon",
    "cockpit_start",
    "cockpit_runs_table",
    "cockpit_streaming",
    "cockpit_memory",
)
RESULTS = Path(__file__).with_name("RESULTS.md")
KEPT = Path(__file__).with_name("results")


def main() -> int:
    options = _options()
    names = [name for name in NAMES if name in (options.only or NAMES)]
    machine.SCRATCH.mkdir(parents=True, exist_ok=True)
    sections = []
    with machine.plain_environment():
        for name in names:
            section = _measured(name, quick=options.quick)
            sections.append(section)
            if options.write or not options.quick:
                _keep(section)
    print(f"\n{page(machine.description(), sections)}")
    return exit_status(sections)


def _keep(section: Section) -> None:
    KEPT.mkdir(exist_ok=True)
    text = json.dumps(section.to_json(), indent=2, ensure_ascii=False)
    (KEPT / f"{section.name}.json").write_text(text + "\n")
    files = [KEPT / f"{name}.json" for name in NAMES]
    kept = [Section.from_json(json.loads(file.read_text())) for file in files if file.is_file()]
    RESULTS.write_text(page(machine.description(), kept))
    _say(f"kept in {RESULTS.relative_to(machine.ROOT)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", type=_known_name, help=f"measure just these of: {', '.join(NAMES)}"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter measurements; a first impression")
    parser.add_argument("--write", action="store_true", help="keep the figures of a quick run as well")
    return parser.parse_args()


def _known_name(name: str) -> str:
    if name not in NAMES:
        raise argparse.ArgumentTypeError(f"there is no benchmark {name!r}{did_you_mean(name, NAMES)}")
    return name


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
    measured = {"Measured": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "commit": machine.commit()}
    if doubts := list(_doubts(quick=quick)):
        measured["mind"] = ", ".join(doubts)
    load = machine.load()
    try:
        section: Section = benchmark.run(quick=quick)
    except (BenchmarkError, TrainerError, OSError) as error:
        section = Section(name, benchmark.TITLE, benchmark.METHOD, problem=str(error))
    for line in section.lines:
        _say(f"  {line.what}: {line.measured}, {line.verdict.strip('*')}")
    _say(f"{name}: {section.problem or 'done'} ({time.monotonic() - began:.0f} s)")
    measured["load before and after"] = f"{load} | {machine.load()}"
    return replace(section, measured=measured)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
