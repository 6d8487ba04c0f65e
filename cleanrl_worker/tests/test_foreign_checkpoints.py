"""What upstream's scripts learned is measured and deployed as it is, where MOSAIC has the same networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cleanrl_worker.foreign_checkpoints import algorithm_of
from cleanrl_worker.tests import cleanrl_networks as theirs
from cleanrl_worker.tests.policy_tools import ENVIRONMENTS, loaded_from
from mosaic_worker.errors import UsageError
from mosaic_worker.state import checkpoints

OF_ITS_TIME = {"type": "Box", "shape": [3], "dtype": "float64"}
NETWORKS: dict[str, dict[str, Any]] = {
    "ppo": {"agent": theirs.PpoAgent},
    "dqn": {"q_network": theirs.DqnNetwork, "target_network": theirs.DqnNetwork},
    "c51": {"q_network": theirs.C51Network, "target_network": theirs.C51Network},
    "sac_continuous_action": {
        "actor": theirs.SacActor,
        **dict.fromkeys(("qf1", "qf2", "qf1_target", "qf2_target"), theirs.Critic),
    },
    "td3_continuous_action": {
        **dict.fromkeys(("actor", "target_actor"), theirs.Td3Actor),
        **dict.fromkeys(("qf1", "qf2"), theirs.Critic),
    },
}


def as_the_harness_saves(directory: Path, algo: str, networks: dict[str, nn.Module], **more: Any) -> Path:
    tensors = {f"{name}.{key}": one for name, part in networks.items() for key, one in part.state_dict().items()}
    beside = {"optimizer.state.0.1.exp_avg": torch.zeros(3), "objects.rb.observations": torch.zeros(5, 4)}
    args = {"env_id": ENVIRONMENTS[algo], "seed": 1, "exp_name": algo, "n_atoms": 51, "v_min": -100.0, "v_max": 100.0}
    fields: dict[str, Any] = {"env_id": ENVIRONMENTS[algo], "step": 9, "args": args, "tensors": tensors | beside}
    return checkpoints.save(directory, algo=f"cleanrl/{algo}", spaces={"observation": OF_ITS_TIME}, **(fields | more))


@pytest.mark.parametrize("algo", NETWORKS)
def test_a_checkpoint_of_upstreams_script_acts_as_its_network_does(algo: str, tmp_path: Path) -> None:
    torch.manual_seed(4)
    networks = {name: make() for name, make in NETWORKS[algo].items()}
    loaded = loaded_from(as_the_harness_saves(tmp_path, algo, networks))
    rows = torch.randn(50, 3 if ENVIRONMENTS[algo] == "Pendulum-v1" else 4)
    with torch.no_grad():
        wanted = next(iter(networks.values()))(rows).numpy()
    acted = loaded.policy.act(rows.numpy(), deterministic=True, random=np.random.default_rng(0))
    np.testing.assert_allclose(acted, wanted, rtol=1e-4, atol=1e-5)
    loaded.make_env().close()


def test_networks_that_were_changed_are_refused_by_name(tmp_path: Path) -> None:
    broken = as_the_harness_saves(tmp_path, "dqn", {"q_network": nn.ModuleDict({"network": nn.Linear(4, 2)})})
    with pytest.raises(UsageError, match="the networks of cleanrl/dqn are not those of dqn on CartPole-v1: "):
        loaded_from(broken)


@pytest.mark.parametrize("algo", ["cleanrl/rainbow_atari", "cleanrl/ppo_continuous_action", "corl/iql", "dqn"])
def test_other_algorithms_have_no_form_of_ours(algo: str) -> None:
    assert algorithm_of(algo) is None
