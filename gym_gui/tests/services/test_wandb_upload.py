"""An upload with the real wandb that is killed leaves no process, and its key is on no command line."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gym_gui.tests.support.marked_processes import command_of, processes_marked
from mosaic_protocol.tests.made_wandb_files import curve_records, tracked_run

PATIENCE = 60.0


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB_", "MOSAIC_"))}
    return kept | {"HOME": str(tmp_path / "home"), "WANDB_MODE": "offline"}


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.05)


@contextmanager
def silent_server() -> Iterator[str]:
    """Takes connections and says nothing, so that an upload stays under way."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_killed_upload_leaves_no_process(tmp_path: Path, environ: dict[str, str]) -> None:
    """Also wandb-core, which leads a session of its own, ends with the process that started the upload."""
    run_dir = tmp_path / "run"
    tracked_run(run_dir, curve_records(5))
    program = (
        "import sys, os; from pathlib import Path;"
        "from gym_gui.services.wandb.upload import WandbUpload; from gym_gui.services.wandb.run_side import side_of;"
        "from gym_gui.services.wandb.route import Route; from mosaic_protocol.wandb_keys import WandbKey;"
        "run = Path(sys.argv[1]); route = Route(sys.argv[2], None);"
        "upload = WandbUpload(run, side_of(run, is_over=True), WandbKey('x', 'k' * 40), route);"
        "print('begun', flush=True); list(upload.lines())"
    )
    mark = f"upload-{os.getpid()}"
    with silent_server() as address:
        environ |= {"WANDB_BASE_URL": address, "UPLOAD_MARK": mark}
        starter = subprocess.Popen(
            [sys.executable, "-c", program, str(run_dir), address], env=environ, stdout=subprocess.DEVNULL
        )
        wait_for("wandb and its helper to run", lambda: len(processes_marked("UPLOAD_MARK", mark)) >= 3)
        assert not any("k" * 40 in command_of(pid) for pid in processes_marked("UPLOAD_MARK", mark))
        starter.send_signal(signal.SIGKILL)
        starter.wait()
        wait_for("all of them to end", lambda: not processes_marked("UPLOAD_MARK", mark))
