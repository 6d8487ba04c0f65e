"""What an agent with a mind thinks while its run is followed, in one line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gym_gui.cli import format as fmt
from mosaic_protocol.states import RunState

if TYPE_CHECKING:
    from gym_gui.services.minds import MindAt
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

_EVERY_SECONDS = 1.0
"""Reading a mind takes the daemon some milliseconds, and people no less than a second."""


class Thoughts:
    """The newest thought of a run; "" for runs of workers whose steps carry no minds."""

    def __init__(self) -> None:
        self._has_minds: bool | None = None
        self._next_at, self._newest = 0.0, ""

    def of(self, client: TrainerClient, run: pb.Run) -> str:
        """Raises nothing: progress is shown also where a mind cannot be read."""
        now = time.monotonic()
        if run.state != RunState.EXEC or now < self._next_at:
            return self._newest
        if self._has_minds is None:
            self._has_minds = _has_minds(run.worker_type)
        if self._has_minds:
            self._next_at, self._newest = now + _EVERY_SECONDS, _newest(client, run) or self._newest
        return self._newest


def _has_minds(worker_type: str) -> bool:
    from mosaic_protocol.worker_manifest import discover

    found = discover().workers.get(worker_type)
    return found is not None and found.capabilities.live_beliefs


def _newest(client: TrainerClient, run: pb.Run) -> str:
    from gym_gui.services import minds, recorded_steps
    from gym_gui.services.trainer.errors import TrainerError
    from mosaic_protocol.steps.chunk import ChunkError

    source = recorded_steps.of_run(client, run)
    try:
        episode = minds.newest_episode(source, client.steps(run.run_id, tail=1))
        return thought_of(minds.minds_of(source, episode)[-1])
    except (minds.NoMindError, ChunkError, TrainerError, IndexError):
        return ""


def thought_of(at: MindAt) -> str:
    """The plan that was chosen, how sure the agent is, what it is about and what it believes."""
    mind = at.mind
    who = fmt.one_line(at.agent_id) or "the agent"
    parts = [f"{who} chose {fmt.one_line(mind.plan) or fmt.MISSING}, confidence {mind.confidence:.2f}"]
    if mind.intentions:
        parts.append(f"intends {', '.join(fmt.one_line(one.goal) for one in reversed(mind.intentions))}")
    if mind.beliefs:
        parts.append(f"believes {', '.join(fmt.one_line(one.text) for one in mind.beliefs)}")
    return " · ".join(parts)
