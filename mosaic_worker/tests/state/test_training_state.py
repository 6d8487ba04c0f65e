"""What a run needs to go on is kept to the bit, and what does not fit is refused before anything changes."""

from __future__ import annotations

import json
import random
from collections import deque
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mosaic_worker.state.env_state import EnvStateError
from mosaic_worker.state.plain_state import NotPlainError, decode, encode
from mosaic_worker.state.training_state import StateMismatchError, TrainingState

CLASSIC = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "MountainCarContinuous-v0", "FrozenLake-v1"]


def through_json(captured: tuple[dict[str, torch.Tensor], dict[str, Any]]) -> tuple[Any, Any]:
    return captured[0], json.loads(json.dumps(captured[1]))


def make_envs(env_id: str, count: int = 3) -> SyncVectorEnv:
    def make() -> gym.Env[Any, Any]:
        return gym.wrappers.RecordEpisodeStatistics(gym.make(env_id))

    envs = SyncVectorEnv([make] * count, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)
    envs.reset(seed=5)
    return envs


def play(envs: SyncVectorEnv, steps: int, seed: int) -> list[Any]:
    envs.action_space.seed(seed)
    return [[np.array(part) for part in envs.step(envs.action_space.sample())[:4]] for _ in range(steps)]


@pytest.mark.parametrize("env_id", CLASSIC)
def test_environments_go_on_in_the_very_episode_they_were_in(env_id: str) -> None:
    original, copy = make_envs(env_id), make_envs(env_id)
    play(original, 37, seed=1)
    kept, state = TrainingState(), TrainingState()
    kept.envs("envs", original)
    state.envs("envs", copy)
    tensors, content = through_json(kept.capture())
    assert content["envs"]["complete"], content["envs"]["missing"]
    state.restore(tensors, content)
    np.testing.assert_equal(play(copy, 300, seed=2), play(original, 300, seed=2))


def test_another_number_of_environments_is_refused() -> None:
    kept, state = TrainingState(), TrainingState()
    kept.envs("envs", make_envs("CartPole-v1", 3))
    state.envs("envs", make_envs("CartPole-v1", 2))
    with pytest.raises(EnvStateError, match="another number of them"):
        state.restore(*through_json(kept.capture()))


def test_random_numbers_go_on_where_they_were() -> None:
    state = TrainingState()
    kept = through_json(state.capture())
    first = (random.random(), np.random.random(), torch.rand(3).tolist())
    state.restore(*kept)
    assert (random.random(), np.random.random(), torch.rand(3).tolist()) == first


def parts(size: int = 4) -> tuple[TrainingState, torch.nn.Linear, torch.optim.Optimizer, SimpleNamespace]:
    module = torch.nn.Linear(size, 2)
    optimizer = torch.optim.Adam(module.parameters())
    owner = SimpleNamespace(step=0, generator=np.random.default_rng(0), buffer=torch.zeros(5), recent=deque([1.0], 10))
    state = TrainingState()
    state.module("agent", module)
    state.optimizer("optimizer", optimizer)
    state.attributes("owner", owner, "step", "generator", "buffer", "recent")
    return state, module, optimizer, owner


def learn(module: torch.nn.Linear, optimizer: torch.optim.Optimizer, owner: SimpleNamespace) -> None:
    optimizer.zero_grad()
    module(torch.from_numpy(owner.generator.random((8, 4), dtype=np.float32))).square().sum().backward()
    optimizer.step()
    owner.step += 1
    owner.buffer += owner.step


def test_a_restored_run_learns_on_to_the_bit() -> None:
    state, module, optimizer, owner = parts()
    learn(module, optimizer, owner)
    kept = through_json(state.capture())
    learn(module, optimizer, owner)
    other, other_module, other_optimizer, other_owner = parts()
    other.restore(*kept)
    learn(other_module, other_optimizer, other_owner)
    assert torch.equal(module.weight, other_module.weight)
    assert torch.equal(owner.buffer, other_owner.buffer)
    assert (owner.step, owner.recent) == (other_owner.step, other_owner.recent)


def test_a_checkpoint_of_another_shape_is_refused_with_the_difference_and_changes_nothing() -> None:
    kept = through_json(parts(size=3)[0].capture())
    state, module, _, _ = parts(size=4)
    before = module.weight.clone()
    with pytest.raises(StateMismatchError, match=r"agent\.weight is \[2, 3\] there and \[2, 4\] here"):
        state.restore(*kept)
    assert torch.equal(module.weight, before)


def test_a_warm_start_takes_parameters_only() -> None:
    state, module, optimizer, owner = parts()
    learn(module, optimizer, owner)
    tensors, _ = through_json(state.capture())
    other, other_module, _, other_owner = parts()
    other.warm_start(tensors)
    assert torch.equal(module.weight, other_module.weight)
    assert other_owner.step == 0


def test_a_bare_parameter_file_cannot_resume_a_run() -> None:
    state, module, _, _ = parts()
    tensors = {f"agent.{name}": value for name, value in module.state_dict().items()}
    with pytest.raises(StateMismatchError, match="it can warm-start a run, not resume one"):
        state.restore(tensors, {})


def test_objects_that_could_carry_code_are_not_kept() -> None:
    with pytest.raises(NotPlainError, match="is a function"):
        encode(test_objects_that_could_carry_code_are_not_kept, "it", {})


def test_a_trial_names_the_entry_that_cannot_be_kept_and_copies_nothing() -> None:
    state, _, _, owner = parts()
    state.check()
    owner.recent = [1.0, {"env": object()}]
    with pytest.raises(NotPlainError, match=r"owner\.recent\.1\.env is a object, which a checkpoint does not keep"):
        state.check()
    del owner.recent
    with pytest.raises(NotPlainError, match=r"owner\.recent is missing: SimpleNamespace has no 'recent'"):
        state.check()
    huge = TrainingState()
    huge.attributes("buffer", SimpleNamespace(frames=np.broadcast_to(np.uint8(0), (2**40,))), "frames")
    huge.check()  # a terabyte, as long as nobody copies it


def test_a_module_with_an_extra_state_of_its_own_is_named() -> None:
    class Odd(torch.nn.Linear):
        def get_extra_state(self) -> Any:
            return {"a": 1}

    state = TrainingState()
    state.module("agent", Odd(1, 1))
    with pytest.raises(NotPlainError, match=r"agent\._extra_state is a dict"):
        state.check()


def test_plain_values_come_back_as_they_were() -> None:
    value = {"a": [1, 2.5, None, True], "b": (np.int64(3), np.arange(3)), 4: "four", "d": deque([1], 2)}
    tensors: dict[str, torch.Tensor] = {}
    back = decode(json.loads(json.dumps(encode(value, "it", tensors))), tensors)
    np.testing.assert_equal(back, value)
    assert type(back["b"][0]) is np.int64


def test_a_warm_start_that_would_take_nothing_is_refused() -> None:
    """Of a run whose table was registered like a counter."""
    state = TrainingState()
    state.attributes("training", SimpleNamespace(table=np.zeros(3)), "table")
    with pytest.raises(StateMismatchError, match="no networks and no tables to take over"):
        state.warm_start({"training.table": torch.ones(3)})


def test_arrays_that_lie_elsewhere_come_back_as_a_whole_and_are_warm_started() -> None:
    """As a compiled program keeps them: what is read is a copy, what is assigned is taken in."""

    class Elsewhere:
        def __init__(self, number: float) -> None:
            self.inside = {"weight": np.full((2, 2), number, np.float32), "bias": np.full(2, number, np.float32)}

        @property
        def learned(self) -> dict[str, np.ndarray]:
            return {name: one.copy() for name, one in self.inside.items()}

        @learned.setter
        def learned(self, arrays: dict[str, np.ndarray]) -> None:
            self.inside = arrays

    states = {}
    for number in (1.0, 2.0, 3.0):
        owner, state = Elsewhere(number), TrainingState()
        state.arrays("agent", owner, "learned")
        states[number] = owner, state
    tensors, rest = states[1.0][1].capture()
    assert {"agent.weight", "agent.bias"} <= tensors.keys()
    states[2.0][1].restore(tensors, rest)
    states[3.0][1].warm_start({"agent.weight": torch.ones(2, 2), "agent.bias": torch.ones(2)})  # a network's
    for number in (2.0, 3.0):
        assert all((one == 1).all() for one in states[number][0].inside.values())
    with pytest.raises(StateMismatchError, match=r"agent.bias is \[3\] there and \[2\] here"):
        states[1.0][1].warm_start({"agent.weight": torch.ones(2, 2), "agent.bias": torch.ones(3)})
