"""The structured log: one JSON object a line, each with a code. Values that look like secrets never reach it."""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import re
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from gym_gui.logging_config.log_constants import LOG_TRAINER_INTERNAL_ERROR, LogConstant

logger = logging.getLogger(__name__)

_SECRET_NAME = re.compile(r"token|password|secret|api_?key|authorization", re.IGNORECASE)
_MAX_BYTES = 10 * 1024 * 1024
_KEPT_FILES = 5


def log_event(logger: logging.Logger, constant: LogConstant, *, level: int | None = None, **fields: Any) -> None:
    """Log one event of a kind, with fields."""
    logger.log(level or constant.level, constant.message, extra={"code": constant.code, "fields": fields})


def log_bug(error: BaseException, **fields: Any) -> None:
    """An error that should not have been: logged with its traceback, and the daemon goes on."""
    constant = LOG_TRAINER_INTERNAL_ERROR
    logger.error(constant.message, exc_info=error, extra={"code": constant.code, "fields": fields})


class JsonFormatter(logging.Formatter):
    """Time, level, code, message and fields of a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "code": getattr(record, "code", ""),
            "message": record.getMessage(),
            "logger": record.name,
        }
        entry = {**_without_secrets(getattr(record, "fields", {})), **entry}
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def _without_secrets(value: Any) -> Any:
    """The same with the values hidden whose names look like secrets, at any depth: workers log what they like."""
    if isinstance(value, dict):
        return {
            name: "[hidden]" if _SECRET_NAME.search(str(name)) else _without_secrets(item)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(item) for item in value]
    return value


class _ForgivingHandler(logging.handlers.RotatingFileHandler):
    """A full disk must not take the daemon down, nor flood stderr: the entry is dropped. The file is private."""

    def _open(self) -> TextIOWrapper:
        private = lambda path, flags: os.open(path, flags, 0o600)  # noqa: E731
        return open(self.baseFilename, "a", encoding="utf-8", opener=private)

    def handleError(self, record: logging.LogRecord) -> None:
        return


def write_structured_log(path: Path) -> logging.Handler:
    """Send everything below the ``gym_gui`` logger to a rotating file; returns the handler, for closing."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handler = _ForgivingHandler(path, maxBytes=_MAX_BYTES, backupCount=_KEPT_FILES)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger("gym_gui")
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    return handler
