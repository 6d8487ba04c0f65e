"""One daemon for one data root: the process that holds the lock is the daemon, and the lock dies with it.

Two things are locked, because each alone can be got around. The trainer's folder: a file can be removed while it is
locked, and the next daemon would lock a new one; a folder with the registry in it cannot. And a file in it: network
file systems lock files on the server, but folders only for the processes of one machine, or not at all.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gym_gui.services.trainer.errors import AlreadyRunningError
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.regular_files import IrregularFileError, read_regular

_ASKING_SECONDS = 0.5
_MOST_WORDS = 10_000
_LOCK_FILE = "daemon.lock"
_NO_LOCKS = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP)


class InstanceLock:
    """Held from construction until :meth:`release` or the end of the process."""

    def __init__(self, paths: MosaicPaths) -> None:
        self._daemon_file = paths.daemon_file
        self._path, self._file = paths.trainer, paths.trainer / _LOCK_FILE
        self._folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        self._descriptor: int | None = None
        try:
            self._folder_counts = _locks(self._folder)
            if not _locked(self._folder) or not self._hold_file():
                raise AlreadyRunningError(_who_holds(paths))
        except BaseException:
            self.release()
            raise
        self._said = b""
        self.describe()

    def _hold_file(self) -> bool:
        """Hold the file as well, made again where somebody removed it; False when another process holds it. Where it
        cannot be made (a disk without a byte left) the folder is locked all the same."""
        try:
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:
            if not self._folder_counts:
                raise
            return True
        if not _locked(descriptor):
            os.close(descriptor)
            return False
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = descriptor
        return True

    def describe(self, **facts: Any) -> None:
        """Write who holds the lock, for the sentence that the next one gets."""
        since = datetime.now(UTC).isoformat(timespec="seconds")
        self._said = json.dumps({**asdict(ProcessIdentity.current()), "since": since, **facts}).encode()
        self.repeat()

    def repeat(self) -> None:
        """Write it again if somebody removed or changed it. A disk that does not take it is no reason to fail: the
        socket tells who the daemon is as well."""
        if _bytes_of(self._daemon_file) == self._said:
            return
        draft = self._daemon_file.with_suffix(".draft")
        with suppress(OSError):
            try:
                draft.unlink(missing_ok=True)
                with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(self._said)
                draft.replace(self._daemon_file)
            finally:
                draft.unlink(missing_ok=True)

    def replaced(self) -> bool:
        """Whether another daemon may stand here now: another folder is where this one's was, or another process holds
        the file. What cannot be looked at may come back; a file that was only removed is made and locked again."""
        try:
            if not os.path.samestat(self._path.stat(), os.fstat(self._folder)):
                return True
            return not (self._holds_file() or self._hold_file())
        except OSError:
            return False

    def _holds_file(self) -> bool:
        try:
            return self._descriptor is not None and os.path.samestat(self._file.lstat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        for descriptor in (self._descriptor, self._folder):
            if descriptor is not None:
                os.close(descriptor)


def _locks(descriptor: int) -> bool:
    """Whether this file system locks such a thing at all. Not for one that is locked already: asking shares it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pass
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return False
    return True


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
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def holder(paths: MosaicPaths) -> dict[str, Any] | None:
    """What the holder of the lock wrote, None when nobody holds it. Raises OSError when it cannot be looked at."""
    free = _is_free(paths.trainer, os.O_DIRECTORY) and _is_free(paths.trainer / _LOCK_FILE, os.O_NOFOLLOW)
    return None if free else _read(paths.daemon_file)


def _is_free(path: Path, flags: int) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | flags)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):  # a link in place of the file: nobody locks that
            return True
        raise
    try:
        return _flocked(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _read(path: Path) -> dict[str, Any]:
    """Only what a living process wrote: a killed daemon leaves its words behind."""
    try:
        content = json.loads(_bytes_of(path))
        named = {name: content[name] for name in ("pid", "start_ticks", "boot")}
        process = ProcessIdentity.parsed(json.dumps(named))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return content if process is not None and process.is_alive() else {}


def _bytes_of(path: Path) -> bytes:
    try:
        return read_regular(path, _MOST_WORDS)
    except (OSError, IrregularFileError):
        return b""


def _who_holds(paths: MosaicPaths) -> str:
    told = _read(paths.daemon_file)
    where = f" and listens on {told['target']}" if told.get("target") else ""
    who = f"process {told['pid']} since {told.get('since', 'some time ago')}{where}" if told else "another process"
    return (
        f"a trainer daemon already runs for {paths.root}: {who}. "
        "Use it, stop it with `mosaic daemon stop`, or set MOSAIC_HOME to another folder."
    )
