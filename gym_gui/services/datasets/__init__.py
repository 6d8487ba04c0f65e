"""Datasets to learn from: made of recorded steps, collected, imported; and where they came from. Needs neither Qt nor a
daemon."""

from __future__ import annotations

from mosaic_protocol.datasets import DatasetEntry, DatasetRegistry, DatasetsError, Integrity, UnknownDatasetError

__all__ = ["DatasetEntry", "DatasetRegistry", "DatasetsError", "Integrity", "UnknownDatasetError"]
