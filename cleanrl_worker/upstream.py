"""Where upstream CleanRL's scripts are, and the Python that runs scripts that are not MOSAIC's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from mosaic_protocol.paths import MosaicPaths, checked_name
from mosaic_worker.supervision.control import SCRIPT_PYTHON_VARIABLE

UPSTREAM_BUNDLE = "cleanrl_upstream"


class UpstreamError(ValueError):
    """A script or an environment that is not there; the message is one sentence."""


def script_python(bundle: str, environ: Mapping[str, str] = os.environ) -> Path:
    """The interpreter for a script: the one the daemon chose, or that of the bundle's managed environment."""
    if chosen := environ.get(SCRIPT_PYTHON_VARIABLE):
        return Path(chosen)
    if not bundle:
        return Path(sys.executable)
    try:
        python = MosaicPaths.from_environment().venvs / checked_name(bundle) / "bin" / "python"
    except ValueError as error:
        raise UpstreamError(f"bundle {error}") from None
    if not os.access(python, os.X_OK):
        raise UpstreamError(f"the bundle {bundle} is not installed: run `mosaic bundles install {bundle}`")
    return python


def upstream_folder(cleanrl_path: str, python: Path) -> Path:
    """The folder with the scripts: of a checkout, or of the package in an environment."""
    if cleanrl_path:
        root = Path(cleanrl_path).expanduser()
        if not root.is_absolute() or not root.is_dir():
            raise UpstreamError(f"there is no folder {cleanrl_path!r} (give its full path)")
        return root / "cleanrl" if (root / "cleanrl").is_dir() else root
    found = sorted(python.parent.parent.glob("lib/python3*/site-packages/cleanrl"))
    if not found:
        raise UpstreamError(
            f"{python} has no package cleanrl: run `mosaic bundles install {UPSTREAM_BUNDLE}`, or name a checkout "
            "with --cleanrl-path"
        )
    return found[0]


def upstream_script(algo: str, folder: Path) -> Path:
    """The script of an algorithm, looked for in the order that the manifest declares for a checkout."""
    found = [*sorted(folder.glob("*/*.py"), reverse=True), *sorted(folder.glob("*.py"), reverse=True)]
    scripts = {path.stem: path for path in found if not path.stem.startswith("_")}
    if algo not in scripts:
        from mosaic_protocol.suggest import did_you_mean

        raise UpstreamError(f"there is no script {algo!r} in {folder}{did_you_mean(algo, scripts)}")
    return scripts[algo]
