"""Folders that are there while something is done, and those of processes that were killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gym_gui.services.passing_folder import passing_folder

KILLED = """
import os
from gym_gui.services.passing_folder import passing_folder
with passing_folder("test") as folder:
    (folder / "inside").write_text("steps")
    print(folder, flush=True)
    os.kill(os.getpid(), 9)
"""


def test_a_folder_goes_when_it_is_left_and_one_of_a_killed_process_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with passing_folder("test") as used:
        told = subprocess.run([sys.executable, "-c", KILLED], env=environment, capture_output=True, check=False)
        left = Path(told.stdout.decode().strip())
        assert left.is_dir() and used.is_dir(), "what is in use stays"
        (tmp_path / f"mosaic-test-{os.getuid()}-link").symlink_to(used)
        with passing_folder("test") as other:
            assert not left.exists() and used.is_dir() and other != used
            assert other.stat().st_mode & 0o777 == 0o700
        assert not other.exists()
    assert not used.exists()
