"""How good a checkpoint is, measured once: an evaluation that was kept is not made again.

What a sweep is judged by and what its best settings are measured with. Episodes are played as `mosaic eval` plays them,
by the same program, and kept in the same place, so that a comparison finds them too. Blocking; for a thread, which has
to live as long as the evaluation does: the kernel ends the program with the thread that started it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from gym_gui.services.checkpoints import evaluations
from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.use import tool
from gym_gui.services.worker_tools import ToolError, ToolFailedError, ToolHandle
from mosaic_protocol.paths import MosaicPaths


@dataclass(frozen=True)
class Order:
    """What is played."""

    episodes: int
    seed: int = 7
    mode: str = "deterministic"

    def is_met_by(self, result: dict[str, Any]) -> bool:
        """Whether a result is what this would give: of the same episodes, all of them, where it was trained."""
        measured = result.get("results", {}).get(self.mode, {})
        whole = result.get("complete") is True and measured.get("episodes") == self.episodes
        return whole and result.get("seed") == self.seed and result.get("env_id") == result.get("trained_on")


def known(entry: CheckpointEntry, order: Order) -> dict[str, Any] | None:
    """What an earlier evaluation of exactly these parameters gave in the mode that is asked for."""
    met = (one for one in reversed(evaluations.kept(entry)) if order.is_met_by(one))
    found = next(met, None)
    return None if found is None else dict(found["results"][order.mode])


def measured(entry: CheckpointEntry, order: Order, paths: MosaicPaths, handle: ToolHandle) -> dict[str, Any] | None:
    """The figures of an evaluation; None when it was stopped through the handle. Raises CheckpointsError, ToolError,
    and OSError where the result cannot be kept."""
    if (found := known(entry, order)) is not None:
        return found
    try:
        result = _played(entry, order, paths, handle)
    except ToolError:
        if handle.stopped:
            return None
        raise
    if handle.stopped:
        return None
    if result is None or not order.is_met_by(result):
        raise ToolFailedError(f"the evaluation of {entry.id} ended before its {order.episodes} episodes")
    evaluations.keep(entry, result)
    return dict(result["results"][order.mode])


def _played(entry: CheckpointEntry, order: Order, paths: MosaicPaths, handle: ToolHandle) -> dict[str, Any] | None:
    result = None
    words = ["--episodes", str(order.episodes), "--seed", str(order.seed), "--mode", order.mode, "--jobs", "1"]
    with tool("evaluate", entry, paths, [*words, "--parent", str(os.getpid())]) as running:
        handle.take(running)
        for message in running.messages():
            if message.get("at") == "result":
                result = evaluations.described(entry, message)
    return result
