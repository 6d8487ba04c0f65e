"""What a training session says about its run, passed on as lifecycle events and artifacts.

The session's words are those of :mod:`mosaic_worker.training.session`: ``{"at": "ready" | "paused" | …}``. They come
through a socket from a script's process, or from the same process when the agent trains in the worker itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mosaic_protocol import events
from mosaic_worker.supervision.analytics import AnalyticsManifest
from mosaic_worker.supervision.telemetry import LifecycleEmitter


class RunStory:
    """Belongs to one thread at a time."""

    def __init__(self, emitter: LifecycleEmitter, manifest: AnalyticsManifest) -> None:
        self._emitter, self._manifest = emitter, manifest
        self.step = 0
        self.ending = ""
        """``done`` or ``stopped`` once the session said so."""
        self._checkpoint = ""
        self._begun = False

    def begin(self) -> None:
        self._begun = True
        self._emitter.say(events.RUN_STARTED, step=0)

    def beat(self) -> None:
        """Called about once a second; says something only where nobody else says that the run lives."""
        if self._begun:
            self._emitter.beat(self.step)

    def take(self, message: Mapping[str, Any]) -> None:
        """Pass one message on."""
        step = message.get("step")
        self.step = max(self.step, step) if isinstance(step, int) else self.step
        match message.get("at"):
            case "ready" if isinstance(total := message.get("total"), int):
                self._emitter.plan(total)
            case "paused":
                self._emitter.say(events.RUN_PAUSED, str(message.get("sentence", "")), step=self.step)
            case "resumed":
                self._emitter.say(events.RUN_RESUMED, step=self.step)
            case "stopping":
                self._emitter.say(events.RUN_STOPPING, "writing a last checkpoint", step=self.step)
            case "checkpoint":
                self._checkpoint = str(message.get("path", ""))
                self._emitter.artifact("checkpoint", self._checkpoint, self.step)
                self._manifest.refresh()
            case "journalled" if isinstance(seq := message.get("seq"), int):
                self._emitter.journalled(seq)
            case "throttled":
                self._emitter.throttled(str(message.get("sentence", "")))
            case "done" | "stopped" as ending:
                self.ending = ending

    def end(self, event: str, sentence: str, *, status: int | None = None, stdout_tail: str = "") -> None:
        """The last word."""
        known = {} if status is None else {"script_status": status}
        self._manifest.refresh(**known, ending=event)
        self._emitter.say(event, sentence, step=self.step, stdout_tail=stdout_tail)

    def good_ending(self) -> tuple[str, str]:
        """The last word on a run that nothing broke: (event, sentence)."""
        if self.ending == "stopped":
            return events.RUN_STOPPED, f"stopped at step {self.step:,}{self.kept()}"
        return events.RUN_COMPLETED, f"completed {self.step:,} steps" if self.step else "the script completed"

    def kept(self) -> str:
        """The end of a sentence about what is left of the run."""
        return f"; last checkpoint {self._checkpoint}" if self._checkpoint else ""
