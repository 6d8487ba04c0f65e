"""A dataset as a file that D4RL's readers read: columns of all steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from gym_gui.services.datasets.making import require_h5py
from mosaic_protocol.datasets import DatasetEntry, DatasetsError
from mosaic_protocol.whole_files import drafted, sync


def export(entry: DatasetEntry, file: Path, progress: Callable[[int, int], None] = lambda rows, of: None) -> int:
    """Write it, whole or not at all; the rows. Raises DatasetsError."""
    require_h5py()
    entry.require_whole()
    if file.exists() or file.is_symlink():
        raise DatasetsError(f"{file} exists already: choose another name")
    try:
        with drafted(file) as draft:
            rows = _written(entry, draft, progress)
            sync(draft)
        return rows
    except OSError as error:
        raise DatasetsError(f"{file} cannot be written: {error.strerror or error}") from error


def _written(entry: DatasetEntry, path: Path, progress: Callable[[int, int], None]) -> int:
    from gym_gui.services.datasets.flat_writer import FlatWriter
    from gym_gui.services.datasets.merging import flat_columns
    from mosaic_protocol.dataset_files import data_file

    with closing(FlatWriter(path)) as out, data_file.opened(entry.data, entry.manifest.layout) as file:
        out.describe(env_id=entry.manifest.env_id or "", mosaic_dataset=entry.name, sha256=entry.manifest.sha256)
        with_next = bool(file.follows.all())
        for number in range(len(file.starts) - 1):
            actors = file.actors(number) or [""] * int(file.starts[number + 1] - file.starts[number])
            out.append(flat_columns(file, number, actors, with_next=with_next))
            progress(out.rows, file.steps)
        return out.rows
