"""What is mounted inside a run is not the run's: it is never removed with it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gym_gui.services.trainer.client import ClientError
from gym_gui.services.trainer.storage.mounts import mounts_within
from gym_gui.tests.faults.small_disk import SmallDisk, on_a_small_disk
from gym_gui.tests.support.daemon_process import DaemonProcess


@pytest.fixture
def unmounted_after() -> Iterator[list[Path]]:
    """Mount points to take away again, whatever happened."""
    points: list[Path] = []
    yield points
    for point in points:
        subprocess.run(["umount", "--lazy", str(point)], check=False, capture_output=True)


def mount_bound(source: Path, point: Path) -> None:
    point.mkdir()
    done = subprocess.run(["mount", "--bind", str(source), str(point)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@on_a_small_disk
def test_purge_never_crosses_a_mount(
    unmounted_after: list[Path], make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis").write_text("years of work")
    daemon = make_daemon().start()
    run_id = daemon.submit(total_timesteps=2)
    daemon.wait_over(run_id)
    folder = daemon.paths.run(run_id).directory
    bound, disk = folder / "a data set", SmallDisk(folder / "disk", megabytes=1)
    unmounted_after.extend([bound, disk.point])

    mount_bound(precious, bound)
    with pytest.raises(ClientError, match="something is mounted at") as refused:
        daemon.client.delete(run_id, purge=True)
    assert (refused.value.status, str(bound) in str(refused.value)) == ("FAILED_PRECONDITION", True)
    subprocess.run(["umount", str(bound)], check=True)
    (disk.mount() / "file").touch()
    with pytest.raises(ClientError, match="something is mounted at"):
        daemon.client.delete(run_id, purge=True)
    assert (disk.point / "file").exists()
    assert not daemon.client.run(run_id).deleted, "a purge that was refused has not begun"

    disk.unmount()
    daemon.client.delete(run_id, purge=True)
    assert not folder.exists()
    assert (precious / "thesis").read_text() == "years of work"


@on_a_small_disk
def test_every_mount_below_a_folder_is_found_whatever_its_name(unmounted_after: list[Path], tmp_path: Path) -> None:
    inside, source = tmp_path / "run", tmp_path / "source"
    inside.mkdir()
    source.mkdir()
    point, beside = inside / "name with blanks\\and ✓", tmp_path / "run-beside"
    unmounted_after.extend([point, beside])
    mount_bound(source, point)
    mount_bound(source, beside)
    assert mounts_within(inside) == [point]
    assert mounts_within(point) == [point]
    (tmp_path / "link").symlink_to(inside)
    assert mounts_within(tmp_path / "link" / point.name) == [point]
    assert mounts_within(tmp_path / "link") == []
