"""What services and workers agree on about datasets: their names, files and manifests, and whether a file is whole.

Needs neither NumPy nor h5py: what is inside the data is read by :mod:`mosaic_protocol.dataset_files`.
"""

from __future__ import annotations

from mosaic_protocol.datasets.errors import DatasetsError, RetryableError, UnknownDatasetError
from mosaic_protocol.datasets.integrity import Integrity, file_sha256, known_integrity, verify
from mosaic_protocol.datasets.manifest import DATA, MANIFEST, DatasetManifest, References, read_manifest
from mosaic_protocol.datasets.registry import DatasetEntry, DatasetRegistry

__all__ = [
    "DATA",
    "MANIFEST",
    "DatasetEntry",
    "DatasetManifest",
    "DatasetRegistry",
    "DatasetsError",
    "Integrity",
    "References",
    "RetryableError",
    "UnknownDatasetError",
    "file_sha256",
    "known_integrity",
    "read_manifest",
    "verify",
]
