"""The phases of phasic policy gradient: rollouts that are kept for a second use, and where in them a run is.

Environments reset as EnvPool's do, in the step after an episode's last. Such a reset row belongs to no episode and is
left out of the advantages, the reward's scale and every loss.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from mosaic_worker.learning.advantages import advantages_of
from mosaic_worker.learning.memory import free_memory
from mosaic_worker.learning.seeding import action_stream
from mosaic_worker.recording.game_camera import Camera
from mosaic_worker.training.session import TrainingSession, UsageError


class PhasicAgent(Protocol):
    """What a collector needs of an agent."""

    def policy_and_value(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """(logits, values)"""


class Games(Protocol):
    """Environments stepped together, which reset as EnvPool's do: in the step after an episode's last."""

    keeps_state: bool
    """Whether the running episodes can be part of a checkpoint."""
    camera: Camera | None
    num_envs: int
    single_observation_space: gym.Space[Any]
    single_action_space: gym.Space[Any]

    def reset(self) -> NDArray[np.uint8]: ...

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """(observations, rewards, terminated, truncated)"""

    def picture(self) -> NDArray[np.uint8]:
        """What the first one shows."""

    def close(self) -> None: ...


class Phase:
    """All that the environments went through in one phase; every tensor begins (rollout, step, environment).

    `count` rollouts are whole and learned from, and `filled` steps of the next one are there. What the policy phase
    is done with stays for the auxiliary part: pictures as bytes, in memory that was set aside before the run began.
    """

    COLUMNS = ("observations", "actions", "log_probs", "values", "rewards", "terminated", "ended", "counts")
    LATER = ("advantages", "returns", "logits")

    def __init__(self, shape: tuple[int, int, int], observation_shape: tuple[int, ...], actions: int, saved: bool):
        self.shape, self.saved = shape, saved
        self.count = self.filled = 0
        self.observations = torch.zeros(*shape, *observation_shape, dtype=torch.uint8)
        self.actions = torch.zeros(shape, dtype=torch.int64)
        self.log_probs, self.values, self.rewards = torch.zeros(3, *shape).unbind()
        self.terminated, self.ended = torch.zeros(2, *shape, dtype=torch.bool).unbind()
        self.counts = torch.zeros(shape, dtype=torch.bool)  # False for reset rows
        self.advantages, self.returns = torch.zeros(2, *shape).unbind()
        self.logits = torch.zeros(*shape, actions)  # of the policy as it was when the auxiliary part began

    @staticmethod
    def bytes_needed(shape: tuple[int, int, int], observation_shape: tuple[int, ...], actions: int) -> int:
        """The size of a phase; a row has 8 bytes of action, 5 numbers of 4, 3 flags and the logits."""
        return math.prod(shape) * (math.prod(observation_shape) + 8 + 5 * 4 + 3 + 4 * actions)

    def flat(self, column: str) -> Tensor:
        """A column with one row for each step of each environment, a view."""
        return getattr(self, column).flatten(0, 2)

    def rows_of_rollout(self) -> Tensor:
        """Flat numbers of the rows of the newest rollout that count."""
        size = self.shape[1] * self.shape[2]
        return self.counts[self.count].flatten().nonzero().squeeze(1) + self.count * size

    def rows_of_columns(self, columns: Tensor) -> Tensor:
        """Flat numbers of the rows that count of whole rollouts of single environments, numbered over the phase."""
        _, steps, envs = self.shape
        first = columns // envs * steps * envs + columns % envs
        rows = (first.unsqueeze(1) + torch.arange(steps) * envs).flatten()
        return rows[self.flat("counts")[rows]]

    @property
    def contents(self) -> dict[str, Any]:
        """What a checkpoint keeps; no rows unless they are to be saved."""
        rollouts = self.count + (self.filled > 0) if self.saved else 0
        kept = {name: getattr(self, name)[:rollouts] for name in (*self.COLUMNS, *self.LATER)}
        return {"shape": list(self.shape), "count": self.count, "filled": self.filled, "whole": self.saved, **kept}

    @contents.setter
    def contents(self, kept: dict[str, Any]) -> None:
        if kept["shape"][1:] != list(self.shape[1:]):
            steps, envs = kept["shape"][1:]
            raise ValueError(f"its rollouts have {steps} steps of {envs} environments; leave both as they were")
        rollouts = len(kept["actions"])
        if rollouts > self.shape[0]:
            raise ValueError(f"its phase has {rollouts} rollouts already; leave --n-iteration as it was")
        self.count, self.filled = kept["count"] if kept["whole"] else 0, kept["filled"]
        for name in (*self.COLUMNS, *self.LATER):
            getattr(self, name)[:rollouts] = kept[name]
        if not kept["whole"]:
            self.counts[0, : self.filled] = False

    def clear(self) -> None:
        self.count = self.filled = 0

    def told(self, step: int) -> str:
        """What is said beside a checkpoint that holds it."""
        return f"The checkpoint at step {step:,} includes the phase: {self}."

    def size_told(self) -> str:
        observation_shape, actions = tuple(self.observations.shape[3:]), self.logits.shape[3]
        return told_size(self.shape, self.bytes_needed(self.shape, observation_shape, actions))

    def __str__(self) -> str:
        rollouts = self.count + (self.filled > 0)
        megabytes = sum(getattr(self, name)[:rollouts].nbytes for name in (*self.COLUMNS, *self.LATER)) / 1e6
        return f"{rollouts} rollouts, {megabytes:,.0f} MB"


class RewardScale:
    """Divides rewards by the running spread of the discounted return, then clips them to ±10."""

    PARTS = ("running", "count", "mean", "variance")

    def __init__(self, num_envs: int, gamma: float) -> None:
        self.gamma = gamma
        self.running = np.zeros(num_envs)
        self.count, self.mean, self.variance = 1e-4, 0.0, 1.0

    def __call__(self, rewards: NDArray[Any], live: NDArray[np.bool_], ended: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Scaled rewards of one step; only `live` environments, those not just resetting, count."""
        self.running = np.where(live, self.running * self.gamma + rewards, 0.0)
        self._take_in(self.running[live])
        self.running[ended] = 0.0
        return np.clip(rewards / math.sqrt(self.variance + 1e-8), -10, 10).astype(np.float32)

    def _take_in(self, found: NDArray[np.float64]) -> None:
        """Combine the moments so far with those of new values (Chan et al., 1983)."""
        if not len(found):
            return
        total, distance = self.count + len(found), found.mean() - self.mean
        spread = self.variance * self.count + found.var() * len(found)
        self.variance = float((spread + distance**2 * self.count * len(found) / total) / total)
        self.mean += float(distance * len(found) / total)
        self.count = total


class PhaseCollector:
    """Steps the environments and keeps what must survive from one rollout to the next."""

    PARTS = ("random", "global_step", "observation", "resetting", "returns", "lengths")

    def __init__(self, games: Games, phase: Phase, session: TrainingSession, args: Any) -> None:
        self.games, self.phase, self.session = games, phase, session
        assert isinstance(games.single_action_space, gym.spaces.Discrete)
        self.first_action = int(games.single_action_space.start)
        self.random = action_stream(args.seed)
        self.reward_scale = RewardScale(games.num_envs, args.gamma)
        self.global_step = 0
        self.first_observation = games.reset()
        self.observation = np.array(self.first_observation)
        self.resetting = np.zeros(games.num_envs, dtype=bool)  # whose next step only begins a new episode
        self.returns = np.zeros(games.num_envs)
        self.lengths = np.zeros(games.num_envs, dtype=np.int64)
        self.restarting = False

    def restart(self) -> None:
        """Go on with environments that could not be put back into their episodes.

        As if a time limit had cut all of them off: the next row only resets them, so it still shows the last
        observation that was kept, whose value the row before it needs.
        """
        self.returns[:], self.lengths[:] = 0.0, 0
        self.reward_scale.running[:] = 0.0
        phase = self.phase
        if phase.filled and phase.counts[phase.count, : phase.filled].any():
            phase.ended[phase.count, phase.filled - 1] = True
            self.resetting[:], self.restarting = True, True
        else:
            self.observation, self.resetting[:] = np.array(self.first_observation), False

    @torch.no_grad()
    def step(self, agent: PhasicAgent, device: torch.device) -> None:
        """One step of every environment, into the phase's next row."""
        phase = self.phase
        at = phase.count, phase.filled
        observation = torch.from_numpy(self.observation)
        logits, values = agent.policy_and_value(observation.to(device))
        log_probs = F.log_softmax(logits, dim=1).cpu()
        # Adding Gumbel noise and taking the largest samples exactly from the softmax.
        noise = torch.from_numpy(self.random.gumbel(size=tuple(log_probs.shape)).astype(np.float32))
        actions = (log_probs + noise).argmax(dim=1)
        phase.observations[at] = observation
        phase.actions[at] = actions
        phase.log_probs[at] = log_probs.gather(1, actions.unsqueeze(1)).squeeze(1)
        phase.values[at] = values.cpu()
        following, rewards, terminated, truncated = self._advance(actions.numpy())
        live, ended = ~self.resetting, terminated | truncated
        phase.rewards[at] = torch.from_numpy(self.reward_scale(rewards, live, ended))
        phase.terminated[at], phase.ended[at] = torch.from_numpy(terminated), torch.from_numpy(ended)
        phase.counts[at] = torch.from_numpy(live)
        self._account(rewards, live, ended)
        self.observation, self.resetting = np.array(following), ended
        phase.filled += 1

    def _advance(self, actions: NDArray[np.int64]) -> tuple[Any, Any, Any, Any]:
        self.global_step += self.games.num_envs
        if self.restarting:
            self.restarting = False
            nothing = np.zeros(self.games.num_envs, dtype=bool)
            return self.first_observation, nothing.astype(np.float32), nothing, nothing
        return self.games.step(actions + self.first_action)

    def _account(self, rewards: NDArray[Any], live: NDArray[np.bool_], ended: NDArray[np.bool_]) -> None:
        self.returns += rewards
        self.lengths += live
        for env in np.flatnonzero(ended):
            values = {"charts/episodic_return": self.returns[env], "charts/episodic_length": self.lengths[env]}
            self.session.scalars(self.global_step, values)
            self.returns[env], self.lengths[env] = 0.0, 0


@torch.no_grad()
def evaluate_rollout(
    agent: PhasicAgent, phase: Phase, observation: NDArray[np.uint8], args: Any, device: torch.device
) -> None:
    """Advantages and returns of the newest rollout, which led to `observation`."""
    number = phase.count
    last = agent.policy_and_value(torch.from_numpy(observation).to(device))[1].cpu()
    values = torch.cat([phase.values[number], last.unsqueeze(0)])
    rewards, terminated, ended = (column[number].numpy() for column in (phase.rewards, phase.terminated, phase.ended))
    # The row after an episode's last shows what that episode ended in, so the value of the next row is always that of
    # the true next observation.
    found = advantages_of(
        rewards, values[:-1].numpy(), values[1:].numpy(), terminated, ended, args.gamma, args.gae_lambda
    )
    advantages = torch.from_numpy(found)
    phase.returns[number] = advantages + values[:-1]
    if args.adv_norm_fullbatch and phase.counts[number].sum() > 1:
        spread, mean = torch.std_mean(advantages[phase.counts[number]])
        advantages = (advantages - mean) / (spread + 1e-8)
    phase.advantages[number] = advantages


@dataclass
class Position:
    """How far the run has come: a stop may fall anywhere, and a resumed run goes on at the minibatch it fell in."""

    PARTS = ("stage", "iteration", "epoch", "part", "order", "known")

    stage: str = "rollout"  # then "policy"; after the last rollout of a phase also "auxiliary"
    iteration: int = 0
    epoch: int = 0
    part: int = 0
    order: Tensor = dataclasses.field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    known: int = 0  # rows whose logits before the auxiliary part are known

    def enter(self, stage: str) -> None:
        self.stage, self.epoch, self.part, self.known = stage, 0, 0, 0
        self.order = self.order[:0]

    def next_epoch(self) -> None:
        self.epoch, self.part = self.epoch + 1, 0
        self.order = self.order[:0]


def make_phase(args: Any, games: Games, rollouts: int) -> Phase:
    """Memory for one phase, no more rollouts than the run has. Raises UsageError when there is too little."""
    space, shape = games.single_action_space, games.single_observation_space.shape
    assert isinstance(space, gym.spaces.Discrete) and shape is not None
    size = (min(args.n_iteration, rollouts), args.num_steps, args.num_envs)
    needed = Phase.bytes_needed(size, shape, int(space.n))
    if needed > (free := free_memory()):
        advice = "lower --n-iteration, --num-steps or --num-envs"
        raise UsageError(f"{told_size(size, needed)}, of which {free / 1e9:.1f} GB are free; {advice}.")
    return Phase(size, shape, int(space.n), args.save_buffer)


def told_size(size: tuple[int, int, int], needed: int) -> str:
    rollouts, steps, envs = size
    return (
        f"A phase of {rollouts} rollouts of {steps} steps of {envs} environments takes {needed / 1e9:.1f} GB of memory"
    )


def take_up(position: Position, phase: Phase, collector: PhaseCollector, before: dict[str, Any]) -> None:
    """Go on as well as can be where a checkpoint does not hold everything: its rollouts, the running episodes."""
    if not before.get("save_buffer"):
        if position.stage == "policy":
            position.iteration += 1
        if position.stage != "rollout":
            position.enter("rollout")
            phase.filled = 0
        print("The checkpoint holds no rollouts: the auxiliary part of this phase learns from later ones.", flush=True)
    if not collector.games.keeps_state:
        print("EnvPool's games cannot be put back into their episodes: they begin new ones.", flush=True)
        collector.restart()
