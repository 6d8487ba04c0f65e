"""Evaluating a checkpoint beside the GUI: a process of its own, its progress and its result as signals."""

from __future__ import annotations

import os
from typing import Any

from PyQt6.QtCore import QObject, pyqtSignal

from gym_gui.services.checkpoints import evaluations
from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.use import tool
from gym_gui.services.worker_tools import ToolHandle
from gym_gui.ui.bridge import TrainerBridge


class EvaluationJob(QObject):
    """``progressed(list[float])`` brings the returns so far of the mode under way, ``done(dict)`` the result,
    ``failed(str)`` a sentence. :meth:`cancel` ends it with what was measured."""

    progressed = pyqtSignal(list)
    done = pyqtSignal(dict)
    failed = pyqtSignal(str)

    def __init__(
        self, bridge: TrainerBridge, entry: CheckpointEntry, episodes: int, seed: int, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self.entry, self.episodes = entry, episodes
        self._words = ["--episodes", str(episodes), "--seed", str(seed), "--mode", "deterministic"]
        self._words += ["--parent", str(os.getpid())]
        self._running = ToolHandle()

    def start(self) -> None:
        self._bridge.in_background(self._work, self._conclude, self.failed.emit, owner=self)

    def cancel(self) -> None:
        self._running.stop()

    def _work(self) -> dict[str, Any] | None:
        returns: list[float] = []
        result: dict[str, Any] | None = None
        with tool("evaluate", self.entry, self._bridge.paths, self._words) as running:
            self._running.take(running)
            for message in running.messages():
                if message.get("at") == "episode" and message.get("return") is not None:
                    returns.append(float(message["return"]))
                    so_far = list(returns)
                    self._bridge.post(lambda so_far=so_far: self.progressed.emit(so_far))  # type: ignore[misc]
                elif message.get("at") == "result":
                    result = message
        if result is not None:
            evaluations.keep(self.entry, evaluations.described(self.entry, result))
        return result

    def _conclude(self, result: dict[str, Any] | None) -> None:
        if result is None:
            self.failed.emit(self.tr("It was ended before the first episode."))
        else:
            self.done.emit(result)
