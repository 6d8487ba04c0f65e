"""What the tests of several training scripts share: running them in this process, and a world that can be foreseen."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

from mosaic_worker.state import checkpoints
from mosaic_worker.training.session import TrainingSession


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
