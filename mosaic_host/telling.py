"""What an agent reports beside its answers: events that people want to see in a log, by name, with fields."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeAlias


class HostEvent(StrEnum):
    WARM_START_FAILED = "warm_start_failed"
    STUBBORN_PROCESS = "stubborn_process"
    LOG_SHORTENED = "log_shortened"


Tell: TypeAlias = Callable[[HostEvent, Mapping[str, Any]], None]
"""Hears of events, in any thread."""


def to_plain_log(event: HostEvent, fields: Mapping[str, Any]) -> None:
    logging.getLogger("mosaic_host").warning("%s %s", event, dict(fields))
