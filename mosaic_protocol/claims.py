"""A worker never starts twice: a launch attempt is claimed once, by the worker or, against it, by the daemon.

The daemon records that it launches before it launches. If it dies in between, the next daemon cannot know whether a
worker is on its way; so both sides race for one file that only one can create. The worker that finds its attempt
revoked leaves without doing anything; the daemon that finds it claimed adopts the claimant.

On a full disk a worker waits until it can claim, which is before it does anything. A daemon can revoke all the same: an
empty file is enough.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from mosaic_protocol.full_disk import until_it_works
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.regular_files import IrregularFileError, read_regular

_MOST_BYTES = 10_000


def claim(directory: Path, attempt: int) -> bool:
    """Called by the worker before anything else; False means: leave at once. Waits for disk space.

    The claim stays open in this process and in every fork of it, which is how a run's stray processes are found; open
    for writing, because anybody may be reading it.
    """
    identity = json.dumps(asdict(ProcessIdentity.current()))
    if not until_it_works(lambda: _create(directory, attempt, identity), "claim the launch"):
        return False
    until_it_works(lambda: os.open(path_of(directory, attempt), os.O_RDWR), "hold the claim")
    return True


def revoke(directory: Path, attempt: int) -> ProcessIdentity | None:
    """Called by the daemon: None when the attempt can no longer start, else who claimed it. Raises FileNotFoundError
    when the folder of all runs is away: the claim may be in it."""
    directory.parent.mkdir(exist_ok=True)
    directory.mkdir(exist_ok=True)
    try:
        os.close(os.open(path_of(directory, attempt), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return claimant(directory, attempt)
    return None


def claimant(directory: Path, attempt: int) -> ProcessIdentity | None:
    """Who claimed an attempt, None when nobody did or it was revoked."""
    try:
        text = read_regular(path_of(directory, attempt), _MOST_BYTES).decode(errors="replace")
    except (FileNotFoundError, IrregularFileError):
        return None
    # An empty one was revoked, or is a claim after a power cut, which the claimant did not survive either.
    return ProcessIdentity.parsed(text)


def path_of(directory: Path, attempt: int) -> Path:
    return directory / f"attempt-{attempt}"


def _create(directory: Path, attempt: int, content: str) -> bool:
    """Create the claim with its content in one step; False when it exists. Makes no folder above its own: one that was
    moved away comes back, and what was made in its place would be in the way."""
    directory.mkdir(exist_ok=True)
    if path_of(directory, attempt).exists():  # also where there is no space for a draft
        return False
    draft = directory / f".draft-{os.getpid()}-{attempt}"
    draft.unlink(missing_ok=True)  # one that a crash left may be a second name of a claim
    try:
        draft.write_text(content)
        os.link(draft, path_of(directory, attempt))
    except FileExistsError:
        return False
    finally:
        with suppress(OSError):  # the claim is made or not made by now
            draft.unlink(missing_ok=True)
    return True
