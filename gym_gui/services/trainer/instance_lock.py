"""One daemon for one data root: whoever holds the lock is the daemon, and the lock dies with it."""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gym_gui.services.trainer.errors import AlreadyRunningError
from mosaic_protocol.process_identity import ProcessIdentity

_ASKING_SECONDS = 0.5


class InstanceLock:
    """Held from construction until :meth:`release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if not _locked(self._descriptor):
            os.close(self._descriptor)
            raise AlreadyRunningError(_who_holds(path))
        self.describe()

    def describe(self, **facts: Any) -> None:
        """Write who holds the lock, for the sentence that the next one gets."""
        since = datetime.now(UTC).isoformat(timespec="seconds")
        content = json.dumps({**asdict(ProcessIdentity.current()), "since": since, **facts}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, content, 0)

    def release(self) -> None:
        os.close(self._descriptor)


def _locked(descriptor: int) -> bool:
    """Take the lock. Somebody who only asks who holds it shares it for an instant, which is waited for; a daemon has it
    alone, and is not: of several that start together the others leave, and none is there to follow one that stops."""
    deadline = time.monotonic() + _ASKING_SECONDS
    while not _flocked(descriptor, fcntl.LOCK_EX):
        if time.monotonic() > deadline or not _flocked(descriptor, fcntl.LOCK_SH):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # another one that starts must not take this for an answer
        time.sleep(0.001)
    return True


def _flocked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder(path: Path) -> dict[str, Any] | None:
    """What the holder of the lock wrote, None when nobody holds it."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(path)
    finally:
        os.close(descriptor)
    return None


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _who_holds(path: Path) -> str:
    told = _read(path)
    where = f" and listens on {told['target']}" if told.get("target") else ""
    who = f"process {told['pid']} since {told['since']}{where}" if "pid" in told else "another process"
    return (
        f"a trainer daemon already runs for {path.parent.parent}: {who}. "
        "Use it, stop it with `mosaic daemon stop`, or set MOSAIC_HOME to another folder."
    )
