"""How a run stands with W&B: offline or online, where its files are, what was uploaded and where its page is.

Everything is read from the run's folder, which its script can write to: sizes are bounded, links are not followed, and
an address is shown only when it is a plain one.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from mosaic_protocol.plain_text import one_line
from mosaic_protocol.regular_files import read_regular
from mosaic_protocol.tracking_record import FINISHED, FOLDER, TrackingRecord, read_record
from mosaic_protocol.wandb_files import find_runs
from mosaic_protocol.whole_files import write_whole

UPLOAD_NOTE = "upload.json"
_MOST_NOTE_BYTES = 64 << 10
_ADDRESS = re.compile(r"https?://[\w.:\[\]-]+(?:/[\w.~%+=&?#:/-]*)?", re.ASCII)
_LONGEST_ADDRESS = 500


class UploadState(StrEnum):
    """What of a run is on the server, as far as this machine knows."""

    NOTHING = "nothing"
    WAITS = "waits"
    RUNNING = "running"
    PARTLY = "partly"
    SENT = "sent"
    DONE = "done"


@dataclass(frozen=True)
class Recording:
    """One file of W&B. ``synced_at`` is when ``wandb sync`` marked it as uploaded, None when it did not."""

    file: Path
    size: int
    synced_at: float | None

    @property
    def folder(self) -> Path:
        return self.file.parent

    @property
    def is_offline(self) -> bool:
        return self.folder.name.startswith("offline-")


@dataclass(frozen=True)
class WandbSide:
    """A run's side with W&B at one moment. ``is_over``: whether the run itself has ended. ``was_begun``: whether its
    tracking was, which on a busy machine may come to nothing."""

    recordings: tuple[Recording, ...] = ()
    record: TrackingRecord | None = None
    note_url: str = ""
    is_over: bool = False
    was_begun: bool = False

    @property
    def is_tracked(self) -> bool:
        return bool(self.recordings)

    @property
    def mode(self) -> str:
        """``offline``, ``online``, or "" for a run that is not tracked."""
        if self.record is not None and self.record.mode in ("offline", "online"):
            return self.record.mode
        return "" if not self.recordings else "offline" if self.recordings[-1].is_offline else "online"

    @property
    def url(self) -> str:
        """The run's page; "" while there is none, or none that may be shown."""
        told = self.record.url if self.record is not None else None
        return plain_address(told or "") or self.note_url

    @property
    def last_sync(self) -> float | None:
        return max((one.synced_at for one in self.recordings if one.synced_at is not None), default=None)

    @property
    def to_upload(self) -> tuple[Recording, ...]:
        """What ``wandb sync`` has to send: recordings that are not on the server, or perhaps not whole."""
        return tuple(one for one in self.recordings if one.synced_at is None and not self._was_sent(one))

    @property
    def upload(self) -> UploadState:
        if not self.recordings:
            return UploadState.NOTHING
        if not self.to_upload:
            online = self.record is not None and self.record.mode == "online"
            return UploadState.DONE if self.last_sync is not None or online else UploadState.SENT
        if self.mode == "online":
            return UploadState.PARTLY if self.is_over else UploadState.RUNNING
        return UploadState.WAITS if self.last_sync is None else UploadState.PARTLY

    def _was_sent(self, recording: Recording) -> bool:
        """Whether an online recording needs no sync. Of a foreign script nothing says so: W&B sent it as it ran."""
        if recording.is_offline:
            return False
        if self.record is None:
            return True
        if self.record.files == recording.folder.name:
            return self.record.state == FINISHED
        return True  # an attempt to go online, of which the offline recording has everything


def side_of(run_dir: Path, *, is_over: bool) -> WandbSide:
    """Look at the folder of a run. Reads files: not for a thread that must not wait. Raises nothing."""
    recordings = tuple(one for one in map(_recording, find_runs(run_dir)) if one is not None)
    was_begun = (run_dir / FOLDER).is_dir()
    return WandbSide(recordings, read_record(run_dir), _noted_url(run_dir), is_over, was_begun)


def sync_command(side: WandbSide) -> str:
    """What to type to upload the run by hand where wandb is installed; "" when there is nothing to upload."""
    folders = [shlex.quote(str(one.folder)) for one in side.to_upload]
    if not folders:
        return ""
    online = ["--include-online"] if any(not one.is_offline for one in side.to_upload) else []
    return " ".join(["wandb", "sync", *online, *folders])


def upload_sentence(side: WandbSide) -> str:
    """How it stands with the upload, in words."""
    why = one_line(side.record.because) if side.record is not None and side.record.because else ""
    sentences = {
        UploadState.NOTHING: "W&B has recorded nothing of this run.",
        UploadState.WAITS: "Recorded on this machine, not uploaded" + (f": {why}." if why else "."),
        UploadState.RUNNING: "Being uploaded while the run goes on.",
        UploadState.PARTLY: "The upload is not complete: sync sends the rest.",
        UploadState.SENT: "W&B sent it while it ran; whether all of it arrived, its page shows.",
        UploadState.DONE: "Uploaded.",
    }
    return sentences[side.upload]


def plain_address(text: str) -> str:
    """An address that may be shown and opened: of the web, without a password, printable; "" for any other."""
    return text if len(text) <= _LONGEST_ADDRESS and _ADDRESS.fullmatch(text) else ""


def note_upload(run_dir: Path, url: str) -> None:
    """Keep the address that an upload led to: W&B's own files do not have it."""
    write_whole(run_dir / FOLDER / UPLOAD_NOTE, json.dumps({"url": url}) + "\n")


def _noted_url(run_dir: Path) -> str:
    try:
        content: Any = json.loads(read_regular(run_dir / FOLDER / UPLOAD_NOTE, _MOST_NOTE_BYTES))
    except (OSError, ValueError, RecursionError):
        return ""
    url = content.get("url") if isinstance(content, dict) else None
    return plain_address(url) if isinstance(url, str) else ""


def _recording(file: Path) -> Recording | None:
    try:
        size = file.lstat().st_size
    except OSError:
        return None
    return Recording(file, size, _marked_at(file.with_name(f"{file.name}.synced")))


def _marked_at(marker: Path) -> float | None:
    try:
        found = os.lstat(marker)
    except OSError:
        return None
    return found.st_mtime if stat.S_ISREG(found.st_mode) else None
