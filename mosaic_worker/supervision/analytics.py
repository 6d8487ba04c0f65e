"""Keeps ``analytics.json`` of a run current: at the start, at every checkpoint, now and then, and at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mosaic_protocol.paths import RunPaths
from mosaic_protocol.run_manifest import refresh_manifest
from mosaic_worker.extras.record import applied_sets
from mosaic_worker.supervision.code_recorder import CodeRecorder

REFRESH_SECONDS = 30.0


class AnalyticsManifest:
    """Belongs to one thread at a time. A full disk costs freshness, never the run.

    `facts`: what the worker knows of the run from its start: ``worker``, ``algo``, ``env_id``, ``seed``, …
    """

    def __init__(self, run: RunPaths, facts: Mapping[str, Any]) -> None:
        self._run = run
        self._facts: dict[str, Any] = {**facts, "extras": applied_sets(Path(sys.prefix))}
        self._recorder = CodeRecorder(run, facts)
        self._next_at = 0.0

    def refresh(self, **facts: Any) -> None:
        self._facts.update(facts, **self._recorder.found(last="ending" in facts))
        self._next_at = time.monotonic() + REFRESH_SECONDS
        try:
            refresh_manifest(self._run, **self._facts)
        except OSError as error:
            print(f"analytics.json could not be written: {error}", flush=True)

    def refresh_if_due(self) -> None:
        found = self._recorder.found()
        if found or time.monotonic() >= self._next_at:
            self.refresh(**found)
