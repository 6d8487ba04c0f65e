"""Archives of runs: sound ones come out as they went in, and hostile ones are refused whole."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.archive import tar
from gym_gui.services.archive.compression import SUFFIXES
from gym_gui.services.archive.unpacking import opened
from gym_gui.tests.support.made_archives import FILES, RUN_ID, made_archive, manifest_of, member
from mosaic_protocol.run_archive import ArchiveError

A_FILE = f"{RUN_ID}/files/checkpoints/a.bin"
OTHER = f"{RUN_ID}/files/more"
WITH_OTHER = {**FILES, OTHER: b""}


def unpack(file: Path, folder: Path) -> None:
    with opened(file) as archive:
        archive.unpack(folder, lambda _done, _total: None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where to unpack, with nothing around it that could be written over unseen."""
    place = tmp_path / "outer" / "inner"
    place.mkdir(parents=True)
    return place


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_was_packed_comes_out_to_the_byte(tmp_path: Path, folder: Path, suffix: str) -> None:
    long = f"{RUN_ID}/files/{'ä' * 60}/{'x' * 120}/{'y' * 200}.bin"
    files = {**FILES, long: b"\0" * 100_001}
    unpack(made_archive(tmp_path / f"one{suffix}", files), folder)
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found == files


def test_sizes_beyond_eight_gibibytes_are_read() -> None:
    size = 9 * 2**30
    reader = tar.TarReader(iter([tar.header("a/" + "b" * 300, size, 5.5)]))
    found = reader.next_member()
    assert found is not None and (found.path, found.size, found.mtime) == ("a/" + "b" * 300, size, 5)


def _twice(place: Path) -> Path:
    return made_archive(place, more=[(member(A_FILE, size=len(FILES[A_FILE])), FILES[A_FILE])])


def _instead(path: str, **manifest: Any) -> Callable[[Path], Path]:
    """An archive whose manifest and tar agree on a file of that name."""

    def make(place: Path) -> Path:
        return made_archive(place, {**FILES, path: b"x"}, **manifest)

    return make


def _of_kind(kind: bytes, **fields: Any) -> Callable[[Path], Path]:
    def make(place: Path) -> Path:
        return made_archive(place, manifest=manifest_of(WITH_OTHER), more=[(member(OTHER, kind, **fields), b"")])

    return make


def _with_hash(place: Path) -> Path:
    return made_archive(place, {**FILES, A_FILE: b"TENSORS" * 1000}, manifest=manifest_of(FILES))


def _with_size(place: Path) -> Path:
    return made_archive(place, {**FILES, A_FILE: b"short"}, manifest=manifest_of(FILES))


def _cut(share: float) -> Callable[[Path], Path]:
    def make(place: Path) -> Path:
        made_archive(place)
        size = place.stat().st_size
        os.truncate(place, min(size - 1, int(size * share)))
        return place

    return make


def _flipped(place: Path) -> Path:
    made_archive(place)
    content = bytearray(place.read_bytes())
    content[len(content) // 2] ^= 0xFF
    place.write_bytes(content)
    return place


def _says_that_it_is_a_bomb(place: Path) -> Path:
    files = [*json.loads(manifest_of(FILES))["files"], {"path": OTHER, "size": 20 * 2**30, "sha256": "0" * 64}]
    return made_archive(place, manifest=json.dumps(json.loads(manifest_of(FILES)) | {"files": files}).encode())


def _endless_manifest(place: Path) -> Path:
    return made_archive(place, manifest=bytes(65 * 2**20))


def _lies_about_its_size(place: Path) -> Path:
    """The manifest and the header say one byte; 64 MiB of zeros follow."""

    return made_archive(place, changed=lambda content: content + bytes(64 * 2**20))


def _sparse_in_header(place: Path) -> Path:
    info = member(OTHER, size=4)
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(2**40)}
    return made_archive(place, manifest=manifest_of(WITH_OTHER), more=[(info, b"1\n0\n")])


def _endless_header(place: Path) -> Path:
    info = member("header", b"x", size=2**20)
    return made_archive(place, more=[(info, b"0" * 2**20)])


def _written(content: bytes) -> Callable[[Path], Path]:
    def make(place: Path) -> Path:
        place.write_bytes(content)
        return place

    return make


def _somebodys_tar(place: Path) -> Path:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as made:
        made.addfile(member("holiday.jpg", size=3), io.BytesIO(b"jpg"))
    place.write_bytes(zlib.compress(content.getvalue(), wbits=31))
    return place


def _followed_by(place: Path) -> Path:
    made_archive(place)
    with place.open("ab") as file:
        file.write(b"and more")
    return place


HOSTILE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "out of the folder": (_instead(f"{RUN_ID}/files/../../../outside"), "the path leads out of the archive"),
    "absolute": (_instead("/tmp/outside"), "the path is absolute"),
    "not simple": (_instead(f"{RUN_ID}/files/./x"), "not in its simplest form"),
    "empty part": (_instead(f"{RUN_ID}/files//x"), "not in its simplest form"),
    "control characters": (_instead(f"{RUN_ID}/files/\x1b[2Jx"), "characters that a name should not"),
    "newline": (_instead(f"{RUN_ID}/files/a\nb"), "characters that a name should not"),
    "another run": (_instead("01K9ZQ3V7X0000000000BBBBBB/run.json"), "belongs to no run"),
    "another place": (_instead(f"{RUN_ID}/placing"), "an archive has no such file"),
    "a file as a folder": (_instead(f"{A_FILE}/x"), "is a file and a folder"),
    "run id": (lambda p: made_archive(p, manifest=manifest_of(FILES, runs=[{"run_id": "../x", "name": ""}])), "run id"),
    "symbolic link": (_of_kind(tarfile.SYMTYPE, linkname="/etc/passwd"), "a symbolic link"),
    "hard link": (_of_kind(tarfile.LNKTYPE, linkname=A_FILE), "a hard link"),
    "character device": (_of_kind(tarfile.CHRTYPE), "a device"),
    "block device": (_of_kind(tarfile.BLKTYPE), "a device"),
    "named pipe": (_of_kind(tarfile.FIFOTYPE), "a named pipe"),
    "folder": (_of_kind(tarfile.DIRTYPE), "a folder"),
    "sparse": (_of_kind(tarfile.GNUTYPE_SPARSE), "a file with holes"),
    "sparse in a header": (_sparse_in_header, "GNU.sparse"),
    "an endless header": (_endless_header, "larger than any name needs"),
    "twice": (_twice, "is twice in it"),
    "wrong hash": (_with_hash, "its hash is not that of the manifest"),
    "wrong size": (_with_size, "another size than the manifest says"),
    "missing": (lambda p: made_archive(p, manifest=manifest_of(WITH_OTHER)), "is missing in it"),
    "extra": (lambda p: made_archive(p, more=[(member(OTHER), b"")]), "in it, but not in its manifest"),
    "cut at the start": (_cut(0.01), "ends too early"),
    "cut in the middle": (_cut(0.5), "ends too early"),
    "cut at the end": (_cut(1.0), "ends too early"),
    "flipped": (_flipped, ""),
    "a bomb that says so": (_says_that_it_is_a_bomb, "are a bomb, not runs"),
    "a bomb that lies": (_lies_about_its_size, "something follows its end"),
    "a manifest that is a bomb": (_endless_manifest, "larger than that of any archive"),
    "newer": (lambda p: made_archive(p, manifest=manifest_of(FILES, format=2)), "import it with a newer MOSAIC"),
    "no manifest": (_somebodys_tar, "its first file is not mosaic-archive.json"),
    "not json": (lambda p: made_archive(p, manifest=b"[" * 100_000), "its manifest cannot be read"),
    "no runs": (lambda p: made_archive(p, manifest=manifest_of(FILES, runs=[])), "names no run"),
    "not a tar": (_written(b"PK\3\4" * 1000), "it is no archive of runs"),
    "text": (_written(b"hello"), "it is no archive of runs"),
    "empty": (_written(b""), "it is empty"),
    "more behind it": (_followed_by, "something follows its end"),
}


@pytest.mark.parametrize("suffix", [".tar.zst", ".tar.gz"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_and_nothing_is_written_outside(
    tmp_path: Path, folder: Path, name: str, suffix: str
) -> None:
    make, sentence = HOSTILE[name]
    file = make(tmp_path / f"hostile{suffix}")
    around = {path for path in tmp_path.rglob("*") if folder not in path.parents}
    with pytest.raises(ArchiveError) as caught:
        unpack(file, folder)
    assert sentence in str(caught.value)
    assert str(caught.value).isprintable()
    assert {path for path in tmp_path.rglob("*") if folder not in path.parents} == around
    assert not any(path.is_symlink() or not (path.is_file() or path.is_dir()) for path in folder.rglob("*"))


def test_an_archive_that_does_not_fit_on_the_disk_is_refused_before_it_is_unpacked(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = made_archive(tmp_path / "one.tar.zst")
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    with pytest.raises(ArchiveError, match="do not fit on the disk"):
        unpack(file, folder)
    assert not list(folder.iterdir())


def test_a_pipe_is_not_waited_for(tmp_path: Path, folder: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tar.zst")
    with pytest.raises(OSError, match="named pipe"):
        unpack(tmp_path / "pipe.tar.zst", folder)
