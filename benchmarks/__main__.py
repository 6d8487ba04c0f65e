"""``python -m benchmarks``: measure, print, and keep each section with when and how it was measured.

A section that was measured replaces the one kept in ``benchmarks/results``, and ``benchmarks/RESULTS.md`` is made of
all that are kept. With ``--lines`` only the lines that were measured are replaced. A quick run is a first impression
and keeps nothing unless asked to.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import machine
from benchmarks.daemon import BenchmarkError
from benchmarks.report import Section, chosen, exit_status, page
from gym_gui.services.trainer.errors import TrainerError
from mosaic_protocol.suggest import did_you_mean

NAMES = (
    "daemon_overhead",
    "harness_overhead",
    "metric_tap",
    "start_latency",
    "scripts_versus_upstream",
    "compiled_scripts",
    "compiled_versus_sbx",
    "learning",
    "learning_from_a_teacher",
    "learning_pong",
    "corl",
    "corl_mujoco",
    "corl_updates",
    "play_to_policy",
    "dataset_loading",
    "checkpoint_cost",
    "registry_speed",
    "many_hosts",
    "comparison_speed",
    "idle_daemon",
    "watchers",
    "step_recording",
    "telemetry_lane",
    "replay_seek",
    "event_files",
    "run_archives",
    "cockpit_start",
    "cockpit_runs_table",
    "cockpit_streaming",
    "cockpit_memory",
    "live_stage",
    "watched_training",
    "bdi_agents",
    "llm_steps",
    "llm_answers",
    "llm_arena",
    "sweeps",
)
RESULTS = Path(__file__).with_name("RESULTS.md")
KEPT = Path(__file__).with_name("results")


def main() -> int:
    options = _options()
    if options.page:
        _write_page()
        return 0
    names = [name for name in NAMES if name in (options.only or NAMES)]
    machine.SCRATCH.mkdir(parents=True, exist_ok=True)
    sections = []
    with machine.plain_environment():
        for name in names:
            section = _measured(name, quick=options.quick, lines=options.lines)
            sections.append(section)
            if options.write or not options.quick:
                keep(section, KEPT, part=bool(options.lines))
                _write_page()
    print(f"\n{page(sections)}")
    return exit_status(sections)


def keep(section: Section, folder: Path, *, part: bool = False) -> None:
    """Put a section in the place of the kept one, or only its lines; a part that failed leaves all as it was."""
    if part and section.problem:
        return
    if part and (before := kept_section(section.name, folder)):
        section = before.with_lines_of(section)
    folder.mkdir(exist_ok=True)
    text = json.dumps(section.to_json(), indent=2, ensure_ascii=False)
    (folder / f"{section.name}.json").write_text(text + "\n")


def kept_section(name: str, folder: Path) -> Section | None:
    file = folder / f"{name}.json"
    return Section.from_json(json.loads(file.read_text())) if file.is_file() else None


def _write_page() -> None:
    kept = filter(None, (kept_section(name, KEPT) for name in NAMES))
    RESULTS.write_text(page(list(kept)))
    _say(f"kept in {RESULTS.relative_to(machine.ROOT)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", type=_known_name, help=f"measure just these of: {', '.join(NAMES)}"
    )
    parser.add_argument(
        "--lines",
        type=lambda text: [word for word in text.split(",") if word],
        default=[],
        metavar="WORD,…",
        help="with --only: measure just the scripts that have one of these words in their line, as in sac,td3",
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter measurements; a first impression")
    parser.add_argument("--write", action="store_true", help="keep the figures of a quick run as well")
    parser.add_argument("--page", action="store_true", help="measure nothing: make RESULTS.md of what is kept")
    options = parser.parse_args()
    if options.lines:
        _check_lines(parser, options.only or NAMES, options.lines)
    return options


def _check_lines(parser: argparse.ArgumentParser, names: Sequence[str], words: Sequence[str]) -> None:
    """A word that chooses nothing is refused before anything is measured."""
    for name in names:
        titles = getattr(importlib.import_module(f"benchmarks.{name}"), "TITLES", ())
        if not titles:
            parser.error(f"{name} is measured as a whole: leave it out of --only, or leave out --lines")
        if lost := [word for word in words if not chosen(titles, [word])]:
            parser.error(f"{name} has no line with {lost[0]!r}; it has: {'; '.join(titles)}")


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


def _measured(name: str, *, quick: bool, lines: Sequence[str] = ()) -> Section:
    """One benchmark; one that cannot be made is noted on the page and does not stop the others."""
    benchmark = importlib.import_module(f"benchmarks.{name}")
    _say(f"{name}: begun")
    began = time.monotonic()
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    measured = {"Measured": now, "commit": machine.commit(), "on": machine.description()}
    if doubts := list(_doubts(quick=quick)):
        measured["mind"] = ", ".join(doubts)
    load = machine.load()
    try:
        section: Section = benchmark.run(quick=quick, **({"lines": lines} if lines else {}))
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
