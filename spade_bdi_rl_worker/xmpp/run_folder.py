"""The folder in which the server of a run has its files: for its owner alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from spade_bdi_rl_worker.xmpp.contract import ServerError


def make_folder(run_dir: Path) -> Path:
    """A fresh ``xmpp`` folder in a run's directory. Raises :class:`ServerError`."""
    folder = run_dir / "xmpp"
    # What an earlier attempt of the run left is of no use: its credentials died with it.
    shutil.rmtree(folder, ignore_errors=True)
    return private_folder(folder)


def private_folder(folder: Path) -> Path:
    """A new folder that only its owner can enter. Raises :class:`ServerError`."""
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise cannot_write(folder, error) from error
    return folder


def write_private(file: Path, content: bytes) -> Path:
    """Write a new file that only its owner can read. Raises :class:`ServerError`."""
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as stream:
            stream.write(content)
    except OSError as error:
        raise cannot_write(file, error) from error
    return file


def cannot_write(path: Path, error: OSError) -> ServerError:
    return ServerError(
        f"The XMPP server of this run needs {path}, which cannot be written: {error.strerror or error}. Make room or "
        "give yourself permission there, then start the run again."
    )
