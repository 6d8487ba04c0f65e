"""What the tests of several training scripts share: running them in this process, and a world that can be foreseen."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

from cleanrl_worker import checkpoints
from cleanrl_worker.session import TrainingSession


def run_main(script: ModuleType, monkeypatch: pytest.MonkeyPatch, directory: Path, *flags: str) -> int:
    """Run a script's main in a directory, which is made if it is missing; returns its exit status."""
    directory.mkdir(exist_ok=True)
    monkeypatch.chdir(directory)
    monkeypatch.setattr(sys, "argv", [f"{script.__name__}.py", *flags])
    return script.main()


def run_until(stop_at: int, script: ModuleType, monkeypatch: pytest.MonkeyPatch, directory: Path, *flags: str) -> Path:
    """Run a script that is asked to stop at a step; returns the only checkpoint it left."""
    original = TrainingSession.safe_point

    def stopping(session: TrainingSession, step: int) -> None:
        session.stop_requested = session.stop_requested or step >= stop_at
        original(session, step)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingSession, "safe_point", stopping)
        assert run_main(script, patch, directory, *flags) == 0
    (stopped,) = checkpoints_of(directory)
    assert checkpoints.read_manifest(stopped).step == stop_at
    return stopped


def only_run(directory: Path) -> Path:
    (run,) = (directory / "runs").iterdir()
    return run


def checkpoints_of(directory: Path) -> list[Path]:
    """The checkpoints of the only run in a directory, by rising step."""
    return checkpoints.list_checkpoints(only_run(directory) / "checkpoints")


def newest_tensors(directory: Path) -> dict[str, torch.Tensor]:
    return checkpoints.load(checkpoints_of(directory)[-1]).tensors


def differing(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> list[str]:
    """Names of the tensors that are not equal to the last bit."""
    assert one.keys() == other.keys()
    return [name for name in one if not torch.equal(one[name], other[name])]


def logged_rows(directory: Path) -> list[tuple[int, dict[str, float]]]:
    """(step, {tag: value}) of every scalar event of the only run in a directory, in order."""
    (file,) = only_run(directory).glob("events.out.tfevents.*")
    rows = [
        (event.step, {value.tag: value.simple_value for value in event.summary.value if "/" in value.tag})
        for event in LegacyEventFileLoader(str(file)).Load()
    ]
    return [(step, values) for step, values in rows if any(tag.startswith(("charts/", "losses/")) for tag in values)]


def logged_values(directory: Path, tag: str) -> list[float]:
    return [values[tag] for _, values in logged_rows(directory) if tag in values]


class Metronome(gym.Env[Any, Any]):
    """Observes [number of the episode, steps in it]; ends at `end_at` for good, is cut off after `cut_at`.

    Its two actions are 5 and 6, the reward of each is the action's place: 0 or 1.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(2, start=5)

    def __init__(self, end_at: int = 10**9, cut_at: int = 10**9) -> None:
        self.end_at, self.cut_at = end_at, cut_at
        self.episode, self.steps = -1, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.steps = self.episode + 1, 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in (5, 6)
        self.steps += 1
        return self._observe(), float(action - 5), self.steps == self.end_at, self.steps == self.cut_at, {}

    def _observe(self) -> Any:
        return np.array([self.episode, self.steps], dtype=np.float32)


class RecordingSession:
    """Stands for a session that is asked nothing."""

    stop_requested = False

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []

    def safe_point(self, step: int) -> None:
        """Nothing is asked."""

    def scalars(self, step: int, values: dict[str, float]) -> None:
        self.rows.append((step, dict(values)))
