"""A worker never starts twice: a launch attempt is claimed once, by the worker or, against it, by the daemon.

The daemon records that it launches before it launches. If it dies in between, the next daemon cannot know whether a
worker is on its way; so both sides race for one file that only one can create. The worker that finds its attempt
revoked leaves without doing anything; the daemon that finds it claimed adopts the claimant.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from mosaic_protocol.process_identity import ProcessIdentity

REVOKED = "revoked"


def claim(directory: Path, attempt: int) -> bool:
    """Called by the worker before anything else; False means: leave at once.

    The claim stays open in this process and in every fork of it, which is how a run's stray processes are found; open
    for writing, because anybody may be reading it.
    """
    if not _create(directory, attempt, json.dumps(asdict(ProcessIdentity.current()))):
        return False
    os.open(path_of(directory, attempt), os.O_RDWR)
    return True


def revoke(directory: Path, attempt: int) -> ProcessIdentity | None:
    """Called by a recovering daemon: None when the attempt can no longer start, else who claimed it."""
    if _create(directory, attempt, REVOKED):
        return None
    return claimant(directory, attempt)


def claimant(directory: Path, attempt: int) -> ProcessIdentity | None:
    """Who claimed an attempt, None when nobody did or it was revoked."""
    try:
        text = path_of(directory, attempt).read_text()
    except FileNotFoundError:
        return None
    try:
        return None if text == REVOKED else ProcessIdentity(**json.loads(text))
    except (ValueError, TypeError):
        return None  # emptied by a power cut, which the claimant did not survive either


def path_of(directory: Path, attempt: int) -> Path:
    return directory / f"attempt-{attempt}"


def _create(directory: Path, attempt: int, content: str) -> bool:
    """Create the claim with its content in one step; False when it exists."""
    directory.mkdir(parents=True, exist_ok=True)
    draft = directory / f".draft-{os.getpid()}-{attempt}"
    draft.unlink(missing_ok=True)  # one that a crash left may be a second name of a claim
    draft.write_text(content)
    try:
        os.link(draft, path_of(directory, attempt))
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True
