"""What can be wrong with a checkpoint that somebody asked for.

CheckpointsError
├── UnknownCheckpointError   nothing, or more than one thing, answers to the name
├── DamagedCheckpointError   it is there, but not as it was written
└── UnusableCheckpointError  it is whole, but nobody here can do that with it
"""

from __future__ import annotations


class CheckpointsError(Exception):
    """``str()`` is one sentence for the person who asked."""


class UnknownCheckpointError(CheckpointsError):
    """Nothing answers to the name, or more than one thing does."""


class DamagedCheckpointError(CheckpointsError):
    """Its files are not as they were written."""


class UnusableCheckpointError(CheckpointsError):
    """No installed worker can do with it what was asked."""
