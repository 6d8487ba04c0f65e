"""What can be wrong with a dataset that somebody asked for.

DatasetsError
├── RetryableError       the same file can be taken with another option, or with more room
└── UnknownDatasetError  nothing answers to the name
"""

from __future__ import annotations


class DatasetsError(Exception):
    """``str()`` is one sentence for the person who asked."""


class RetryableError(DatasetsError):
    """Nothing is wrong with the file as such: another option of the command, or more room, may take it."""


class UnknownDatasetError(DatasetsError):
    """Nothing answers to the name."""
