"""What the data of a dataset looks like: one pass over all of it, in blocks, whatever its size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic_protocol.dataset_files import data_file, spaces
from mosaic_protocol.datasets import DatasetsError
from mosaic_protocol.datasets.manifest import QUANTILES, Seen, finite

_BLOCK_ROWS = 65_536
_SAMPLED = 20_000
_MOST_FEATURES = 300
_MOST_COLUMNS = 4096
"""Whose bounds are told one by one; those of pictures are told as one."""


@dataclass
class Columns:
    """What is known of the values of each column of observations or actions."""

    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    not_finite: int = 0
    """Rows with a NaN or an infinity."""

    def add(self, rows: NDArray[Any]) -> None:
        rows = rows.reshape(len(rows), -1)
        sound = np.isfinite(rows).all(axis=1) if rows.dtype.kind == "f" else np.ones(len(rows), np.bool_)
        self.not_finite += int(len(rows) - sound.sum())
        if not sound.any():
            return
        rows = rows if sound.all() else rows[sound]
        low, high = rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)
        self.low = low if self.low is None else np.minimum(self.low, low)
        self.high = high if self.high is None else np.maximum(self.high, high)

    def seen(self) -> Seen | None:
        if self.low is None or self.high is None:
            return None
        if len(self.low) > _MOST_COLUMNS:
            return Seen(low=[float(self.low.min())], high=[float(self.high.max())])
        return Seen(low=[*map(finite, self.low.tolist())], high=[*map(finite, self.high.tolist())])


@dataclass
class Survey:
    """What one pass found."""

    steps: int
    lengths: NDArray[np.int64]
    terminated: int
    """Episodes that ended by termination."""
    returns: NDArray[np.float64]
    observations: Columns = field(default_factory=Columns)
    actions: Columns = field(default_factory=Columns)
    rewards: Columns = field(default_factory=Columns)
    reward_sum: float = 0.0
    breaks: int = 0
    """Steps within an episode whose next observation is not the observation of the step after."""
    follows: int = 0
    """Steps for which that can be said."""
    jumpiness: float | None = None
    """How far consecutive observations lie apart, where 1 is as far as any two of the data; the middle of the columns.
    None where observations are no plain numbers."""
    reward_fit: float | None = None
    """The share of the spread of rewards that observation, action and next observation explain; None where too few
    differ."""

    @property
    def episodes(self) -> int:
        return len(self.lengths)


def surveyed(
    path: Path, layout: str, observation_space: str, action_space: str, progress: Callable[[int], None] = lambda n: None
) -> Survey:
    """Raises DatasetsError, also where values do not fit the spaces."""
    forms = spaces.parsed(observation_space), spaces.parsed(action_space)
    with data_file.opened(path, layout) as file:
        ends = file.starts[1:] - 1
        found = Survey(file.steps, np.diff(file.starts), int(file.terminals[ends].sum()), np.zeros(len(ends)))
        movement, sample = _Movement(), _Sample(file.steps)
        for first in range(0, file.steps, _BLOCK_ROWS):
            behind = min(first + _BLOCK_ROWS, file.steps)
            steps = file.read(first, behind)
            _add(found, file, steps, first, forms)
            if forms[0]["type"] == "Box":
                movement.add(steps, file.follows[first:behind] & ~file.terminals[first:behind])
                sample.add(steps)
            progress(behind)
    found.jumpiness, found.reward_fit = movement.share(), sample.reward_fit()
    return found


class _Movement:
    """How far observations move from step to step, against how far they are spread."""

    def __init__(self) -> None:
        self._rows = self._moves = 0
        self._sum: Any = 0.0
        self._squares: Any = 0.0
        self._moved: Any = 0.0

    def add(self, steps: data_file.Steps, follows: NDArray[np.bool_]) -> None:
        before = steps.observations[()].reshape(len(steps), -1)
        if before.shape[1] > _MOST_COLUMNS:
            return
        before = before.astype(np.float64)
        after = steps.next_observations[()].reshape(len(steps), -1)
        with np.errstate(invalid="ignore", over="ignore"):
            self._rows += len(before)
            self._sum = self._sum + before.sum(axis=0)
            self._squares = self._squares + (before**2).sum(axis=0)
            self._moves += int(follows.sum())
            self._moved = self._moved + ((after - before)[follows] ** 2).sum(axis=0)

    def share(self) -> float | None:
        if self._rows < 2 or not self._moves:
            return None
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            spread = self._squares / self._rows - (self._sum / self._rows) ** 2
            share = self._moved / self._moves / (2 * spread)
            sound = np.isfinite(share) & (spread > 1e-12)
        return float(np.median(share[sound])) if sound.any() else None


class _Sample:
    """Some thousand steps from everywhere, to see whether rewards depend on them."""

    def __init__(self, steps: int) -> None:
        self._every = max(1, steps // _SAMPLED)
        self._features: list[NDArray[Any]] = []
        self._rewards: list[NDArray[Any]] = []

    def add(self, steps: data_file.Steps) -> None:
        columns = [steps.observations[()], steps.actions.get((), steps.rewards), steps.next_observations[()]]
        chosen = [one[:: self._every].reshape(len(one[:: self._every]), -1) for one in columns]
        if sum(one.shape[1] for one in chosen) <= _MOST_FEATURES:
            self._features.append(np.concatenate(chosen, axis=1).astype(np.float64))
            self._rewards.append(steps.rewards[:: self._every].astype(np.float64))

    def reward_fit(self) -> float | None:
        if not self._features:
            return None
        features, rewards = np.concatenate(self._features), np.concatenate(self._rewards)
        sound = np.isfinite(features).all(axis=1) & np.isfinite(rewards)
        features, rewards = features[sound], rewards[sound]
        wide = np.concatenate([features, features**2, np.ones((len(features), 1))], axis=1)
        if len(rewards) < 10 * wide.shape[1] or _mostly_alike(rewards):
            return None
        scale = np.abs(wide).max(axis=0)
        wide = wide / np.where(scale > 0, scale, 1)
        weights = np.linalg.lstsq(wide, rewards, rcond=None)[0]
        left = ((rewards - wide @ weights) ** 2).sum() / (len(rewards) - wide.shape[1])
        return float(1 - left / rewards.var(ddof=1))


def _mostly_alike(rewards: NDArray[np.float64]) -> bool:
    """Rewards for reaching a goal say nothing about most steps."""
    return bool((rewards == np.median(rewards)).mean() > 0.5)


def _add(
    found: Survey,
    file: data_file.DataFile,
    steps: data_file.Steps,
    first: int,
    forms: tuple[spaces.Space, spaces.Space],
) -> None:
    episode = np.searchsorted(file.starts, first + np.arange(len(steps)), side="right") - 1
    np.add.at(found.returns, episode, steps.rewards.astype(np.float64))
    found.rewards.add(steps.rewards.reshape(-1, 1))
    found.reward_sum += float(steps.rewards.astype(np.float64).sum())
    found.actions.add(_numbers(steps.actions, forms[1]))
    found.observations.add(_numbers(steps.observations, forms[0]))
    _count_breaks(found, file, steps, first)


def _numbers(values: dict[spaces.Leaf, NDArray[Any]], form: spaces.Space) -> NDArray[Any]:
    """Values as they are, without a column for each choice; text counts as nothing."""
    wanted = spaces.leaves(form)
    if values.keys() != wanted.keys():
        raise DatasetsError("the data has other parts than its spaces")
    columns = [one.reshape(len(one), -1) for path, one in values.items() if wanted[path]["type"] != "Text"]
    return np.concatenate(columns, axis=1) if len(columns) != 1 else columns[0]


def _count_breaks(found: Survey, file: data_file.DataFile, steps: data_file.Steps, first: int) -> None:
    """Recorded episodes have each observation once, so they cannot break; columns have it twice and can."""
    if not getattr(file, "has_next", False) or len(steps) < 2:
        return
    within = ~(file.terminals | file.timeouts)[first : first + len(steps) - 1]
    after, before = steps.next_observations[()][:-1], steps.observations[()][1:]
    same = np.isclose(after, before, rtol=1e-4, atol=1e-5).reshape(len(after), -1).all(axis=1)
    found.follows += int(within.sum())
    found.breaks += int((within & ~same).sum())


def summary(values: NDArray[Any]) -> dict[str, float | None]:
    """``mean``, ``std``, ``min``, ``max`` and the quantiles of a manifest."""
    if not len(values):
        return {}
    with np.errstate(invalid="ignore", over="ignore"):
        told = {"mean": values.mean(), "std": values.std(), "min": values.min(), "max": values.max()}
        told |= dict(zip(QUANTILES, np.quantile(values, [*QUANTILES.values()]), strict=True))
    return {name: finite(value) for name, value in told.items()}
