"""Every log code: stable numbers that people and tools can search for. Numbers are never reused.

LOG4xx the daemon, LOG5xx runs, LOG6xx storage, LOG7xx requests and validation, LOG8xx workers.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass


@dataclass(frozen=True)
class LogConstant:
    """A kind of event with its code, level and sentence."""

    code: str
    level: int
    message: str


LOG_TRAINER_STARTED = LogConstant("LOG401", logging.INFO, "trainer daemon started")
LOG_TRAINER_STOPPED = LogConstant("LOG402", logging.INFO, "trainer daemon stopped")
LOG_TRAINER_SLEPT = LogConstant("LOG403", logging.WARNING, "the daemon was held still; deadlines were moved")
LOG_TRAINER_INTERNAL_ERROR = LogConstant("LOG404", logging.ERROR, "unexpected error")
LOG_TRAINER_WARM_START_FAILED = LogConstant("LOG405", logging.WARNING, "warm start not available; spawning instead")
LOG_TRAINER_STUBBORN_PROCESS = LogConstant("LOG406", logging.WARNING, "processes do not end although killed")
LOG_TRAINER_HOUSEKEEPING = LogConstant("LOG407", logging.INFO, "housekeeping")
LOG_SOCKET_MENDED = LogConstant("LOG408", logging.WARNING, "the socket was removed or replaced; made again")
LOG_TOKEN_REPLACED = LogConstant("LOG409", logging.WARNING, "the clients' token was removed or readable by others")
LOG_DATABASE_REMOVED = LogConstant("LOG411", logging.ERROR, "a database was removed; writing it again")
LOG_HOST_REACHED = LogConstant("LOG412", logging.INFO, "a host can be reached")
LOG_HOST_AWAY = LogConstant("LOG413", logging.WARNING, "a host cannot be reached; trying again")
LOG_TRAINER_REPLACED = LogConstant("LOG410", logging.ERROR, "the data root was replaced; leaving")

LOG_RUN_SUBMITTED = LogConstant("LOG501", logging.INFO, "run accepted")
LOG_RUN_TRANSITION = LogConstant("LOG502", logging.INFO, "run moved")
LOG_RUN_ADOPTED = LogConstant("LOG503", logging.INFO, "run re-adopted after a restart")
LOG_RUN_RELAUNCHED = LogConstant("LOG504", logging.INFO, "launch had not happened; launching again")
LOG_RUN_ENDED = LogConstant("LOG505", logging.INFO, "run ended")
LOG_RUN_LAUNCH_FAILED = LogConstant("LOG506", logging.ERROR, "worker could not be started")
LOG_RUN_SWEPT = LogConstant("LOG507", logging.WARNING, "processes left behind by a worker were ended")
LOG_RUN_DELETED = LogConstant("LOG508", logging.INFO, "run deleted")
LOG_RUN_WAITS = LogConstant("LOG509", logging.WARNING, "worker cannot be started yet; trying again")
LOG_RUN_CANNOT_CLOSE = LogConstant("LOG510", logging.WARNING, "run cannot be closed yet; trying again")
LOG_SWEEP_ACCEPTED = LogConstant("LOG511", logging.INFO, "sweep accepted")
LOG_SWEEP_ENDED = LogConstant("LOG512", logging.INFO, "sweep ended")
LOG_SWEEP_WAITS = LogConstant("LOG513", logging.WARNING, "sweep cannot go on yet; trying again")

LOG_STORE_FULL = LogConstant("LOG601", logging.ERROR, "no disk space; trying again")
LOG_STORE_DAMAGED_KEPT = LogConstant("LOG602", logging.ERROR, "damaged database kept aside")
LOG_STORE_BAD_JOURNAL = LogConstant("LOG603", logging.ERROR, "a worker's journal could not be read to its end")
LOG_STORE_LATE_JOURNAL = LogConstant("LOG605", logging.INFO, "the journal of a run that had ended was read")
LOG_STORE_MANY_TAGS = LogConstant("LOG606", logging.WARNING, "a run logs ever new tags")
LOG_STORE_UPKEEP = LogConstant("LOG607", logging.WARNING, "compacting recorded steps waits")
LOG_STORE_UPKEEP_FAILED = LogConstant("LOG608", logging.ERROR, "recorded steps of a run stay as they are")
LOG_STORE_CONVERSION = LogConstant("LOG604", logging.INFO, "metrics of an earlier version are moved")

LOG_RPC_REFUSED = LogConstant("LOG701", logging.INFO, "request refused")
LOG_RPC_UNAUTHENTICATED = LogConstant("LOG702", logging.WARNING, "request without a valid token")
LOG_UI_MAINWINDOW_INVALID_CONFIG = LogConstant("LOG705", logging.WARNING, "run config refused")

LOG_WORKER_REGISTERED = LogConstant("LOG801", logging.INFO, "worker registered")
LOG_WORKER_MESSAGE = LogConstant("LOG802", logging.INFO, "worker log")
LOG_WORKER_SCRIPT_STARTED = LogConstant("LOG803", logging.INFO, "script process started")
LOG_WORKER_SCRIPT_ENDED = LogConstant("LOG804", logging.INFO, "script process ended")


def by_code() -> dict[str, LogConstant]:
    """Every constant by its code."""
    return {value.code: value for value in globals().values() if isinstance(value, LogConstant)}
