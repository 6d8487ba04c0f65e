"""What the extras of the CleanRL worker are, and which of them an environment has.

The versions stand in ``pyproject.toml`` alone. Here is what pip cannot know: what a set is for, how much room it takes,
and which Debian packages it needs.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mosaic_protocol.suggest import did_you_mean

DISTRIBUTION = "mosaic-rl"
CORE_EXTRA = "cleanrl"
RECORD_NAME = "mosaic-extras.json"

_CHECKOUT = Path(__file__).resolve().parents[2]


class ExtrasError(Exception):
    """The sets cannot be installed as asked; the message is one sentence. ``status`` is the exit status."""

    def __init__(self, sentence: str, status: int = 1) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class DebianPackage:
    name: str
    library: str
    """The shared library it brings, by which its presence is known whatever the system calls the package."""


@dataclass(frozen=True)
class ExtraSet:
    """One set; its requirements are those of the extra of the same name in ``pyproject.toml``."""

    summary: str
    debian: tuple[DebianPackage, ...] = ()


_EGL = DebianPackage("libegl1", "EGL")

SETS: Mapping[str, ExtraSet] = {
    "atari": ExtraSet("Atari games, with their ROMs"),
    "box2d": ExtraSet("LunarLander, BipedalWalker, CarRacing"),
    "envpool": ExtraSet("fast vector environments in C++"),
    "jax": ExtraSet("JAX on the CPU"),
    "mujoco": ExtraSet("MuJoCo locomotion and control", (_EGL,)),
    "procgen": ExtraSet("Procgen games, through EnvPool", (DebianPackage("libqt5gui5", "Qt5Gui"),)),
    "video": ExtraSet("clips of training (--capture-video)"),
    "wandb": ExtraSet("Weights & Biases (--track)"),
}

# Megabytes on disk and to download, of a package with what it brings along; measured on x86-64 with Python 3.11.
_SIZES: Mapping[str, tuple[int, int]] = {
    "ale-py": (11, 4),
    "av": (107, 36),
    "box2d": (12, 4),
    "envpool": (850, 325),
    "imageio": (25, 8),
    "jax": (490, 125),
    "mujoco": (75, 27),
    "opencv-python-headless": (160, 62),
    "pygame-ce": (35, 13),
    "wandb": (70, 24),
}
_UNKNOWN_SIZE = (50, 20)


@dataclass(frozen=True)
class Pins:
    """The requirements of the project: those of every extra, and those of the core, which must not be moved."""

    extras: Mapping[str, tuple[Requirement, ...]]
    core: tuple[Requirement, ...]


def parse_sets(text: str) -> list[str]:
    """The sets named in ``a,b,c``, each once, in order. Raises ExtrasError for a name that is none."""
    names = list(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    if not names:
        raise ExtrasError(f"--set names nothing; choices are {', '.join(SETS)}.", 2)
    for name in names:
        if name not in SETS:
            raise ExtrasError(f"There is no set {name[:60]!r}{did_you_mean(name, SETS)}", 2)
    return names


def read_pins(checkout: Path = _CHECKOUT) -> Pins:
    """From the ``pyproject.toml`` of a checkout, else from the installed distribution. Raises ExtrasError."""
    project = checkout / "pyproject.toml"
    if project.is_file():
        return pins_of_project(tomllib.loads(project.read_text(encoding="utf-8")).get("project", {}))
    try:
        return pins_of_metadata(importlib.metadata.requires(DISTRIBUTION) or [])
    except importlib.metadata.PackageNotFoundError:
        raise ExtrasError(f"Neither a checkout nor an installed {DISTRIBUTION} tells which versions belong.") from None


def pins_of_project(project: Mapping[str, Any]) -> Pins:
    extras: dict[str, tuple[Requirement, ...]] = {
        canonicalize_name(name): tuple(map(Requirement, lines))
        for name, lines in project.get("optional-dependencies", {}).items()
    }
    base = tuple(map(Requirement, project.get("dependencies", ())))
    return Pins(extras, (*base, *extras.get(CORE_EXTRA, ())))


def pins_of_metadata(lines: Iterable[str]) -> Pins:
    """From ``Requires-Dist`` lines, in which an extra is a marker."""
    base: list[Requirement] = []
    extras: dict[str, list[Requirement]] = {}
    for requirement in map(Requirement, lines):
        name = _extra_of(requirement)
        if name is None:
            base.append(requirement)
            continue
        requirement.marker = None
        extras.setdefault(canonicalize_name(name), []).append(requirement)
    return Pins({name: tuple(listed) for name, listed in extras.items()}, (*base, *extras.get(CORE_EXTRA, ())))


def _extra_of(requirement: Requirement) -> str | None:
    _, found, rest = str(requirement.marker or "").partition("extra ==")
    return rest.strip().strip("'\"") if found else None


@dataclass(frozen=True)
class Plan:
    """What is there, what has to come, and how much room that takes in megabytes."""

    sets: tuple[str, ...]
    present: tuple[Requirement, ...]
    missing: tuple[Requirement, ...]
    debian: tuple[DebianPackage, ...] = ()
    installed_megabytes: int = 0
    download_megabytes: int = 0
    requirements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def make_plan(names: Iterable[str], pins: Pins, installed: Mapping[str, str]) -> Plan:
    """Compare sets with what an environment has (canonical name → version). Raises ExtrasError."""
    wanted: dict[str, tuple[Requirement, ...]] = {}
    for name in names:
        if name not in pins.extras:
            raise ExtrasError(f"This version of {DISTRIBUTION} has no requirements for the set {name!r}.")
        wanted[name] = pins.extras[name]
    unique = {str(requirement): requirement for listed in wanted.values() for requirement in listed}
    missing = tuple(requirement for requirement in unique.values() if not is_met(requirement, installed))
    sizes = [_SIZES.get(canonicalize_name(requirement.name), _UNKNOWN_SIZE) for requirement in missing]
    return Plan(
        sets=tuple(wanted),
        present=tuple(requirement for requirement in unique.values() if requirement not in missing),
        missing=missing,
        debian=tuple(dict.fromkeys(package for name in wanted for package in SETS[name].debian)),
        installed_megabytes=sum(size for size, _ in sizes),
        download_megabytes=sum(size for _, size in sizes),
        requirements={name: tuple(map(str, listed)) for name, listed in wanted.items()},
    )


def is_met(requirement: Requirement, installed: Mapping[str, str]) -> bool:
    """A build of the right version counts: 2.13.0+cpu is 2.13.0."""
    version = installed.get(canonicalize_name(requirement.name))
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def constraints(pins: Pins, installed: Mapping[str, str]) -> list[str]:
    """Lines that keep pip from moving the core: as it is installed, else as it is pinned."""
    lines: dict[str, str] = {}
    for requirement in pins.core:
        name = canonicalize_name(requirement.name)
        version = installed.get(name)
        # Without the local part: an index has no 2.13.0+cpu, and the installed one satisfies 2.13.0 as well.
        lines[name] = f"{name}=={version.partition('+')[0]}" if version else f"{name}{requirement.specifier}"
    return list(lines.values())


def applied_sets(prefix: str | os.PathLike[str]) -> dict[str, Any]:
    """The sets that were applied to an environment, by name; {} when none was or the record cannot be read."""
    try:
        content = json.loads((Path(prefix) / RECORD_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    sets = content.get("sets") if isinstance(content, dict) else None
    return sets if isinstance(sets, dict) else {}


def record_sets(prefix: Path, plan: Plan, installed: Mapping[str, str]) -> None:
    """Add a plan's sets to the record of an environment, in one step. Raises OSError."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    sets = applied_sets(prefix)
    for name, lines in plan.requirements.items():
        names = [canonicalize_name(Requirement(line).name) for line in lines]
        sets[name] = {"applied": now, "installed": {one: installed[one] for one in names if one in installed}}
    draft = prefix / f".{RECORD_NAME}-{os.getpid()}.draft"
    try:
        draft.write_text(json.dumps({"schema": 1, "sets": sets}, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        draft.replace(prefix / RECORD_NAME)
    finally:
        draft.unlink(missing_ok=True)
