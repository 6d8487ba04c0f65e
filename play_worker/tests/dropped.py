"""A worker in a folder whose checkpoints can take the seat of a session."""

from __future__ import annotations

import shutil
from pathlib import Path

import mosaic_worker

_TOY_WORKER = Path(mosaic_worker.__file__).parent / "tests" / "toy_worker"


def dropped_policies(folder: Path, act: str = "") -> Path:
    """A worker whose policies act; ``act`` replaces how."""
    package = folder / "seated_worker"
    shutil.copytree(_TOY_WORKER, package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in package.glob("*.*"):
        file.write_text(file.read_text().replace("toy_worker", package.name))
    manifest = package / "worker.toml"
    text = manifest.read_text().replace('type = "toy"', 'type = "seated"')
    manifest.write_text(text.replace("[capabilities]", "[capabilities]\noffline_inference = true"))
    if act:
        policies = package / "policies.py"
        head, _, tail = policies.read_text().partition("        with torch.no_grad():")
        policies.write_text(f"{head}        {act}\n        with torch.no_grad():{tail}")
    return folder
