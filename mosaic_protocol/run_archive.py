"""How an archive of runs is laid out: what the side that packs and the side that takes it in agree on.

A tar of regular files. The first is the manifest; each run has a folder that is named after its id.
"""

from __future__ import annotations

import re

import msgspec

from mosaic_protocol.paths import checked_run_id

FORMAT = 1
"""Raised when an older reader would misunderstand an archive. Readers take every format up to their own."""
MANIFEST = "mosaic-archive.json"
RUN, HISTORY, TELEMETRY, STEPS = "run.json", "history.json", "telemetry.rows", "steps.rows"
"""What the databases hold of a run: the daemon writes these and reads them."""
DOCUMENTS = (RUN, HISTORY, TELEMETRY, STEPS)
CONFIG, WORKER_CONFIG = "config.json", "worker.json"
FILES, LOGS = "files", "logs"
"""Folders: what is in the run's own, and its logs."""
DRAFTS = ("unpacked", "compared")
"""What the drafts are named after that clients write below the folder of arrivals."""
_TOP = (*DOCUMENTS, CONFIG, WORKER_CONFIG)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST_PATH = 4000
_LONGEST_NAME = 255


class ArchiveError(Exception):
    """A file is no archive of runs that can be taken in; the text completes "FILE cannot be imported:"."""


class ArchivedFile(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    size: int
    sha256: str


class ArchivedRun(msgspec.Struct, forbid_unknown_fields=True):
    """What a listing of the archive says of a run."""

    run_id: str
    name: str
    notes: list[str] = []
    """A sentence for each thing of the run that is not in the archive."""


class _Version(msgspec.Struct):
    format: int


class Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """The first file of an archive. ``mosaic`` is the version that wrote it."""

    format: int
    mosaic: str
    created_at: float
    runs: list[ArchivedRun]
    files: list[ArchivedFile]

    @property
    def total(self) -> int:
        return sum(file.size for file in self.files)

    def encoded(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


def read_manifest(content: bytes) -> Manifest:
    """Raises :class:`ArchiveError`, also for a name that is not safe or not of an archive."""
    try:
        version = msgspec.json.decode(content, type=_Version).format
        if version > FORMAT:
            raise ArchiveError(
                f"its format is {version}, and this MOSAIC reads up to {FORMAT}: import it with a newer MOSAIC"
            )
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ArchiveError(f"its manifest cannot be read: {error}") from error
    _check(manifest)
    return manifest


def _check(manifest: Manifest) -> None:
    runs: set[str] = set()
    for run in manifest.runs:
        if not _is_run_id(run.run_id):
            raise ArchiveError(f"its manifest names a run {run.run_id[:60]!r}, which is not a run id")
        if run.run_id in runs:
            raise ArchiveError(f"its manifest names the run {run.run_id} twice")
        runs.add(run.run_id)
    if not runs:
        raise ArchiveError("its manifest names no run")
    seen: set[str] = set()
    for file in manifest.files:
        if problem := why_not_a_path(file.path, runs):
            raise ArchiveError(f"its manifest names a file {file.path[:120]!r}: {problem}")
        if file.path in seen:
            raise ArchiveError(f"its manifest names {file.path[:120]!r} twice")
        seen.add(file.path)
        if file.size < 0 or not _SHA256.fullmatch(file.sha256):
            raise ArchiveError(f"its manifest gives {file.path[:120]!r} an impossible size or hash")
    for run_id in runs:
        if missing := [name for name in (*DOCUMENTS, CONFIG) if f"{run_id}/{name}" not in seen]:
            raise ArchiveError(f"its manifest has no {missing[0]} of run {run_id}")


def _is_run_id(text: str) -> bool:
    try:
        return bool(checked_run_id(text))
    except ValueError:
        return False


def why_not_a_path(path: str, runs: set[str]) -> str:
    """Why a file of that name is not taken from an archive with these runs; "" where it is."""
    parts = path.split("/")
    if path.startswith("/"):
        return "the path is absolute"
    if ".." in parts:
        return "the path leads out of the archive"
    if not path.isprintable() or "\\" in path:
        return "the name holds characters that a name should not"
    try:
        long = len(path.encode()) > _LONGEST_PATH or any(len(part.encode()) > _LONGEST_NAME for part in parts)
    except UnicodeEncodeError:
        return "the name is not text"
    if long:
        return "the path is too long"
    if "." in parts or "" in parts:
        return "the path is not in its simplest form"
    if parts[0] not in runs:
        return "it belongs to no run of the manifest"
    is_file = parts[1] in _TOP if len(parts) == 2 else len(parts) > 2 and parts[1] in (FILES, LOGS)
    if not is_file:
        return "an archive has no such file"
    return ""
