"""What is recorded of code and machine: read from files, nothing executed, and never a reason to fail."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic_protocol.provenance import code_record, commit_of, packages_of, plain_settings, surroundings


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "train.py").write_text("print(1)\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_a_script_is_known_by_its_hash_and_the_commit_of_its_folder(repository: Path) -> None:
    script = repository / "deep" / "train.py"
    head = git(repository, "rev-parse", "HEAD")
    assert code_record(script) == {
        "path": str(script),
        "sha256": hashlib.sha256(b"print(1)\n").hexdigest(),
        "commit": head,
    }


def test_the_commit_is_found_wherever_git_keeps_it(repository: Path, tmp_path: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "pack-refs", "--all")
    assert commit_of(repository) == head
    git(repository, "checkout", "-q", "--detach")
    assert commit_of(repository / "deep") == head
    git(repository, "worktree", "add", "-q", "-b", "side", str(tmp_path / "beside"))
    (tmp_path / "beside" / "more").write_text("x")
    git(tmp_path / "beside", "add", ".")
    git(tmp_path / "beside", "commit", "-q", "-m", "second")
    assert commit_of(tmp_path / "beside" / "deep") == git(tmp_path / "beside", "rev-parse", "HEAD") != head


def test_what_is_not_there_or_is_strange_is_none(tmp_path: Path) -> None:
    assert code_record(tmp_path / "gone.py") == {"path": str(tmp_path / "gone.py"), "sha256": None, "commit": None}
    (tmp_path / ".git").mkdir()
    for head in (b"ref: ../../etc/passwd\n", b"ref: refs/heads/none\n", b"\xff\xfe", b"zzz", b""):
        (tmp_path / ".git" / "HEAD").write_bytes(head)
        assert commit_of(tmp_path) is None


def test_packages_are_those_of_the_interpreter(tmp_path: Path) -> None:
    own = packages_of(Path(sys.executable))
    assert own["pytest"] == pytest.__version__
    site = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").write_text("home = /usr\nversion = 3.11.9\n")
    python = tmp_path / "venv" / "bin" / "python"
    assert packages_of(python) == {}
    for name in ("Some_Thing-1.2.dist-info", "other.pkg-0.1+cpu.dist-info", "numpy", "__pycache__", "x.dist-info"):
        (site / name).mkdir()
    found = surroundings(python)
    assert found["packages"] == {"other-pkg": "0.1+cpu", "some-thing": "1.2"}
    assert found["python"] == "3.11.9"
    assert surroundings(tmp_path / "no" / "python")["python"] is None


def test_only_plain_settings_are_kept() -> None:
    assert plain_settings({"a": 1, "b": None, "c": True, "d": object(), "e": [1]}) == {"a": 1, "b": None, "c": True}
