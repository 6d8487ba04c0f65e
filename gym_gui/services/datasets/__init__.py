"""Datasets made of recorded steps: whole episodes in HDF5, and where they came from. Needs neither Qt nor a daemon."""

from __future__ import annotations

from gym_gui.services.datasets.errors import DatasetsError, UnknownDatasetError
from gym_gui.services.datasets.registry import DatasetEntry, DatasetRegistry

__all__ = ["DatasetEntry", "DatasetRegistry", "DatasetsError", "UnknownDatasetError"]
