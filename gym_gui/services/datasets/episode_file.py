"""Episodes in an HDF5 file, laid out as Minari reads them: a group for each, observations one longer than actions.

Beside ``observations``, ``actions``, ``rewards``, ``terminations`` and ``truncations`` each group has ``infos`` with
what MOSAIC knows of every step: ``actor``, the number of the ``step`` in its run, ``value`` and ``extras`` where there
are any. Needs h5py, which brings NumPy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from gym_gui.services.datasets.data_spaces import SeenValues
from gym_gui.services.datasets.patient_file import PatientFile
from mosaic_protocol.dataset_files.data_file import DataFile
from mosaic_protocol.steps.chunk import ACTION, OBSERVATION
from mosaic_protocol.steps.columns import Path as LeafPath
from mosaic_protocol.steps.recorded_episodes import FormError, RecordedEpisode

_LARGE = 4096
"""Bytes a step from which on compressing pays."""


@dataclass(frozen=True)
class EpisodeArrays:
    """One episode: observations, one more than the rest, and what was done and came of it."""

    observations: dict[LeafPath, Any]
    actions: dict[LeafPath, Any]
    rewards: NDArray[Any]
    terminated: NDArray[Any]
    truncated: NDArray[Any]
    actors: Sequence[str]
    attributes: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rewards)

    @classmethod
    def of(cls, file: DataFile, number: int, actors: Sequence[str]) -> EpisodeArrays:
        """An episode of a dataset. Raises DatasetsError."""
        first, behind = int(file.starts[number]), int(file.starts[number + 1])
        steps = file.read(first, behind)
        seen = {
            path: np.concatenate([values, steps.next_observations[path][-1:]])
            for path, values in steps.observations.items()
        }
        ends = file.terminals[first:behind], file.timeouts[first:behind]
        return cls(seen, steps.actions, steps.rewards, *ends, actors)


class EpisodeFile:
    """A file that episodes are added to. Close it, which raises OSError like everything here where the disk does."""

    def __init__(self, path: Path) -> None:
        self._disk = PatientFile(path)
        self._file = h5py.File(self._disk, "w")
        self.episodes = self.steps = 0
        self.actors: dict[str, int] = {}
        self.observations, self.actions = SeenValues(), SeenValues()

    def add(self, episode: RecordedEpisode) -> None:
        """Write a whole episode. Raises :class:`FormError` for one that does not fit the others, and writes nothing."""
        observations, actions = _with_final(episode), episode.stacked(ACTION)
        if not observations or not actions:
            raise FormError("observations or actions were not recorded")
        ends = episode.terminated, episode.truncated
        arrays = EpisodeArrays(observations, actions, episode.rewards, *ends, episode.actors, _attributes(episode))
        self.add_arrays(arrays, lambda group: _write_infos(group, episode))

    def add_arrays(self, arrays: EpisodeArrays, infos: Callable[[h5py.Group], None] = lambda group: None) -> None:
        """The same for one that comes as arrays; ``infos`` writes what else is known of its steps."""
        self.observations.require(arrays.observations, OBSERVATION)
        self.actions.require(arrays.actions, ACTION)
        name = f"episode_{self.episodes}"
        try:
            group = self._file.create_group(name)
            group.attrs.update({"id": self.episodes, "total_steps": len(arrays), **arrays.attributes})
            _write(group, arrays, infos)
        except (ValueError, TypeError) as error:  # names that HDF5 takes for paths, texts with a NUL
            del self._file[name]
            raise FormError(f"HDF5 cannot hold it ({error})") from error
        self._disk.require_space()
        self.observations.add(arrays.observations)
        self.actions.add(arrays.actions)
        self.episodes += 1
        self.steps += len(arrays)
        for actor in arrays.actors:
            self.actors[actor] = self.actors.get(actor, 0) + 1

    def close(self) -> None:
        self._file.close()
        try:
            self._disk.require_space()
        finally:
            self._disk.close()


def _with_final(episode: RecordedEpisode) -> dict[LeafPath, Any]:
    """Each part of the observations with the one that the last step led to."""
    before, final = episode.stacked(OBSERVATION), episode.final or {}
    if before.keys() != final.keys():
        raise FormError("the observation after the last step has another form")
    found: dict[LeafPath, Any] = {}
    for path, values in before.items():
        if isinstance(values, list):
            found[path] = [*values, str(final[path])]
            continue
        last = np.asarray(final[path])
        if last.shape != values.shape[1:]:
            raise FormError("the observation after the last step has another form")
        found[path] = np.concatenate([values, last[None].astype(values.dtype)])
    return found


def _attributes(episode: RecordedEpisode) -> dict[str, Any]:
    told: dict[str, Any] = {
        "source_episode": episode.number,
        "agent_id": episode.agent_id,
        "outcome": episode.outcome,
    }
    if episode.seed is not None:
        told["seed"] = episode.seed if abs(episode.seed) < 2**63 else str(episode.seed)
    if episode.options:
        told["reset_options"] = json.dumps(episode.options, default=str)
    return told


def _write(group: h5py.Group, arrays: EpisodeArrays, infos: Callable[[h5py.Group], None]) -> None:
    _write_leaves(group, "observations", arrays.observations)
    _write_leaves(group, "actions", arrays.actions)
    flags = {"terminations": arrays.terminated, "truncations": arrays.truncated}
    for name, values in {"rewards": arrays.rewards, **flags}.items():
        group.create_dataset(name, data=values)
    told = group.create_group("infos")
    told.create_dataset("actor", data=list(arrays.actors), dtype=h5py.string_dtype())
    infos(told)


def _write_leaves(group: h5py.Group, name: str, leaves: dict[LeafPath, Any]) -> None:
    for path, values in leaves.items():
        place = "/".join([name, *(f"_index_{part}" if isinstance(part, int) else part for part in path)])
        if isinstance(values, list):
            group.create_dataset(place, data=values, dtype=h5py.string_dtype())
            continue
        large = values.nbytes >= _LARGE * len(values)
        chunks = (1, *values.shape[1:]) if large else None  # a step is read at once, and alone
        group.create_dataset(place, data=values, chunks=chunks, **({"compression": "lzf"} if large else {}))


def _write_infos(group: h5py.Group, episode: RecordedEpisode) -> None:
    group.create_dataset("step", data=episode.numbers)
    if (values := episode.values) is not None:
        group.create_dataset("value", data=values)
    if episode.extras:
        told = [
            json.dumps(episode.extras[i], default=_plain) if i in episode.extras else "" for i in range(len(episode))
        ]
        group.create_dataset("extras", data=told, dtype=h5py.string_dtype())


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
