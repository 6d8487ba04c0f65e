"""Signals as requests, for as long as a session is open."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

from mosaic_worker.training.requests import Requests


class StopSignals:
    """Takes SIGTERM, and Ctrl-C, for a request to stop. Only the main thread may; in another one nothing happens."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._before: dict[signal.Signals, Any] = {}

    def take_by_hand(self) -> None:
        """Ctrl-C stops with a checkpoint, a second one ends at once."""
        self._take({signal.SIGINT: self._on_interrupt, signal.SIGTERM: self._on_terminate})

    def take_supervised(self) -> None:
        """Ctrl-C in the supervisor's terminal reaches this process too, and is the supervisor's to act on."""
        self._take({signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: self._on_terminate})

    def put_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _take(self, handlers: dict[signal.Signals, Any]) -> None:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                self._before[number] = signal.signal(number, handler)

    def _on_terminate(self, _number: int, _frame: FrameType | None) -> None:
        self._requests.ask("stop")

    def _on_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._requests.stop_requested:
            raise KeyboardInterrupt
        # os.write because print is not reentrant, and this may have interrupted one.
        os.write(2, b"\nStopping with a checkpoint; press Ctrl-C again to end at once.\n")
        self._requests.ask("stop")
