"""Deep Q-learning for discrete actions (Mnih et al., 2015), compiled.

    python cleanrl_worker/cleanrl/dqn_jax.py --env-id CartPole-v1 --total-timesteps 100000

The twin of ``dqn.py``: same flags, same tags, and checkpoints with the same tensors, which act through either. Where
the environment exists in JAX (`mosaic_worker.compiled`), steps, memory and updates are one program, and Python is
asked once in 500 steps; any other one is stepped by Gymnasium, and updates alone are compiled. The first run of a shape
is compiled, which takes some seconds; it is kept.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from mosaic_worker.compiled.adam import descended
from mosaic_worker.compiled.carried import Carried
from mosaic_worker.compiled.environment import CompiledEnvs
from mosaic_worker.compiled.names import DISCRETE, require_jax
from mosaic_worker.compiled.networks import Arrays, named, part
from mosaic_worker.compiled.value_learning import (
    Q_NETWORK,
    TARGET,
    Batch,
    Knobs,
    Learner,
    batch_of,
    first_learner,
    relu_network,
    schedule,
)
from mosaic_worker.compiled.value_spans import CompiledPlayer, span_program
from mosaic_worker.compiled.xla import jax, jnp, start
from mosaic_worker.learning.argument_checks import check_exploration, check_no_upload, check_ranges, require
from mosaic_worker.learning.environments import Environments, make_single_envs
from mosaic_worker.learning.run_state import RunState
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.session import TrainingSession

ALGORITHM = "dqn_jax"


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
    """Record short videos of the first environment, which is Gymnasium's then."""
    save_model: bool = False
    """Understood for CleanRL's sake; the last checkpoint always holds the network."""
    upload_model: bool = False
    """Send the network to the Hugging Face Hub (not available in this version)."""
    hf_entity: str = ""
    """User or organisation that an uploaded network would belong to."""

    env_id: str = "CartPole-v1"
    """Gymnasium id of an environment with discrete actions, whose observations are numbers or can be counted."""
    total_timesteps: int = 500_000
    """Environment steps in all, rounded up so that each environment makes the same number."""
    learning_rate: float = 2.5e-4
    """Step size of Adam."""
    num_envs: int = 1
    """How many environments are stepped side by side; all other flags still count single steps."""
    buffer_size: int = 10_000
    """Transitions that the replay buffer holds."""
    gamma: float = 0.99
    """Discount: what a reward is still worth one step later."""
    tau: float = 1.0
    """How much of the network the target network takes over at each of its updates; 1 copies it."""
    target_network_frequency: int = 500
    """Environment steps between updates of the target network."""
    batch_size: int = 128
    """Transitions drawn from the buffer for each gradient step."""
    start_e: float = 1.0
    """Share of random actions at the start."""
    end_e: float = 0.05
    """Share of random actions once exploration has been lowered."""
    exploration_fraction: float = 0.5
    """Part of the run over which the share of random actions falls from start-e to end-e."""
    learning_starts: int = 10_000
    """Environment steps that only fill the buffer, before the first gradient step."""
    train_frequency: int = 10
    """Environment steps between gradient steps."""

    xla_threads: int = 1
    """CPU threads for JAX; more than one slows networks this small down."""
    compiled_envs: bool = True
    """Have the environment compiled too where it can be; without, it is Gymnasium's, which can be watched."""
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

    env_id: str
    num_envs: int
    batch_size: int


def values_of(layers: Arrays, observations: jax.Array, _: Knobs) -> jax.Array:
    """The value of each action."""
    return relu_network(layers, observations)


def targets(target_network: Arrays, batch: Batch, knobs: Knobs) -> jax.Array:
    """What the network should have said of the chosen actions; a terminated episode has no future."""
    best = relu_network(target_network, batch.next_observations).max(axis=1)
    return batch.rewards + knobs["gamma"] * (1 - batch.terminated) * best


def loss_of(q_network: Arrays, batch: Batch, wanted: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(mean squared error, mean value) of the chosen actions."""
    values = relu_network(q_network, batch.observations)
    chosen = jnp.take_along_axis(values, batch.actions[:, None], axis=1)[:, 0]
    return ((chosen - wanted) ** 2).mean(), chosen.mean()


def update(learner: Learner, batch: Batch, knobs: Knobs) -> Any:
    """One gradient step; (the learner, (loss, mean value))."""
    q_network, wanted = part(learner.learned, Q_NETWORK), targets(part(learner.learned, TARGET), batch, knobs)
    told, gradients = jax.value_and_grad(loss_of, has_aux=True)(q_network, batch, wanted)
    before, slopes = named(Q_NETWORK, q_network), named(Q_NETWORK, gradients)
    after, moments = descended(before, slopes, learner.moments, knobs["learning_rate"])
    return learner._replace(learned=learner.learned | after, moments=moments), told


@cache
def span(shape: Shape) -> Any:
    """Steps of compiled environments and their updates as one compiled function."""
    return span_program(CompiledEnvs(shape.env_id, shape.num_envs), values_of, update, shape.batch_size)


@cache
def single() -> Any:
    """One update as a compiled function of (learner, rows of the replay memory, knobs)."""
    return jax.jit(lambda learner, rows, knobs: update(learner, batch_of(rows), knobs), donate_argnums=0)


def player_of(args: Args, envs: CompiledEnvs | Environments, session: TrainingSession, carried: Carried) -> Any:
    """Who steps the environments and learns."""
    knobs = schedule(args, steps_of(args), args.tau)
    if isinstance(envs, CompiledEnvs):
        program = span(Shape(args.env_id, args.num_envs, args.batch_size))
        return CompiledPlayer(envs, session, carried, program, args, knobs)
    from mosaic_worker.compiled.value_steps import SteppedPlayer, greedy  # with PyTorch, which takes a second to import

    return SteppedPlayer(envs, session, carried, single(), greedy, args, knobs)


@np.errstate(over="ignore", invalid="ignore")  # a network that is lost is reported by require_finite
def train(args: Args, envs: CompiledEnvs | Environments, session: TrainingSession) -> None:
    actions: Any = envs.single_action_space
    carried = Carried(first_learner(args.seed, envs, int(actions.n)))
    player = player_of(args, envs, session, carried)
    state = TrainingState()
    state.arrays("", carried, "learned")
    state.attributes("learner", carried, "rest")
    player.keep_in(state)
    verify = lambda: carried.require_finite("network is", "--learning-rate")  # noqa: E731
    run = RunState(
        session, state, envs, args, player, verify=verify, buffer=player, fixed=("num_envs", "compiled_envs")
    )
    run.restore()

    steps = steps_of(args)
    session.record(envs)
    session.begin(steps)
    while player.global_step < steps:
        session.safe_point(player.global_step)
        if session.stop_requested:
            break
        for step, (loss, value) in player.play(steps):
            verify()
            logged = {"losses/td_loss": loss, "losses/q_values": value}
            session.scalars(step, logged | {"charts/SPS": run.steps_per_second})
        run.save_if_due()
    run.save_last()


def steps_of(args: Args) -> int:
    """Environment steps in all."""
    return math.ceil(args.total_timesteps / args.num_envs) * args.num_envs


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    require_jax(ALGORITHM)
    check_ranges(
        args,
        counts=(
            "total_timesteps",
            "num_envs",
            "buffer_size",
            "target_network_frequency",
            "batch_size",
            "train_frequency",
            "xla_threads",
        ),
        not_negative=("seed", "learning_starts", "checkpoint_every", "checkpoint_keep"),
        positive=("learning_rate",),
        fractions=("gamma", "tau", "start_e", "end_e", "exploration_fraction"),
    )
    require(args.total_timesteps < 2**31, "--total-timesteps must be less than 2,147,483,648: a program counts so far.")
    require(
        args.num_envs <= args.buffer_size,
        f"--buffer-size must be at least num-envs ({args.num_envs}), got {args.buffer_size}.",
    )
    check_exploration(args)
    check_no_upload(args)


def make_envs(args: Args) -> CompiledEnvs | Environments:
    """JAX set up, and the environments, compiled where they can be. Raises UsageError."""
    start(args.xla_threads, args.seed)
    if args.compiled_envs and not args.capture_video and args.env_id in DISCRETE:
        return CompiledEnvs(args.env_id, args.num_envs)
    return make_single_envs(ALGORITHM, args)


def main() -> int:
    description = "Train with DQN on an environment with discrete actions, compiled."
    return run_script(ALGORITHM, description, Args, check, make_envs, train, twin="dqn")


if __name__ == "__main__":
    sys.exit(main())
