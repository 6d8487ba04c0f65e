"""What MOSAIC writes is its owner's alone, also where an older version left it open."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gym_gui.services.trainer.storage.private_files import prepare, tighten
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import HANG_GUARD, DaemonProcess
from gym_gui.tests.support.made_checkpoints import RUN_A, write_run
from mosaic_protocol.paths import MosaicPaths


def open_to_others(folder: Path) -> dict[str, str]:
    """What others may do something with, by path, with its mode."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        mode = path.lstat().st_mode
        if mode & 0o077 and not stat.S_ISLNK(mode):
            found[str(path.relative_to(folder.parent))] = oct(stat.S_IMODE(mode))
    return found


def test_everything_that_a_daemon_and_its_workers_write_is_private(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    daemon = make_daemon(warm_starts=1)
    paths = daemon.paths
    for file in (
        paths.daemon_log,
        paths.telemetry_db.with_name("old.sqlite"),
        paths.trainer / "old",
        paths.configs / "old",
    ):
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        file.touch(mode=0o644)
    before = os.umask(0o022)  # as most people have it
    try:
        daemon.start()
    finally:
        os.umask(before)
    for _ in range(2):  # the first one is spawned, the second may be forked
        daemon.wait_over(daemon.submit(total_timesteps=3))
    daemon.terminate()
    for folder in (paths.trainer, paths.telemetry_db.parent, paths.logs):
        assert any(folder.iterdir())
        assert open_to_others(folder) == {}


def run(paths: MosaicPaths, *words: str) -> None:
    """A command in a process of its own, as most people have their mask."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    assert CommandLine(paths.root).process(*words, umask=0o022, **quiet).wait(HANG_GUARD) == 0


def test_what_the_command_line_writes_is_private(tmp_path: Path) -> None:
    paths = MosaicPaths(tmp_path / "home")
    run(paths, "daemon", "start")
    try:
        write_run(paths, RUN_A, "walker", (100,))
        for path in [paths.run(RUN_A).directory, *paths.run(RUN_A).directory.rglob("*")]:
            path.chmod(0o700 if path.is_dir() else 0o600)
        run(paths, "checkpoints")
        paths.run_config(RUN_A).chmod(0o600)
        assert paths.checkpoint_index.exists()
        assert open_to_others(paths.root) == {}
    finally:
        run(paths, "daemon", "stop")


def test_tightening_leaves_alone_what_is_not_ours(tmp_path: Path) -> None:
    """The root, which may be any folder; links and what they lead to; files that have a second name elsewhere."""
    paths = MosaicPaths(tmp_path / "home")
    elsewhere = tmp_path / "elsewhere"
    for folder in (paths.trainer, paths.logs, elsewhere):
        folder.mkdir(parents=True)
    (elsewhere / "mine").touch(mode=0o644)
    (paths.trainer / "link").symlink_to(elsewhere / "mine")
    (paths.trainer / "second name").hardlink_to(elsewhere / "mine")
    os.mkfifo(paths.trainer / "pipe")
    paths.runs.symlink_to(elsewhere)
    for path in (paths.root, paths.trainer, elsewhere):
        path.chmod(0o755)
    tighten(paths)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (paths.root, paths.trainer, elsewhere, elsewhere / "mine")]
    assert modes == [0o755, 0o700, 0o755, 0o644]


def test_the_cockpit_imports_into_a_private_folder(tmp_path: Path) -> None:
    paths = MosaicPaths(tmp_path / "home")
    prepare(paths)
    assert stat.S_IMODE(paths.training.stat().st_mode) == 0o700
    paths.training.chmod(0o755)
    prepare(paths)
    assert stat.S_IMODE(paths.training.stat().st_mode) == 0o700
    prepare(MosaicPaths(Path("/proc/nowhere")))


def test_a_program_that_takes_our_place_gets_its_mask_back() -> None:
    code = (
        "import os; from gym_gui.services.trainer.storage import private_files as p; p.keep_private(); p.keep_private()"
    )
    code += "; kept = os.umask(0o077); p.as_before(); print(oct(kept), oct(os.umask(0)))"
    done = subprocess.run([sys.executable, "-c", code], umask=0o027, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0o77", "0o27"]
