"""Changes that are not committed are recorded in a bounded diff, and a repository executes nothing meanwhile."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mosaic_protocol import code_changes
from mosaic_protocol.code_changes import changes_of, masked
from mosaic_protocol.tests.test_provenance import git, repository  # noqa: F401 - a fixture


@pytest.fixture
def changed(repository: Path) -> Path:  # noqa: F811
    (repository / "deep" / "train.py").write_text("print(2)\n")
    return repository


def test_a_diff_against_the_commit_is_kept_with_its_hash(changed: Path) -> None:
    record, diff = changes_of(changed / "deep")
    assert b"-print(1)\n+print(2)\n" in diff
    expected = {"sha256": hashlib.sha256(diff).hexdigest(), "bytes": len(diff), "files": 1}
    assert record == {**expected, "cut": False, "problem": None}
    git(changed, "add", ".")
    assert changes_of(changed)[0] == record  # staged or not, the code is the same


def test_nothing_changed_is_said_too(repository: Path) -> None:  # noqa: F811
    record, diff = changes_of(repository)
    assert (record["files"], record["problem"], diff) == (0, None, b"")
    assert record["sha256"] == hashlib.sha256(b"").hexdigest()


def test_a_long_diff_is_cut_at_a_line(changed: Path) -> None:
    (changed / "deep" / "train.py").write_text("".join(f"line {number}\n" for number in range(50_000)))
    record, diff = changes_of(changed, most=1000)
    assert record["cut"] and 900 < len(diff) <= 1000 and diff.endswith(b"\n")


def test_no_command_of_the_repository_is_executed(changed: Path, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch '{touched}'\ncat\n")
    trap.chmod(0o755)
    (changed / ".git" / "info").mkdir(exist_ok=True)
    (changed / ".git" / "info" / "attributes").write_text("*.py diff=evil filter=evil\n")
    hooks = changed / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "fsmonitor-watchman"):
        (hooks / hook).write_text(trap.read_text())
        (hooks / hook).chmod(0o755)
    for name in ("core.fsmonitor", "diff.external", "diff.evil.command", "diff.evil.textconv", "core.pager"):
        git(changed, "config", name, str(trap))
    for part in ("filter.evil.clean", "filter.evil.process", "filter.a=b.clean", "core.sshCommand"):
        git(changed, "config", part, str(trap))
    git(changed, "config", "filter.evil.required", "true")
    subprocess.run(["git", "diff", "HEAD"], cwd=changed, capture_output=True, check=False, timeout=60)
    assert touched.exists(), "the trap is none"
    touched.unlink()
    os.utime(changed / "deep" / "train.py", (1, 1))  # so that git looks at the content again
    record, diff = changes_of(changed)
    assert record["files"] == 1 and b"+print(2)" in diff
    assert not touched.exists()


def test_secrets_do_not_leave_the_repository(changed: Path) -> None:
    for name in (".env", "my_secrets.json", "server.pem"):
        (changed / name).write_text("old\n")
    git(changed, "add", ".")
    git(changed, "commit", "-q", "-m", "second")
    for name in (".env", "my_secrets.json", "server.pem"):
        (changed / name).write_text("hunter2\n")
    (changed / "deep" / "train.py").write_text(
        'API_KEY = "hunter2"\nurl = "https://me:hunter2@example.org/x"\nwandb_token: hunter2\nlearning_rate = 3\n'
    )
    _, diff = changes_of(changed)
    assert b"hunter2" not in diff and b"learning_rate = 3" in diff and b"https://***@example.org/x" in diff
    assert masked(b"+ x('ghp_" + b"a" * 30 + b"')") == b"+ x('***')"


def test_whatever_is_missing_or_slow_is_a_sentence(
    changed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "no repository"
    bare.mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert "finds no repository" in changes_of(bare)[0]["problem"]
    assert changes_of(tmp_path / "gone")[0]["sha256"] is None
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "git").write_text("#!/bin/sh\nexec sleep 600\n")
    (tools / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    begun = time.monotonic()
    assert changes_of(changed, patience=0.3)[0]["problem"] == "git took longer than 0.3 s"
    assert time.monotonic() - begun < 60
    monkeypatch.setenv("PATH", str(bare))
    assert changes_of(changed)[0]["problem"] == "git is not installed"


def test_the_process_writes_record_diff_and_script_for_their_owner_alone(changed: Path, tmp_path: Path) -> None:
    script, folder = changed / "deep" / "train.py", tmp_path / "code"
    words = [str(script.parent), str(folder), str(script)]
    done = subprocess.run([sys.executable, "-I", "-S", code_changes.__file__, *words], check=False, timeout=120)
    assert done.returncode == 0
    assert json.loads((folder / code_changes.RECORD).read_text())["files"] == 1
    assert (folder / code_changes.SCRIPT).read_bytes() == b"print(2)\n"
    written = (code_changes.DIFF, code_changes.RECORD, code_changes.SCRIPT)
    assert {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()} == dict.fromkeys(written, 0o600)
