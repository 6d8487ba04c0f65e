"""The datasets on the disk: a folder for each name, with ``data.hdf5`` and ``manifest.json``.

The manifest says where the data came from and what its file hashes to. Nothing else is kept anywhere: what a folder
holds is what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mosaic_protocol.datasets.errors import DatasetsError, UnknownDatasetError
from mosaic_protocol.datasets.integrity import Integrity, known_integrity, verify
from mosaic_protocol.datasets.manifest import DATA, DatasetManifest, read_manifest
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.suggest import did_you_mean
from mosaic_protocol.whole_files import drafted_folder, remove_all_left_drafts, settle

BROUGHT, BROUGHT_VARIABLE = "datasets", "MOSAIC_DATASETS"
"""The folder of the datasets that were brought to another host for a run, and the variable that names it there."""


@dataclass(frozen=True)
class DatasetEntry:
    """One dataset. ``problem`` is the sentence of one whose manifest cannot be read."""

    name: str
    folder: Path
    found: DatasetManifest | None
    problem: str = ""

    @property
    def data(self) -> Path:
        return self.folder / DATA

    @property
    def manifest(self) -> DatasetManifest:
        """Raises DatasetsError where there is none to be read."""
        if self.found is None:
            raise DatasetsError(f"the dataset {self.name!r} cannot be used: {self.problem}")
        return self.found

    def require_readable(self) -> None:
        assert self.manifest is not None

    @cached_property
    def badge(self) -> Integrity:
        """What is known of the data without reading it."""
        return Integrity.CORRUPT if self.found is None else known_integrity(self.folder, self.found)

    def integrity(self, progress: Callable[[int], None] = lambda read: None) -> str:
        """Nothing when the data is as it was written, else the reason. Reads all of it."""
        return verify(self.folder, self.manifest, progress)[1]

    def require_whole(self, progress: Callable[[int], None] = lambda read: None) -> None:
        """Read all of the data against its hash. Raises DatasetsError."""
        if why := self.integrity(progress):
            raise DatasetsError(
                f"the dataset {self.name!r} is damaged and not used: {why}; make, import or download it again"
            )


class DatasetRegistry:
    """The datasets below one data root."""

    def __init__(self, paths: MosaicPaths) -> None:
        self.paths = paths

    def list(self) -> list[DatasetEntry]:
        """By name."""
        if not self.paths.datasets.is_dir():
            return []
        folders = sorted(self.paths.datasets.iterdir())
        return [entry_of(folder) for folder in folders if folder.is_dir() and not folder.name.startswith(".")]

    def find(self, name: str) -> DatasetEntry:
        """Raises UnknownDatasetError."""
        found = {entry.name: entry for entry in self.list()}
        if name not in found:
            advice = did_you_mean(name, found) if found else ": `mosaic datasets from-run RUN NAME` makes one"
            raise UnknownDatasetError(f"there is no dataset {name[:60]!r}{advice}")
        return found[name]

    def new_folder(self, name: str) -> Path:
        """Where a dataset of this name goes. Raises DatasetsError for a name that is none, or that is taken."""
        try:
            folder = self.paths.dataset(name)
        except ValueError as error:
            raise DatasetsError(str(error)) from error
        if folder.exists():
            raise DatasetsError(f"there is a dataset {name!r} already: choose another name, or remove {folder}")
        return folder


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A folder to fill; at the end it is written through to the disk and takes its place in one step. After an error
    nothing is left of it, and nothing of what killed makers of other datasets left. Raises OSError."""
    remove_all_left_drafts(folder.parent)  # as large as datasets are, and nobody may want that name again
    with drafted_folder(folder) as draft:
        yield draft
        settle(draft, folder)


def entry_of(folder: Path) -> DatasetEntry:
    """What a folder holds; one that is no dataset has a problem."""
    try:
        return DatasetEntry(folder.name, folder, read_manifest(folder))
    except DatasetsError as error:
        return DatasetEntry(folder.name, folder, None, str(error))
