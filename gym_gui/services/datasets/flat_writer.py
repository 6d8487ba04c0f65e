"""Columns of steps in an HDF5 file, as D4RL has them, written block by block. Needs h5py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from gym_gui.services.datasets.patient_file import PatientFile

_CHUNK_BYTES = 2**17


class FlatWriter:
    """A file that rows are appended to; every block has the same columns. Close it. Raises OSError where the disk
    does."""

    def __init__(self, path: Path, kinds: Mapping[str, np.dtype[Any]] | None = None) -> None:
        """``kinds``: of columns whose first block does not say what later ones need. HDF5 would cut off silently what
        a column does not hold."""
        self._kinds = kinds or {}
        self._disk = PatientFile(path)
        self._file = h5py.File(self._disk, "w")
        self.rows = 0

    def append(self, columns: dict[str, NDArray[Any]]) -> None:
        count = len(next(iter(columns.values())))
        for name, values in columns.items():
            if name not in self._file:
                self._create(name, values)
            column = self._file[name]
            column.resize(self.rows + count, axis=0)
            column[self.rows :] = values
        self.rows += count
        self._disk.require_space()

    def _create(self, name: str, values: NDArray[Any]) -> None:
        row = max(1, values.dtype.itemsize * int(np.prod(values.shape[1:], dtype=np.int64)))
        chunk = (max(1, min(65_536, _CHUNK_BYTES // row)), *values.shape[1:])
        shape = (0, *values.shape[1:])
        kind = self._kinds.get(name, values.dtype)
        self._file.create_dataset(name, shape, kind, chunks=chunk, maxshape=(None, *values.shape[1:]))

    def describe(self, **attributes: str | int | float) -> None:
        self._file.attrs.update(attributes)

    def close(self) -> None:
        self._file.close()
        try:
            self._disk.require_space()
        finally:
            self._disk.close()
