"""Which Python has an optional package: this one, or that of a worker's bundle. Reads folders and starts nothing."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from mosaic_protocol.paths import MosaicPaths


def python_with(package: str, paths: MosaicPaths) -> str | None:
    """The interpreter that can import the package, None where there is none."""
    if find_spec(package) is not None:
        return sys.executable
    from gym_gui.services.trainer.bundles.manager import BundleManager, requirement_dirs
    from gym_gui.services.trainer.bundles.requirements import finder_in
    from mosaic_protocol.worker_manifest import discover

    workers = discover().workers.values()
    bundles = BundleManager(paths, requirement_dirs(workers))
    for name in dict.fromkeys(worker.bundle for worker in workers if worker.bundle):
        python = bundles.preflight(name).python
        if python is not None and finder_in(python.parent.parent)(package) is not None:
            return str(python)
    return None
