"""A worker never starts twice: one attempt, one claim, by the worker or against it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mosaic_protocol import claims
from mosaic_protocol.process_identity import ProcessIdentity


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs" / "run").mkdir(parents=True)
    return tmp_path / "runs" / "run" / "claims"


@pytest.fixture(autouse=True)
def _no_open_claims(folder: Path) -> object:
    """A claim stays open as long as its process; here that would be as long as the tests."""
    yield
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(folder)):
                os.close(int(descriptor))
        except OSError:
            continue


def held_open(pid: int, path: Path) -> list[int]:
    """The modes with which a process holds a file open."""
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if os.readlink(descriptor) == str(path):
                found.append(descriptor.lstat().st_mode & 0o600)
        except OSError:
            continue
    return found


def test_an_unclaimed_attempt_belongs_to_nobody(folder: Path) -> None:
    assert claims.claimant(folder, 1) is None


def test_a_claim_waits_for_the_folder_of_its_run_and_makes_nothing_in_its_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is moved or unmounted for a moment comes back, and must find its place free."""
    runs = folder.parents[1]
    away = runs.rename(runs.with_name("away"))

    def come_back(_: float) -> None:
        assert not runs.exists()
        away.rename(runs)

    monkeypatch.setattr(time, "sleep", come_back)
    assert claims.claim(folder, 1)


def test_a_claim_is_not_revoked_while_the_folder_of_all_runs_is_away(folder: Path) -> None:
    assert claims.claim(folder, 1)
    runs = folder.parents[1]
    away = runs.rename(runs.with_name("away"))
    with pytest.raises(FileNotFoundError):
        claims.revoke(folder, 1)
    assert not runs.exists()
    away.rename(runs)
    assert claims.revoke(folder, 1) == ProcessIdentity.current()


def test_the_first_claim_wins_and_names_its_process(folder: Path) -> None:
    assert claims.claim(folder, 1)
    assert not claims.claim(folder, 1)
    assert claims.claimant(folder, 1) == ProcessIdentity.current()


def test_attempts_are_claimed_apart(folder: Path) -> None:
    assert claims.claim(folder, 1)
    assert claims.claim(folder, 2)


def test_a_revoked_attempt_cannot_be_claimed_any_more(folder: Path) -> None:
    assert claims.revoke(folder, 1) is None
    assert not claims.claim(folder, 1)
    assert claims.claimant(folder, 1) is None
    assert claims.claim(folder, 2), "the next attempt is free"


def test_revoking_twice_is_harmless(folder: Path) -> None:
    assert claims.revoke(folder, 1) is None
    assert claims.revoke(folder, 1) is None


def test_revoking_a_claimed_attempt_says_who_has_it(folder: Path) -> None:
    assert claims.claim(folder, 1)
    assert claims.revoke(folder, 1) == ProcessIdentity.current()
    assert claims.claimant(folder, 1) == ProcessIdentity.current()


def test_a_claim_is_held_open_for_writing_so_that_forks_differ_from_readers(folder: Path) -> None:
    assert claims.claim(folder, 1)
    path = claims.path_of(folder, 1)
    with path.open("rb"):
        assert sorted(held_open(os.getpid(), path)) == [0o400, 0o600]


def test_programs_that_a_worker_starts_do_not_inherit_the_open_claim(folder: Path) -> None:
    assert claims.claim(folder, 1)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        while os.readlink(f"/proc/{child.pid}/exe") != os.path.realpath(sys.executable):
            pass
        assert held_open(child.pid, claims.path_of(folder, 1)) == []
    finally:
        child.communicate(b"\n")


def test_no_draft_is_left_behind(folder: Path) -> None:
    claims.claim(folder, 1)
    claims.claim(folder, 1)
    claims.revoke(folder, 2)
    assert sorted(entry.name for entry in folder.iterdir()) == ["attempt-1", "attempt-2"]


def test_a_draft_that_a_crash_left_cannot_change_a_claim(folder: Path) -> None:
    """Killed between its two steps, a process leaves a second name of the claim itself."""
    assert claims.claim(folder, 1)
    os.link(claims.path_of(folder, 1), folder / f".draft-{os.getpid()}-1")
    assert claims.revoke(folder, 1) == ProcessIdentity.current()
    assert claims.claimant(folder, 1) == ProcessIdentity.current()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 3}', "\x00\x00"])
def test_a_claim_that_a_power_cut_emptied_belongs_to_nobody(folder: Path, content: str) -> None:
    folder.mkdir(parents=True)
    claims.path_of(folder, 1).write_text(content)
    assert claims.claimant(folder, 1) is None
    assert not claims.claim(folder, 1)


def test_of_many_processes_one_gets_the_claim(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from mosaic_protocol import claims\n"
        "input(); print(claims.claim(Path(sys.argv[1]), 1), flush=True); input()"
    )
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    won: list[ProcessIdentity | None] = []
    try:
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("\n")
            racer.stdin.flush()
        for racer in racers:
            assert racer.stdout is not None
            if racer.stdout.readline().strip() == "True":
                won.append(ProcessIdentity.of(racer.pid))
        assert won == [claims.claimant(folder, 1)]
    finally:
        for racer in racers:
            racer.communicate("\n")


def test_the_race_between_worker_and_daemon_has_one_winner(tmp_path: Path) -> None:
    """Each side believes the same: claimed, or revoked; never both, never neither."""
    for attempt in range(1, 101):
        results: dict[str, object] = {}
        start = threading.Barrier(2)

        def worker(
            attempt: int = attempt, results: dict[str, object] = results, start: threading.Barrier = start
        ) -> None:
            start.wait()
            results["worker"] = claims._create(tmp_path, attempt, "worker")

        thread = threading.Thread(target=worker)
        thread.start()
        start.wait()
        revoked = _create_as_another_process(tmp_path, attempt)
        thread.join()
        assert results["worker"] is not revoked


def _create_as_another_process(folder: Path, attempt: int) -> bool:
    draft = folder / f".draft-other-{attempt}"
    draft.write_text("revoked")
    try:
        os.link(draft, claims.path_of(folder, attempt))
    except FileExistsError:
        return False
    return True


def test_a_worker_that_waits_for_space_to_claim_notices_that_it_was_revoked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Event()

    def no_space(*_: object) -> int:
        tried.set()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", no_space)
    answers: list[bool] = []
    worker = threading.Thread(target=lambda: answers.append(claims.claim(folder, 1)))
    worker.start()
    assert tried.wait(60)
    assert claims.revoke(folder, 1) is None, "for that an empty file is enough"
    worker.join(60)
    assert answers == [False]
    assert [entry.name for entry in folder.iterdir()] == ["attempt-1"]


def test_a_claim_that_is_no_file_belongs_to_nobody(folder: Path) -> None:
    """A recovering daemon reads claims of runs that may have meant harm: it must not wait for a pipe."""
    folder.mkdir(parents=True)
    os.mkfifo(claims.path_of(folder, 1))
    claims.path_of(folder, 2).symlink_to("/dev/zero")
    assert claims.claimant(folder, 1) is None
    assert claims.claimant(folder, 2) is None
    assert claims.revoke(folder, 1) is None


@pytest.mark.parametrize(
    "content",
    [
        "[" * 9000,
        '{"pid": "1", "start_ticks": 1, "boot": "b"}',
        '{"pid": true, "start_ticks": 1, "boot": "b"}',
        '{"pid": 99999999999999999999, "start_ticks": 1, "boot": "b"}',
        '{"pid": null, "start_ticks": 1, "boot": "b"}',
        '{"pid": 1, "start_ticks": 1, "boot": ["b"]}',
        '{"pid": 1, "start_ticks": 1}',
        "7",
    ],
)
def test_a_claim_that_names_no_process_belongs_to_nobody(folder: Path, content: str) -> None:
    """A run may write anything into its own folder; the daemon that reads it must not trip over it."""
    folder.mkdir()
    claims.path_of(folder, 1).write_text(content)
    assert claims.claimant(folder, 1) is None
    assert claims.revoke(folder, 1) is None
