"""When a run is saved, and where it goes on."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from mosaic_worker.state.checkpoints import describe_space
from mosaic_worker.state.tensor_kinds import Tensors
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.session import TrainingSession


def spaces_of(envs: Any) -> tuple[Any, Any]:
    """Observation and action space of one environment, of several that are stepped together, or of itself."""
    if hasattr(envs, "single_observation_space"):
        return envs.single_observation_space, envs.single_action_space
    return envs.observation_space, envs.action_space


class Counter(Protocol):
    """Whatever counts the environment steps of a run."""

    @property
    def global_step(self) -> int: ...


class Buffer(Protocol):
    """A part of the state that is large enough to be reported."""

    def told(self, step: int) -> str: ...


class RunState:
    """A training state with the session that it is read from and written to.

    `verify` raises when the run should not be saved. A `buffer`'s size is printed with each checkpoint that holds it.
    `fixed` names arguments that a resumed run must leave as they were.
    """

    def __init__(
        self,
        session: TrainingSession,
        state: TrainingState,
        envs: Any,
        args: Any,
        counter: Counter,
        *,
        verify: Callable[[], None] = lambda: None,
        buffer: Buffer | None = None,
        fixed: Collection[str] = (),
    ) -> None:
        self.session, self.state, self.args, self.counter = session, state, args, counter
        self.verify, self.buffer = verify, buffer if buffer is not None and args.save_buffer else None
        self.fixed = fixed
        observation, action = spaces_of(envs)
        self.spaces = {"observation": describe_space(observation), "action": describe_space(action)}
        self._marked: tuple[int, tuple[Tensors, dict[str, Any]]] | None = None

    def mark(self) -> None:
        """Have checkpoints hold the run as it is now: for a run that cannot go on from wherever a stop may fall."""
        self._marked = self.counter.global_step, self.state.capture()

    def restore(self, take_up: Callable[[], None] | None = None) -> None:
        """Go on from the checkpoint that the arguments name, if any. Raises UsageError when it does not fit.

        `take_up` is called after a resume, for what a checkpoint could not hold.
        """
        self.session.restore(self.state, self.args.resume, self.args.warm_start, self.fixed)
        if self.args.resume and take_up is not None:
            take_up()
            self.session.go_on_at(self.counter.global_step)

    def save(self, *, required: bool) -> None:
        self.verify()
        step, captured = self._marked or (self.counter.global_step, self.state.capture())
        self.session.save_checkpoint(step, *captured, self.spaces, required=required)
        if self.buffer is not None:
            print(self.buffer.told(step), flush=True)

    def save_if_due(self) -> None:
        """Save when the interval is over or a checkpoint was asked for."""
        if self.session.is_checkpoint_due(self.counter.global_step):
            self.save(required=False)

    def save_last(self) -> None:
        """Save what no checkpoint on the disk holds yet; a run that did nothing is saved, too."""
        step = self._marked[0] if self._marked else self.counter.global_step
        if not self.session.has_saved(step):
            self.save(required=True)

    @property
    def steps_per_second(self) -> float:
        """Since the run began or was resumed, pauses left out."""
        return self.session.steps_per_second(self.counter.global_step)
