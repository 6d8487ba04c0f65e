"""The executor as the daemon sees it. The interface and the host agent behind it are :mod:`mosaic_host`'s, which knows
nothing of runs in a registry, of errors of the trainer or of codes in its log; here they meet."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from mosaic_host.executor import Executor, LaunchSpec, StartedWorker, WorkerHandle
from mosaic_host.telling import HostEvent

__all__ = ["Executor", "LaunchSpec", "StartedWorker", "WorkerHandle", "tell_of_host"]

logger = logging.getLogger(__name__)

_CODES = {
    HostEvent.WARM_START_FAILED: codes.LOG_TRAINER_WARM_START_FAILED,
    HostEvent.STUBBORN_PROCESS: codes.LOG_TRAINER_STUBBORN_PROCESS,
    HostEvent.LOG_SHORTENED: codes.LOG_TRAINER_HOUSEKEEPING,
}


def tell_of_host(event: HostEvent, fields: Mapping[str, Any]) -> None:
    """What a host agent has to tell, in the daemon's log under its code."""
    level = logging.WARNING if event is HostEvent.LOG_SHORTENED else None
    log_event(logger, _CODES[event], level=level, **fields)
