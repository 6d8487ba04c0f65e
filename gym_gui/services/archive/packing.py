"""Runs packed into one file, to be moved or kept.

Everything is looked at and hashed first, so that the manifest can be the first file; then it is written, in pieces.
What changes in between is an error and no archive. The file appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from gym_gui.services.archive import compression, tar
from gym_gui.services.archive.limits import is_bomb
from gym_gui.services.trainer import VERSION
from mosaic_protocol import run_archive
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.regular_files import open_regular
from mosaic_protocol.run_archive import ArchivedFile, ArchivedRun, Manifest
from mosaic_protocol.whole_files import drafted, drafted_folder, remove_left_drafts, sync

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

Progress = Callable[[str, int, int], None]
"""Hears what is done, how many bytes of it, and of how many."""

_PIECE = 1024 * 1024
_LEFT_OUT = ("outbox", "claims")
"""Of a run's folder: what its processes and the daemon used while it lived. The records of the journal are stored."""


class PackingError(Exception):
    """Runs cannot be packed; the text is a sentence."""


@dataclass(frozen=True)
class Source:
    """A file to pack: where it is, and what it was like when it was hashed."""

    place: Path
    mtime_ns: int
    entry: ArchivedFile


@dataclass(frozen=True)
class SurveyedRun:
    """Everything that a run owns."""

    run: ArchivedRun
    sources: Sequence[Source]

    @property
    def hashes(self) -> dict[str, str]:
        """What makes it the run that it is, by the place within the run. Its history grows when it is moved."""
        return hashes_of(self.run.run_id, (source.entry for source in self.sources))


def hashes_of(run_id: str, files: Iterator[ArchivedFile]) -> dict[str, str]:
    """See :attr:`SurveyedRun.hashes`."""
    own = {file.path.removeprefix(f"{run_id}/"): file.sha256 for file in files if file.path.startswith(f"{run_id}/")}
    return {path: sha256 for path, sha256 in own.items() if path != run_archive.HISTORY}


def nothing_told(_what: str, _done: int, _total: int) -> None:
    """A progress that nobody watches."""


class RunSurvey:
    """Looks at runs of one data root. ``spool`` is a folder for what the databases hold of them; it grows with each."""

    def __init__(
        self, client: TrainerClient, paths: MosaicPaths, spool: Path, progress: Progress = nothing_told
    ) -> None:
        self._client, self._paths, self._spool, self._progress = client, paths, spool, progress

    def look_at(self, run: pb.Run) -> SurveyedRun:
        """Raises ClientError, OSError and :class:`PackingError`."""
        place = self._spool / run.run_id
        place.mkdir()
        self._fetch(run, place)
        found: dict[str, Path] = {name: place / name for name in (*run_archive.DOCUMENTS, run_archive.CONFIG)}
        if (worker := self._paths.worker_config(run.run_id)).is_file():
            found[run_archive.WORKER_CONFIG] = worker
        notes: list[str] = []
        found.update(owned_files(self._paths, run.run_id, notes))
        return self._hashed(run, found, notes)

    def _fetch(self, run: pb.Run, place: Path) -> None:
        (place / run_archive.CONFIG).write_text(run.config_json)
        stream: BinaryIO | None = None
        name, size = "", 0
        try:
            for part in self._client.export(run.run_id):
                if part.file != name:
                    if stream is not None:
                        stream.close()
                    assert part.file in run_archive.DOCUMENTS, part.file
                    name, stream = part.file, (place / part.file).open("xb")
                assert stream is not None
                stream.write(part.data)
                size += len(part.data)
                self._progress(f"reading records of {run.name}", size, 0)
        finally:
            if stream is not None:
                stream.close()

    def _hashed(self, run: pb.Run, found: Mapping[str, Path], notes: list[str]) -> SurveyedRun:
        total = sum(path.lstat().st_size for path in found.values())
        sources, done = [], 0
        for name, place in sorted(found.items()):
            path = f"{run.run_id}/{name}"
            if problem := run_archive.why_not_a_path(path, {run.run_id}):
                notes.append(f"{_shown(place, place.parent)} is left out: {problem}")
                continue
            digest, size = hashlib.sha256(), 0
            with open_regular(place) as stream:
                for piece in iter(lambda: stream.read(_PIECE), b""):
                    digest.update(piece)
                    size += len(piece)
                    done += len(piece)
                    self._progress(f"hashing {run.name}", done, total)
                mtime_ns = os.fstat(stream.fileno()).st_mtime_ns
            sources.append(Source(place, mtime_ns, ArchivedFile(path, size, digest.hexdigest())))
        return SurveyedRun(ArchivedRun(run.run_id, run.name, notes), sources)


def owned_files(paths: MosaicPaths, run_id: str, notes: list[str]) -> dict[str, Path]:
    """The files in the folders of a run, by their names in an archive; what cannot be packed gets a note."""
    found: dict[str, Path] = {}
    owned = paths.run(run_id).directory
    for folder, root in ((run_archive.FILES, owned), (run_archive.LOGS, paths.run_logs(run_id))):
        for path in _regular_files(root, _LEFT_OUT if root == owned else (), notes):
            found[f"{folder}/{path.relative_to(root)}"] = path
    return found


def _regular_files(root: Path, left_out: Sequence[str], notes: list[str]) -> Iterator[Path]:
    """Every regular file below a folder; other things get a note for each kind. Sockets of sessions that are over get
    none."""
    other: dict[str, list[str]] = {}
    for folder, folders, files in os.walk(root):
        if Path(folder) == root:
            folders[:] = [name for name in folders if name not in left_out]
        for name in sorted([*files, *(one for one in folders if (Path(folder) / one).is_symlink())]):
            path = Path(folder) / name
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                yield path
            elif not stat.S_ISSOCK(mode):
                other.setdefault("link" if stat.S_ISLNK(mode) else "pipe or device", []).append(_shown(path, root))
        folders.sort()
    for what, (first, *more) in other.items():
        kind = f"they are {what}s" if more else f"it is a {what}"
        notes.append(f"{first}{f' and {len(more)} more are' if more else ' is'} left out: {kind}")


def _shown(path: Path, root: Path) -> str:
    """A path within a run as text, whatever its bytes are. Where runs lie on this machine does not travel."""
    return os.fsencode(path.relative_to(root.parent)).decode(errors="replace")


@dataclass(frozen=True)
class Packed:
    """An archive that was written."""

    manifest: Manifest
    size: int
    seconds: float
    sources: Sequence[Source] = ()

    def changed(self, paths: MosaicPaths, run_id: str) -> str:
        """The first file of a run that is not in the archive as it is now, "" where there is none. Raises OSError."""
        packed = {source.entry.path.removeprefix(f"{run_id}/"): source for source in self.sources}
        now = owned_files(paths, run_id, [])
        for name, place in now.items():
            found, known = place.lstat(), packed.get(name)
            if known is None or (found.st_size, found.st_mtime_ns) != (known.entry.size, known.mtime_ns):
                return name
        folders = (f"{run_archive.FILES}/", f"{run_archive.LOGS}/")
        return next((name for name in packed if name.startswith(folders) and name not in now), "")


def pack(
    client: TrainerClient,
    paths: MosaicPaths,
    runs: Sequence[pb.Run],
    out: Path,
    progress: Progress = nothing_told,
) -> Packed:
    """Write the archive; its suffix says how it is compressed. Raises ClientError, OSError and :class:`PackingError`,
    and the place is as it was."""
    began = time.monotonic()
    remove_left_drafts(out)  # as large as the archive: the parts below may need their space
    with drafted_folder(out.with_name(f"{out.name}.parts")) as spool:
        survey = RunSurvey(client, paths, spool, progress)
        found = [survey.look_at(run) for run in runs]
        sources = [source for one in found for source in one.sources]
        entries = [source.entry for source in sources]
        manifest = Manifest(run_archive.FORMAT, VERSION, time.time(), [one.run for one in found], entries)
        with drafted(out) as draft:
            with draft.open("xb") as file:
                write_archive(file, compression.suffix_of(out.name), manifest, sources, progress)
                size = file.tell()
            if is_bomb(manifest.total, size):
                sentence = "it compresses so well that an import would take it for a bomb"
                raise PackingError(f"{sentence}: write it without compression, to a name that ends in .tar")
            sync(draft)
    return Packed(manifest, size, time.monotonic() - began, sources)


def write_archive(
    file: BinaryIO, suffix: str, manifest: Manifest, sources: Sequence[Source], progress: Progress
) -> None:
    """Write manifest and files as one archive. Raises OSError and :class:`PackingError`."""
    packer = compression.packing(file, suffix)
    content = manifest.encoded()
    packer.write(tar.header(run_archive.MANIFEST, len(content), manifest.created_at))
    packer.write(content + tar.padding(len(content)))
    done, total = 0, manifest.total
    for source in sources:
        packer.write(tar.header(source.entry.path, source.entry.size, max(0.0, source.mtime_ns / 1e9)))
        for piece in _unchanged(source):
            packer.write(piece)
            done += len(piece)
            progress("writing", done, total)
        packer.write(tar.padding(source.entry.size))
    packer.write(tar.END)
    packer.close()


def _unchanged(source: Source) -> Iterator[bytes]:
    """The bytes of a file, as many as were hashed."""
    left = source.entry.size
    with open_regular(source.place) as stream:
        while left and (piece := stream.read(min(_PIECE, left))):
            left -= len(piece)
            yield piece
        after = os.fstat(stream.fileno())
    if left or after.st_size != source.entry.size or after.st_mtime_ns != source.mtime_ns:
        raise PackingError(f"{source.place} changed while it was packed: export the run again")
