"""Tokens: made here, kept as hashes, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from gym_gui.services.trainer.errors import WorldError


def new_token() -> str:
    return secrets.token_urlsafe(32)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def matches(token: str, stored_digest: str) -> bool:
    """Whether a token is the one whose digest is stored. An empty digest matches nothing."""
    return bool(stored_digest) and hmac.compare_digest(digest(token), stored_digest)


def daemon_token(path: Path) -> str:
    """The token of this data root, made at the first start. Its file is readable by its owner alone.

    Called while the instance lock is held, so that nobody else makes one at the same time.
    """
    if not path.exists() or not path.read_text().strip():
        draft = path.with_name(f".{path.name}.draft")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(new_token())
        draft.replace(path)
    return read_daemon_token(path)


def read_daemon_token(path: Path) -> str:
    """Read the token; tightens the file's mode when somebody loosened it."""
    token = path.read_text().strip()
    if not token:
        raise WorldError(f"{path} is empty: delete it and start the daemon again")
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return token
