"""What a script offers so that what it learned can be put to use again.

Each script, or the module ``policies`` of a worker without scripts, has two functions at its top level::

    def load_policy(checkpoint: Checkpoint, args: Args) -> Policy
    def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env

The environment shows observations as training did and gives true rewards: no clipping, no episodes of one life, no
normalisation. Statistics that observations were normalised with are part of the policy, and stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mosaic_worker.state.checkpoints import Checkpoint, CheckpointError
from mosaic_worker.state.training_state import misfits, parameters_of, put_into

if TYPE_CHECKING:
    import torch


class Policy(Protocol):
    """Chooses actions. Belongs to one thread."""

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[Any]:
        """A batch of observations (batch, *shape) to a batch of actions as the environment's step takes them.

        Deterministic: the most likely action, the mean, or the one of highest value. Otherwise drawn as in training,
        with `random` as the only source of chance.
        """


class Appraiser(Protocol):
    """What a policy may offer besides: its opinion, which recordings keep with each step and live sessions show."""

    def appraise(self, observations: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
        """For a batch of observations what it expects: ``value`` (batch,), the return from here on; of actions that are
        counted ``probabilities`` or ``action_values`` (batch, actions); and what else it has to say."""


class Remembering(Protocol):
    """What a policy offers besides that acts by what happened before in its episode, asked about one observation at a
    time. A process that answers questions begins an episode with each question that has a seed, and has no rewards."""

    def begin_episode(self) -> None:
        """Forget: the next observation is the first of an episode."""

    def rewarded(self, reward: float) -> None:
        """What the last action brought."""


class Spending(Protocol):
    """What a policy offers besides whose actions cost more than time."""

    def spent(self) -> Mapping[str, float]:
        """Since the episode began: ``tokens``, ``calls`` and ``money`` (in US dollars), as far as it knows them. Asked
        once, at the end of an episode of a contest. It may also correct ``seconds`` and ``cpu_seconds``: answers that
        came from a cache took what they took when they were made."""


class Interruptible(Protocol):
    """What a policy offers besides that may take long over one action, such as one that asks a server."""

    def attend(self, stop: Callable[[], bool]) -> None:
        """Called once before episodes are played. :meth:`Policy.act` looks at ``stop`` now and then, and raises
        :class:`GivenUpError` soon after it says so."""


class GivenUpError(Exception):
    """An action was not chosen, because nobody waits for it any more."""


def begin_episode(policy: Policy) -> None:
    """Tell a policy that remembers (:class:`Remembering`) that one begins."""
    if (begin := getattr(policy, "begin_episode", None)) is not None:
        begin()


def fill(module: torch.nn.Module, name: str, checkpoint: Checkpoint) -> None:
    """Give a network the parameters and buffers that a checkpoint keeps under `name`. Raises CheckpointError."""
    learned = parameters_of(name, module)
    if problems := misfits(learned, checkpoint.tensors):
        raise CheckpointError(f"{checkpoint.path} does not fit {checkpoint.manifest.algo}: {'; '.join(problems[:6])}.")
    put_into(learned, checkpoint.tensors)


def flat_rows(observations: NDArray[Any]) -> NDArray[np.float32]:
    """Observations as the rows that a network without convolutions takes."""
    return np.asarray(observations, dtype=np.float32).reshape(len(observations), -1)


def now_and_then_at_random(
    best: NDArray[np.int64], epsilon: float, action_count: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Each action with probability `epsilon` replaced by any other or the same."""
    drawn = random.integers(action_count, size=len(best))
    return np.where(random.random(len(best)) < epsilon, drawn, best)
