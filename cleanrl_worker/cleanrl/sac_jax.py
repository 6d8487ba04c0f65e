"""Soft Actor-Critic (SAC, Haarnoja et al., 2018) for continuous actions, whose updates are compiled.

    python cleanrl_worker/cleanrl/sac_jax.py --env-id Pendulum-v1 --total-timesteps 20000 --learning-starts 1000

The twin of ``sac_continuous_action.py``: same flags, same tags, any environment of Gymnasium's, and checkpoints with
the same tensors, which act through either. One update of critics, actor, temperature and target network is one program;
environments, replay memory and acting stay in numpy. The first run of a shape is compiled, which takes some seconds;
it is kept.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import SyncVectorEnv

from mosaic_worker.compiled.acting import CompiledSquashedGaussianActor
from mosaic_worker.compiled.adam import Moments, descended, no_moments
from mosaic_worker.compiled.carried import Carried
from mosaic_worker.compiled.names import require_jax
from mosaic_worker.compiled.networks import (
    Arrays,
    linear,
    named,
    part,
    relu_hidden,
    twin_critics,
    twin_values,
    uniform_layers,
)
from mosaic_worker.compiled.xla import jax, jnp, start
from mosaic_worker.learning.argument_checks import check_ranges, require
from mosaic_worker.learning.continuous_acting import Player, steps_before_learning
from mosaic_worker.learning.environments import DISCRETE_SCRIPTS, make_vector_envs, observation_size
from mosaic_worker.learning.replay_buffer import ContinuousReplayBuffer
from mosaic_worker.learning.run_state import RunState
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.session import TrainingSession

ALGORITHM = "sac_jax"
HIDDEN = 256
LOG_STD_RANGE = LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
LOG_EVERY = 100
TRACED = ("gamma", "tau", "policy_lr", "q_lr")
RANGE = ("action_scale", "action_bias")


@dataclass
class Args:
    exp_name: str = ALGORITHM
    """Name of the experiment, part of the run directory's name."""
    seed: int = 1
    """Seed of environments, networks and sampling; the same seed gives the same run."""
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

    xla_threads: int = 1
    """CPU threads for JAX; more than one slows networks this small down."""
    checkpoint_every: int = 100_000
    """Environment steps between checkpoints; 0 writes only the one at the end."""
    checkpoint_keep: int = 3
    """Newest checkpoints to keep besides the best one; 0 keeps all."""
    save_buffer: bool = True
    """Keep the replay buffer in checkpoints; without it a resumed run starts with an empty one."""
    resume: str | None = None
    """Checkpoint to go on from, exactly as if the run had never stopped; flags not given are as they were."""
    warm_start: str | None = None
    """Checkpoint of this script or its twin whose networks to begin with; all else starts from the beginning."""


class Shape(NamedTuple):
    """What another program has to be compiled for; all else of the arguments is given to it."""

    observation_size: int
    action_size: int
    policy_frequency: int
    target_network_frequency: int
    autotune: bool


class Learner(NamedTuple):
    """What goes from one update to the next."""

    learned: Arrays
    """By the names of the twin: actor, critics, target_critics."""
    actor_moments: Moments
    critic_moments: Moments
    log_alpha: Arrays
    alpha_moments: Moments
    alpha_loss: jax.Array
    actor_loss: jax.Array
    """Of the last update that was one, for the log."""
    updates: jax.Array
    key: jax.Array


class Batch(NamedTuple):
    """Transitions, one a row."""

    observations: jax.Array
    observations_and_actions: jax.Array
    next_observations: jax.Array
    rewards: jax.Array
    terminated: jax.Array


Knobs = dict[str, Any]


def first_learner(args: Args, observation_size: int, actions: gym.spaces.Box) -> Learner:
    """An actor and two critics with two hidden layers of 256 ReLU units each, and a copy of the critics."""
    random = np.random.default_rng(args.seed)
    low, high = actions.low.reshape(-1).astype(np.float32), actions.high.reshape(-1).astype(np.float32)
    sizes = {"fc1": (observation_size, HIDDEN), "fc2": (HIDDEN, HIDDEN)}
    sizes |= {"fc_mean": (HIDDEN, len(low)), "fc_logstd": (HIDDEN, len(low))}
    actor, critics = uniform_layers(random, **sizes), twin_critics(random, observation_size + len(low), HIDDEN)
    scale = {"action_scale": (high - low) / 2, "action_bias": (high + low) / 2}
    learned = named("actor", {**actor, **scale}) | named("critics", critics)
    learned |= named("target_critics", {name: one.copy() for name, one in critics.items()})
    log_alpha = {"log_alpha": np.float32(0 if args.autotune else math.log(args.alpha) if args.alpha else -math.inf)}
    moments = no_moments(actor), no_moments(critics)
    key = np.array([args.seed >> 32, args.seed & 0xFFFFFFFF], np.uint32)
    zeros = np.float32(0), np.float32(0), np.int32(0)
    return Learner(*jax.device_put((learned, *moments, log_alpha, no_moments(log_alpha), *zeros, key)))


def sample(actor: Arrays, scale: Arrays, observations: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Actions, through which gradients flow, and their log-probabilities, shaped (rows,)."""
    hidden = relu_hidden(actor, observations)
    middle, reach = (LOG_STD_MAX + LOG_STD_MIN) / 2, (LOG_STD_MAX - LOG_STD_MIN) / 2
    mean, log_std = linear(actor, "fc_mean", hidden), jnp.tanh(linear(actor, "fc_logstd", hidden)) * reach + middle
    noise = jax.random.normal(key, mean.shape)
    unit = jnp.tanh(mean + jnp.exp(log_std) * noise)
    # The Gaussian's density at its own noise, then the change of volume by tanh and by the action range.
    squeezed = jnp.log(scale["action_scale"] * (1 - unit**2) + 1e-6)
    log_probs = -(0.5 * noise**2 + log_std + squeezed + HALF_LOG_TWO_PI).sum(axis=1)
    return scale["action_bias"] + unit * scale["action_scale"], log_probs


def targets(learner: Learner, batch: Batch, knobs: Knobs, key: jax.Array) -> jax.Array:
    """What both critics should have said: reward and the discounted soft value of what follows."""
    actor = part(learner.learned, "actor")
    actions, log_probs = sample(actor, actor, batch.next_observations, key)
    inputs = jnp.concatenate([batch.next_observations, actions], axis=1)
    following = twin_values(part(learner.learned, "target_critics"), inputs).min(axis=0)
    soft = following - jnp.exp(learner.log_alpha["log_alpha"]) * log_probs
    return batch.rewards + knobs["gamma"] * (1 - batch.terminated) * soft


def improved_critics(learner: Learner, batch: Batch, knobs: Knobs, key: jax.Array) -> tuple[Learner, Any]:
    """One step of both critics; (the learner, their values and losses)."""
    wanted = targets(learner, batch, knobs, key)

    def losses_of(critics: Arrays) -> tuple[jax.Array, Any]:
        values = twin_values(critics, batch.observations_and_actions)
        losses = ((values - wanted) ** 2).mean(axis=1)
        return losses.sum(), (values.mean(axis=1), losses)

    critics = part(learner.learned, "critics")
    gradients, told = jax.grad(losses_of, has_aux=True)(critics)
    critics, moments = descended(critics, gradients, learner.critic_moments, knobs["q_lr"])
    return learner._replace(learned=learner.learned | named("critics", critics), critic_moments=moments), told


def improved_actor(learner: Learner, observations: jax.Array, shape: Shape, knobs: Knobs, key: jax.Array) -> Learner:
    """One step of the actor, then of the temperature."""
    scale = {name: learner.learned[f"actor.{name}"] for name in RANGE}
    critics, alpha = part(learner.learned, "critics"), jnp.exp(learner.log_alpha["log_alpha"])

    def loss_of(actor: Arrays) -> tuple[jax.Array, jax.Array]:
        actions, log_probs = sample(actor, scale, observations, key)
        values = twin_values(critics, jnp.concatenate([observations, actions], axis=1)).min(axis=0)
        return (alpha * log_probs - values).mean(), log_probs.mean()

    actor = part(learner.learned, "actor", *RANGE)
    (loss, log_prob), gradients = jax.value_and_grad(loss_of, has_aux=True)(actor)
    actor, moments = descended(actor, gradients, learner.actor_moments, knobs["policy_lr"])
    learner = learner._replace(learned=learner.learned | named("actor", actor), actor_moments=moments, actor_loss=loss)
    if not shape.autotune:
        return learner
    # The loss is -alpha (log-probability + target entropy), whose gradient by log alpha is itself.
    gradient = -alpha * (log_prob - shape.action_size)
    log_alpha, moments = descended(learner.log_alpha, {"log_alpha": gradient}, learner.alpha_moments, knobs["q_lr"])
    return learner._replace(log_alpha=log_alpha, alpha_moments=moments, alpha_loss=gradient)


@cache
def program(shape: Shape) -> Any:
    """One update as a compiled function of (learner, rows of the replay memory, knobs)."""
    size, actions = shape.observation_size, shape.action_size

    def update(learner: Learner, rows: jax.Array, knobs: Knobs) -> Any:
        following = rows[:, size + actions : -2]
        batch = Batch(rows[:, :size], rows[:, : size + actions], following, rows[:, -2], rows[:, -1])
        key, for_critics, for_actor = jax.random.split(learner.key, 3)
        learner, told = improved_critics(learner, batch, knobs, for_critics)
        learner = learner._replace(updates=learner.updates + 1, key=key)

        def improve(learner: Learner) -> Learner:
            keys = jax.random.split(for_actor, shape.policy_frequency)
            step = lambda at, key: (improved_actor(at, batch.observations, shape, knobs, key), None)  # noqa: E731
            improved: Learner = jax.lax.scan(step, learner, keys)[0]
            return improved

        def follow(learner: Learner) -> Learner:
            targets, critics = part(learner.learned, "target_critics"), part(learner.learned, "critics")
            moved = {name: old + knobs["tau"] * (critics[name] - old) for name, old in targets.items()}
            return learner._replace(learned=learner.learned | named("target_critics", moved))

        stay = lambda learner: learner  # noqa: E731
        learner = jax.lax.cond(learner.updates % shape.policy_frequency == 0, improve, stay, learner)
        learner = jax.lax.cond(learner.updates % shape.target_network_frequency == 0, follow, stay, learner)
        return learner, told

    return jax.jit(update, donate_argnums=0)


def train(args: Args, envs: SyncVectorEnv, session: TrainingSession) -> None:
    space: Any = envs.single_action_space
    size, actions = observation_size(envs), math.prod(space.shape)
    update = program(Shape(size, actions, args.policy_frequency, args.target_network_frequency, args.autotune))
    carried = Carried(first_learner(args, size, space))
    replay = ContinuousReplayBuffer(args.buffer_size, size, actions)
    player = Player(envs, session, replay, CompiledSquashedGaussianActor(carried, LOG_STD_RANGE), args)

    state = TrainingState()
    state.arrays("", carried, "learned")
    state.attributes("learner", carried, "rest")
    state.attributes("player", player, *player.PARTS)
    if args.save_buffer:
        state.attributes("replay", replay, *replay.PARTS)
    state.envs("envs", envs, player.restart)
    verify = lambda: carried.require_finite("networks are", "--q-lr or --policy-lr")  # noqa: E731
    run = RunState(session, state, envs, args, player, verify=verify, buffer=replay)
    run.restore()

    knobs: Knobs = {name: np.float32(getattr(args, name)) for name in TRACED}
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
                carried.value, told = update(carried.value, replay.draw(args.batch_size, player.random), knobs)
            if player.global_step % LOG_EVERY < args.num_envs:
                verify()
                logged = figures(told, carried.value, args)
                session.scalars(player.global_step, logged | {"charts/SPS": run.steps_per_second})
        run.save_if_due()
    run.save_last()


def figures(told: Any, learner: Learner, args: Args) -> dict[str, float]:
    """What to log of an update."""
    (value_1, value_2), (loss_1, loss_2) = (np.asarray(pair).tolist() for pair in told)
    logged = {
        "losses/qf1_values": value_1,
        "losses/qf2_values": value_2,
        "losses/qf1_loss": loss_1,
        "losses/qf2_loss": loss_2,
        "losses/qf_loss": (loss_1 + loss_2) / 2,
        "losses/actor_loss": float(learner.actor_loss),
        "losses/alpha": math.exp(float(learner.log_alpha["log_alpha"])),
    }
    if args.autotune:
        logged["losses/alpha_loss"] = float(learner.alpha_loss)
    return logged


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    require_jax(ALGORITHM)
    check_ranges(
        args,
        counts=(
            *("total_timesteps", "num_envs", "buffer_size", "batch_size"),
            *("policy_frequency", "target_network_frequency", "xla_threads"),
        ),
        not_negative=("seed", "checkpoint_every", "checkpoint_keep", "learning_starts", "alpha"),
        positive=("policy_lr", "q_lr"),
        fractions=("gamma", "tau"),
    )
    require(
        args.num_envs <= args.buffer_size,
        f"--buffer-size must be at least num-envs ({args.num_envs}), got {args.buffer_size}.",
    )


def make_envs(args: Args) -> SyncVectorEnv:
    """JAX set up, and the environments, checked for what this algorithm can handle. Raises UsageError."""
    start(args.xla_threads, args.seed)
    return make_vector_envs(ALGORITHM, args, "bounded", others=DISCRETE_SCRIPTS)


def main() -> int:
    description = "Train with SAC on an environment with continuous actions, with compiled updates."
    return run_script(ALGORITHM, description, Args, check, make_envs, train, twin="sac_continuous_action")


if __name__ == "__main__":
    sys.exit(main())
