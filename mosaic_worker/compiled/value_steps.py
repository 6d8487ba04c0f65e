"""Value learning in environments of Gymnasium's: steps and memory in numpy, compiled updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mosaic_worker.compiled.carried import Carried
from mosaic_worker.compiled.networks import part
from mosaic_worker.compiled.value_learning import LAYERS, LOG_EVERY, Q_NETWORK, Knobs, Learner, Told, followed
from mosaic_worker.compiled.xla import jax
from mosaic_worker.learning.environments import Environments, observation_size
from mosaic_worker.learning.epsilon_greedy import Choice, EpsilonGreedyCollector, means_over
from mosaic_worker.learning.fast_acting import Layers, Rows, two_hidden_relu
from mosaic_worker.learning.replay_buffer import ReplayBuffer
from mosaic_worker.learning.schedules import exploration, multiples_passed
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.session import TrainingSession


class SteppedPlayer:
    """Steps environments in numpy; `update` is an :data:`Update` of rows, compiled. `best_of` makes a choice of the
    network's layers."""

    def __init__(
        self,
        envs: Environments,
        session: TrainingSession,
        carried: Carried,
        update: Any,
        best_of: Callable[[Layers], Choice],
        args: Any,
        knobs: Knobs,
    ) -> None:
        self.envs, self.carried, self.update, self.best_of = envs, carried, update, best_of
        self.args, self.knobs = args, knobs
        self.buffer = ReplayBuffer(args.buffer_size, observation_size(envs), args.save_buffer)
        self.collector = EpsilonGreedyCollector(envs, session, self.buffer, args.seed)
        self._best: Choice | None = None

    def keep_in(self, state: TrainingState) -> None:
        state.attributes("collector", self.collector, *self.collector.PARTS)
        state.attributes("buffer", self.buffer, "contents")
        state.envs("envs", self.envs, self.collector.restart)

    @property
    def global_step(self) -> int:
        return self.collector.global_step

    def told(self, step: int) -> str:
        """What is said beside a checkpoint that holds the memory."""
        return self.buffer.told(step)

    def play(self, steps: int) -> Told:
        """One step of every environment, and the updates that are due then."""
        args, buffer, before = self.args, self.buffer, self.global_step
        if self._best is None:
            self._best = self.best_of(layers_of(self.carried.value))
        self.collector.step(self._best, exploration(args, before))
        now = self.global_step
        if now <= args.learning_starts or buffer.filled < self.knobs["rows_needed"]:
            return
        for _ in range(due := multiples_passed(args.train_frequency, before, now)):
            rows = buffer.draw(args.batch_size, self.collector.random)
            self.carried.value, told = self.update(self.carried.value, rows, self.knobs)
        if due and multiples_passed(LOG_EVERY, before, now):
            yield now, (float(told[0]), float(told[1]))
        if follows := multiples_passed(args.target_network_frequency, before, now):
            self.carried.value = _follow(self.carried.value, self.knobs["tau"])
        if due or follows:
            self._best = None  # the memory that its layers lie in was given away


_follow = jax.jit(followed, donate_argnums=0)


def layers_of(learner: Learner) -> Layers:
    """(transposed weight, bias) of each layer of the network, in numpy."""
    layers = part(learner.learned, Q_NETWORK)
    return [(np.asarray(layers[f"{name}.weight"]).T, np.asarray(layers[f"{name}.bias"])) for name in LAYERS]


def greedy(layers: Layers) -> Choice:
    """The action of highest value."""
    values = two_hidden_relu(layers)
    return lambda rows: values(rows).argmax(axis=1)


def greedy_in_mean(atoms: Rows) -> Callable[[Layers], Choice]:
    """The action whose distribution over the atoms has the highest mean."""

    def best_of(layers: Layers) -> Choice:
        means = means_over(two_hidden_relu(layers), atoms)
        return lambda rows: means(rows).argmax(axis=1)

    return best_of
