"""How soon a key is seen, and what pictures cost: a live session on the cockpit's stage, under Xvfb."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.daemon import BenchmarkError, wait_for
from benchmarks.report import Line, Section, Target
from benchmarks.xvfb import measured_under_xvfb

if TYPE_CHECKING:
    from PyQt6.QtCore import Qt

    from gym_gui.ui.play.live_session import LiveSession
    from gym_gui.ui.play.stage_live import LiveStage

NAME = "live_stage"
TITLE = "A live session on the stage"
METHOD = """\
A session of CartPole-v1 in a process of its own, at its own 50 steps a second, and the cockpit's stage for it in a
window of 1280x800 under Xvfb. A key is an event of the window. The time ends with the paint of the first picture after
the state that has the key's action: it holds the wait for the next step of the environment, 10 ms in the mean. FPS are
paints of the picture while chance plays at twice the speed. The reader is measured apart: another process writes
pictures of 600x400 sixty times a second; the CPU time of the process that takes them, beyond that of one that only
looks at the clock as often."""

ENV_ID = "CartPole-v1"
WIDTH, HEIGHT, FPS = 600, 400, 60
_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Measured:
    """What one window saw."""

    key_to_paint_ms: list[float]
    frames_per_second: float
    reader_percent: float
    painting_percent: float


def run(*, quick: bool = False) -> Section:
    rounds, presses, seconds = (1, 40, 3.0) if quick else (3, 200, 10.0)
    words = ["--presses", str(presses), "--seconds", str(seconds)]
    windows = [Measured(**measured_under_xvfb("benchmarks.live_stage", words, 300)) for _ in range(rounds)]
    medians = [sorted(window.key_to_paint_ms)[len(window.key_to_paint_ms) // 2] for window in windows]
    slowest = [sorted(window.key_to_paint_ms)[int(len(window.key_to_paint_ms) * 0.95)] for window in windows]
    pictures = f"{WIDTH}x{HEIGHT} at {FPS} FPS"
    lines = [
        Line(f"{ENV_ID}: key press to painted picture, median", medians, "ms", Target("<", 25)),
        Line(f"{ENV_ID}: key press to painted picture, 95th percentile", slowest, "ms"),
        Line(f"{ENV_ID} at 100 steps/s: paints", [w.frames_per_second for w in windows], "FPS", Target("≥", 30)),
        Line(f"Reading {pictures}", [w.reader_percent for w in windows], "% of a core", Target("<", 5)),
        Line(f"Reading and painting {pictures}", [w.painting_percent for w in windows], "% of a core"),
    ]  # fmt: skip
    return Section(NAME, TITLE, METHOD, lines)


# ---- in the process of the window --------------------------------------------------------------------------------


@contextmanager
def _session(folder: Path) -> Iterator[Path]:
    """A session without a daemon; its run's folder."""
    config = folder / "config.json"
    config.write_text(json.dumps({"algo": "play", "env_id": ENV_ID, "seed": 1, "params": {}}))
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "MOSAIC_TENSORBOARD": "0"}
    command = [sys.executable, "-m", "play_worker.cli", "--config", str(config)]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        yield wait_for("the session's folder", lambda: next((folder / "runs").glob("*"), None))
    finally:
        process.terminate()
        process.wait()


class Window:
    """The stage of one session in a cockpit without a daemon."""

    def __init__(self, home: Path, run_directory: Path) -> None:
        from PyQt6.QtWidgets import QApplication

        from gym_gui.ui.app import CockpitApp
        from gym_gui.ui.panels.stage import Stage
        from gym_gui.ui.play.keys import SessionKeys
        from gym_gui.ui.play.live_session import LiveSession
        from gym_gui.ui.play.stage_live import LiveStage
        from mosaic_protocol.paths import MosaicPaths

        self.app = QApplication(["live-stage"])
        self.cockpit = CockpitApp(self.app, MosaicPaths(home), start_daemon=False)
        self.cockpit.window.setGeometry(0, 0, 1280, 800)
        self.cockpit.window.show()
        self.session: LiveSession = LiveSession(run_directory)
        self.stage: LiveStage = LiveStage(self.cockpit.window.cockpit, self.session)
        SessionKeys(self.session, lambda: None, self.stage).install(self.stage)
        place = self.cockpit.window.findChild(Stage)
        assert place is not None
        place.show_live(self.stage)
        self.view = self.stage.pictures[0].frame

    def until(self, what: str, probe: Callable[[], bool], patience: float = 60.0) -> None:
        """Let the window work until something is so, and look after every event."""
        from PyQt6.QtCore import QEventLoop

        deadline = time.perf_counter() + patience
        while not probe():
            if time.perf_counter() > deadline:
                raise BenchmarkError(f"waited {patience:g} s for {what}, which did not come")
            self.app.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)

    def breathe(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        self.until("the time", lambda: time.perf_counter() >= end)

    def close(self) -> None:
        from mosaic_protocol.live.messages import End

        self.session.send(End())
        self.session.close()
        self.cockpit.close()

    def key_to_paint(self, presses: int) -> list[float]:
        """Milliseconds from a key to its picture. A key that ended an episode or began one does not count."""
        from PyQt6.QtCore import Qt

        keys = {"left": Qt.Key.Key_Left, "right": Qt.Key.Key_Right}
        self.until("the session", lambda: self.session.hello_message is not None and self.view.paints > 0)
        hello = self.session.hello_message
        assert hello is not None
        labels = {one.keys[0]: one.label for one in hello.key_map.bindings}
        self.stage.setFocus()
        found: list[float] = []
        down = "left"
        hand = random.Random(1)
        while len(found) < presses:
            following = "right" if down == "left" else "left"
            episode = self.session.state.episode
            passed = self._press(keys[following], keys[down], labels[following])
            down = following
            if passed is not None and self.session.state.episode == episode and not self.session.state.over:
                found.append(1e3 * passed)
            self.breathe(hand.uniform(0.03, 0.09))
        return found

    def _press(self, key: Qt.Key, other: Qt.Key, action: str) -> float | None:
        """Seconds until the picture that has the action is painted; None where it was no move."""
        if self.session.state.over or self.session.state.waiting or self.session.state.action == action:
            self._change_key(other, key)
            return None
        seen: list[int] = []

        def look(state: Any) -> None:
            if state.action == action and not seen:
                seen.append(self.view.paints)

        self.session.state_changed.connect(look)
        began = time.perf_counter()
        self._change_key(other, key)
        try:
            self.until("the picture", lambda: bool(seen) and self.view.paints > seen[0], patience=2.0)
        except BenchmarkError:
            return None
        finally:
            self.session.state_changed.disconnect(look)
        return time.perf_counter() - began

    def _change_key(self, up: Qt.Key, down: Qt.Key) -> None:
        from PyQt6.QtCore import QEvent, Qt
        from PyQt6.QtGui import QKeyEvent

        for kind, key in ((QEvent.Type.KeyRelease, up), (QEvent.Type.KeyPress, down)):
            self.app.sendEvent(self.stage, QKeyEvent(kind, key, Qt.KeyboardModifier.NoModifier))

    def frames_per_second(self, seconds: float) -> float:
        from mosaic_protocol.live.messages import HandOver, Speed

        self.session.send(HandOver("random"))
        self.session.send(Speed(2.0))
        self.until("chance", lambda: self.session.state.actor == "random")
        painted, began = self.view.paints, time.perf_counter()
        self.breathe(seconds)
        return (self.view.paints - painted) / (time.perf_counter() - began)


def _reading(seconds: float, *, reads: bool, paints: bool) -> float:
    """CPU seconds a second of this process while another one writes pictures."""
    import numpy as np
    from PyQt6.QtCore import QEventLoop, Qt, QTimer

    from gym_gui.ui.widgets.frame_view import FrameView
    from mosaic_protocol.live.frames import FrameReader

    writing = [sys.executable, "-m", "benchmarks.live_stage", "--write", str(seconds + 5)]
    with subprocess.Popen(writing, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        reader = FrameReader(Path(writer.stdout.readline().strip()))
        view = FrameView()
        view.setFixedSize(WIDTH, HEIGHT)
        if paints:
            view.show()
        shown = 0

        def look() -> None:
            nonlocal shown
            frame = reader.latest(shown) if reads else None
            if frame is not None:
                shown = frame.number
                pixels = np.frombuffer(frame.pixels, dtype=np.uint8).reshape(frame.height, frame.width, 3)
                if paints:
                    view.show_frame(pixels)

        timer = QTimer()
        timer.setTimerType(Qt.TimerType.PreciseTimer)
        timer.timeout.connect(look)
        timer.start(1000 // FPS)
        began, used = time.perf_counter(), time.process_time()
        loop = QEventLoop()
        QTimer.singleShot(int(1000 * seconds), loop.quit)
        loop.exec()
        share = (time.process_time() - used) / (time.perf_counter() - began)
        timer.stop()
        view.close()
        reader.close()
        writer.terminate()
    return share


def _write(seconds: float) -> None:
    """Write pictures sixty times a second; the file's name is printed first."""
    from mosaic_protocol.live.frames import FrameWriter

    writer = FrameWriter(WIDTH * HEIGHT * 3)
    print(writer.path, flush=True)
    pictures = [bytes([shade]) * (WIDTH * HEIGHT * 3) for shade in (40, 200)]
    try:
        for number in range(int(seconds * FPS)):
            writer.put(WIDTH, HEIGHT, pictures[number % 2])
            time.sleep(1 / FPS)
    finally:
        writer.close()


def _measure(presses: int, seconds: float) -> Measured:
    with tempfile.TemporaryDirectory(prefix="mosaic-bench-") as folder, _session(Path(folder)) as run_directory:
        window = Window(Path(folder) / "home", run_directory)
        times, painted = window.key_to_paint(presses), window.frames_per_second(seconds)
        window.close()
    clock = _reading(seconds, reads=False, paints=False)
    reading = _reading(seconds, reads=True, paints=False)
    painting = _reading(seconds, reads=True, paints=True)
    return Measured(times, painted, 100 * (reading - clock), 100 * (painting - clock))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--presses", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--write", type=float, default=0.0)
    options = parser.parse_args()
    if options.write:
        import signal

        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        _write(options.write)
    else:
        print(json.dumps(asdict(_measure(options.presses, options.seconds))))
