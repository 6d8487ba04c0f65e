"""Putting a dataset in its place: whole or not at all, with a manifest that was computed from the data itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mosaic_protocol.datasets import (
    DATA,
    DatasetEntry,
    DatasetManifest,
    DatasetRegistry,
    DatasetsError,
    RetryableError,
    file_sha256,
)
from mosaic_protocol.datasets.integrity import note_checked
from mosaic_protocol.datasets.manifest import MANIFEST_VERSION, finite, write_manifest
from mosaic_protocol.datasets.registry import staged
from mosaic_protocol.paths import MosaicPaths

INSTALL = "python -m mosaic_worker.extras --set datasets"


def require_h5py() -> None:
    """Raises DatasetsError with the command that installs it."""
    if find_spec("h5py") is None:
        raise DatasetsError(f"datasets are written with h5py, which is not installed: `{INSTALL}` does that")


@contextmanager
def drafted(name: str, paths: MosaicPaths) -> Iterator[Path]:
    """A folder for ``data.hdf5``; call :func:`finish` in it. Afterwards it is the dataset of this name, and after an
    error nothing is left of it. Raises DatasetsError, also for a disk that is full."""
    require_h5py()
    folder = DatasetRegistry(paths).new_folder(name)
    try:
        with staged(folder) as draft:
            yield draft
    except OSError as error:
        DatasetRegistry(paths).new_folder(name)  # another process may have made one of this name meanwhile
        raise RetryableError(f"{folder} cannot be written: {error.strerror or error}") from error


def finish(
    draft: Path, told: dict[str, Any], *, name: str = "", progress: Callable[[int], None] = lambda rows: None
) -> DatasetManifest:
    """Look at the data that was written, hash it and write the manifest. ``told``: the fields that the data cannot
    know; ``name``: what it is known as elsewhere. Raises DatasetsError and OSError."""
    from gym_gui.services.datasets.plausibility import doubts
    from gym_gui.services.datasets.survey import summary, surveyed

    file = draft / DATA
    spaces = told["observation_space"], told["action_space"]
    found = surveyed(file, told.get("layout", "episodes"), *spaces, progress)
    sha256 = file_sha256(file)
    manifest = DatasetManifest(
        v=MANIFEST_VERSION,
        created_at=time.time(),
        sha256=sha256,
        bytes=file.stat().st_size,
        episodes=found.episodes,
        steps=found.steps,
        returns=summary(found.returns),
        lengths=summary(found.lengths),
        rewards={"mean": finite(found.reward_sum / max(found.steps, 1)), **_ends(found.rewards)},
        observations_seen=found.observations.seen(),
        actions_seen=found.actions.seen(),
        doubts=doubts(name or told["name"], found, told),
        **told,
    )
    write_manifest(draft, manifest)
    note_checked(draft, sha256)
    return manifest


def _ends(rewards: Any) -> dict[str, float | None]:
    seen = rewards.seen()
    return {} if seen is None else {"min": seen.low[0], "max": seen.high[0]}


def made(name: str, paths: MosaicPaths) -> DatasetEntry:
    """The dataset that was just made. Raises DatasetsError."""
    entry = DatasetRegistry(paths).find(name)
    entry.require_readable()
    return entry
