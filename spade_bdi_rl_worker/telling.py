"""The figures of a run: a few rows a second, however many episodes there are."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from mosaic_protocol.headline import LENGTH_TAG, RECENT_EPISODES, RECENT_MEANS, RETURN_TAG, SPS_TAG
from spade_bdi_rl_worker.agent.learner import LearningAgent

if TYPE_CHECKING:
    from mosaic_worker.training.session import TrainingSession
    from spade_bdi_rl_worker.crew import Crew

ROW_SECONDS = 0.25


class ScalarRows:
    """Gathers episodes into rows of means."""

    def __init__(self, session: TrainingSession, crew: Crew) -> None:
        self._session, self._crew = session, crew
        self._returns: list[float] = []
        self._lengths: list[int] = []
        self._recent_lengths: deque[int] = deque(maxlen=RECENT_EPISODES)
        self._due = 0.0

    def note(self, totals: list[float], lengths: list[int]) -> None:
        """What some episodes brought, and how long they were."""
        self._returns += totals
        self._lengths += lengths

    def write_now_and_then(self) -> None:
        if self._returns and time.monotonic() >= self._due:
            self.write()

    def write(self) -> None:
        """A row for the episodes since the last one."""
        if not self._returns:
            return
        self._due = time.monotonic() + ROW_SECONDS
        self._recent_lengths.extend(self._lengths)
        count, step = len(self._returns), self._crew.steps
        row = {
            RETURN_TAG: sum(self._returns) / count,
            LENGTH_TAG: sum(self._lengths) / count,
            RECENT_MEANS[LENGTH_TAG]: sum(self._recent_lengths) / len(self._recent_lengths),
            SPS_TAG: self._session.steps_per_second(step),
        }
        for agent in self._crew.agents:
            row |= _figures(agent, "" if len(self._crew.agents) == 1 else f"{agent.name}/")
        self._session.scalars(step, row, self._returns)
        self._returns, self._lengths = [], []


def _figures(agent: LearningAgent, prefix: str) -> dict[str, float]:
    runtime = agent.runtime
    return {
        f"{prefix}bdi/confidence": runtime.confidence.value,
        f"{prefix}bdi/success_rate": runtime.success_rate,
        f"{prefix}bdi/epsilon": runtime.strategy.epsilon_at(runtime.progress),
        f"{prefix}bdi/alpha": runtime.strategy.alpha_at(runtime.progress),
    }
