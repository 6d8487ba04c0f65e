"""What sets of extras are, and which of a worker's an environment has.

The versions of MOSAIC's own sets stand in its ``pyproject.toml`` alone; a worker from elsewhere lists the requirements
of its sets itself. A worker's :class:`WorkerExtras` hold what pip cannot know besides: what a set is for, how much room
it takes, and which Debian packages it needs.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mosaic_protocol.suggest import did_you_mean

DISTRIBUTION = "mosaic-rl"
_UNKNOWN_SIZE = (50, 20)
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
    """One set. Without ``requirements`` they are those of the extra of the same name in ``pyproject.toml``."""

    summary: str
    debian: tuple[DebianPackage, ...] = ()
    module: str = ""
    """A module by which it is known to be there, in whatever version."""
    requirements: tuple[str, ...] = ()
    """As pip takes them: ``("matplotlib>=3.9",)``."""

    @property
    def is_there(self) -> bool:
        if self.module:
            return importlib.util.find_spec(self.module) is not None
        return all(_is_installed(Requirement(one).name) for one in self.requirements)


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@dataclass(frozen=True)
class WorkerExtras:
    """The sets of one worker."""

    module: str
    """What a person starts to install one: ``python -m MODULE``."""
    sets: Mapping[str, ExtraSet]
    core: str = ""
    """The extra in ``pyproject.toml`` that the worker itself needs; installing a set must not move its packages."""
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Megabytes on disk and to download, of a package with what it brings along."""
    distribution: str = DISTRIBUTION
    checkout: Path = _CHECKOUT

    def parse(self, text: str) -> list[str]:
        """The sets named in ``a,b,c``, each once, in order. Raises ExtrasError for a name that is none."""
        names = list(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
        if not names:
            raise ExtrasError(f"--set names nothing; choices are {', '.join(self.sets)}.", 2)
        for name in names:
            if name not in self.sets:
                raise ExtrasError(f"There is no set {name[:60]!r}{did_you_mean(name, self.sets)}", 2)
        return names

    def pins(self) -> Pins:
        """From the ``pyproject.toml`` of a checkout, else from the installed distribution. Raises ExtrasError."""
        project = self.checkout / "pyproject.toml"
        if project.is_file():
            found = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
            return pins_of_project(found, self.core)
        try:
            return pins_of_metadata(importlib.metadata.requires(self.distribution) or [], self.core)
        except importlib.metadata.PackageNotFoundError:
            missing = f"Neither a checkout nor an installed {self.distribution} says which versions to install."
            raise ExtrasError(missing) from None

    def plan(self, names: Iterable[str], pins: Pins, installed: Mapping[str, str]) -> Plan:
        """Compare sets with what an environment has (canonical name → version). Raises ExtrasError."""
        wanted: dict[str, tuple[Requirement, ...]] = {}
        for name in names:
            if own := self.sets[name].requirements:
                wanted[name] = tuple(map(Requirement, own))
            elif name in pins.extras:
                wanted[name] = pins.extras[name]
            else:
                raise ExtrasError(
                    f"The set {name!r} lists no requirements, and this version of {self.distribution} has none for it."
                )
        unique = {str(requirement): requirement for listed in wanted.values() for requirement in listed}
        missing = tuple(requirement for requirement in unique.values() if not is_met(requirement, installed))
        sizes = [self.sizes.get(canonicalize_name(requirement.name), _UNKNOWN_SIZE) for requirement in missing]
        return Plan(
            sets=tuple(wanted),
            present=tuple(requirement for requirement in unique.values() if requirement not in missing),
            missing=missing,
            debian=tuple(dict.fromkeys(package for name in wanted for package in self.sets[name].debian)),
            installed_megabytes=sum(size for size, _ in sizes),
            download_megabytes=sum(size for _, size in sizes),
            requirements={name: tuple(map(str, listed)) for name, listed in wanted.items()},
        )


@dataclass(frozen=True)
class Pins:
    """The requirements of the project: those of every extra, and those of the core, which must not be moved."""

    extras: Mapping[str, tuple[Requirement, ...]]
    core: tuple[Requirement, ...]


def pins_of_project(project: Mapping[str, Any], core: str) -> Pins:
    extras: dict[str, tuple[Requirement, ...]] = {
        canonicalize_name(name): tuple(map(Requirement, lines))
        for name, lines in project.get("optional-dependencies", {}).items()
    }
    base = tuple(map(Requirement, project.get("dependencies", ())))
    return Pins(extras, (*base, *extras.get(core, ())))


def pins_of_metadata(lines: Iterable[str], core: str) -> Pins:
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
    return Pins({name: tuple(listed) for name, listed in extras.items()}, (*base, *extras.get(core, ())))


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

    def packages(self) -> dict[str, list[str]]:
        """Set → the canonical names of the packages it asks for."""
        return {
            name: [canonicalize_name(Requirement(one).name) for one in listed]
            for name, listed in self.requirements.items()
        }


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
