"""Where upstream CleanRL's scripts are."""

from __future__ import annotations

from pathlib import Path

from mosaic_protocol.suggest import did_you_mean
from mosaic_worker.script_worker.config import ConfigError, require

UPSTREAM_BUNDLE, JAX_BUNDLE = "cleanrl_upstream", "cleanrl_upstream_jax"


def implied_bundle(algo: str) -> str:
    """The bundle that a script runs in where none is named, as the manifest has it for clients."""
    return JAX_BUNDLE if "_jax" in algo else UPSTREAM_BUNDLE


def upstream_folder(cleanrl_path: str, python: Path) -> Path:
    """The folder with the scripts: of a checkout, or of the package in an environment."""
    if cleanrl_path:
        root = Path(cleanrl_path).expanduser()
        require(root.is_absolute() and root.is_dir(), f"there is no folder {cleanrl_path!r} (give its full path)")
        return root / "cleanrl" if (root / "cleanrl").is_dir() else root
    found = sorted(python.parent.parent.glob("lib/python3*/site-packages/cleanrl"))
    if not found:
        raise ConfigError(
            f"{python} has no package cleanrl: run `mosaic bundles install {UPSTREAM_BUNDLE}`, or name a checkout "
            "with --cleanrl-path"
        )
    return found[0]


def upstream_script(algo: str, folder: Path) -> Path:
    """The script of an algorithm, looked for in the order that the manifest declares for a checkout."""
    found = [*sorted(folder.glob("*/*.py"), reverse=True), *sorted(folder.glob("*.py"), reverse=True)]
    scripts = {path.stem: path for path in found if not path.stem.startswith("_")}
    require(algo in scripts, f"there is no script {algo!r} in {folder}{did_you_mean(algo, scripts)}")
    return scripts[algo]
