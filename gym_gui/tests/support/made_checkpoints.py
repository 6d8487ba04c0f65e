"""Checkpoints and runs on disk for tests of listings, written without torch and without a daemon."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from mosaic_protocol.checkpoint_manifest import MANIFEST_FILE, TENSOR_FILE, CheckpointManifest, checkpoint_name
from mosaic_protocol.paths import MosaicPaths

RUN_A = "01K9ZQ3V7X0000000000AAAAAA"
RUN_B = "01K9ZQ3V7Y0000000000BBBBBB"


def write_checkpoint(directory: Path, step: int, tensors: bytes = b"tensors", **changes: Any) -> Path:
    """A checkpoint whose hashes hold; its tensors are no tensors, which a listing does not look at."""
    path = directory / checkpoint_name(step)
    path.mkdir(parents=True)
    (path / TENSOR_FILE).write_bytes(tensors)
    fields: dict[str, Any] = {
        "algo": "ppo",
        "env_id": "CartPole-v1",
        "step": step,
        "created": f"2026-11-15T10:{step % 60:02d}:00+00:00",
        "args": {"total_timesteps": 1000},
        "state": {},
        "spaces": {"observation": {"text": "Box(4,)"}, "action": {"text": "Discrete(2)"}},
        "versions": {},
        "tensor_sha256": hashlib.sha256(tensors).hexdigest(),
        "tensor_bytes": len(tensors),
        "metrics": {"episodes": 100, "mean_return": float(step)},
    }
    (path / MANIFEST_FILE).write_text(CheckpointManifest(**(fields | changes)).sealed())
    return path


def write_run(paths: MosaicPaths, run_id: str, name: str, steps: tuple[int, ...] = (), **changes: Any) -> list[Path]:
    """A run with its config and checkpoints."""
    paths.configs.mkdir(parents=True, exist_ok=True)
    worker = {"type": "cleanrl", "agent_id": "learner-1"}
    paths.run_config(run_id).write_text(json.dumps({"run_name": name, "metadata": {"worker": worker}}))
    run = paths.run(run_id)
    run.directory.mkdir(parents=True)
    return [write_checkpoint(run.checkpoints, step, **changes) for step in steps]
