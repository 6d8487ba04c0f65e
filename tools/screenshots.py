"""Take pictures of every screen of the cockpit into docs/screenshots, dark and light.

    python -m tools.screenshots [--only NAME ...] [--theme dark|light] [--into DIR]

Nothing is staged but the checkout's own path, which is shown as ~/mosaic: an X server without a screen, a daemon on a
data root that is thrown away, short CleanRL runs, and
the real window. What is started here is ended here. The scenes themselves are in :mod:`tools.screenshot_scenes`.
"""

from __future__ import annotations

import argparse
import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from PyQt6.QtWidgets import QApplication

from gym_gui.services.trainer.client import TrainerClient
from mosaic_protocol.paths import MosaicPaths
from tools.screenshot_camera import LARGE_SIZE, PATIENCE_SECONDS, ROOT, THEMES, Camera
from tools.screenshot_scenes import take_all

PICTURES = ROOT / "docs" / "screenshots"


# ---- the surroundings ------------------------------------------------------------------------------------------------


@contextmanager
def x_server() -> Iterator[None]:
    """An X server of its own, as large as the largest picture, on the first display that is free."""
    if shutil.which("Xvfb") is None:
        raise SystemExit("Xvfb is needed to take pictures; install it with `apt-get install xvfb` and try again.")
    reading, writing = os.pipe()
    size = "x".join(map(str, LARGE_SIZE))
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", f"{size}x24", "-nolisten", "tcp"]
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
def data_root() -> Iterator[MosaicPaths]:
    """A data root with a daemon that gives runs four CPUs; at the end its runs are cancelled and it is stopped."""
    home = Path(tempfile.mkdtemp(prefix="mosaic-screenshots-"))
    os.environ.update(MOSAIC_HOME=str(home), MOSAIC_TRAINER_CPUS="4", MOSAIC_TRAINER_PREWARM="cleanrl")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["WANDB_MODE"] = "offline"
    paths = MosaicPaths.from_environment()
    TrainerClient.connect(paths).close()
    try:
        yield paths
    finally:
        _end_runs(paths)
        shutil.rmtree(home, ignore_errors=True)


def _end_runs(paths: MosaicPaths) -> None:
    with TrainerClient.connect(paths) as client:
        for run in client.runs().runs:
            if run.state != "TERM":
                client.cancel(run.run_id, "the pictures are taken")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(run.state != "TERM" for run in client.runs().runs) and time.monotonic() < deadline:
            time.sleep(0.1)
        client.shutdown()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="pictures with this in their name")
    parser.add_argument("--theme", choices=THEMES, help="one theme instead of both")
    parser.add_argument("--into", type=Path, default=PICTURES, metavar="DIR", help="where to put them")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    begin = time.monotonic()
    with ExitStack() as around:
        # Where a signal comes while Qt calls Python, sys.exit does not unwind: runs would train on for days.
        atexit.register(around.close)
        around.enter_context(x_server())
        paths = around.enter_context(data_root())
        camera = Camera(
            QApplication(["mosaic"]), options.into, options.only, [options.theme] if options.theme else THEMES
        )
        take_all(camera, paths)
    size = sum(path.stat().st_size for path in camera.taken)
    print(f"{len(camera.taken)} pictures, {size / 1e6:.1f} MB, {time.monotonic() - begin:.0f} s")
    print("\n".join(camera.failures), end="\n" if camera.failures else "")
    return 0 if camera.taken and not camera.failures else 1


if __name__ == "__main__":
    sys.exit(main())
