"""Recorded steps as rows of numbers that a table can be learned from.

Undone steps are not among them: an episode is the line that was played to its end. Missing steps leave out their
episode, not the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from mosaic_protocol.events import StepChunk
from mosaic_protocol.steps.columns import join
from mosaic_protocol.steps.recorded_episodes import FormError, Leaves, RecordedEpisode
from mosaic_protocol.suggest import did_you_mean
from mosaic_worker.errors import UsageError
from spade_bdi_rl_worker.learning.environments import WholeNumbers
from spade_bdi_rl_worker.learning.offline import Experience
from spade_bdi_rl_worker.learning.worlds import SteppedWorld, TableWorld

_AT_ONCE = 100_000
"""Rows that are gathered before equal ones become one."""


class ExperienceReader:
    """Gathers the steps of one recording, in the numbers of a world. Raises UsageError for what is of no use there."""

    def __init__(self, env: gym.Env[Any, Any], world: TableWorld | SteppedWorld, name: str, actor: str) -> None:
        self._env, self._world, self._name, self._actor = env, world, name, actor
        space: Any = env.action_space
        self._first_action = int(space.start)
        self._rows: list[NDArray[np.float64]] = []
        self._counts: list[NDArray[np.int64]] = []
        self._waiting = 0
        self._steps = self._left_out = 0
        self.episodes = 0
        """That something was learned from."""
        self._actors: Counter[str] = Counter()

    def counting(self, records: Iterable[StepChunk]) -> Iterator[StepChunk]:
        for record in records:
            self._steps += record.count
            yield record

    def take(self, episode: RecordedEpisode) -> None:
        if not len(episode):  # all of it was undone
            return
        if episode.has_hole:  # what is missing may have undone what is there
            self._left_out += 1
            return
        rows = self._rows_of(episode)
        self._actors.update(episode.actors)
        if self._actor:
            rows = rows[np.array([one == self._actor for one in episode.actors], np.bool_)]
        rows = rows[~np.isnan(rows[:, 3])]
        if not len(rows):
            return
        self.episodes += 1
        self._rows.append(rows)
        self._counts.append(np.ones(len(rows), np.int64))
        self._waiting += len(rows)
        if self._waiting > _AT_ONCE:
            self._gather()

    def experience(self, promised: int | None) -> Experience:
        """What was gathered. ``promised``: how many steps the recording is to hold, where that is known."""
        if promised is not None and self._steps < promised:
            self._refuse(f"it holds {self._steps:,} of {promised:,} steps, because it was cut off")
        if self._actor and self._actor not in self._actors:
            known = ", ".join(f"{one or 'unknown actor'} {count:,}" for one, count in self._actors.most_common())
            raise UsageError(
                f"--seed-actor: {self._actor!r} made no step of {self._name} ({known or 'nobody did'})"
                f"{did_you_mean(self._actor, self._actors)}"
            )
        if not self.episodes:
            why = f"; steps of {self._left_out} episodes are missing" if self._left_out else ""
            raise UsageError(f"--seed-from: {self._name} has no recorded step to learn from{why}")
        self._gather()
        self._require_possible(self._rows[0])
        return Experience.of(self._rows[0], self._counts[0])

    def _gather(self) -> None:
        """Make equal rows one."""
        rows, place = np.unique(np.concatenate(self._rows), axis=0, return_inverse=True)
        counts = np.bincount(place.reshape(-1), np.concatenate(self._counts)).astype(np.int64)
        self._rows, self._counts, self._waiting = [rows], [counts], 0

    def _rows_of(self, episode: RecordedEpisode) -> NDArray[np.float64]:
        """As :meth:`Experience.of` takes them; no number where a last step led to nobody knows what."""
        if not np.isfinite(episode.rewards).all():
            self._refuse("its rewards are no numbers, one for each step")
        over = episode.terminated.astype(np.float64)
        shown = list(self._states_of(episode))
        last = self._last_state(episode)
        after = np.array([*shown[1:], last], np.float64)
        if over[-1] and np.isnan(last):
            after[-1] = -1
        actions = self._actions_of(episode)
        following = np.append(actions[1:], -1)
        return np.stack([np.array(shown, np.float64), actions, episode.rewards, after, over, following], axis=1)

    def _actions_of(self, episode: RecordedEpisode) -> NDArray[np.float64]:
        actions = self._whole_numbers(episode, "action") - self._first_action
        if actions.min() < 0 or actions.max() >= self._world.actions:
            self._refuse(f"its actions are not the {self._world.actions} of this environment")
        return actions.astype(np.float64)

    def _whole_numbers(self, episode: RecordedEpisode, what: str) -> NDArray[Any]:
        """One whole number for each step."""
        try:
            found = episode.stacked(what)
        except FormError as error:
            self._refuse(str(error))
        if not found:
            self._refuse(f"its {what}s were not recorded")
        numbers = found.get(())
        if (
            len(found) != 1
            or not isinstance(numbers, np.ndarray)
            or numbers.dtype.kind not in "iu"
            or numbers.ndim != 1
        ):
            self._refuse(f"its {what}s are no whole numbers, one for each step")
        return numbers.astype(np.int64)

    def _states_of(self, episode: RecordedEpisode) -> Iterator[int]:
        if self._is_numbered:
            states = self._whole_numbers(episode, "observation")
            if states.min() < 0 or states.max() >= self._world.states:
                self._refuse(f"it shows states that this environment, which has {self._world.states}, does not have")
            return iter(states.tolist())
        return (self._numbered(episode.observation(place)) for place in range(len(episode)))

    def _last_state(self, episode: RecordedEpisode) -> float:
        if not episode.final:
            return np.nan
        if not self._is_numbered:
            return self._numbered(episode.final)
        value = episode.final.get(())
        if not isinstance(value, int | np.integer) or not 0 <= value < self._world.states:
            self._refuse("what its last step led to is no state of this environment")
        return float(value)

    @property
    def _is_numbered(self) -> bool:
        return isinstance(self._world, TableWorld) or self._world.is_numbered

    def _numbered(self, leaves: Leaves) -> int:
        """The state of an observation as the environment shows it, or as this worker recorded it: flat."""
        assert isinstance(self._world, SteppedWorld)
        value = join(list(leaves.items())) if leaves else None
        space: Any = self._env.observation_space
        if not (isinstance(value, np.ndarray) and value.shape == space.shape):
            try:
                value = self._flattened(value)
            except (KeyError, TypeError, ValueError, IndexError):
                value = None
        if value is None or value.shape != space.shape:
            self._refuse("its observations are not those of this environment")
        return self._world.number_of(np.asarray(value, np.int16), add=True)

    def _flattened(self, value: Any) -> NDArray[np.int16] | None:
        env: Any = self._env
        while not isinstance(env, WholeNumbers):
            env = env.env
        return env.observation(value) if value is not None else None

    def _require_possible(self, rows: NDArray[np.float64]) -> None:
        """Where the world has a table, every step must be in it."""
        if not isinstance(self._world, TableWorld):
            return
        for state, action, reward, after, over, _ in rows.tolist():
            if not self._world.allows(int(state), int(action), (int(after), reward, bool(over))):
                led = "to its end" if after < 0 else f"to state {after:.0f}{' and its end' if over else ''}"
                self._refuse(
                    f"in state {state:.0f} action {action:.0f} led {led} with reward {reward:g}, "
                    "which cannot happen in this run's world: it was recorded with other settings"
                )

    def _refuse(self, why: str) -> NoReturn:
        raise UsageError(f"--seed-from: {self._name} cannot be learned from: {why}")
