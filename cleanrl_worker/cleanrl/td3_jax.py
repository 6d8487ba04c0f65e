"""Twin Delayed Deep Deterministic policy gradient (TD3, Fujimoto et al., 2018), whose updates are compiled.

    python cleanrl_worker/cleanrl/td3_jax.py --env-id Pendulum-v1 --total-timesteps 20000 --learning-starts 1000

The twin of ``td3_continuous_action.py``: same flags, same tags, any environment of Gymnasium's, and checkpoints with
the same tensors, which act through either. One update of critics, actor and target networks is one program;
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

from mosaic_worker.compiled.acting import CompiledTanhActor
from mosaic_worker.compiled.adam import Moments, descended, no_moments
from mosaic_worker.compiled.carried import Carried
from mosaic_worker.compiled.names import require_jax
from mosaic_worker.compiled.networks import (
    Arrays,
    first_value,
    linear,
    named,
    part,
    relu_hidden,
    twin_critics,
    twin_values,
    uniform_layers,
)
from mosaic_worker.compiled.xla import jax, jnp, start
from mosaic_worker.learning.argument_checks import check_no_upload, check_ranges, require
from mosaic_worker.learning.continuous_acting import Player, steps_before_learning
from mosaic_worker.learning.environments import DISCRETE_SCRIPTS, make_vector_envs, observation_size
from mosaic_worker.learning.replay_buffer import ContinuousReplayBuffer
from mosaic_worker.learning.run_state import RunState
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.session import TrainingSession

ALGORITHM = "td3_jax"
HIDDEN = 256
LOG_EVERY = 100
TRACED = ("gamma", "tau", "learning_rate", "policy_noise", "noise_clip")
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


class Learner(NamedTuple):
    """What goes from one update to the next."""

    learned: Arrays
    """By the names of the twin: actor, critics, target_actor, target_critics."""
    actor_moments: Moments
    critic_moments: Moments
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
    """An actor and two critics with two hidden layers of 256 ReLU units each, and the networks that follow them.

    As with the twin, what follows the actor begins as a copy of it.
    """
    random = np.random.default_rng(args.seed)
    low, high = actions.low.reshape(-1).astype(np.float32), actions.high.reshape(-1).astype(np.float32)
    sizes = {"fc1": (observation_size, HIDDEN), "fc2": (HIDDEN, HIDDEN), "fc_mu": (HIDDEN, len(low))}
    actor, critics = uniform_layers(random, **sizes), twin_critics(random, observation_size + len(low), HIDDEN)
    ranged = {**actor, "action_scale": (high - low) / 2, "action_bias": (high + low) / 2}
    learned = named("actor", ranged) | named("critics", critics)
    learned |= {f"target_{name}": values.copy() for name, values in learned.items()}
    key = np.array([args.seed >> 32, args.seed & 0xFFFFFFFF], np.uint32)
    moments = no_moments(actor), no_moments(critics)
    return Learner(*jax.device_put((learned, *moments, np.float32(0), np.int32(0), key)))


def acted(actor: Arrays, scale: Arrays, observations: jax.Array) -> jax.Array:
    """Tanh stretched to the action range."""
    unit = jnp.tanh(linear(actor, "fc_mu", relu_hidden(actor, observations)))
    return scale["action_bias"] + unit * scale["action_scale"]


def targets(learned: Arrays, batch: Batch, knobs: Knobs, key: jax.Array) -> jax.Array:
    """What both critics should have said: reward and the discounted lesser value of a smoothed next action."""
    actor = part(learned, "target_actor")
    actions = acted(actor, actor, batch.next_observations)
    drawn = jax.random.normal(key, actions.shape) * knobs["policy_noise"]
    noise = jnp.clip(drawn, -knobs["noise_clip"], knobs["noise_clip"]) * actor["action_scale"]
    low, high = actor["action_bias"] - actor["action_scale"], actor["action_bias"] + actor["action_scale"]
    inputs = jnp.concatenate([batch.next_observations, jnp.clip(actions + noise, low, high)], axis=1)
    following = twin_values(part(learned, "target_critics"), inputs).min(axis=0)
    return batch.rewards + knobs["gamma"] * (1 - batch.terminated) * following


def improved_critics(learner: Learner, batch: Batch, knobs: Knobs, key: jax.Array) -> tuple[Learner, Any]:
    """One step of both critics; (the learner, their values and losses)."""
    wanted = targets(learner.learned, batch, knobs, key)

    def losses_of(critics: Arrays) -> tuple[jax.Array, Any]:
        values = twin_values(critics, batch.observations_and_actions)
        losses = ((values - wanted) ** 2).mean(axis=1)
        return losses.sum(), (values.mean(axis=1), losses)

    critics = part(learner.learned, "critics")
    gradients, told = jax.grad(losses_of, has_aux=True)(critics)
    critics, moments = descended(critics, gradients, learner.critic_moments, knobs["learning_rate"])
    return learner._replace(learned=learner.learned | named("critics", critics), critic_moments=moments), told


def improved_actor(learner: Learner, observations: jax.Array, knobs: Knobs) -> Learner:
    """One step of the actor, and a part of the way of both target networks."""
    learned = learner.learned
    scale = {name: learned[f"actor.{name}"] for name in RANGE}
    critics = part(learned, "critics")

    def loss_of(actor: Arrays) -> jax.Array:
        """Less for actions that the first critic values more."""
        inputs = jnp.concatenate([observations, acted(actor, scale, observations)], axis=1)
        return -first_value(critics, inputs).mean()

    actor = part(learned, "actor", *RANGE)
    loss, gradients = jax.value_and_grad(loss_of)(actor)
    actor, moments = descended(actor, gradients, learner.actor_moments, knobs["learning_rate"])
    followed = named("target_actor", actor) | named("target_critics", critics)
    moved = {name: learned[name] + knobs["tau"] * (one - learned[name]) for name, one in followed.items()}
    learned = learned | named("actor", actor) | moved
    return learner._replace(learned=learned, actor_moments=moments, actor_loss=loss)


@cache
def program(shape: Shape) -> Any:
    """One update as a compiled function of (learner, rows of the replay memory, knobs)."""
    size, actions = shape.observation_size, shape.action_size

    def update(learner: Learner, rows: jax.Array, knobs: Knobs) -> Any:
        following = rows[:, size + actions : -2]
        batch = Batch(rows[:, :size], rows[:, : size + actions], following, rows[:, -2], rows[:, -1])
        key, for_critics = jax.random.split(learner.key)
        learner, told = improved_critics(learner, batch, knobs, for_critics)
        learner = learner._replace(updates=learner.updates + 1, key=key)
        is_due = learner.updates % shape.policy_frequency == 0
        improve = lambda learner: improved_actor(learner, batch.observations, knobs)  # noqa: E731
        return jax.lax.cond(is_due, improve, lambda learner: learner, learner), told

    return jax.jit(update, donate_argnums=0)


def train(args: Args, envs: SyncVectorEnv, session: TrainingSession) -> None:
    space: Any = envs.single_action_space
    size, actions = observation_size(envs), math.prod(space.shape)
    update = program(Shape(size, actions, args.policy_frequency))
    carried = Carried(first_learner(args, size, space))
    replay = ContinuousReplayBuffer(args.buffer_size, size, actions)
    player = Player(envs, session, replay, CompiledTanhActor(carried, args.exploration_noise), args)

    state = TrainingState()
    state.arrays("", carried, "learned")
    state.attributes("learner", carried, "rest")
    state.attributes("player", player, *player.PARTS)
    if args.save_buffer:
        state.attributes("replay", replay, *replay.PARTS)
    state.envs("envs", envs, player.restart)
    verify = lambda: carried.require_finite("networks are", "--learning-rate")  # noqa: E731
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
                logged = figures(told, carried.value)
                session.scalars(player.global_step, logged | {"charts/SPS": run.steps_per_second})
        run.save_if_due()
    run.save_last()


def figures(told: Any, learner: Learner) -> dict[str, float]:
    """What to log of an update."""
    (value_1, value_2), (loss_1, loss_2) = (np.asarray(pair).tolist() for pair in told)
    return {
        "losses/qf1_values": value_1,
        "losses/qf2_values": value_2,
        "losses/qf1_loss": loss_1,
        "losses/qf2_loss": loss_2,
        "losses/qf_loss": (loss_1 + loss_2) / 2,
        "losses/actor_loss": float(learner.actor_loss),
    }


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    require_jax(ALGORITHM)
    check_ranges(
        args,
        counts=("total_timesteps", "num_envs", "buffer_size", "batch_size", "policy_frequency", "xla_threads"),
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


def make_envs(args: Args) -> SyncVectorEnv:
    """JAX set up, and the environments, checked for what this algorithm can handle. Raises UsageError."""
    start(args.xla_threads, args.seed)
    return make_vector_envs(ALGORITHM, args, "bounded", others=DISCRETE_SCRIPTS)


def main() -> int:
    description = "Train with TD3 on an environment with continuous actions, with compiled updates."
    return run_script(ALGORITHM, description, Args, check, make_envs, train, twin="td3_continuous_action")


if __name__ == "__main__":
    sys.exit(main())
