"""skrl's PPO: its networks, its agent and trainer, and what of them a checkpoint holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import StepTrainer
from skrl.utils import set_seed

from mosaic_worker.settings import Settings
from mosaic_worker.state.checkpoints import describe_space
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.environments import make_env


def _network(inputs: int, hidden: int, outputs: int) -> torch.nn.Sequential:
    layers: list[torch.nn.Module] = [torch.nn.Linear(inputs, hidden), torch.nn.Tanh()]
    layers += [torch.nn.Linear(hidden, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, outputs)]
    return torch.nn.Sequential(*layers)


class Policy(CategoricalMixin, Model):
    def __init__(self, observation_space: gym.Space[Any], action_space: gym.Space[Any], hidden: int) -> None:
        Model.__init__(self, observation_space=observation_space, action_space=action_space, device="cpu")
        CategoricalMixin.__init__(self)
        self.net = _network(self.num_observations, hidden, self.num_actions)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        return self.net(inputs["observations"]), {}


class Value(DeterministicMixin, Model):
    def __init__(self, observation_space: gym.Space[Any], action_space: gym.Space[Any], hidden: int) -> None:
        Model.__init__(self, observation_space=observation_space, action_space=action_space, device="cpu")
        DeterministicMixin.__init__(self)
        self.net = _network(self.num_observations, hidden, 1)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        return self.net(inputs["observations"]), {}


class Training:
    """One run: :meth:`turn` makes one step; ``state`` is complete between two rollouts."""

    def __init__(self, settings: Settings, steps: int) -> None:
        set_seed(settings.seed)
        self._env = make_env(settings.env_id)
        wrapped = wrap_env(self._env, verbose=False)
        self._agent = _agent(wrapped, settings)
        quiet = {"timesteps": steps, "headless": True, "disable_progressbar": True}
        self._trainer = StepTrainer(env=wrapped, agents=self._agent, cfg=quiet)
        self.step, self._steps = 0, steps
        self._return, self._length = 0.0, 0
        observation, action = self._env.observation_space, self._env.action_space
        self.spaces = {"observation": describe_space(observation), "action": describe_space(action)}
        self.state = TrainingState()
        self.state.module("policy", self._agent.policy)
        self.state.module("value", self._agent.value)
        self.state.optimizer("optimizer", self._agent.optimizer)
        self.state.attributes("training", self, "step", "_return", "_length")
        self.state.attributes("trainer", self._trainer, "observations")
        self.state.attributes("wrapper", wrapped, "_seed")
        self.state.envs("envs", SimpleNamespace(envs=[self._env]), restart=self._begin_new_episode)

    def turn(self) -> dict[str, float]:
        """One step, and an update when a rollout is full; the scalars of an episode that ended with it."""
        _, reward, terminated, truncated, _ = self._trainer.train(timestep=self.step, timesteps=self._steps)
        self.step += 1
        self._return, self._length = self._return + float(reward), self._length + 1
        if not (terminated.any() or truncated.any()):
            return {}
        row = {"charts/episodic_return": self._return, "charts/episodic_length": self._length}
        self._return, self._length = 0.0, 0
        return row

    @property
    def is_between_rollouts(self) -> bool:
        """Whether the memory holds nothing that is yet to be learned from: it is in no checkpoint."""
        return self._agent._rollout % self._agent.cfg.rollouts == 0

    def _begin_new_episode(self) -> None:
        """For an environment whose inner state cannot be kept."""
        self._trainer.observations = None
        self._return, self._length = 0.0, 0


def _agent(env: Any, settings: Settings) -> PPO:
    rollouts, hidden = int(settings.params["rollouts"]), int(settings.params["hidden"])
    cfg = PPO_CFG(rollouts=rollouts, learning_rate=settings.params["learning_rate"])
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0  # both are the session's
    spaces = (env.observation_space, env.action_space)
    return PPO(
        models={"policy": Policy(*spaces, hidden), "value": Value(*spaces, hidden)},
        memory=RandomMemory(memory_size=rollouts, num_envs=1, device="cpu"),
        cfg=cfg,
        observation_space=env.observation_space,
        action_space=env.action_space,
        device="cpu",
    )
