"""What scripts call the parts of a checkpoint: checkpoints of earlier versions are found by these names."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from cleanrl_worker.cleanrl import (
    c51,
    dqn,
    ppo,
    ppo_continuous_action,
    sac_continuous_action,
    td3_continuous_action,
)
from mosaic_worker.state import checkpoints
from mosaic_worker.tests.script_tools import checkpoints_of, run_main

MOMENTS = {"steps", "mean", "mean_square"}
ROLLOUT = {"filled", "noise", "observations", "actions", "rewards", "terminated", "truncated", "cut_off"}
EPISODES = {"random", "global_step", "observation", "returns", "lengths"}
ADAM_PAIR = {"actor_adam": MOMENTS, "critic_adam": MOMENTS}
OFF_POLICY = {**ADAM_PAIR, "learner": {"updates", "actor_loss"}, "player": EPISODES, "replay": {"position", "kept"}}
Q_LEARNING = {"learner": MOMENTS, "collector": EPISODES, "buffer": {"contents"}}
ON_POLICY = {"learner": MOMENTS, "collector": EPISODES, "rollout": ROLLOUT}

Q_NETWORKS = {f"{name}.network.{layer}" for name in ("q_network", "target_network") for layer in (0, 2, 4)}
CRITICS = {f"{name}.{part}_{layer}" for name in ("critics",) for part in ("weight", "bias") for layer in (1, 2, 3)}

CASES: list[tuple[ModuleType, list[str], dict[str, set[str]], set[str]]] = [
    (ppo, [], ON_POLICY, {f"agent.{part}.{layer}" for part in ("actor", "critic") for layer in (0, 2, 4)}),
    (
        ppo_continuous_action,
        ["--env-id", "Pendulum-v1", "--num-steps", "10", "--num-minibatches", "2"],
        {**ON_POLICY, "collector": EPISODES | {"discounted"}},
        {"agent.actor_mean.0", "agent.actor_logstd", "normaliser.observations.mean", "normaliser.returns.count"},
    ),
    (dqn, [], Q_LEARNING, Q_NETWORKS),
    (c51, [], Q_LEARNING, Q_NETWORKS),
    (
        td3_continuous_action,
        ["--env-id", "Pendulum-v1", "--buffer-size", "50"],
        OFF_POLICY,
        CRITICS | {"target_critics.weight_1", "actor.fc_mu", "actor.action_scale", "target_actor.fc1"},
    ),
    (
        sac_continuous_action,
        ["--env-id", "Pendulum-v1", "--buffer-size", "50"],
        {**OFF_POLICY, "temperature": {"log_alpha", "steps", "mean", "mean_square", "loss"}},
        CRITICS | {"target_critics.bias_3", "actor.fc_mean", "actor.fc_logstd", "actor.action_bias"},
    ),
]


@pytest.mark.parametrize(
    ("script", "flags", "parts", "networks"), CASES, ids=lambda part: getattr(part, "__name__", "").rpartition(".")[2]
)
def test_the_parts_of_a_checkpoint_keep_their_names(
    script: ModuleType,
    flags: list[str],
    parts: dict[str, set[str]],
    networks: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run_main(script, monkeypatch, tmp_path, "--total-timesteps", "20", *flags) == 0
    found = checkpoints.load(checkpoints_of(tmp_path)[-1])
    state = found.manifest.state
    assert set(state) == {*parts, "random", "envs"}
    assert {name: set(state[name]) for name in parts} == parts
    for name in networks:
        assert any(tensor == name or tensor.startswith(f"{name}.") for tensor in found.tensors), name
