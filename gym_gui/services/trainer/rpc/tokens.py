"""Tokens: made here, kept as hashes, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from gym_gui.services.trainer.errors import WorldError


def new_token() -> str:
    return secrets.token_urlsafe(32)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def matches(token: str, stored_digest: str) -> bool:
    """Whether a token is the one whose digest is stored. An empty digest matches nothing."""
    return bool(stored_digest) and hmac.compare_digest(digest(token), stored_digest)


class ClientToken:
    """What clients show: made by each daemon at its start, for itself alone, in a file that only its owner can read.

    One daemon makes one at a time: it holds the instance lock. :meth:`opens` may be called from any thread.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.renew()

    def renew(self) -> None:
        """Make a new token and write it down; clients read it again when the old one is refused. Raises OSError."""
        token = new_token()
        _write(self._path, token)
        self._token = token

    def opens(self, shown: str) -> bool:
        return hmac.compare_digest(shown.encode(), self._token.encode())

    def tend(self) -> bool:
        """Replace a token that others could read, or that is not in its file any more; True when it was. A file that
        cannot be looked at is left for the next time."""
        try:
            status = self._path.lstat()
            whole = stat.S_ISREG(status.st_mode) and not status.st_mode & 0o077
            if whole and self._path.read_bytes() == self._token.encode():
                return False
        except FileNotFoundError:
            pass
        except OSError:
            return False
        self.renew()
        return True


def _write(path: Path, token: str) -> None:
    """In one step and never readable by others. On a full disk the old file is written over: it is no longer."""
    draft = path.with_name(f".{path.name}.draft")
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token)
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        if not _written_over(path, token):
            raise OSError(error.errno, error.strerror, str(path)) from error


def _written_over(path: Path, token: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != len(token):
            return False
        os.fchmod(descriptor, 0o600)
        return os.pwrite(descriptor, token.encode(), 0) == len(token)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def read_client_token(path: Path) -> str:
    """The token that the running daemon made. Raises OSError, and :class:`WorldError` for a file without one."""
    token = path.read_text(errors="replace").strip()
    if not token:
        raise WorldError(f"{path} is empty: stop the trainer daemon with `mosaic daemon stop`, then repeat")
    return token
