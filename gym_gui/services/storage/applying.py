"""Doing what was planned, one action after the other. What fails costs its own action and is told.

A run leaves only after its archive stands whole on the disk and was read again, byte by byte, against the hashes that
were made of the run: a process that is killed in the middle leaves the run, or the run and an archive; the next begins
that action from the start. Runs go by the daemon's deletion, which ends what it began.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gym_gui.services.archive.packing import PackingError, pack
from gym_gui.services.archive.unpacking import opened
from gym_gui.services.run_words import short_id, size
from gym_gui.services.storage.planning import Action, Around, protected
from gym_gui.services.storage.profile import SUFFIXES, Profile
from gym_gui.services.storage.usage import open_sweeps
from gym_gui.services.trainer.client import ClientError, DaemonAwayError
from mosaic_host.capacity import disk_room
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.run_archive import ArchiveError
from mosaic_protocol.whole_files import remove_all_left_drafts, sync

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

Progress = Callable[[str, int, int], None]

_SPARE_BYTES = 256 * 2**20
"""Left free on the disk of archives for runs that are going on."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 80


class BusyError(Exception):
    """A storage profile is being applied already; the text is a sentence."""


class NotDoneError(Exception):
    """An action was left out, and nothing of its run changed; the text says why."""


@dataclass(frozen=True)
class Done:
    """What came of an action: ``problem`` is "" where it was done."""

    action: Action
    problem: str = ""
    archive: Path | None = None
    archive_bytes: int = 0


class Applying:
    """Uses a client that it does not own."""

    def __init__(self, client: TrainerClient, paths: MosaicPaths, profile: Profile, progress: Progress) -> None:
        self._client, self._paths, self._profile, self._progress = client, paths, profile, progress

    def each(self, actions: Sequence[Action]) -> Iterator[Done]:
        """Do them in order. Raises :class:`DaemonAwayError` when nobody is there to do them."""
        remove_all_left_drafts(self._profile.archive_folder(self._paths))  # of those who were killed
        for action in actions:
            try:
                yield self._done(action)
            except DaemonAwayError:
                raise
            except (ClientError, NotDoneError, PackingError, ArchiveError) as error:
                yield Done(action, str(error))
            except OSError as error:
                named = f" ({error.filename})" if error.filename else ""
                yield Done(action, f"{error.strerror or error}{named}")

    def _done(self, action: Action) -> Done:
        if action.kind == "purge":
            self._client.delete(action.run_id, purge=True, only_from_trash=True)
            return Done(action)
        run = self._still_free(action)
        if action.kind == "remove":
            self._client.remove_parts(run.run_id, action.parts, action.checkpoints)
            return Done(action)
        if action.kind == "trash":
            self._client.delete(run.run_id)
            return Done(action)
        return self._archived(action, run)

    def _still_free(self, action: Action) -> pb.Run:
        """The run as it is now. Time has passed since it was planned: somebody may have gone on from it."""
        run = self._client.run(action.run_id)
        children = list(self._client.runs(size=1, where=f"parent={run.run_id}").runs)
        around = Around(open_sweeps(self._client)) if run.sweep else None  # with more budget it goes on from its runs
        why = protected(self._profile, [run, *children], around).get(run.run_id, "")
        if run.deleted or why:
            raise NotDoneError(f"it was left alone: {why or 'it is in the trash already'}")
        return run

    def _archived(self, action: Action, run: pb.Run) -> Done:
        folder = self._profile.archive_folder(self._paths)
        if folder.resolve().is_relative_to(self._paths.trainer.resolve()):
            raise NotDoneError(f"`archives` is inside {self._paths.trainer}, where runs go: name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        free = disk_room(folder).free
        if action.bytes + _SPARE_BYTES > free:
            raise NotDoneError(
                f"its archive may not fit on the disk of {folder}, where {size(free)} are free: name a folder on "
                "another disk as `archives` in the profile"
            )
        out = folder / archive_name(run, SUFFIXES[self._profile.compression])
        packed = pack(self._client, self._paths, [run], out, self._progress)
        with opened(out) as archive:
            if archive.manifest != packed.manifest:
                raise NotDoneError(f"{out.name} is not what was written a moment ago: it is left as it is")
            archive.check(lambda done, total: self._progress(f"checking {out.name}", done, total))
        sync(folder)
        if changed := packed.changed(self._paths, run.run_id):
            raise NotDoneError(f"{changed} changed while it was archived, or cannot be archived: the run stays")
        self._still_free(action)  # packing takes minutes
        self._client.delete(run.run_id, purge=self._profile.after_archive == "purge")
        return Done(action, archive=out, archive_bytes=packed.size)


def archive_name(run: pb.Run, suffix: str) -> str:
    """The same for the same run, so that an archive that was begun again takes the place of the first."""
    plain = _NOT_IN_NAMES.sub("-", run.name).strip("-.")[:_LONGEST_NAME]
    return f"{plain or short_id(run.run_id)}-{run.run_id}{suffix}"


@contextmanager
def one_at_a_time(paths: MosaicPaths) -> Iterator[None]:
    """Raises :class:`BusyError` where somebody applies a profile to this data root, and OSError."""
    descriptor = os.open(paths.storage_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError("a storage profile is being applied already: wait until that is done") from None
        yield
    finally:
        os.close(descriptor)
