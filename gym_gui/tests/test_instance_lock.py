"""One daemon for one data root: the lock says who holds it and dies with its holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gym_gui.services.trainer.errors import AlreadyRunningError
from gym_gui.services.trainer.instance_lock import InstanceLock, holder

_HOLDER = """
import sys
from pathlib import Path
from gym_gui.services.trainer.instance_lock import InstanceLock
lock = InstanceLock(Path(sys.argv[1]))
lock.describe(target="127.0.0.1:1234")
if len(sys.argv) > 2:
    import subprocess
    subprocess.Popen([sys.executable, "-c", "import time; print('child', flush=True); time.sleep(60)"])
else:
    print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "trainer").mkdir()
    return tmp_path / "trainer" / "daemon.lock"


def start_holder(path: Path, *more: str) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(path), *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline().strip() in ("held", "child")
    return child


def end(child: subprocess.Popen[str]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.communicate()


def test_nobody_holds_a_lock_that_was_never_taken(path: Path) -> None:
    assert holder(path) is None


def test_the_holder_can_be_asked_for_and_is_gone_after_release(path: Path) -> None:
    lock = InstanceLock(path)
    lock.describe(target="127.0.0.1:5")
    told = holder(path)
    assert told is not None
    assert (told["pid"], told["target"]) == (os.getpid(), "127.0.0.1:5")
    lock.release()
    assert holder(path) is None


def test_the_second_daemon_is_told_who_holds_the_lock_and_what_to_do(path: Path) -> None:
    child = start_holder(path)
    try:
        with pytest.raises(AlreadyRunningError) as refused:
            InstanceLock(path)
    finally:
        end(child)
    for part in (
        f"process {child.pid}",
        "127.0.0.1:1234",
        str(path.parent.parent),
        "mosaic daemon stop",
        "MOSAIC_HOME",
    ):
        assert part in str(refused.value)


def test_a_killed_daemon_leaves_no_lock(path: Path) -> None:
    child = start_holder(path)
    child.kill()
    end(child)
    assert holder(path) is None
    InstanceLock(path).release()


def test_processes_that_a_daemon_started_do_not_keep_its_lock(path: Path) -> None:
    child = start_holder(path, "with a child")
    try:
        os.kill(child.pid, signal.SIGKILL)
        child.wait(30)
        InstanceLock(path).release()
    finally:
        end(child)


def test_only_its_owner_can_read_the_lock_file(path: Path) -> None:
    InstanceLock(path).release()
    assert path.stat().st_mode & 0o077 == 0


def test_a_lock_file_with_nonsense_in_it_is_no_obstacle(path: Path) -> None:
    path.write_text("nonsense")
    lock = InstanceLock(path)
    told = holder(path)
    assert told is not None
    assert told["pid"] == os.getpid()
    lock.release()


def test_somebody_who_asks_does_not_keep_a_daemon_from_starting(path: Path) -> None:
    """Asking takes the lock for a moment; clients ask many times a second while they wait for a daemon."""
    InstanceLock(path).release()
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            holder(path)

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    try:
        for _ in range(200):
            InstanceLock(path).release()
    finally:
        ended.set()
        for asker in askers:
            asker.join(30)
