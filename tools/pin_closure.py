"""Write ``requirements/constraints.txt``: the version of every package that the development environment consists of.

    make constraints                      # what .venv has now
    make constraints ARGS=--upgrade       # first the newest of everything that pyproject.toml does not pin

``pyproject.toml`` pins what MOSAIC imports; this file pins what those packages bring along, so that two machines get
the same. It has no hashes and no local versions (``2.13.0``, not ``2.13.0+cpu``), because builds of torch differ by
machine. Packages for the CUDA build of torch are therefore not in it: torch pins those itself.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, cast

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools.setup_environment import CONSTRAINTS, EXTRAS, NEWEST_PYTHON, OLDEST_PYTHON

ROOT = Path(__file__).resolve().parent.parent
HEADER = """\
# Every package of the development environment, those that others bring along included. Written by `make constraints`.
# Set-up passes it to pip as constraints: a line here installs nothing by itself.
"""
_OF_A_CUDA_BUILD = ("cuda-", "nvidia-", "triton")


class ClosureError(Exception):
    """The environment is not what `make setup-dev` builds; the text says what is missing."""


def direct_pins(project: dict[str, Any]) -> dict[str, str]:
    """What ``pyproject.toml`` pins, in all extras, by canonical name."""
    extras: dict[str, list[str]] = project["optional-dependencies"]
    pins = (pin.split("==") for pin in [*project["dependencies"], *(pin for pins in extras.values() for pin in pins)])
    return {canonicalize_name(name): version for name, version in pins}


def closure(project: dict[str, Any]) -> dict[str, str]:
    """Versions by name: what the development profile needs on any supported Python, as far as it is installed here.

    Raises ClosureError for a package that this Python needs and that is not installed.
    """
    extras: dict[str, list[str]] = project["optional-dependencies"]
    roots = [*project["dependencies"], *(pin for extra in EXTRAS["dev"] for pin in extras[extra])]
    found: dict[str, str] = {}
    for minor in range(OLDEST_PYTHON[1], NEWEST_PYTHON[1] + 1):
        missing = _walk(map(Requirement, roots), f"3.{minor}", found)
        if missing and minor == sys.version_info[1]:
            raise ClosureError(f"not installed: {', '.join(sorted(missing))}; run `make setup-dev` first")
        if missing:
            print(f"Python 3.{minor} also needs {', '.join(sorted(missing))}: not pinned, since not installed here")
    return found


def _walk(roots: Iterable[Requirement], python: str, found: dict[str, str]) -> set[str]:
    """Add what ``roots`` lead to on that version of Python; return what is needed and not installed."""
    version = {"python_version": python, "python_full_version": f"{python}.0"}
    environment = {**cast(dict[str, str], default_environment()), **version}
    waiting, done = list(roots), set()
    missing: set[str] = set()
    while waiting:
        one = waiting.pop()
        name, extras = canonicalize_name(one.name), frozenset(one.extras)
        if (name, extras) in done or name.startswith(_OF_A_CUDA_BUILD):
            continue
        done.add((name, extras))
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            missing.add(name)
            continue
        found[name] = Version(package.version).public
        for line in package.requires or ():
            needed = Requirement(line)
            asked: list[dict[str, str]] = [{**environment, "extra": extra} for extra in extras or {""}]
            if needed.marker is None or any(needed.marker.evaluate(one) for one in asked):
                waiting.append(needed)
    return missing


def text_of(pins: dict[str, str]) -> str:
    return HEADER + "".join(f"{name}=={version}\n" for name, version in sorted(pins.items()))


def upgrade() -> None:
    """The newest of everything, within the pins of ``pyproject.toml``."""
    wanted = f".[{','.join(EXTRAS['dev'])}]"
    options = ["--upgrade", "--upgrade-strategy", "eager", "--editable"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, wanted], cwd=ROOT, check=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Pin every package of the development environment.")
    parser.add_argument("--upgrade", action="store_true", help="upgrade what pyproject.toml does not pin first")
    options = parser.parse_args(arguments)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    try:
        if options.upgrade:
            upgrade()
        pins = {**direct_pins(project), **closure(project)}
    except (ClosureError, subprocess.CalledProcessError) as error:
        print(f"constraints: {error}", file=sys.stderr)
        return 1
    (ROOT / CONSTRAINTS).write_text(text_of(pins), encoding="utf-8")
    print(f"{len(pins)} packages in {CONSTRAINTS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
