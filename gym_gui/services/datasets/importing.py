"""Files of others as datasets: D4RL's columns and Minari's episodes, in HDF5. Nothing of a file is believed.

Values are copied into a file of MOSAIC's own, block by block; names that are not known stay behind, and so does
whatever else an HDF5 file can hold. What cannot be right is refused; what merely looks odd is kept with the dataset as
a doubt.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.services.datasets.d4rl_names import promise_of
from gym_gui.services.datasets.environments import promised_by
from gym_gui.services.datasets.making import drafted, finish, made
from gym_gui.services.run_words import size
from mosaic_protocol.datasets import DATA, DatasetEntry, DatasetsError, References, RetryableError, file_sha256
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.regular_files import read_regular

if TYPE_CHECKING:
    import h5py

_MINARI_FILE = Path("data", "main_data.hdf5")
_MINARI_METADATA = "metadata.json"
_MOST_METADATA_BYTES = 64 * 2**20
_SPACE_LEFT = 64 * 2**20
"""Bytes that an import leaves free on the disk."""


@dataclass
class ImportOrder:
    """What somebody said about a file."""

    file: Path
    name: str
    env_id: str | None = None
    max_episode_steps: int | None = None
    clip_actions: bool = False
    known_as: str | None = None
    """The name in D4RL's archive, where it is another one than the dataset is to have."""
    source: dict[str, Any] = field(default_factory=dict)
    """Where the file comes from, for the manifest."""

    @property
    def promise_name(self) -> str:
        return self.known_as or self.name


@dataclass
class Promised:
    """What the environment of the data is known to have."""

    env_id: str | None
    told: dict[str, Any]
    why_not: str
    limit: int | None


def import_file(
    order: ImportOrder, paths: MosaicPaths, progress: Callable[[int, int], None] = lambda rows, of: None
) -> DatasetEntry:
    """Make a dataset of a file, or of a folder of Minari's; whole or not at all. ``progress`` is told rows so far and
    in all. Raises DatasetsError in one sentence."""
    file, metadata = _meant(order.file)
    with drafted(order.name, paths) as draft:
        from mosaic_protocol.dataset_files import safe_hdf5

        with safe_hdf5.opened(file, follow=True) as data:
            _require_room(data, file, draft)
            told = _converted(data, file, metadata, draft / DATA, order, paths, progress)
        source = {"kind": "file", "file": file.name, "file_sha256": _sha256(file), **order.source}
        told |= {"name": order.name, "left_out": {}, "source": source | told.get("source", {})}
        finish(draft, told, name=order.promise_name)
    return made(order.name, paths)


def _converted(
    data: h5py.File,
    file: Path,
    metadata: dict[str, Any],
    destination: Path,
    order: ImportOrder,
    paths: MosaicPaths,
    progress: Callable[[int, int], None],
) -> dict[str, Any]:
    from gym_gui.services.datasets import d4rl_import, minari_import

    if any(name.startswith("episode_") for name in data):
        return minari_import.convert(data, file, metadata, destination, order, paths, progress)
    return d4rl_import.convert(data, file, destination, order, paths, progress)


def environment_for(order: ImportOrder, named: str | None, paths: MosaicPaths) -> Promised:
    """The environment that was asked for, that the file names, or that the dataset's name stands for."""
    promise = promise_of(order.promise_name)
    env_id = order.env_id or named or (promise.env_id if promise is not None else None)
    told, why = promised_by(env_id, paths) if env_id else ({}, "no environment is named: --env-id does")
    limit = order.max_episode_steps or (promise.horizon if promise is not None else None)
    return Promised(env_id, told, why, limit or told.get("max_episode_steps"))


def about_environment(found: Promised) -> dict[str, Any]:
    """Its fields of a manifest."""
    told = found.told
    about = {"env_id": found.env_id, "env_spec": told.get("env_spec"), "versions": told.get("versions", {})}
    return {**about, "max_episode_steps": found.limit, "spaces_note": found.why_not or None}


def d4rl_references(name: str) -> References | None:
    """D4RL's own, for data that has a name of D4RL's; ours can be measured afterwards."""
    promise = promise_of(name)
    if promise is None:
        return None
    return References(random=promise.random, expert=promise.expert, whose="d4rl")


def _meant(named: Path) -> tuple[Path, dict[str, Any]]:
    """The HDF5 file, and what Minari's description beside it says."""
    named = named.expanduser()
    if not named.exists():
        raise DatasetsError(f"there is no file {str(named)[:200]!r}")
    if named.is_dir():
        places = [folder / file for folder in (named, named / "data") for file in (_MINARI_FILE.name,)]
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            raise DatasetsError(
                f"{named.resolve().name} is a folder without {_MINARI_FILE}: name a file, or a dataset of Minari"
            )
        named = found
    return named, _metadata(named.with_name(_MINARI_METADATA))


def _metadata(file: Path) -> dict[str, Any]:
    try:
        told = json.loads(read_regular(file, _MOST_METADATA_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _require_room(data: h5py.File, file: Path, draft: Path) -> None:
    """Before anything is written: what the columns unpack to must fit on the disk."""
    import h5py

    from mosaic_protocol.dataset_files.safe_hdf5 import logical_bytes

    total = 0

    def look(name: str, found: object) -> None:
        nonlocal total
        total += logical_bytes(found) if isinstance(found, h5py.Dataset) else 0

    try:
        data.visititems(look)
    except (RuntimeError, ValueError, OSError, KeyError, TypeError) as error:
        raise DatasetsError(f"{file.name} cannot be read: it is damaged ({type(error).__name__})") from error
    free = shutil.disk_usage(draft).free
    if total + _SPACE_LEFT > free:
        usable = f"{size(max(0, free - _SPACE_LEFT))} of the disk of {draft.parent} can be used"
        raise RetryableError(f"{file.name} unpacks to {size(total)}, and {usable}: {size(_SPACE_LEFT)} stay free")


def _sha256(file: Path) -> str:
    return file_sha256(file.resolve())


def spec_env_id(env_spec: object) -> str | None:
    """The environment that a specification of Gymnasium's names."""
    try:
        found = json.loads(str(env_spec)).get("id")
    except (ValueError, AttributeError):
        return None
    return found[:200] if isinstance(found, str) and found else None
