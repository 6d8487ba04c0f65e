"""Upstream CleanRL for benchmarks: the bundle `cleanrl_upstream`, the same that `mosaic train --upstream` uses.

Its scripts are written against libraries that cannot live beside what MOSAIC uses. The environment is built once,
below the data root of this checkout, and again when the bundle changes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import ROOT
from gym_gui.services.trainer.bundles.manager import BundleManager, requirement_dirs
from gym_gui.services.trainer.bundles.requirements import BundleError
from mosaic_protocol.paths import MosaicPaths

BUNDLE = "cleanrl_upstream"
DATA_ROOT = ROOT / "var"


class UpstreamEnvironmentError(RuntimeError):
    """The environment could not be built; the message says which step failed and why."""


class UpstreamEnvironment(NamedTuple):
    python: Path
    scripts: Path

    def script(self, name: str) -> Path:
        """The file of one algorithm. Raises UpstreamEnvironmentError when upstream has none of the name."""
        path = self.scripts / f"{name}.py"
        if not path.is_file():
            raise UpstreamEnvironmentError(f"upstream has no script {name!r} in {self.scripts}")
        return path

    @property
    def ppo_script(self) -> Path:
        return self.script("ppo")

    def import_path(self, name: str) -> str:
        """What a script needs ahead on its import path when it is run bare: older libraries for those that use gym."""
        uses_gym = "import gym" in self.script(name).read_text().splitlines()
        beside = self.python.parents[1] / "beside" / "gym"
        return str(beside) if uses_gym and beside.is_dir() else ""


def ensure(data_root: Path = DATA_ROOT) -> UpstreamEnvironment:
    """Return the environment below a data root, building it first if it is missing or out of date.

    Raises UpstreamEnvironmentError.
    """
    manager = BundleManager(MosaicPaths(data_root), requirement_dirs([]))
    try:
        python = manager.preflight(BUNDLE).python
        if python is None:
            directory = manager.install(BUNDLE, lambda line: print(f"[upstream] {line}", file=sys.stderr, flush=True))
            python = directory / "bin" / "python"
    except BundleError as error:
        raise UpstreamEnvironmentError(str(error)) from error
    found = sorted(python.parents[1].glob("lib/python3*/site-packages/cleanrl"))
    if not found:
        raise UpstreamEnvironmentError(f"{python.parents[1]} holds no cleanrl; delete it to have it rebuilt.")
    return UpstreamEnvironment(python, found[0])


if __name__ == "__main__":
    environment = ensure(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA_ROOT)
    print(environment.python, environment.ppo_script)
