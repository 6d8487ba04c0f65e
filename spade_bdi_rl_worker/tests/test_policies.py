"""What an agent learned acts again as the agent acted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mosaic_worker.state import checkpoints
from mosaic_worker.state.checkpoints import CheckpointError
from spade_bdi_rl_worker.policies import TablePolicy, load_policy

ARGS = SimpleNamespace(agents="learner", epsilon_end=0.05)
TABLE = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.4]])


def saved(folder: Path, policy: Any) -> TablePolicy:
    path = checkpoints.save(
        folder,
        algo="q_learning",
        env_id="FrozenLake-v1",
        step=1,
        tensors={"learner.q": TABLE},
        state={"learner.runtime": {"counted": {"policy": policy}}},
    )
    return load_policy(checkpoints.load(path), ARGS)


def chosen(policy: TablePolicy, *states: int) -> list[int]:
    return [int(one) for one in policy.act(np.array(states), deterministic=True, random=np.random.default_rng(1))]


def test_an_agent_that_relied_on_a_cached_policy_is_judged_by_it(tmp_path: Path) -> None:
    """What its table says of actions that it no longer takes is as old as they are."""
    policy = saved(tmp_path, [0, 0])
    assert chosen(policy, 0, 1, 2) == [0, 0, 1], "of a state that came after the policy the table says what is best"
    assert policy.appraise(np.array([0]))["action_values"].tolist() == [[0.1, 0.9]]


def test_an_agent_without_a_cached_policy_is_judged_by_its_table(tmp_path: Path) -> None:
    assert chosen(saved(tmp_path, None), 0, 1, 2) == [1, 0, 1]


def test_a_state_that_was_never_seen_is_no_error() -> None:
    seen = np.array([[0, 0], [0, 1], [1, 0]], np.int16)
    policy = TablePolicy(TABLE, seen, 0.05, [0, 0, 0])
    never = np.array([[7, 7], [0, 1]])
    assert policy.act(never, deterministic=True, random=np.random.default_rng(1)).tolist() == [0, 0]
    assert policy.appraise(never)["value"].tolist() == [0.0, 0.8]


@pytest.mark.parametrize("policy", [[0, 0, 0, 0], [2], [-1], [True], ["1"], {"0": 1}, 7])
def test_a_cached_policy_that_does_not_fit_its_table_is_refused(tmp_path: Path, policy: Any) -> None:
    with pytest.raises(CheckpointError, match="cached policy of learner that does not fit"):
        saved(tmp_path, policy)
