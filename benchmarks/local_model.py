"""The small local model for benchmarks: the bundle `llm_local`, built once below the data root of this checkout."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.daemon import BenchmarkError
from benchmarks.machine import ROOT
from gym_gui.services.trainer.bundles.manager import BundleManager, requirement_dirs
from gym_gui.services.trainer.bundles.requirements import BundleError
from mosaic_protocol.paths import MosaicPaths

BUNDLE = "llm_local"


def local_python(data_root: Path = ROOT / "var") -> Path:
    """The interpreter that has the model; it is fetched if it is missing. Raises BenchmarkError."""
    manager = BundleManager(MosaicPaths(data_root), requirement_dirs([]))
    try:
        python = manager.preflight(BUNDLE).python
        if python is None:
            tell = lambda line: print(f"[{BUNDLE}] {line}", file=sys.stderr, flush=True)  # noqa: E731
            python = manager.install(BUNDLE, tell) / "bin" / "python"
    except BundleError as error:
        raise BenchmarkError(str(error)) from error
    return python
