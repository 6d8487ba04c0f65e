"""A dataset where Minari looks for its own: the same file, with the description that Minari reads.

Needs no Minari. Where the last observation of an episode is not known, the one before it stands in its place. Pictures
are stored as they are, not as JPEG, which Minari reads from 0.5.4 on.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

from mosaic_protocol.datasets import DatasetEntry, DatasetsError
from mosaic_protocol.datasets.manifest import EPISODES
from mosaic_protocol.datasets.registry import staged
from mosaic_protocol.whole_files import write_whole

MINARI_VERSION = "0.5.4"
"""The version whose layout this is; Minari reads what its own and some earlier versions wrote."""
ROOT_VARIABLE = "MINARI_DATASETS_PATH"
_ID = re.compile(r"(?:(?P<namespace>[-_a-zA-Z0-9]+(?:/[-_a-zA-Z0-9]+)*)/)?[-_a-zA-Z0-9]+-v[0-9]+")
_NAMESPACE_FILE = "namespace_metadata.json"
_DATA_FOLDER, _DATA_FILE, _METADATA = "data", "main_data.hdf5", "metadata.json"


def minari_root() -> Path:
    """Where Minari keeps datasets."""
    given = os.environ.get(ROOT_VARIABLE)
    return Path(given) if given else Path.home() / ".minari" / "datasets"


def export(entry: DatasetEntry, dataset_id: str, root: Path | None = None) -> Path:
    """Copy the dataset, whole or not at all; its folder. Raises DatasetsError."""
    entry.require_readable()
    found = _ID.fullmatch(dataset_id)
    if found is None:
        raise DatasetsError(f"--minari takes NAMESPACE/NAME-vN, such as cartpole/human-v0, got {dataset_id[:60]!r}")
    root = minari_root() if root is None else root
    folder = root / dataset_id
    if folder.exists():
        raise DatasetsError(f"Minari has a dataset {dataset_id!r} already ({folder}): choose another id or version")
    if why := entry.integrity():
        raise DatasetsError(f"the dataset {entry.name!r} is damaged and not exported: {why}")
    try:
        with staged(folder) as draft:
            data = draft / _DATA_FOLDER
            data.mkdir()
            _copy(entry, data / _DATA_FILE)
            (data / _METADATA).write_text(json.dumps(_metadata(entry, dataset_id)), encoding="utf-8")
        _make_namespaces(root, found["namespace"])
    except OSError as error:
        raise DatasetsError(f"{folder} cannot be written: {error.strerror or error}") from error
    return folder


def _copy(entry: DatasetEntry, file: Path) -> None:
    if entry.manifest.layout == EPISODES:
        shutil.copyfile(entry.data, file)
        return
    from gym_gui.services.datasets.episode_file import EpisodeArrays, EpisodeFile
    from mosaic_protocol.dataset_files import data_file

    with closing(EpisodeFile(file)) as out, data_file.opened(entry.data, entry.manifest.layout) as found:
        for number in range(len(found.starts) - 1):
            steps = int(found.starts[number + 1] - found.starts[number])
            out.add_arrays(EpisodeArrays.of(found, number, found.actors(number) or [""] * steps))


def _metadata(entry: DatasetEntry, dataset_id: str) -> dict[str, Any]:
    manifest = entry.manifest.as_json()
    told = {
        "dataset_id": dataset_id,
        "minari_version": MINARI_VERSION,
        "data_format": "hdf5",
        "jpeg_encoding": False,
        "total_episodes": manifest["episodes"],
        "total_steps": manifest["steps"],
        "observation_space": manifest["observation_space"],
        "action_space": manifest["action_space"],
        "dataset_size": round(manifest["bytes"] / 1e6, 1),
        "algorithm_name": ", ".join(actor or "unknown actor" for actor in manifest["actors"]),
        "description": f"Made by MOSAIC from recorded steps; sha256 {manifest['sha256']}.",
        "mosaic": {name: manifest.get(name) for name in ("name", "source", "actors", "only", "left_out", "sha256")},
    }
    if manifest.get("env_spec"):
        told["env_spec"] = manifest["env_spec"]
    return told


def _make_namespaces(root: Path, namespace: str | None) -> None:
    """Minari knows a folder for a namespace by a file in it."""
    folder = root
    for part in (namespace or "").split("/") if namespace else ():
        folder /= part
        if not (folder / _NAMESPACE_FILE).exists():
            write_whole(folder / _NAMESPACE_FILE, "{}\n")
