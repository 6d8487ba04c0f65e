"""What may keep a worker from beginning, or from writing what it has to say, and passes: a full disk, a folder of its
run that takes no files for a while."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from mosaic_protocol.full_disk import is_disk_full, is_full
from mosaic_protocol.paths import RunPaths


def hindrance(folders: RunPaths, config: Path, logs: Path) -> str:
    """Why a worker cannot begin now, with its config file, its logs and in the folder of its run; "" when it can.
    Blocks; for a thread."""
    try:
        return _hindrance(folders, config, logs)
    except OSError as error:  # not even that can be found out
        return f"{error.filename or folders.directory} cannot be looked at ({error.strerror})"


def _hindrance(folders: RunPaths, config: Path, logs: Path) -> str:
    if is_full(folders.directory):
        return "the disk is full"
    for folder in (folders.claims, folders.outbox, logs):
        if not folder.is_dir():
            return f"{folder} is not there"
        if reason := _why_no_file(folder):
            return reason
    try:
        os.listdir(config.parent)
        config.stat()  # a folder may be listed and yet not be entered
    except FileNotFoundError:
        return "" if config.parent.is_dir() else f"{config.parent} is not there"
    except OSError:
        return f"{config.parent} cannot be entered"
    return ""


def _why_no_file(folder: Path) -> str:
    """Only a write shows it: quotas, and file systems that have no files left, count no bytes."""
    probe = folder / f".try-{os.getpid()}"
    try:
        probe.write_bytes(b"-")
        probe.unlink()
    except OSError as error:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
        return "the disk is full" if is_disk_full(error) else f"{folder} cannot be written to"
    return ""
