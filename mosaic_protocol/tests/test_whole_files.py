"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mosaic_protocol.whole_files import draft_of, drafted, remove_left_drafts, write_whole


def test_a_file_is_replaced_and_no_draft_stays(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    for text in ("first\n", "zweite é\n"):
        write_whole(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_private_file_is_private_from_its_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o644)
    with drafted(path) as draft:
        assert not draft.exists()
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        assert stat.S_IMODE(draft.stat().st_mode) == 0o600
    write_whole(path, "new", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_error_while_writing_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def half() -> None:
        with drafted(path) as draft:
            draft.write_text("ha")
            raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        half()
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_an_obstacle_at_the_place_is_the_error_that_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(path, "text")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("put", [os.mkfifo, lambda draft: draft.symlink_to("/dev/full"), Path.touch])
def test_what_lies_under_the_drafts_name_is_no_obstacle(tmp_path: Path, put: object) -> None:
    path = tmp_path / "file"
    assert callable(put)
    put(draft_of(path))
    write_whole(path, "text")
    assert path.read_text() == "text" and list(tmp_path.iterdir()) == [path]


def test_drafts_of_killed_processes_are_removed_and_no_others(tmp_path: Path) -> None:
    path, gone = tmp_path / "film[1].mp4", 2**22 + 1  # beyond the largest id that Linux gives
    (tmp_path / f".film[1].mp4.{gone}-{gone}.draft").touch()
    (tmp_path / f".film[1].mp4.{gone}.draft").mkdir()
    (tmp_path / f".film[1].mp4.{gone}-1.draft").symlink_to(tmp_path / "kept")
    kept = [tmp_path / "kept", path, draft_of(path), tmp_path / f".film1.mp4.{gone}-1.draft"]
    for one in kept:
        one.mkdir() if one.name == "kept" else one.touch()
    remove_left_drafts(path)
    assert sorted(tmp_path.iterdir()) == sorted(kept)
