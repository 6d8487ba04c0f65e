"""The datasets on the disk: a folder for each name, with ``data.hdf5`` and ``manifest.json``.

The manifest says where the data came from and what its file hashes to. Nothing else is kept anywhere: what a folder
holds is what there is.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec

from gym_gui.services.datasets.errors import DatasetsError, UnknownDatasetError
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.regular_files import open_regular, read_regular
from mosaic_protocol.suggest import did_you_mean
from mosaic_protocol.whole_files import drafted_folder, settle

DATA, MANIFEST = "data.hdf5", "manifest.json"
MANIFEST_VERSION = 1
_MOST_MANIFEST_BYTES = 64 * 2**20
_BLOCK = 2**20
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_LAST_MOMENT = 253_402_300_799
"""Of the year 9999, which is the last that Python can write."""


class _Relied(msgspec.Struct):
    """What readers of a manifest rely on."""

    episodes: _Count
    steps: _Count
    bytes: _Count
    created_at: Annotated[float, msgspec.Meta(ge=0, le=_LAST_MOMENT - 86_400)]
    returns: dict[str, float | None]
    actors: dict[str, _Count]
    left_out: dict[str, _Count]
    source: dict[str, Any]
    sha256: str
    observation_space: str
    action_space: str
    observation_space_from: str | None = None
    action_space_from: str | None = None
    spaces_note: str | None = None


@dataclass(frozen=True)
class DatasetEntry:
    """One dataset. ``problem`` is the sentence of one that cannot be read; its manifest is then empty."""

    name: str
    folder: Path
    manifest: dict[str, Any]
    problem: str = ""

    @property
    def data(self) -> Path:
        return self.folder / DATA

    def require_readable(self) -> None:
        if self.problem:
            raise DatasetsError(f"the dataset {self.name!r} cannot be used: {self.problem}")

    def integrity(self) -> str:
        """Nothing when the data is as it was written, else the reason. Reads all of it."""
        try:
            found = file_sha256(self.data)
        except OSError as error:
            return f"{DATA} cannot be read: {error.strerror}"
        return "" if found == self.manifest.get("sha256") else f"{DATA} was changed since it was written"


class DatasetRegistry:
    """The datasets below one data root."""

    def __init__(self, paths: MosaicPaths) -> None:
        self.paths = paths

    def list(self) -> list[DatasetEntry]:
        """By name."""
        if not self.paths.datasets.is_dir():
            return []
        folders = sorted(self.paths.datasets.iterdir())
        return [_entry(folder) for folder in folders if folder.is_dir() and not folder.name.startswith(".")]

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
    nothing is left of it. Raises OSError."""
    with drafted_folder(folder) as draft:
        yield draft
        settle(draft, folder)


def file_sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with open_regular(file) as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _entry(folder: Path) -> DatasetEntry:
    try:
        text = read_regular(folder / MANIFEST, _MOST_MANIFEST_BYTES)
        manifest = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except OSError as error:
        return DatasetEntry(folder.name, folder, {}, f"{MANIFEST} cannot be read: {error.strerror}")
    except (ValueError, RecursionError):
        return DatasetEntry(folder.name, folder, {}, f"{MANIFEST} is not JSON")
    if not isinstance(manifest, dict) or not isinstance(manifest.get("v"), int):
        return DatasetEntry(folder.name, folder, {}, f"{MANIFEST} describes no dataset")
    if manifest["v"] > MANIFEST_VERSION:
        return DatasetEntry(folder.name, folder, {}, "a newer version of MOSAIC made it: update this one")
    try:
        msgspec.convert(manifest, _Relied)
    except msgspec.ValidationError as error:
        return DatasetEntry(folder.name, folder, {}, f"{MANIFEST} does not say what it must: {error}")
    return DatasetEntry(folder.name, folder, manifest)


def _finite(text: str) -> float:
    """JSON has no other numbers, and could not be written with them. Raises ValueError."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number
