"""The daemon as a session sees it that trains in the worker's own process: the words of a supervisor, without one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mosaic_worker.supervision.run_story import RunStory
from mosaic_worker.supervision.telemetry import SessionEmitter
from mosaic_worker.supervision.wishes import WishForwarder

if TYPE_CHECKING:
    from mosaic_protocol.worker_client import WorkerSession
    from mosaic_worker.supervision.analytics import AnalyticsManifest


class DaemonLink:
    """Hands the daemon's wishes to `ask`, and what the session says to the daemon.

    Wishes arrive in the conversation's thread or in a signal handler, words of the session in the training's thread or
    the checkpoint writer's. A reentrant lock puts them in a row: a signal may interrupt the one who holds it.
    """

    def __init__(self, conversation: WorkerSession, manifest: AnalyticsManifest, ask: Callable[[str], None]) -> None:
        self._conversation, self._manifest = conversation, manifest
        self._lock = threading.RLock()
        self._story = RunStory(SessionEmitter(conversation), manifest)
        self._wishes = WishForwarder(
            lambda: conversation.desired, lambda: conversation.registered, self._story.begin, ask
        )
        manifest.refresh()
        conversation.on_change = self._look
        self._look()  # it may have changed before anybody listened

    def tell(self, **message: Any) -> None:
        with self._lock:
            self._story.take(message)
            if message.get("at") == "ready":
                self._wishes.is_ready = True
                self._wishes.look()

    def note_step(self, step: int) -> None:
        self._conversation.progress(step)

    def close(self) -> None:
        """Says how the run ended, unless it failed: its exception has the last word then."""
        self._conversation.on_change = None
        with self._lock:
            if self._story.ending:
                self._story.end(*self._story.good_ending())

    def _look(self) -> None:
        with self._lock:
            self._wishes.look()
