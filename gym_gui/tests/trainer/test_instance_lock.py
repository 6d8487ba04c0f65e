"""One daemon for one data root: the lock says who holds it and dies with its holder."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gym_gui.services.trainer.errors import AlreadyRunningError
from gym_gui.services.trainer.instance_lock import InstanceLock, holder
from mosaic_protocol.paths import MosaicPaths

Flock = Callable[[int, int], None]

_HOLDER = """
import errno, fcntl, os, stat, sys
from pathlib import Path
if how := os.environ.get("FOLDER_LOCKS"):
    def without_folders(descriptor, kind, flock=fcntl.flock):
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            flock(descriptor, kind)
        elif how == "refused":
            raise OSError(errno.EBADF, "as some network disks answer")
    fcntl.flock = without_folders
from gym_gui.services.trainer.instance_lock import InstanceLock
from mosaic_protocol.paths import MosaicPaths
lock = InstanceLock(MosaicPaths(Path(sys.argv[1])))
lock.describe(target="127.0.0.1:1234")
if len(sys.argv) > 2:
    import subprocess
    subprocess.Popen([sys.executable, "-c", "import time; print('child', flush=True); time.sleep(60)"])
else:
    print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["kept", "refused", "of one machine"])
def paths(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> MosaicPaths:
    """A data root on a local disk, on one that locks no folders, and on one that grants them to every machine."""
    paths = MosaicPaths(tmp_path)
    paths.trainer.mkdir()
    if request.param != "kept":
        monkeypatch.setenv("FOLDER_LOCKS", request.param)
        monkeypatch.setattr(fcntl, "flock", partial(_as_on_a_network_disk, request.param))
    return paths


def _as_on_a_network_disk(how: str, descriptor: int, kind: int, flock: Flock = fcntl.flock) -> None:
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        flock(descriptor, kind)
    elif how == "refused":
        raise OSError(errno.EBADF, "as some network disks answer")


def start_holder(paths: MosaicPaths, *more: str) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(paths.root), *more],
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


def test_nobody_holds_a_lock_that_was_never_taken(paths: MosaicPaths) -> None:
    assert holder(paths) is None


def test_the_holder_can_be_asked_for_and_is_gone_after_release(paths: MosaicPaths) -> None:
    lock = InstanceLock(paths)
    lock.describe(target="127.0.0.1:5")
    told = holder(paths)
    assert told is not None
    assert (told["pid"], told["target"]) == (os.getpid(), "127.0.0.1:5")
    lock.release()
    assert holder(paths) is None


def test_the_second_daemon_says_who_holds_the_lock_and_what_to_do(paths: MosaicPaths) -> None:
    child = start_holder(paths)
    try:
        with pytest.raises(AlreadyRunningError) as refused:
            InstanceLock(paths)
    finally:
        end(child)
    for part in (
        f"process {child.pid}",
        "127.0.0.1:1234",
        str(paths.root),
        "mosaic daemon stop",
        "MOSAIC_HOME",
    ):
        assert part in str(refused.value)


def test_a_killed_daemon_leaves_no_lock(paths: MosaicPaths) -> None:
    child = start_holder(paths)
    child.kill()
    end(child)
    assert holder(paths) is None
    InstanceLock(paths).release()


def test_processes_that_a_daemon_started_do_not_keep_its_lock(paths: MosaicPaths) -> None:
    child = start_holder(paths, "with a child")
    try:
        os.kill(child.pid, signal.SIGKILL)
        child.wait(30)
        InstanceLock(paths).release()
    finally:
        end(child)


@pytest.mark.parametrize("content", ["nonsense", "", "[]", "{}", '{"pid": "x"}', '{"pid": 1, "start_ticks": 1}'])
def test_words_that_are_not_a_daemons_are_no_obstacle(paths: MosaicPaths, content: str) -> None:
    paths.daemon_file.write_text(content)
    lock = InstanceLock(paths)
    told = holder(paths)
    assert told is not None
    assert told["pid"] == os.getpid()
    lock.release()


def test_somebody_who_asks_does_not_keep_a_daemon_from_starting(paths: MosaicPaths) -> None:
    """Asking takes the lock for a moment; clients ask many times a second while they wait for a daemon."""
    InstanceLock(paths).release()
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            holder(paths)

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    try:
        for _ in range(200):
            InstanceLock(paths).release()
    finally:
        ended.set()
        for asker in askers:
            asker.join(30)


def test_words_that_somebody_removed_or_changed_are_said_again(paths: MosaicPaths) -> None:
    lock = InstanceLock(paths)
    lock.describe(target="unix:x")
    said = paths.daemon_file.read_bytes()
    for harm in (Path.unlink, lambda path: path.write_text("")):
        harm(paths.daemon_file)
        assert holder(paths) == {}
        lock.repeat()
        assert paths.daemon_file.read_bytes() == said
    lock.release()


def test_the_words_of_a_killed_daemon_are_not_taken_for_its_successors(paths: MosaicPaths) -> None:
    child = start_holder(paths)
    end(child)
    left = paths.daemon_file.read_bytes()
    lock = InstanceLock(paths)
    paths.daemon_file.write_bytes(left)
    assert holder(paths) == {}
    lock.release()


def test_removing_what_stands_in_the_folder_frees_no_lock(paths: MosaicPaths) -> None:
    """A folder cannot be removed from under its lock. A file can: its holder makes and locks it again."""
    lock = InstanceLock(paths)
    for file in list(paths.trainer.iterdir()):
        file.unlink()
    assert not lock.replaced()
    with pytest.raises(AlreadyRunningError):
        InstanceLock(paths)
    lock.release()


@pytest.mark.parametrize("paths", ["refused", "of one machine"], indirect=True)
def test_a_holder_notices_that_another_took_its_file_where_folders_are_not_locked(paths: MosaicPaths) -> None:
    lock = InstanceLock(paths)
    (paths.trainer / "daemon.lock").unlink()
    child = start_holder(paths)
    try:
        assert lock.replaced()
    finally:
        end(child)
        lock.release()


def test_a_disk_that_takes_no_lock_file_keeps_no_daemon_from_starting(tmp_path: Path) -> None:
    """On a disk without a byte left the folder alone is locked."""
    paths = MosaicPaths(tmp_path)
    paths.trainer.mkdir()
    (paths.trainer / "daemon.lock").symlink_to(tmp_path / "elsewhere")  # cannot be opened, and nobody follows it
    assert holder(paths) is None
    lock = InstanceLock(paths)
    assert holder(paths) is not None
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(AlreadyRunningError):
        InstanceLock(paths)
    lock.release()


def test_a_holder_notices_that_its_folder_was_replaced(paths: MosaicPaths) -> None:
    lock = InstanceLock(paths)
    paths.trainer.rename(paths.root / "moved")
    assert not lock.replaced(), "it may come back: a disk that is away for a moment looks the same"
    paths.trainer.mkdir()
    assert lock.replaced()
    lock.release()


def test_a_daemon_of_an_earlier_version_is_heeded(tmp_path: Path) -> None:
    """It locked a file; after an update the next command must not start a second one beside it."""
    paths = MosaicPaths(tmp_path)
    paths.trainer.mkdir()
    with (paths.trainer / "daemon.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert holder(paths) is not None
        with pytest.raises(AlreadyRunningError):
            InstanceLock(paths)
    assert holder(paths) is None
    InstanceLock(paths).release()
