"""The last checkpoint of each script: it waits for a full disk, also when the interval made it due before the end."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cleanrl_worker.cleanrl import (
    c51,
    dqn,
    ppo,
    ppo_continuous_action,
    sac_continuous_action,
    td3_continuous_action,
)
from mosaic_worker.state import checkpoint_writer, checkpoints
from mosaic_worker.tests.script_tools import checkpoints_of, run_main, run_until

ROLLOUTS = ["--num-steps", "10", "--num-minibatches", "2"]
PENDULUM = ["--env-id", "Pendulum-v1"]
CASES = [
    (ppo, [*ROLLOUTS]),
    (ppo_continuous_action, [*ROLLOUTS, *PENDULUM]),
    (dqn, []),
    (c51, []),
    (sac_continuous_action, PENDULUM),
    (td3_continuous_action, PENDULUM),
]
EACH = pytest.mark.parametrize(
    ("script", "flags"), CASES, ids=lambda part: getattr(part, "__name__", "").rpartition(".")[2]
)


@pytest.fixture
def full_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first checkpoint of a test finds no space."""
    save = checkpoints.save
    refused: list[int] = []

    def saving(directory: Path, **content: Any) -> Path:
        if not refused:
            refused.append(content["step"])
            raise checkpoints.NotNowError("No space left.", full=True)
        return save(directory, **content)

    monkeypatch.setattr(checkpoints, "save", saving)
    monkeypatch.setattr(checkpoint_writer, "FULL_DISK_RETRY_SECONDS", 0.0)


@EACH
@pytest.mark.usefixtures("full_once")
def test_a_last_checkpoint_that_was_due_anyway_waits_for_space(
    script: ModuleType, flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_main(script, monkeypatch, tmp_path, "--total-timesteps", "80", "--checkpoint-every", "80", *flags) == 0
    assert [checkpoints.read_manifest(path).step for path in checkpoints_of(tmp_path)] == [80]


@EACH
@pytest.mark.usefixtures("full_once")
def test_a_stop_right_after_a_checkpoint_that_failed_writes_it(
    script: ModuleType, flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = ["--total-timesteps", "400", "--checkpoint-every", "80"]
    run_until(80, script, monkeypatch, tmp_path, *every, *flags)  # which finds the one checkpoint, of step 80
