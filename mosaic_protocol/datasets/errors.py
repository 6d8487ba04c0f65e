"""What can be wrong with a dataset that somebody asked for.

DatasetsError
└── UnknownDatasetError  nothing answers to the name
"""

from __future__ import annotations


class DatasetsError(Exception):
    """``str()`` is one sentence for the person who asked."""


class UnknownDatasetError(DatasetsError):
    """Nothing answers to the name."""
