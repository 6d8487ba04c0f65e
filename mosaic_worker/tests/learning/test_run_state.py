"""When a run is saved: at its interval, on request, and at its end whatever happened to the checkpoint before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import pytest
import torch

from mosaic_worker.learning.run_state import RunState
from mosaic_worker.state import checkpoint_writer, checkpoints
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.supervision import control
from mosaic_worker.training.session import TrainingSession

SPACES = SimpleNamespace(observation_space=gym.spaces.Discrete(2), action_space=gym.spaces.Discrete(2))


@dataclass
class Steps:
    global_step: int = 0


class Disk:
    """Counts what is written, and is full as often as a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full_for = 0
        self.tried: list[int] = []
        self._save = checkpoints.save
        monkeypatch.setattr(checkpoints, "save", self.save)
        monkeypatch.setattr(checkpoint_writer, "FULL_DISK_RETRY_SECONDS", 0.0)

    def save(self, directory: Path, **content: Any) -> Path:
        self.tried.append(content["step"])
        if self.full_for:
            self.full_for -= 1
            raise checkpoints.NotNowError("No space left.", full=True)
        return self._save(directory, **content)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


class Saved:
    """A run of nothing but a counter, saved every 10 steps."""

    def __init__(self, resume: str | None = None) -> None:
        args = {"env_id": "Toy-v0", "checkpoint_every": 10, "resume": resume, "warm_start": None}
        self.steps, self.session, state = Steps(), TrainingSession.open(args, "toy"), TrainingState()
        state.module("layer", torch.nn.Linear(1, 1))
        state.attributes("steps", self.steps, "global_step")
        self.run = RunState(self.session, state, SPACES, SimpleNamespace(**args), self.steps)

    @property
    def on_disk(self) -> list[int]:
        found = checkpoints.list_checkpoints(self.session.run_dir / "checkpoints")
        return [checkpoints.read_manifest(path).step for path in found]


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Saved]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(control.CONTROL_FD_VARIABLE, raising=False)
    monkeypatch.setenv(control.TENSORBOARD_VARIABLE, "0")
    saved = Saved()
    with saved.session:
        saved.run.restore()
        yield saved


def test_a_last_checkpoint_that_is_there_is_not_written_twice(saved: Saved, disk: Disk) -> None:
    saved.steps.global_step = 10
    saved.run.save_if_due()
    saved.run.save_last()
    assert disk.tried == saved.on_disk == [10]


def test_a_last_checkpoint_that_found_a_full_disk_waits_for_space(saved: Saved, disk: Disk) -> None:
    disk.full_for = 3
    saved.steps.global_step = 10
    saved.run.save_if_due()
    saved.run.save_last()
    assert disk.tried == [10] * 4 and saved.on_disk == [10]


def test_what_was_done_since_the_last_checkpoint_is_saved_at_the_end(saved: Saved) -> None:
    for saved.steps.global_step in range(1, 25):
        saved.run.save_if_due()
    saved.run.save_last()
    assert saved.on_disk == [10, 20, 24]


def test_a_run_that_did_nothing_is_saved_whether_it_was_resumed_or_not(saved: Saved) -> None:
    saved.run.save_last()
    assert saved.on_disk == [0]
    saved.steps.global_step = 30
    saved.run.save_last()
    again = Saved(str(saved.session.run_dir / "checkpoints" / "step-000000000030"))
    with again.session:
        again.run.restore()
        again.run.save_last()
        assert again.on_disk == [30]


def test_a_run_and_its_session_agree_on_when_a_checkpoint_is_due(saved: Saved) -> None:
    saved.session.save_checkpoint(7, {"weight": torch.zeros(1)})
    for saved.steps.global_step in (10, 16, 17):
        assert saved.session.is_checkpoint_due(saved.steps.global_step) is (saved.steps.global_step == 17)
        saved.run.save_if_due()
    saved.run.save_last()
    assert saved.on_disk == [7, 17]


def test_a_resumed_run_that_begins_a_part_again_counts_from_there(saved: Saved) -> None:
    saved.steps.global_step = 30
    saved.run.save_last()
    again = Saved(str(saved.session.run_dir / "checkpoints" / "step-000000000030"))
    with again.session:
        again.run.restore(lambda: setattr(again.steps, "global_step", 20))
        assert again.session.step == 20 and again.run.steps_per_second == 0
        assert not again.session.is_checkpoint_due(29) and again.session.is_checkpoint_due(30)
