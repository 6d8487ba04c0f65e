"""How long it takes from `mosaic gui` to a window that one can use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from benchmarks.daemon import BenchDaemon, BenchmarkError, ScratchHome
from benchmarks.report import Line, Section, Target
from mosaic_protocol.paths import MosaicPaths

NAME = "cockpit_start"
TITLE = "Opening the cockpit"
METHOD = """\
A new process with the cockpit's own `main`, Qt's offscreen platform, a daemon that runs already, no runs. Counted from
the start of the interpreter until the window is painted, and until the form for a CleanRL run has the script's flags,
which the worker is asked for by process. Files are in the page cache, as at any but the first start of a day."""

_TIMES, _QUICK_TIMES = 7, 2
_HANG_SECONDS = 120


def run(*, quick: bool = False) -> Section:
    with ScratchHome() as paths, BenchDaemon(paths):
        _opened(paths)  # fills the page cache
        opened = [_opened(paths) for _ in range(_QUICK_TIMES if quick else _TIMES)]
    lines = [
        Line("Start to painted window", [one["painted"] for one in opened], "s", Target("<", 2)),
        Line("Start to form with the script's flags", [one["ready"] for one in opened], "s"),
        Line("CPU time of the cockpit until then", [one["cpu"] for one in opened], "s"),
    ]
    return Section(NAME, TITLE, METHOD, lines)


def _opened(paths: MosaicPaths) -> dict[str, float]:
    environment = {**os.environ, "MOSAIC_HOME": str(paths.root), "QT_QPA_PLATFORM": "offscreen"}
    began = time.monotonic()
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.cockpit_start"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_HANG_SECONDS,
        check=False,
    )
    if child.returncode != 0 or not child.stdout.strip():
        raise BenchmarkError(f"the cockpit could not be opened: {child.stderr.strip()[-300:]}")
    seen: dict[str, float] = json.loads(child.stdout.splitlines()[-1])
    return {"painted": seen["painted"] - began, "ready": seen["ready"] - began, "cpu": seen["cpu"]}


# ---- in the process of the cockpit -------------------------------------------------------------------------------


def main() -> int:
    from PyQt6.QtCore import QEvent, QObject, QTimer

    from gym_gui.ui import app
    from gym_gui.ui.panels.train_dock import TrainDock
    from gym_gui.ui.widgets.cleanrl_train_form import CleanRlTrainForm

    class Watcher(QObject):
        def __init__(self, window: Any) -> None:
            super().__init__(window)
            self._window = window
            self._painted = 0.0
            window.installEventFilter(self)
            window.findChild(TrainDock).show_page("train")  # as one who has trained before opens it

        def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
            if event is not None and event.type() == QEvent.Type.Paint and not self._painted:
                self._painted = time.monotonic()
                QTimer.singleShot(0, self._look)
            return False

        def _look(self) -> None:
            dock = self._window.findChild(TrainDock)
            form = dock.form if dock is not None else None
            if not (isinstance(form, CleanRlTrainForm) and form.parameters.is_known):
                QTimer.singleShot(10, self._look)
                return
            seen = {"painted": self._painted, "ready": time.monotonic(), "cpu": time.process_time()}
            print(json.dumps(seen), flush=True)
            self._window.close()

    open_cockpit = app.CockpitApp.open

    def open_and_watch(cockpit: app.CockpitApp) -> None:
        Watcher(cockpit.window)
        open_cockpit(cockpit)

    app.CockpitApp.open = open_and_watch  # type: ignore[assignment,method-assign]
    return app.main(["mosaic"])


if __name__ == "__main__":
    sys.exit(main())
