"""Installs sets of extras: a command line that a worker calls with its own sets.

    python -m MODULE --set atari,procgen
    python -m MODULE --list

Into the environment it runs in, or that of another interpreter (``--python``). Exit status: 0 everything is there, 1
something is still missing and the last sentence says what, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from packaging.utils import canonicalize_name

from mosaic_worker.extras.record import record_sets
from mosaic_worker.extras.sets import ExtrasError, Pins, Plan, WorkerExtras, constraints
from mosaic_worker.extras.target import (
    PipRun,
    Target,
    apt_command,
    check_disk,
    install_debian,
    missing_debian,
    only_one,
)


def main(extras: WorkerExtras, arguments: Sequence[str] | None = None) -> int:
    options = _parser(extras).parse_args(arguments)
    try:
        report = _listed(extras, options) if options.list else _apply(extras, options)
    except ExtrasError as error:
        return _end(options, {"status": "failed", "problem": str(error)}, error.status)
    except KeyboardInterrupt:
        return _end(options, {"status": "interrupted", "problem": "Interrupted; the environment is as it was."}, 1)
    return _end(options, report, 1 if report.get("problem") else 0)


def _parser(extras: WorkerExtras) -> argparse.ArgumentParser:
    listed = "\n".join(f"  {name:<9} {extra.summary}" for name, extra in extras.sets.items())
    parser = argparse.ArgumentParser(
        prog=f"python -m {extras.module}",
        description="Install what some algorithms and environments need besides the core.",
        epilog=f"sets:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--set", metavar="A,B", help="the sets to install")
    what.add_argument("--list", action="store_true", help="list the sets, and say which are installed")
    parser.add_argument("--python", default=sys.executable, metavar="EXE", help="interpreter to install for")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout, progress on stderr")
    parser.add_argument("--yes", action="store_true", help="do not ask before installing")
    return parser


def _listed(extras: WorkerExtras, options: argparse.Namespace) -> dict[str, Any]:
    """Every set, and whether an environment has it."""
    pins, target = extras.pins(), Target.probe(options.python)
    found = []
    for name, extra in extras.sets.items():
        plan = extras.plan([name], pins, target.installed)
        system = [package.name for package in missing_debian(plan.debian)]
        found.append(
            {
                "name": name,
                "summary": extra.summary,
                "installed": not plan.missing and not system,
                "megabytes": plan.installed_megabytes,
                "download_megabytes": plan.download_megabytes,
                "debian": system,
            }
        )
    for one in found:
        _tell(f"{one['name']:<9} {'installed' if one['installed'] else 'missing  '}  {one['summary']}")
    return {"status": "listed", "sets": found, "python": target.python}


def _apply(extras: WorkerExtras, options: argparse.Namespace) -> dict[str, Any]:
    names = extras.parse(options.set)
    pins, target = extras.pins(), Target.probe(options.python)
    plan = extras.plan(names, pins, target.installed)
    system = missing_debian(plan.debian)
    _tell_plan(plan, target, [package.name for package in system])
    check_disk(target, plan.installed_megabytes, plan.download_megabytes)
    report = {
        "sets": list(plan.sets),
        "python": target.python,
        "prefix": str(target.prefix),
        "already_there": [str(requirement) for requirement in plan.present],
        "to_install": [str(requirement) for requirement in plan.missing],
        "megabytes": plan.installed_megabytes,
        "download_megabytes": plan.download_megabytes,
        "debian": [package.name for package in system],
    }
    if options.dry_run:
        return report | {"status": "dry-run", "apt": " ".join(apt_command(system)) if system else ""}
    if (plan.missing or system) and not _agreed(options):
        return report | {"status": "declined", "problem": "Nothing was installed."}
    with only_one(target.prefix):
        after = _install(extras, plan, pins, target)
        left = install_debian(system, _tell) if system else ""
        record_sets(target.prefix, plan.packages(), after.installed)
    return report | {"status": "incomplete" if left else "ready", "problem": left}


def _install(extras: WorkerExtras, plan: Plan, pins: Pins, target: Target) -> Target:
    """The environment afterwards."""
    if not plan.missing:
        return target
    PipRun(target, _tell).install(plan.missing, constraints(pins, target.installed))
    after = Target.probe(target.python)
    _check_core(pins, target, after)
    if still := extras.plan(plan.sets, pins, after.installed).missing:
        raise ExtrasError(f"pip ended well but did not install {still[0]}.")
    return after


def _check_core(pins: Pins, before: Target, after: Target) -> None:
    for requirement in pins.core:
        name = canonicalize_name(requirement.name)
        was, now = before.installed.get(name), after.installed.get(name)
        if was is not None and was != now:
            raise ExtrasError(f"{name} was {was} and is {now or 'gone'} now; install {name}=={was} again.")


def _tell_plan(plan: Plan, target: Target, system: Sequence[str]) -> None:
    _tell(f"Environment: {target.prefix}")
    if plan.present:
        _tell(f"Already there: {', '.join(map(str, plan.present))}")
    if plan.missing:
        room = f"about {plan.installed_megabytes:,} MB, {plan.download_megabytes:,} MB to download"
        _tell(f"To install: {', '.join(map(str, plan.missing))} ({room})")
    if system:
        _tell(f"Debian packages to install: {', '.join(system)}")


def _agreed(options: argparse.Namespace) -> bool:
    """Only a person at a terminal can be asked; a script that runs this has made up its mind."""
    if options.yes or not sys.stdin.isatty():
        return True
    print("Install? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _end(options: argparse.Namespace, report: dict[str, Any], status: int) -> int:
    if problem := report.get("problem"):
        _tell(problem)
    elif report["status"] == "ready":
        _tell(f"Ready: {', '.join(report['sets'])}.")
    if options.json:
        print(json.dumps(report, indent=2))
    return status


def _tell(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
