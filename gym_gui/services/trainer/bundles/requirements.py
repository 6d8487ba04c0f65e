"""Requirement bundles as files: reading them, and judging what an interpreter has of them. Installs nothing."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import Specifier
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from gym_gui.services.trainer.errors import TrainerError

_INCLUDE = re.compile(r"(?:-r|--requirement)[\s=]*(\S.*)")
_COMMENT = re.compile(r"(?:^|\s+)#.*$")

_STEP = re.compile(r"#\s*mosaic:\s*step\b(.*)")
_STEP_OPTIONS = ("--no-deps", "--ignore-requires-python", "--no-build-isolation")
BESIDE = "beside"
"""``<environment>/beside/<name>`` holds packages for those scripts only that import ``<name>``."""

Finder: TypeAlias = Callable[[str], "metadata.Distribution | None"]


class BundleError(TrainerError):
    """A bundle cannot be read or installed; the message says why and what to do."""


@dataclass(frozen=True)
class InstallStep:
    """Requirements that are installed after all before them, in a way of their own."""

    requirements: tuple[Requirement, ...]
    options: tuple[str, ...] = ()
    beside: str = ""

    @property
    def lines(self) -> list[str]:
        return [str(one) for one in self.requirements]

    def folder(self, environment: Path) -> Path:
        """Where the packages of a step with ``beside`` lie."""
        return environment / BESIDE / self.beside


@dataclass(frozen=True)
class Bundle:
    """A requirements file with its includes resolved."""

    name: str
    file: Path
    requirements: tuple[Requirement, ...]
    steps: tuple[InstallStep, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """The requirements in one spelling, sorted, so that layout and order do not change the hash."""
        return tuple(sorted(set(map(str, self.requirements))))

    @property
    def hash(self) -> str:
        """Identifies what an environment built now would hold."""
        python = f"{sys.implementation.name}-{sys.version_info.major}.{sys.version_info.minor}"
        recipe: dict[str, object] = {"requirements": self.lines, "python": python}
        recipe["platform"] = sysconfig.get_platform()
        if self.steps:
            recipe["steps"] = [[step.lines, step.options, step.beside] for step in self.steps]
        return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()

    @property
    def applicable(self) -> tuple[Requirement, ...]:
        """The requirements whose markers hold on this interpreter and platform."""
        return tuple(one for one in self.requirements if one.marker is None or one.marker.evaluate())

    def torch(self) -> Requirement | None:
        """The requirement on torch, if any. Raises BundleError unless it is an exact pin."""
        torch = next((one for one in self.applicable if canonicalize_name(one.name) == "torch"), None)
        if torch is None or any(_is_exact(specifier) for specifier in torch.specifier):
            return torch
        raise BundleError(
            f"{self.file} asks for {torch} without an exact version, which may download gigabytes that this "
            "host cannot use: pin it, as in torch==2.13.0"
        )


def read_bundle(name: str, file: Path) -> Bundle:
    """Read a requirements file and what it includes. Raises BundleError."""
    head, *steps = _split_at_steps(file)
    requirements = tuple(_resolved(head, file, set()))
    return Bundle(name, file, requirements, tuple(_install_step(lines, file) for lines in steps))


def missing_here(bundle: Bundle) -> list[str]:
    """What the running interpreter lacks of a bundle. One with steps of its own is never satisfied by it: how they
    install cannot be seen from what is there."""
    return [*unmet(bundle.requirements, find_here), *(line for step in bundle.steps for line in step.lines)]


def missing_in(bundle: Bundle, environment: Path) -> list[str]:
    """What a managed environment lacks of a bundle."""
    find = finder_in(environment)
    missing = unmet(bundle.requirements, find)
    for step in bundle.steps:
        missing += unmet(step.requirements, _finder_at([step.folder(environment)]) if step.beside else find)
    return missing


def unmet(requirements: Iterable[Requirement], find: Finder) -> list[str]:
    """What is not satisfied by the distributions that ``find`` knows, with the version that is there instead."""
    return list(dict.fromkeys(line for one in requirements for line in _unmet(one, find, set())))


def find_here(name: str) -> metadata.Distribution | None:
    """A distribution of the running interpreter. Imports nothing of it."""
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def finder_in(directory: Path) -> Finder:
    """A finder for the distributions of another environment, made by the same Python."""
    base = {"base": str(directory), "platbase": str(directory)}
    return _finder_at({Path(sysconfig.get_path(kind, scheme="venv", vars=base)) for kind in ("purelib", "platlib")})


def _finder_at(folders: Iterable[Path]) -> Finder:
    sites = sorted(map(str, folders))
    return lambda name: next(iter(metadata.distributions(name=name, path=sites)), None)


def _is_exact(specifier: Specifier) -> bool:
    return specifier.operator in ("==", "===") and "*" not in specifier.version


def _split_at_steps(file: Path) -> list[list[str]]:
    """The lines of a file before its first step, then those of each step with its own line ahead."""
    parts: list[list[str]] = [[]]
    for line in _text(file).replace("\\\n", " ").splitlines():
        if _STEP.fullmatch(line.strip()):
            parts.append([line.strip()])
        else:
            parts[-1].append(line)
    return parts


def _install_step(lines: list[str], file: Path) -> InstallStep:
    match = _STEP.fullmatch(lines[0])
    words = match[1].split() if match else []
    beside = ""
    if "--beside" in words[:-1]:
        at = words.index("--beside")
        beside = words[at + 1]
        del words[at : at + 2]
    for word in words:
        if word not in _STEP_OPTIONS:
            known = ", ".join((*_STEP_OPTIONS, "--beside NAME"))
            raise BundleError(f"{file} has a step with {word!r}; a step knows {known}")
    if beside and not beside.isidentifier():
        raise BundleError(f"{file} has a step with --beside {beside!r}: name the package that scripts import")
    requirements = tuple(_requirement(line, file) for line in _contents(lines[1:]))
    if not requirements:
        raise BundleError(f"{file} has a step without requirements: {lines[0]!r}")
    return InstallStep(requirements, tuple(words), beside)


def _resolved(lines: Iterable[str], file: Path, seen: set[Path]) -> Iterator[Requirement]:
    if file.resolve() in seen:
        return
    seen.add(file.resolve())
    for line in _contents(lines):
        include = _INCLUDE.fullmatch(line)
        if include:
            other = file.parent / include[1]
            yield from _resolved(_text(other).replace("\\\n", " ").splitlines(), other, seen)
        else:
            yield _requirement(line, file)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BundleError(f"The requirements file {file} cannot be read: {error}") from error


def _contents(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if content := _COMMENT.sub("", line).strip():
            yield content


def _requirement(line: str, file: Path) -> Requirement:
    if line.startswith("-"):
        option = re.split(r"[\s=]", line)[0]
        raise BundleError(f"{file} has the pip option {option}: put options into pip's own configuration")
    try:
        requirement = Requirement(line)
    except InvalidRequirement as error:
        raise BundleError(f"{file} has a line that is not a requirement: {line[:80]!r}") from error
    if requirement.url and urlsplit(requirement.url).password:
        raise BundleError(f"{file} has a password in the address of {requirement.name}: keep it in ~/.netrc")
    return requirement


def _unmet(requirement: Requirement, find: Finder, seen: set[tuple[str, str]]) -> Iterator[str]:
    if requirement.marker is not None and not requirement.marker.evaluate():
        return
    wanted = f"{requirement.name}{requirement.specifier}"
    found = find(requirement.name)
    if found is None or not found.version:
        yield wanted
    elif not _accepts(requirement, found.version):
        yield f"{wanted} (not {found.version})"
    else:
        for extra in sorted(requirement.extras):
            yield from _unmet_extra(found, extra, find, seen)


def _unmet_extra(found: metadata.Distribution, extra: str, find: Finder, seen: set[tuple[str, str]]) -> Iterator[str]:
    key = (canonicalize_name(found.name), extra)
    if key in seen:
        return
    seen.add(key)
    for needed in map(Requirement, found.requires or ()):
        marker, needed.marker = needed.marker, None
        if marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""}):
            yield from _unmet(needed, find, seen)


def _accepts(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return False


def installed(bundle: Bundle, find: Finder) -> list[str]:
    wanted = [*bundle.applicable, *(one for step in bundle.steps if not step.beside for one in step.requirements)]
    found = {canonicalize_name(one.name): find(one.name) for one in wanted}
    return sorted(f"{name}=={one.version}" for name, one in found.items() if one is not None)
