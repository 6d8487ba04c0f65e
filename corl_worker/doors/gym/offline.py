"""The environment of a dataset, with the data and the reference scores where D4RL put them: on the environment."""

from __future__ import annotations

import math
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from mosaic_protocol.dataset_files import data_file
from mosaic_protocol.dataset_files.spaces import flattened, parsed
from mosaic_protocol.datasets.errors import DatasetsError
from mosaic_worker.errors import UsageError
from mosaic_worker.offline import OfflineDataset, open_dataset

from .core import Env, outside

DATASET_VARIABLE = "MOSAIC_OFFLINE_DATASET"
"""The folder of the run's dataset, in the environment of the script's process."""


@cache
def _of_this_run() -> OfflineDataset | None:
    folder = os.environ.get(DATASET_VARIABLE)
    return None if not folder else _or_end(lambda: open_dataset(str(Path(folder))))


def dataset_called(name: str) -> OfflineDataset | None:
    """The run's dataset, when this is its name."""
    found = _of_this_run()
    return found if found is not None and found.name == name else None


class OfflineEnv(Env):
    """What a script gets for the name of a dataset."""

    def __init__(self, dataset: OfflineDataset, **options: Any) -> None:
        env_id = os.environ.get("MOSAIC_OFFLINE_ENV") or dataset.env_id
        if not env_id:
            _end(f"the dataset {dataset.name!r} does not say which environment it is of: give --env-id")
        super().__init__(gymnasium.make(env_id, **options))
        # Scripts draw their networks to this size, and the data decides it.
        self.observation_space = _flat(self.env.observation_space, dataset.observation_space)
        references = dataset.manifest.references
        self.ref_min_score = references.random if references is not None else math.nan
        self.ref_max_score = references.expert if references is not None else math.nan
        self.dataset_url = ""
        _introduce(dataset)

    def get_dataset(self, *_: Any, **__: Any) -> dict[str, Any]:
        """All steps as D4RL's columns, actions between -1 and 1. Arrays are new in each call: scripts change them."""
        dataset = _of_this_run()  # not an attribute: what an environment holds is looked at for checkpoints
        assert dataset is not None, "or there would be no such environment"
        return dict(_or_end(lambda: _columns(dataset)))

    def get_normalized_score(self, score: Any) -> Any:
        """0 for the dataset's random reference and 1 for its expert one; not a number where it has none."""
        return (np.asarray(score) - self.ref_min_score) / (self.ref_max_score - self.ref_min_score)

    def reset(self, **options: Any) -> Any:
        return self._seen(super().reset(**options))

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        seen, reward, done, info = super().step(action)
        return self._seen(seen), reward, done, info

    def _seen(self, observation: Any) -> Any:
        return np.asarray(observation, np.float32).reshape(self.observation_space.shape)


def _columns(dataset: OfflineDataset) -> dict[str, Any]:
    told = dataset.manifest
    with data_file.opened(dataset.entry.data, told.layout) as file:
        steps = file.read(0, file.steps)
        actions = flattened(parsed(told.action_space), steps.actions)
        # An episode that was cut off where nobody says so, at the end of the file say, is a timeout too.
        ends = np.zeros(file.steps, np.bool_)
        ends[file.starts[1:] - 1] = True
        return {
            "observations": flattened(parsed(told.observation_space), steps.observations).astype(np.float32),
            "actions": outside(dataset.action_space, actions.astype(np.float32)),
            "rewards": steps.rewards.astype(np.float32),
            "terminals": file.terminals.copy(),
            "timeouts": (file.timeouts | ends) & ~file.terminals,
        }


def _flat(space: Any, of_data: Any) -> Any:
    width = math.prod(of_data.shape)
    if not isinstance(space, gymnasium.spaces.Box) or math.prod(space.shape) != width:
        _end(f"the environment's observations are {space}, those of the dataset {of_data}")
    return space if len(space.shape) == 1 else gymnasium.spaces.Box(-np.inf, np.inf, (width,), np.float32)


@cache
def _introduce(dataset: OfflineDataset) -> None:
    found = dataset.manifest.references
    score = "normalised scores stay empty, because it has no reference scores"
    if found is not None:
        score = f"a score of 0 is {found.random:.1f} (random), 100 is {found.expert:.1f} (expert), by {found.whose}"
    holds = f"{dataset.rows:,} transitions of {dataset.episodes:,} episodes"
    print(f"Dataset {dataset.name}: {holds}; {score}.", flush=True)


def _or_end(do: Any) -> Any:
    try:
        return do()
    except (DatasetsError, UsageError) as error:
        _end(str(error))


def _end(sentence: str) -> Any:
    """One sentence, as everywhere, and no traceback of a script that is not to blame."""
    print(sentence, file=sys.stderr, flush=True)
    raise SystemExit(2)
