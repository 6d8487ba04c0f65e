"""A script's command line: also an empty one, and one that inherits from a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from mosaic_worker.state import checkpoints
from mosaic_worker.training.arguments import parse
from mosaic_worker.training.session import UsageError


@dataclass
class Args:
    seed: int = 1
    """Seed."""
    resume: str | None = None
    """Checkpoint."""


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    tensors = {"weight": torch.ones(1)}
    return checkpoints.save(tmp_path, algo="toy", env_id="Toy-v0", step=1, tensors=tensors, args={"seed": 7, "gone": 1})


def test_no_words_mean_the_defaults() -> None:
    assert parse(Args, "A test.", []) == Args()


@pytest.mark.parametrize("spelling", ["--resume {}", "--resume={}"])
def test_a_resumed_run_has_the_flags_it_had(saved: Path, spelling: str) -> None:
    words = spelling.format(saved).split(" ")
    assert parse(Args, "A test.", words) == Args(seed=7, resume=str(saved))
    assert parse(Args, "A test.", [*words, "--seed", "9"]).seed == 9


def test_a_checkpoint_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        parse(Args, "A test.", ["--resume", str(tmp_path / "nothing")])
