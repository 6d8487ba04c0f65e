"""Twin Delayed Deep Deterministic policy gradient (TD3, Fujimoto et al., 2018) for continuous actions.

    python cleanrl_worker/cleanrl/td3_continuous_action.py --env-id Pendulum-v1 --total-timesteps 20000 \\
        --learning-starts 1000

Flag names, defaults and TensorBoard tags are CleanRL's. Both critics are one network with a leading dimension of two,
whose first is the one that the actor follows. With several environments, one gradient step is made for each
environment step, as with one.
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
from mosaic_worker.learning.argument_checks import check_cuda, check_no_upload, check_ranges, require
from mosaic_worker.learning.continuous_acting import Player, TanhActor, steps_before_learning, tanh_policy
from mosaic_worker.learning.environments import DISCRETE_SCRIPTS, make_env, make_vector_envs, observation_size
from mosaic_worker.learning.replay_buffer import ContinuousBatch, ContinuousReplayBuffer
from mosaic_worker.learning.run_state import RunState
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.learning.seeding import prepare_torch
from mosaic_worker.learning.twin_critics import TwinCritics
from mosaic_worker.policies.policy import Policy, fill
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.session import TrainingSession

ALGORITHM = "td3_continuous_action"
HIDDEN = 256
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
    save_model: bool = False
    """Understood for CleanRL's sake; the last checkpoint always holds the networks."""
    upload_model: bool = False
    """Send the networks to the Hugging Face Hub (not available in this version)."""
    hf_entity: str = ""
    """User or organisation that uploaded networks would belong to."""

    env_id: str = "Hopper-v4"
    """Gymnasium id of an environment with bounded continuous actions and box observations."""
    total_timesteps: int = 1_000_000
    """Environment steps in all, rounded up so that each environment makes the same number."""
    learning_rate: float = 3e-4
    """Step size of Adam, for actor and critics alike."""
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
    policy_noise: float = 0.2
    """Spread of the noise on the target policy's actions, relative to half the action range."""
    exploration_noise: float = 0.1
    """Spread of the noise on the actions that are played, relative to half the action range."""
    learning_starts: int = 25_000
    """Steps with random actions before the first gradient step; a twentieth of a short run is enough."""
    policy_frequency: int = 2
    """Critic updates for each update of the actor and of the target networks."""
    noise_clip: float = 0.5
    """Largest noise on the target policy's actions, relative to half the action range."""

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
    """Observation to action: two hidden layers of 256 ReLU units, tanh stretched to the action range."""

    action_scale: Tensor
    action_bias: Tensor

    def __init__(self, observation_size: int, actions: gym.spaces.Box) -> None:
        super().__init__()
        low, high = torch.from_numpy(actions.low).reshape(-1), torch.from_numpy(actions.high).reshape(-1)
        self.fc1 = nn.Linear(observation_size, HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, HIDDEN)
        self.fc_mu = nn.Linear(HIDDEN, len(low))
        self.register_buffer("action_scale", ((high - low) / 2).float())
        self.register_buffer("action_bias", ((high + low) / 2).float())

    def forward(self, observations: Tensor) -> Tensor:
        hidden = self.fc2(self.fc1(observations).relu_()).relu_()
        return torch.addcmul(self.action_bias, self.fc_mu(hidden).tanh_(), self.action_scale)


class Learner:
    """The networks, their target networks and one gradient step."""

    def __init__(self, observation_size: int, actions: gym.spaces.Box, args: Args, device: torch.device) -> None:
        self.args = args
        inputs = observation_size + math.prod(actions.shape)
        self.actor = Actor(observation_size, actions).to(device)
        self.critics = TwinCritics(inputs, HIDDEN).to(device)
        self.target_actor = Actor(observation_size, actions).to(device).requires_grad_(False)
        self.target_critics = TwinCritics(inputs, HIDDEN).to(device).requires_grad_(False)
        self.actor_adam = FusedAdam(self.actor, args.learning_rate)
        self.critic_adam = FusedAdam(self.critics, args.learning_rate)
        self.followers = (
            TargetNetwork(self.target_actor, self.actor_adam.vector),
            TargetNetwork(self.target_critics, self.critic_adam.vector),
        )
        self.low = self.actor.action_bias - self.actor.action_scale
        self.high = self.actor.action_bias + self.actor.action_scale
        self.updates = 0
        self.actor_loss = torch.zeros(())  # of the last update that was one, for the log

    @torch.no_grad()
    def targets(self, batch: ContinuousBatch) -> Tensor:
        """What both critics should have said: reward and the discounted lesser value of a smoothed next action."""
        actions = self.target_actor(batch.next_observations)
        clip = self.args.noise_clip
        noise = torch.randn_like(actions).mul_(self.args.policy_noise).clamp_(-clip, clip)
        actions = actions.addcmul_(noise, self.actor.action_scale).clamp_(self.low, self.high)
        following = self.target_critics(torch.cat((batch.next_observations, actions), dim=1)).amin(dim=0)
        return torch.addcmul(batch.rewards, 1 - batch.terminated, following, value=self.args.gamma)

    def losses_of_critics(self, batch: ContinuousBatch) -> tuple[Tensor, Tensor]:
        """(values, mean squared errors) of both critics."""
        values = self.critics(batch.observations_and_actions)
        return values, (values - self.targets(batch)).square().mean(dim=1)

    def loss_of_actor(self, batch: ContinuousBatch) -> Tensor:
        """Less for actions that the first critic values more."""
        acted = torch.cat((batch.observations, self.actor(batch.observations)), dim=1)
        return -self.critics.first(acted).mean()

    def update(self, batch: ContinuousBatch) -> tuple[Tensor, Tensor]:
        """One step of the critics, every so often of the actor and the targets; (values, losses) of both critics."""
        values, losses = self.losses_of_critics(batch)
        self.critic_adam.minimise(losses.sum())
        self.updates += 1
        if self.updates % self.args.policy_frequency == 0:
            actor_loss = self.loss_of_actor(batch)
            self.actor_adam.minimise(actor_loss)
            self.actor_loss = actor_loss.detach()
            for follower in self.followers:
                follower.follow(self.args.tau)
        return values.detach(), losses.detach()

    def require_finite(self) -> None:
        require_finite(self.actor_adam.vector, self.critic_adam.vector, what="networks are")


def train(args: Args, envs: SyncVectorEnv, session: TrainingSession) -> None:
    device = prepare_torch(args)
    space: Any = envs.single_action_space
    learner = Learner(observation_size(envs), space, args, device)
    replay = ContinuousReplayBuffer(args.buffer_size, observation_size(envs), math.prod(space.shape))
    player = Player(envs, session, replay, TanhActor(learner.actor, args.exploration_noise), args)

    state = TrainingState()
    state.module("actor", learner.actor)
    state.module("critics", learner.critics)
    state.module("target_actor", learner.target_actor)
    state.module("target_critics", learner.target_critics)
    state.attributes("actor_adam", learner.actor_adam, *MOMENTS)
    state.attributes("critic_adam", learner.critic_adam, *MOMENTS)
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
    return {
        "losses/qf1_values": value_1,
        "losses/qf2_values": value_2,
        "losses/qf1_loss": loss_1,
        "losses/qf2_loss": loss_2,
        "losses/qf_loss": (loss_1 + loss_2) / 2,
        "losses/actor_loss": learner.actor_loss.item(),
    }


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    check_ranges(
        args,
        counts=("total_timesteps", "num_envs", "buffer_size", "batch_size", "policy_frequency", "torch_threads"),
        not_negative=(
            *("seed", "checkpoint_every", "checkpoint_keep", "learning_starts"),
            *("policy_noise", "exploration_noise", "noise_clip"),
        ),
        positive=("learning_rate",),
        fractions=("gamma", "tau"),
    )
    require(
        args.num_envs <= args.buffer_size,
        f"--buffer-size must be at least num-envs ({args.num_envs}), got {args.buffer_size}.",
    )
    check_no_upload(args)
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
    policy = tanh_policy(actor, action["shape"], args.exploration_noise)
    return policy.with_critics(checkpoint, size + math.prod(action["shape"]), HIDDEN)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One environment as training sees it. Raises UsageError."""
    return make_env(args.env_id, render_mode=render_mode)


def main() -> int:
    description = "Train with TD3 on an environment with continuous actions."
    return run_script(ALGORITHM, description, Args, check, make_envs, train, twin="td3_jax")


if __name__ == "__main__":
    sys.exit(main())
