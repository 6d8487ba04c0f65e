"""Where the worker's words about its run go: the daemon's session, or JSON lines on stdout when there is no daemon."""

from __future__ import annotations

import json
import sys
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from mosaic_protocol import events

if TYPE_CHECKING:
    from mosaic_protocol.worker_client import WorkerSession  # brings gRPC, which a dry run does not need


HEARTBEAT_SECONDS = 10.0


class LifecycleEmitter(ABC):
    """Takes lifecycle words and artifacts. Called from the supervisor's thread."""

    @abstractmethod
    def say(self, event: str, sentence: str = "", step: int | None = None, **detail: Any) -> None:
        """``run_started``, ``run_paused``, … as in :mod:`mosaic_protocol.events`."""

    @abstractmethod
    def plan(self, total_steps: int) -> None:
        """How many steps the run is going to make."""

    @abstractmethod
    def artifact(self, kind: str, path: str, step: int | None) -> None:
        """The run produced something."""

    def journalled(self, seq: int) -> None:  # noqa: B027 - a run by hand has no journal
        """The script has numbered its records up to here, and cannot write them now."""

    def throttled(self, sentence: str) -> None:  # noqa: B027 - by hand, stderr says it
        """What the run records waits for something; "" when it goes on."""

    def beat(self, step: int) -> None:  # noqa: B027 - a session sends heartbeats itself, from a thread of its own
        """Called about once a second while the run lives."""


class SessionEmitter(LifecycleEmitter):
    """Into the outbox, and so to the daemon."""

    def __init__(self, session: WorkerSession) -> None:
        self._session = session

    def plan(self, total_steps: int) -> None:
        self._session.progress(0, total_steps)

    def say(self, event: str, sentence: str = "", step: int | None = None, **detail: Any) -> None:
        if step is not None:
            self._session.progress(step)
        self._session.lifecycle(event, sentence, **detail)

    def journalled(self, seq: int) -> None:
        self._session.numbered("script", seq)

    def throttled(self, sentence: str) -> None:
        self._session.throttled(sentence)

    def artifact(self, kind: str, path: str, step: int | None) -> None:
        name = path.rpartition("/")[2]
        self._session.publish(events.ArtifactRecord(name=name, path=path, type=kind, step=step))


class StdoutEmitter(LifecycleEmitter):
    """For runs by hand: one JSON object a line, and a ``heartbeat`` after some seconds without another word."""

    def __init__(self, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> None:
        self._every = heartbeat_seconds
        self._next_beat = time.monotonic() + heartbeat_seconds

    def beat(self, step: int) -> None:
        if time.monotonic() >= self._next_beat:
            self._print({"event": events.HEARTBEAT, "step": step})

    def plan(self, total_steps: int) -> None:
        self._print({"event": "run_planned", "total_steps": total_steps})

    def say(self, event: str, sentence: str = "", step: int | None = None, **detail: Any) -> None:
        self._print({"event": event, "sentence": sentence, "step": step, **detail})

    def artifact(self, kind: str, path: str, step: int | None) -> None:
        self._print({"event": "artifact", "type": kind, "path": path, "step": step})

    def _print(self, message: dict[str, Any]) -> None:
        self._next_beat = time.monotonic() + self._every
        print(json.dumps({"time": time.time(), **message}), file=sys.stdout, flush=True)
