"""What a run of a sweep is worth where the objective is an evaluation. Blocking; for a thread that lives as long."""

from __future__ import annotations

from collections.abc import Sequence

from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.errors import CheckpointsError
from gym_gui.services.checkpoints.measuring import Order, measured
from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.sweeps.model import SweepSpec
from gym_gui.services.worker_tools import ToolHandle
from mosaic_protocol.paths import MosaicPaths


class StoppedError(Exception):
    """The evaluation was stopped; nothing was measured."""


def evaluated(paths: MosaicPaths, spec: SweepSpec, runs: Sequence[str], handle: ToolHandle) -> float | None:
    """The IQM or the mean of episodes that are played with the newest checkpoint of these runs, oldest first; None
    where it is no number. Raises StoppedError, CheckpointsError, ToolError and OSError."""
    order = Order(spec.evaluate, spec.evaluate_seed, spec.evaluate_mode)
    figures = measured(_newest_checkpoint(paths, runs), order, paths, handle)
    if figures is None:
        raise StoppedError
    value = figures.get(spec.objective)
    return float(value) if isinstance(value, int | float) else None


def _newest_checkpoint(paths: MosaicPaths, runs: Sequence[str]) -> CheckpointEntry:
    """Of the last run that left one: a run that crashed may have left none."""
    registry = TrainingRegistry(paths)
    for run_id in reversed(runs[1:]):
        try:
            return registry.find(f"{run_id}@last")
        except CheckpointsError:
            continue
    return registry.find(f"{runs[0]}@last")
