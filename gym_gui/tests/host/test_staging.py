"""What several runs begin from is kept once, and is what its hash says or is not given."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from mosaic_host.staging import Staging

CONTENT = b"rows of a dataset"
HASH = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Staging(tmp_path / "staged")


def test_a_file_travels_once_and_every_run_has_it(staging: Staging, tmp_path: Path) -> None:
    first, second = tmp_path / "inputs" / "a" / "data", tmp_path / "inputs" / "b" / "data"
    assert not staging.give(first, "a", HASH)
    staging.arriving("a", HASH).write_bytes(CONTENT)
    assert staging.give(first, "a", HASH)
    assert staging.give(second, "b", HASH), "nobody brings it again"
    assert first.read_bytes() == second.read_bytes() == CONTENT
    assert first.stat().st_ino == second.stat().st_ino and not first.stat().st_mode & 0o222
    assert staging.give(first, "a", HASH), "a launch that is made again finds it there"


def test_what_came_with_another_content_is_not_given(staging: Staging, tmp_path: Path) -> None:
    staging.arriving("a", HASH).write_bytes(b"cut off")
    staging.arriving("b", HASH).write_bytes(CONTENT)
    assert not staging.give(tmp_path / "data", "a", HASH)
    assert not (tmp_path / "data").exists()
    assert staging.give(tmp_path / "data", "b", HASH), "another run's part was whole"


def test_only_what_no_run_has_is_removed_after_a_while(staging: Staging, tmp_path: Path) -> None:
    place = tmp_path / "data"
    staging.arriving("a", HASH).write_bytes(CONTENT)
    assert staging.give(place, "a", HASH)
    (kept,) = (tmp_path / "staged").iterdir()
    os.utime(kept, (1, 1))
    staging.prune()
    assert kept.exists()
    place.unlink()
    os.utime(kept, (1, 1))
    staging.prune()
    assert not kept.exists()


@pytest.mark.parametrize("name", ["", "../x", HASH[:-1], f"{HASH}/x", HASH.upper()])
def test_what_is_no_hash_names_no_file(staging: Staging, name: str) -> None:
    with pytest.raises(OSError, match="no SHA-256"):
        staging.arriving("a", name)
