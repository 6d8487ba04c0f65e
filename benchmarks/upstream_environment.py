"""A Python environment of its own for upstream CleanRL, so that benchmarks can run its `ppo.py` unmodified.

Upstream's released `ppo.py` is written against gym 0.23 and numpy 1.x, which cannot live beside what MOSAIC
uses. Only what that script imports is installed (gym 0.23 imports pygame even when nothing is drawn). The
environment is built once and rebuilt when the pins below or the interpreter change.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

DEFAULT_ROOT = Path("var") / "benchmarks" / "upstream"
MARKER_NAME = "environment.sha256"

# One pip call a row, in this order: torch must be pinned and present before anything may ask for it; gym
# 0.23 is a source package whose metadata only old build tools accept; and the cleanrl package declares a
# Python range and dependencies that its ppo.py does not need.
INSTALL_STEPS: tuple[tuple[str, ...], ...] = (
    ("torch==2.13.0",),
    ("numpy==1.26.4", "tensorboard==2.21.0", "pygame==2.6.1"),
    ("setuptools<66", "wheel<0.40"),
    ("--no-build-isolation", "gym==0.23.1"),
    ("--no-deps", "--ignore-requires-python", "cleanrl==1.2.0"),
)


class UpstreamEnvironment(NamedTuple):
    python: Path
    ppo_script: Path


class UpstreamEnvironmentError(RuntimeError):
    """The environment could not be built; the message says which step failed and why."""


def ensure(root: Path = DEFAULT_ROOT) -> UpstreamEnvironment:
    """Return the environment under `root`, building it first if it is missing or out of date.

    Not safe to call for the same root from two processes at once. Raises UpstreamEnvironmentError.
    """
    root = root.resolve()
    python = root / "bin" / "python"
    marker = root / MARKER_NAME
    if not (marker.is_file() and marker.read_text().strip() == _wanted_hash()):
        _build(root, python)
        marker.write_text(_wanted_hash() + "\n")
    return UpstreamEnvironment(python, _find_ppo(python))


def _wanted_hash() -> str:
    recipe = repr((sys.version_info[:3], INSTALL_STEPS))
    return hashlib.sha256(recipe.encode()).hexdigest()


def _build(root: Path, python: Path) -> None:
    _clear(root)
    started = time.monotonic()
    _say(f"creating {root}")
    _run([sys.executable, "-m", "venv", str(root)], "create the virtual environment")
    for number, requirements in enumerate(INSTALL_STEPS, start=1):
        _say(f"installing {' '.join(requirements)} ({number} of {len(INSTALL_STEPS)})")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, *requirements], f"install {' '.join(requirements)}")
    _say(f"ready after {time.monotonic() - started:.0f} s")


def _clear(root: Path) -> None:
    if not root.exists() or not any(root.iterdir()):
        return
    if not (root / "pyvenv.cfg").is_file():
        raise UpstreamEnvironmentError(
            f"{root} is neither empty nor a virtual environment and was left alone; name another directory."
        )
    shutil.rmtree(root)


def _find_ppo(python: Path) -> Path:
    locate = "import importlib.util as u; print(u.find_spec('cleanrl').submodule_search_locations[0])"
    package = Path(_run([str(python), "-c", locate], "find the cleanrl package").strip())
    script = package / "ppo.py"
    if not script.is_file():
        raise UpstreamEnvironmentError(f"{script} is missing; delete {python.parents[1]} to have it rebuilt.")
    return script


def _run(command: list[str], purpose: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise UpstreamEnvironmentError(f"Could not {purpose} (exit status {done.returncode}):\n{tail}")
    return done.stdout


def _say(text: str) -> None:
    print(f"[upstream] {text}", flush=True)


if __name__ == "__main__":
    environment = ensure(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_ROOT)
    print(environment.python, environment.ppo_script)
