"""Soft Actor-Critic (SAC, Haarnoja et al., 2018) for continuous actions.

    python cleanrl_worker/cleanrl/sac_continuous_action.py --env-id Pendulum-v1 --total-timesteps 20000 \\
        --learning-starts 1000

Flag names, defaults and TensorBoard tags are CleanRL's. Both critics are one network with a leading dimension of two,
and log-probabilities are written out from the noise that made the actions. The temperature learns from the very actions
the actor did, not from a second draw. With several environments, one gradient step is made for each environment step,
as with one.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from gymnasium.vector import SyncVectorEnv
from torch import Tensor, nn

from mosaic_worker.learning.adam import MOMENTS, FusedAdam, TargetNetwork, require_finite
from mosaic_worker.learning.argument_checks import check_cuda, check_ranges, require
from mosaic_worker.learning.continuous_acting import (
    Player,
    SquashedGaussianActor,
    squashed_policy,
    steps_before_learning,
)
from mosaic_worker.learning.environments import DISCRETE_SCRIPTS, make_env, make_vector_envs, observation_size
from mosaic_worker.learning.replay_buffer import ContinuousBatch, ContinuousReplayBuffer
from mosaic_worker.learning.run_state import RunState
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.learning.seeding import prepare_torch
from mosaic_worker.learning.temperature import Temperature
from mosaic_worker.learning.twin_critics import TwinCritics
from mosaic_worker.policies.policy import Policy, fill
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.session import TrainingSession

ALGORITHM = "sac_continuous_action"
HIDDEN = 256
LOG_STD_RANGE = LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
LOG_EVERY = 100


@dataclass
class Args:
    exp_name: str = ALGORITHM
    """Name of the experiment, part of the run directory's name."""
    seed: int = 1
    """Seed of environments, networks and sampling; the same seed gives the same run."""
    torch_deterministic: bool = True
    """Ask cuDNN for deterministic kernels."""
    cuda: bool = False
    """Train on the GPU; for networks this small the CPU is often as fast."""
    track: bool = False
    """Send the run to Weights & Biases; without a key it is kept on disk, to be sent later."""
    wandb_project_name: str = "cleanRL"
    """Project that a tracked run belongs to."""
    wandb_entity: str | None = None
    """Team or user that owns the project of a tracked run."""
    capture_video: bool = False
    """Record short videos of the first environment."""

    env_id: str = "Hopper-v4"
    """Gymnasium id of an environment with bounded continuous actions and box observations."""
    total_timesteps: int = 1_000_000
    """Environment steps in all, rounded up so that each environment makes the same number."""
    num_envs: int = 1
    """How many environments are stepped side by side."""
    buffer_size: int = 1_000_000
    """Transitions that the replay memory holds before the oldest are overwritten."""
    gamma: float = 0.99
    """Discount: what a reward is still worth one step later."""
    tau: float = 0.005
    """Share of the way that target networks go towards the trained ones at each of their updates."""
    batch_size: int = 256
    """Transitions drawn for one gradient step."""
    learning_starts: int = 5_000
    """Steps with random actions before the first gradient step; a twentieth of a short run is enough."""
    policy_lr: float = 3e-4
    """Step size of Adam for the actor."""
    q_lr: float = 1e-3
    """Step size of Adam for the critics and for the temperature."""
    policy_frequency: int = 2
    """Critic updates between updates of the actor, which are then made that many times in a row."""
    target_network_frequency: int = 1
    """Critic updates for each update of the target network."""
    alpha: float = 0.2
    """Temperature, the weight of the policy's entropy, when it is not tuned."""
    autotune: bool = True
    """Tune the temperature so that the policy keeps an entropy of minus the number of action dimensions."""

    torch_threads: int = 1
    """CPU threads for PyTorch; more than one slows networks this small down."""
    checkpoint_every: int = 100_000
    """Environment steps between checkpoints; 0 writes only the one at the end."""
    checkpoint_keep: int = 3
    """Newest checkpoints to keep besides the best one; 0 keeps all."""
    save_buffer: bool = True
    """Keep the replay buffer in checkpoints; without it a resumed run starts with an empty one."""
    resume: str | None = None
    """Checkpoint to go on from, exactly as if the run had never stopped; flags not given are as they were."""
    warm_start: str | None = None
    """Checkpoint whose networks to begin with, acting from the first step; all else starts from the beginning."""


class Actor(nn.Module):
    """Observation to a Gaussian that tanh squashes into the action range; two hidden layers of 256 ReLU units."""

    action_scale: Tensor
    action_bias: Tensor

    def __init__(self, observation_size: int, actions: gym.spaces.Box) -> None:
        super().__init__()
        low, high = torch.from_numpy(actions.low).reshape(-1), torch.from_numpy(actions.high).reshape(-1)
        self.fc1 = nn.Linear(observation_size, HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, HIDDEN)
        self.fc_mean = nn.Linear(HIDDEN, len(low))
        self.fc_logstd = nn.Linear(HIDDEN, len(low))
        self.register_buffer("action_scale", ((high - low) / 2).float())
        self.register_buffer("action_bias", ((high + low) / 2).float())

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the deviation of each action dimension, before they are squashed."""
        hidden = self.fc2(self.fc1(observations).relu_()).relu_()
        middle, reach = (LOG_STD_MAX + LOG_STD_MIN) / 2, (LOG_STD_MAX - LOG_STD_MIN) / 2
        return self.fc_mean(hidden), self.fc_logstd(hidden).tanh() * reach + middle

    def sample(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Actions, through which gradients flow, and their log-probabilities, shaped (rows,)."""
        mean, log_std = self(observations)
        noise = torch.randn_like(mean)
        unit = torch.addcmul(mean, log_std.exp(), noise).tanh()
        # The Gaussian's density at its own noise, then the change of volume by tanh and by the action range.
        squeezed = (self.action_scale * (1 - unit.square()) + 1e-6).log()
        log_probs = -(0.5 * noise.square() + log_std + squeezed + HALF_LOG_TWO_PI).sum(dim=1)
        return torch.addcmul(self.action_bias, unit, self.action_scale), log_probs


class Learner:
    """The networks, their target network, the temperature and one gradient step."""

    def __init__(self, observation_size: int, actions: gym.spaces.Box, args: Args, device: torch.device) -> None:
        self.args = args
        action_size = math.prod(actions.shape)
        self.actor = Actor(observation_size, actions).to(device)
        self.critics = TwinCritics(observation_size + action_size, HIDDEN).to(device)
        self.target_critics = TwinCritics(observation_size + action_size, HIDDEN).to(device).requires_grad_(False)
        self.actor_adam = FusedAdam(self.actor, args.policy_lr)
        self.critic_adam = FusedAdam(self.critics, args.q_lr)
        self.target = TargetNetwork(self.target_critics, self.critic_adam.vector)
        self.temperature = Temperature(-float(action_size), args)
        self.updates = 0
        self.actor_loss = torch.zeros(())  # of the last update that was one, for the log

    @torch.no_grad()
    def targets(self, batch: ContinuousBatch) -> Tensor:
        """What both critics should have said: reward and the discounted soft value of what follows."""
        actions, log_probs = self.actor.sample(batch.next_observations)
        following = self.target_critics(torch.cat((batch.next_observations, actions), dim=1)).amin(dim=0)
        following = following.sub_(log_probs, alpha=self.temperature.alpha)
        return torch.addcmul(batch.rewards, 1 - batch.terminated, following, value=self.args.gamma)

    def losses_of_critics(self, batch: ContinuousBatch) -> tuple[Tensor, Tensor]:
        """(values, mean squared errors) of both critics."""
        values = self.critics(batch.observations_and_actions)
        return values, (values - self.targets(batch)).square().mean(dim=1)

    def loss_of_actor(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """(loss, log-probabilities): less for actions that both critics value and that keep entropy."""
        actions, log_probs = self.actor.sample(observations)
        values = self.critics(torch.cat((observations, actions), dim=1)).amin(dim=0)
        return (self.temperature.alpha * log_probs - values).mean(), log_probs

    def update(self, batch: ContinuousBatch) -> tuple[Tensor, Tensor]:
        """One step of the critics, and as often as asked of the others; (values, losses) of both critics."""
        values, losses = self.losses_of_critics(batch)
        self.critic_adam.minimise(losses.sum())
        self.updates += 1
        if self.updates % self.args.policy_frequency == 0:
            for _ in range(self.args.policy_frequency):
                self.update_actor(batch.observations)
        if self.updates % self.args.target_network_frequency == 0:
            self.target.follow(self.args.tau)
        return values.detach(), losses.detach()

    def update_actor(self, observations: Tensor) -> None:
        """One step of the actor, then of the temperature."""
        loss, log_probs = self.loss_of_actor(observations)
        self.actor_adam.minimise(loss)
        self.actor_loss = loss.detach()
        if self.temperature.tuned:
            self.temperature.tune(log_probs.mean().item())

    def require_finite(self) -> None:
        vectors = self.actor_adam.vector, self.critic_adam.vector
        require_finite(*vectors, what="networks are", advice="--q-lr or --policy-lr")


def train(args: Args, envs: SyncVectorEnv, session: TrainingSession) -> None:
    device = prepare_torch(args)
    space: Any = envs.single_action_space
    learner = Learner(observation_size(envs), space, args, device)
    replay = ContinuousReplayBuffer(args.buffer_size, observation_size(envs), math.prod(space.shape))
    player = Player(envs, session, replay, SquashedGaussianActor(learner.actor, LOG_STD_RANGE), args)

    state = TrainingState()
    state.module("actor", learner.actor)
    state.module("critics", learner.critics)
    state.module("target_critics", learner.target_critics)
    state.attributes("actor_adam", learner.actor_adam, *MOMENTS)
    state.attributes("critic_adam", learner.critic_adam, *MOMENTS)
    state.attributes("temperature", learner.temperature, *learner.temperature.PARTS)
    state.attributes("learner", learner, "updates", "actor_loss")
    state.attributes("player", player, *player.PARTS)
    if args.save_buffer:
        state.attributes("replay", replay, *replay.PARTS)
    state.envs("envs", envs, player.restart)
    run = RunState(session, state, envs, args, player, verify=learner.require_finite, buffer=replay)
    run.restore()

    steps = math.ceil(args.total_timesteps / args.num_envs) * args.num_envs
    enough = steps_before_learning(args, steps)
    session.record(envs)
    session.begin(steps)
    while player.global_step < steps:
        session.safe_point(player.global_step)
        if session.stop_requested:
            break
        player.step()
        if replay.filled >= enough:
            for _ in range(args.num_envs):
                values, losses = learner.update(replay.sample(args.batch_size, device))
            if player.global_step % LOG_EVERY < args.num_envs:
                learner.require_finite()
                logged = figures(values, losses, learner)
                session.scalars(player.global_step, logged | {"charts/SPS": run.steps_per_second})
        run.save_if_due()
    run.save_last()


def figures(values: Tensor, losses: Tensor, learner: Learner) -> dict[str, float]:
    """What to log of an update."""
    (value_1, value_2), (loss_1, loss_2) = values.mean(dim=1).tolist(), losses.tolist()
    logged = {
        "losses/qf1_values": value_1,
        "losses/qf2_values": value_2,
        "losses/qf1_loss": loss_1,
        "losses/qf2_loss": loss_2,
        "losses/qf_loss": (loss_1 + loss_2) / 2,
        "losses/actor_loss": learner.actor_loss.item(),
        "losses/alpha": learner.temperature.alpha,
    }
    if learner.temperature.tuned:
        logged["losses/alpha_loss"] = learner.temperature.loss
    return logged


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    check_ranges(
        args,
        counts=(
            *("total_timesteps", "num_envs", "buffer_size", "batch_size"),
            *("policy_frequency", "target_network_frequency", "torch_threads"),
        ),
        not_negative=("seed", "checkpoint_every", "checkpoint_keep", "learning_starts", "alpha"),
        positive=("policy_lr", "q_lr"),
        fractions=("gamma", "tau"),
    )
    require(
        args.num_envs <= args.buffer_size,
        f"--buffer-size must be at least num-envs ({args.num_envs}), got {args.buffer_size}.",
    )
    check_cuda(args)


def make_envs(args: Args) -> SyncVectorEnv:
    """The environments, checked for what this algorithm can handle. Raises UsageError."""
    return make_vector_envs(ALGORITHM, args, "bounded", others=DISCRETE_SCRIPTS)


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """What a checkpoint learned, without environments. Raises CheckpointError when its tensors do not fit."""
    observation, action = checkpoint.manifest.spaces["observation"], checkpoint.manifest.spaces["action"]
    # Any range will do: the true one is among the tensors.
    size = math.prod(observation["shape"])
    actor = Actor(size, gym.spaces.Box(-1, 1, tuple(action["shape"])))
    fill(actor, "actor", checkpoint)
    policy = squashed_policy(actor, action["shape"], LOG_STD_RANGE)
    return policy.with_critics(checkpoint, size + math.prod(action["shape"]), HIDDEN)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One environment as training sees it. Raises UsageError."""
    return make_env(args.env_id, render_mode=render_mode)


def main() -> int:
    description = "Train with SAC on an environment with continuous actions."
    return run_script(ALGORITHM, description, Args, check, make_envs, train, twin="sac_jax")


if __name__ == "__main__":
    sys.exit(main())
