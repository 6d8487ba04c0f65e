"""Where a cockpit can be looked at without a screen: an X server and a data root that are thrown away afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gym_gui.services.trainer.client import TrainerClient
from mosaic_protocol.paths import MosaicPaths

PATIENCE_SECONDS = 60.0
_GRACE_SECONDS = 10.0


@contextmanager
def x_server(size: tuple[int, int], screen_into: Path | None = None) -> Iterator[None]:
    """An X server of its own with a screen of that size, on the first display that is free.

    ``screen_into``: a folder where its screen can be read at any time, from the file ``Xvfb_screen0``.
    """
    if shutil.which("Xvfb") is None:
        raise SystemExit("Xvfb is needed to take pictures; install it with `apt-get install xvfb` and try again.")
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", f"{size[0]}x{size[1]}x24", "-nolisten", "tcp"]
    command += ["-fbdir", str(screen_into)] if screen_into is not None else []
    # In a session of its own: Ctrl-C or a time limit reaches the whole group, and without its server Qt exits at once.
    server = subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL, start_new_session=True)
    os.close(writing)
    try:
        with os.fdopen(reading) as told:
            number = told.readline().strip()
        if not number:
            raise SystemExit(f"Xvfb ended with status {server.wait()}")
        os.environ.update(DISPLAY=f":{number}", QT_QPA_PLATFORM="xcb", QT_SCALE_FACTOR="1")
        os.environ["QTWEBENGINE_DISABLE_SANDBOX"] = "1"  # the warning that root gets instead is of no use to others
        yield
    finally:
        server.terminate()
        server.wait()


@contextmanager
def data_root(kept: Path | None = None) -> Iterator[MosaicPaths]:
    """A data root with a daemon that gives runs four CPUs; at the end its runs are cancelled and it is stopped.

    ``kept``: a folder for it that stays; what was cancelled there is deleted for good, so that it can begin anew.
    """
    home = Path(tempfile.mkdtemp(prefix="mosaic-cockpit-")) if kept is None else kept.resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ.update(MOSAIC_HOME=str(home), MOSAIC_TRAINER_CPUS="4", MOSAIC_TRAINER_PREWARM="cleanrl")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["WANDB_MODE"] = "offline"
    paths = MosaicPaths.from_environment()
    TrainerClient.connect(paths).close()
    try:
        yield paths
    finally:
        try:
            _end_runs(paths, delete=kept is not None)
        finally:
            _sweep(home)
            if kept is None:
                shutil.rmtree(home, ignore_errors=True)
                shutil.rmtree(logs_of_others(home), ignore_errors=True)


def logs_of_others(home: Path) -> Path:
    """Where logs lie that no run of that data root wrote: beside it, and gone when it is."""
    return home.with_name(f"{home.name}-logs")


def _end_runs(paths: MosaicPaths, *, delete: bool) -> None:
    with TrainerClient.connect(paths) as client:
        unfinished = [run.run_id for run in client.runs().runs if run.state != "TERM"]
        for run_id in unfinished:
            client.cancel(run_id, "the pictures are taken")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(run.state != "TERM" for run in client.runs().runs) and time.monotonic() < deadline:
            time.sleep(0.1)
        for run_id in unfinished if delete else ():
            client.delete(run_id, purge=True)
        client.shutdown()


def _sweep(home: Path) -> None:
    """Wait for whatever still works on the data root, and end it when it takes long: it would make the folder again."""
    mark = f"MOSAIC_HOME={home}\0".encode()
    begin = time.monotonic()
    while left := _marked(mark):
        waited = time.monotonic() - begin
        for pid in left if waited > _GRACE_SECONDS else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if waited > 2 * _GRACE_SECONDS else signal.SIGTERM)
        time.sleep(0.2)


def _marked(mark: bytes) -> list[int]:
    """The processes that were started for it, this one excepted."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found
