"""Value learning in compiled environments: steps, memory and updates are one program."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mosaic_worker.compiled import environment
from mosaic_worker.compiled.carried import Carried
from mosaic_worker.compiled.environment import CompiledEnvs, Rows
from mosaic_worker.compiled.networks import part
from mosaic_worker.compiled.value_learning import (
    LOG_EVERY,
    Q_NETWORK,
    Knobs,
    Learner,
    Told,
    Update,
    Values,
    batch_of,
    followed,
)
from mosaic_worker.compiled.xla import jax, jnp
from mosaic_worker.learning.environments import observation_size
from mosaic_worker.learning.schedules import exploration
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.session import TrainingSession

SPAN = 500
"""Steps of each environment in one call of a program: some 10 ms, which is what a pause waits for."""


class Memory(NamedTuple):
    """The newest transitions in a compiled program; a row is what `ReplayBuffer` makes one."""

    rows: jax.Array
    position: jax.Array
    filled: jax.Array


def span_program(envs: CompiledEnvs, values: Values, update: Update, batch_size: int) -> Any:
    """A compiled function of (learner, memory, number of steps made, of steps to make, knobs), which are steps of every
    environment, for as many as SPAN has left. It gives (learner, memory, what was seen and told at each step)."""
    count, actions = envs.num_envs, int(envs.single_action_space.n)

    def learn(memory: Memory, knobs: Knobs, _: Any, at: Any) -> Any:
        learner, _ = at
        key = jax.random.fold_in(jax.random.fold_in(learner.key, 1), learner.moments.steps)
        chosen = jax.random.randint(key, (batch_size,), 0, memory.filled)
        return update(learner, batch_of(memory.rows[chosen]), knobs)

    def step(drawn: Any, start: jax.Array, knobs: Knobs, number: Any, at: Any) -> Any:
        learner, memory, found = at
        before = (start + number) * count
        noise, random_actions, chances = (one[number] for one in drawn)
        rows: Rows = learner.rows
        greedy = values(part(learner.learned, Q_NETWORK), rows.observation, knobs).argmax(axis=1)
        played = jnp.where(noise < share_at(before, knobs), random_actions, greedy)
        after, seen = environment.step(envs.world, envs.time_limit, rows, played, chances)
        columns = played, seen.rewards, seen.terminated
        flat = jnp.stack([column.astype(jnp.float32) for column in columns], axis=1)
        memory = remembered(memory, jnp.concatenate([rows.observation, seen.following, flat], axis=1))
        learner = learner._replace(rows=after)

        now = before + count
        learns = (now > knobs["learning_starts"]) & (memory.filled >= knobs["rows_needed"])
        every = knobs["train_frequency"]
        due = jnp.where(learns, now // every - before // every, 0)
        nothing = jnp.float32(0), jnp.float32(0)
        learner, told = jax.lax.fori_loop(0, due, partial(learn, memory, knobs), (learner, nothing))
        every = knobs["target_network_frequency"]
        follows = learns & (now // every > before // every)
        learner = jax.lax.cond(follows, lambda one: followed(one, knobs["tau"]), lambda one: one, learner)
        fresh = (seen.terminated | seen.truncated, seen.returns, seen.lengths, due, *told)
        return learner, memory, tuple(old.at[number].set(new) for old, new in zip(found, fresh, strict=True))

    def play(learner: Learner, memory: Memory, made: Any, to_make: Any, knobs: Knobs) -> Any:
        block, first = made // SPAN, made % SPAN
        keys = jax.random.split(jax.random.fold_in(jax.random.fold_in(learner.key, 0), block), 3)
        drawn = (
            jax.random.uniform(keys[0], (SPAN, count)),
            jax.random.randint(keys[1], (SPAN, count), 0, actions),
            jax.random.uniform(keys[2], (SPAN, count, envs.world.CHANCES)),
        )
        whole, single = (SPAN, count), (SPAN,)
        of_envs = jnp.zeros(whole, bool), jnp.zeros(whole), jnp.zeros(whole, jnp.int32)
        of_updates = jnp.zeros(single, jnp.int32), jnp.zeros(single), jnp.zeros(single)
        found = (*of_envs, *of_updates)
        one = partial(step, drawn, block * SPAN, knobs)
        return jax.lax.fori_loop(first, first + to_make, one, (learner, memory, found))

    return jax.jit(play, donate_argnums=(0, 1))


def share_at(before: jax.Array, knobs: Knobs) -> jax.Array:
    """The share of random actions, as `exploration` has it."""
    duration, start, end = knobs["exploring"], knobs["start_e"], knobs["end_e"]
    return jnp.where(before >= duration, end, start + before / jnp.maximum(duration, 1) * (end - start))


def remembered(memory: Memory, fresh: jax.Array) -> Memory:
    """With these rows in place of the oldest."""
    capacity, count = len(memory.rows), len(fresh)
    if capacity % count == 0:  # they never reach over the end
        rows = jax.lax.dynamic_update_slice(memory.rows, fresh, (memory.position, 0))
    else:
        rows = memory.rows.at[(memory.position + jnp.arange(count)) % capacity].set(fresh)
    return Memory(rows, (memory.position + count) % capacity, jnp.minimum(memory.filled + count, capacity))


class CompiledPlayer:
    """Steps and updates in one program. `program` is what :func:`span_program` gives."""

    def __init__(
        self, envs: CompiledEnvs, session: TrainingSession, carried: Carried, program: Any, args: Any, knobs: Knobs
    ) -> None:
        self.envs, self.session, self.carried, self.program = envs, session, carried, program
        self.args, self.knobs = args, knobs
        self.global_step = 0
        self.capacity, self.saved = args.buffer_size, args.save_buffer
        width = 2 * observation_size(envs) + 3
        self.memory = self._memory(np.zeros((0, width), np.float32), 0)

    def keep_in(self, state: TrainingState) -> None:
        state.attributes("player", self, "global_step")
        state.attributes("buffer", self, "contents")

    def play(self, steps: int) -> Told:
        """Up to SPAN steps of each environment, none past `steps`; tells episodes, and yields what updates told."""
        count = self.envs.num_envs
        before, made = self.global_step, self.global_step // count
        first, left = made % SPAN, (steps - before) // count
        to_make = min(SPAN - first, left)
        numbers = np.int32(made), np.int32(to_make)
        self.carried.value, self.memory, found = self.program(self.carried.value, self.memory, *numbers, self.knobs)
        self.global_step += to_make * count
        ended, returns, lengths, due, losses, values = (np.asarray(one)[first : first + to_make] for one in found)
        starts = before + count * np.arange(to_make)
        logged = (due > 0) & ((starts + count) // LOG_EVERY > starts // LOG_EVERY)
        for step in np.flatnonzero(logged | ended.any(axis=1)):
            start = int(starts[step])
            for env in np.flatnonzero(ended[step]):
                told = {"charts/episodic_return": returns[step, env], "charts/episodic_length": lengths[step, env]}
                self.session.scalars(start + count, told | {"charts/epsilon": exploration(self.args, start)})
            if logged[step]:
                yield start + count, (float(losses[step]), float(values[step]))

    def _memory(self, kept: Any, position: int) -> Memory:
        rows = jnp.zeros((self.capacity, kept.shape[1]), jnp.float32).at[: len(kept)].set(np.asarray(kept))
        return Memory(rows, jnp.int32(position), jnp.int32(len(kept)))

    @property
    def contents(self) -> dict[str, Any]:
        """What a checkpoint keeps; no rows unless they are to be saved."""
        filled = int(self.memory.filled) if self.saved else 0
        position = int(self.memory.position) if filled else 0
        return {"capacity": self.capacity, "position": position, "rows": np.array(self.memory.rows[:filled])}

    @contents.setter
    def contents(self, kept: dict[str, Any]) -> None:
        if kept["capacity"] != self.capacity:
            sizes = f"{kept['capacity']:,} transitions, this run's for {self.capacity:,}"
            raise ValueError(f"its replay buffer has room for {sizes}; leave --buffer-size as it was")
        self.memory = self._memory(kept["rows"], kept["position"])

    def told(self, step: int) -> str:
        """What is said beside a checkpoint that holds the memory."""
        filled = int(self.memory.filled)
        megabytes = filled * self.memory.rows.shape[1] * 4 / 1e6
        return (
            f"The checkpoint at step {step:,} includes the replay buffer: {filled:,} transitions, {megabytes:.1f} MB."
        )
