"""The checkpoints there are: found on disk, named by people, put to use. Needs neither Qt nor torch nor a daemon."""

from __future__ import annotations

from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.errors import CheckpointsError, DamagedCheckpointError, UnknownCheckpointError
from gym_gui.services.checkpoints.registry import TrainingRegistry

__all__ = [
    "CheckpointEntry",
    "CheckpointsError",
    "DamagedCheckpointError",
    "TrainingRegistry",
    "UnknownCheckpointError",
]
