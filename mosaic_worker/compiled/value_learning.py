"""What DQN and its kin share in JAX: networks, what goes from one update to the next, and what happens when.

A script brings its network and one update; a player steps the environments. Where the environment is compiled, hundreds
of steps with their updates are one program (:mod:`.value_spans`, which needs no PyTorch); elsewhere Gymnasium's
environments and the memory stay in numpy, and an update is one (:mod:`.value_steps`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mosaic_worker.compiled import environment
from mosaic_worker.compiled.adam import Moments, no_moments
from mosaic_worker.compiled.environment import CompiledEnvs, Rows
from mosaic_worker.compiled.networks import Arrays, linear, part, uniform_layers
from mosaic_worker.compiled.xla import jax, jnp
from mosaic_worker.learning.environments import Environments, observation_size

LOG_EVERY = 100  # environment steps
Q_NETWORK, TARGET = "q_network.network", "target_network.network"
LAYERS = "0", "2", "4"

Knobs: TypeAlias = dict[str, Any]
Values: TypeAlias = Callable[[Arrays, jax.Array, Knobs], jax.Array]
"""(layers, observations, knobs) to the value of each action."""


class Learner(NamedTuple):
    """What goes from one update to the next."""

    learned: Arrays
    """By the names of the twin: q_network and target_network."""
    moments: Moments
    key: jax.Array
    """Stays as it is: what is drawn follows from it and from the number of the step or update, so that a run can be
    cut anywhere."""
    rows: Rows | None
    """Where compiled environments stand."""


class Batch(NamedTuple):
    """Transitions, one a row."""

    observations: jax.Array
    next_observations: jax.Array
    actions: jax.Array
    rewards: jax.Array
    terminated: jax.Array


Update: TypeAlias = Callable[[Learner, Batch, Knobs], tuple[Learner, tuple[jax.Array, jax.Array]]]
"""One gradient step; (the learner, (loss, mean value of the chosen actions))."""
Told: TypeAlias = Iterator[tuple[int, tuple[float, float]]]
"""(environment step, what an update there told)"""


def batch_of(rows: jax.Array) -> Batch:
    size = (rows.shape[1] - 3) // 2
    return Batch(rows[:, :size], rows[:, size:-3], rows[:, -3].astype(jnp.int32), rows[:, -2], rows[:, -1])


def first_learner(seed: int, envs: CompiledEnvs | Environments, outputs: int) -> Learner:
    """Two hidden layers of 120 and 84 rectified units, a target network that begins as another one, as the twin's does,
    and compiled environments at their start."""
    random = np.random.default_rng(seed)
    sizes = {"0": (observation_size(envs), 120), "2": (120, 84), "4": (84, outputs)}
    learned = {
        f"{network}.{name}": value
        for network in (Q_NETWORK, TARGET)
        for name, value in uniform_layers(random, **sizes).items()
    }
    moments = no_moments({name: value for name, value in learned.items() if name.startswith(Q_NETWORK)})
    key = jax.device_put(np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32))
    rows = None
    if isinstance(envs, CompiledEnvs):
        chances = random.random((envs.num_envs, envs.world.CHANCES), dtype=np.float32)
        rows = jax.jit(partial(environment.begin, envs.world))(chances)
    return Learner(jax.device_put(learned), moments, key, rows)


def relu_network(layers: Arrays, rows: jax.Array) -> jax.Array:
    """``nn.Sequential(Linear, ReLU, Linear, ReLU, Linear)``."""
    for name in LAYERS[:-1]:
        rows = jax.nn.relu(linear(layers, name, rows))
    return linear(layers, LAYERS[-1], rows)


def followed(learner: Learner, share: jax.Array) -> Learner:
    """With a target network that went this share of the way to the network."""
    network, target = part(learner.learned, Q_NETWORK), part(learner.learned, TARGET)
    moved = {f"{TARGET}.{name}": old + share * (network[name] - old) for name, old in target.items()}
    return learner._replace(learned=learner.learned | moved)


def schedule(args: Any, steps: int, tau: float) -> Knobs:
    """Numbers that a program is given: rates, and what happens at which step. Another value needs no other program."""
    if args.learning_starts >= steps:
        print(f"Nothing will be learned: --learning-starts is {args.learning_starts:,}, the run ends before.")
    floats = {
        "learning_rate": args.learning_rate,
        "gamma": args.gamma,
        "tau": tau,
        "start_e": args.start_e,
        "end_e": args.end_e,
        "exploring": args.exploration_fraction * args.total_timesteps,
    }
    counts = {
        "learning_starts": args.learning_starts,
        "rows_needed": min(args.learning_starts, args.buffer_size),  # counts after a resume without the buffer
        "train_frequency": args.train_frequency,
        "target_network_frequency": args.target_network_frequency,
    }
    found: Knobs = {name: np.float32(value) for name, value in floats.items()}
    return found | {name: np.int32(min(value, 2**31 - 1)) for name, value in counts.items()}
