"""Checkpoints written beside the training: reported when they are whole, a few kept, a full disk survived."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from mosaic_worker.state import checkpoints
from mosaic_worker.state.checkpoint_writer import CheckpointWriter
from mosaic_worker.state.checkpoints import CheckpointError

HANG_SECONDS = 60.0


def content(step: int, mean_return: float | None = None) -> dict[str, Any]:
    metrics = {"episodes": 100, "mean_return": mean_return} if mean_return is not None else {}
    return {
        "algo": "toy",
        "env_id": "Toy-v0",
        "step": step,
        "tensors": {"weight": torch.full((2,), float(step))},
        "metrics": metrics,
    }


def steps_in(directory: Path) -> list[int]:
    return [checkpoints.load(path).manifest.step for path in checkpoints.list_checkpoints(directory)]


def test_training_goes_on_while_a_checkpoint_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save, may_write, told = checkpoints.save, threading.Event(), []

    def slow_save(*arguments: Any, **keywords: Any) -> Path:
        assert may_write.wait(HANG_SECONDS)
        return save(*arguments, **keywords)

    monkeypatch.setattr(checkpoints, "save", slow_save)
    writer = CheckpointWriter(tmp_path, 0, lambda step, path: told.append((step, path.name)))
    writer.begin(**content(1))  # returns although nothing can be written yet
    assert told == []
    may_write.set()
    writer.wait()
    assert told == [(1, "step-000000000001")] and steps_in(tmp_path) == [1]


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path, 2, lambda *_: None)
    for step, mean_return in ((1, 5.0), (2, 90.0), (3, 40.0), (4, 41.0)):
        writer.begin(**content(step, mean_return))
    writer.write(**content(5, 42.0))
    assert steps_in(tmp_path) == [2, 4, 5]


def test_a_mean_over_a_few_episodes_makes_no_best_one(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path, 1, lambda *_: None)
    lucky = content(1) | {"metrics": {"episodes": 3, "mean_return": 500.0}}
    writer.write(**lucky)
    writer.write(**content(2, 10.0))
    writer.write(**content(3, 9.0))
    assert steps_in(tmp_path) == [2, 3]


def test_all_are_kept_when_asked(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path, 0, lambda *_: None)
    for step in range(1, 8):
        writer.write(**content(step, 1.0))
    assert steps_in(tmp_path) == list(range(1, 8))


def test_one_that_cannot_be_written_is_reported_and_the_next_one_is_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[int] = []
    occupied = tmp_path / "checkpoints"
    occupied.write_text("not a directory")
    writer = CheckpointWriter(occupied, 3, lambda step, _: told.append(step))
    writer.begin(**content(1))
    writer.wait()
    assert "Could not write the checkpoint" in (said := capsys.readouterr().err) and "Training goes on." in said
    with pytest.raises(CheckpointError):
        writer.write(**content(2))
    occupied.unlink()
    writer.begin(**content(3))
    writer.wait()
    assert told == [3]


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), FileNotFoundError(2, "No such file")])
def test_a_folder_of_the_run_that_cannot_be_looked_at_is_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    writer = CheckpointWriter(tmp_path / "checkpoints", 0, lambda *_: None)

    def refuse(*_: Any, **__: Any) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", refuse)
        with pytest.raises(checkpoints.NotNowError, match=str(error.strerror)):
            writer.write(**content(1))
    assert not (tmp_path / "checkpoints").exists()
