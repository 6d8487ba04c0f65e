"""Where the walk takes place: a screen with a window manager, a daemon, and the cockpit as a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mosaic_protocol.paths import MosaicPaths
from tools.cockpit_walk.eyes import Eyes, InVain
from tools.headless import data_root, x_server

_ENDING_SECONDS = 20.0
_OPENING_SECONDS = 90.0
_NEEDED = {"Xvfb": "xvfb", "openbox": "openbox", "xdotool": "xdotool", "wmctrl": "wmctrl"}
_WINDOWS = """<?xml version="1.0"?>
<openbox_config xmlns="http://openbox.org/3.4/rc">
  <focus><focusNew>yes</focusNew></focus>
  <desktops><number>1</number></desktops>
  <applications>
    <application type="normal">
      <decor>no</decor><maximized>yes</maximized>
    </application>
  </applications>
</openbox_config>
"""
"""One window fills the screen, and a new one gets the keyboard: no title bars, no keys of its own."""


def require_tools() -> None:
    missing = [package for command, package in _NEEDED.items() if shutil.which(command) is None]
    if missing:
        raise SystemExit(f"The walk needs more of Debian: apt-get install -y {' '.join(missing)}")


class Place:
    """One screen, one data root, and a cockpit that can be closed and opened again."""

    def __init__(self, paths: MosaicPaths, private: Path) -> None:
        self.paths = paths
        self._socket = private / "probe"
        self._log = private / "cockpit.log"
        self._home = private / "home"
        self.eyes = Eyes(self._socket, private / "Xvfb_screen0")
        self.cockpit: subprocess.Popen[bytes] | None = None

    def open_cockpit(self) -> None:
        self._socket.unlink(missing_ok=True)
        self._home.mkdir(exist_ok=True)
        command = [sys.executable, "-X", "faulthandler", "-m", "tools.cockpit_walk.probed_cockpit", str(self._socket)]
        with self._log.open("ab") as log:
            self.cockpit = subprocess.Popen(
                command, stdout=log, stderr=log, env=self._environment(), start_new_session=True
            )
        try:
            self.eyes.open(_OPENING_SECONDS, self._require_cockpit)
        except InVain as error:
            raise SystemExit(f"{error}\n{self.complaints()}") from error

    def _environment(self) -> dict[str, str]:
        """A home of its own: what a walk exports stays out of the person's, and none asks to replace another's."""
        kept = {name: value for name, value in os.environ.items() if name != "XDG_CONFIG_HOME"}
        return {**kept, "HOME": str(self._home)}

    def _require_cockpit(self) -> None:
        if self.cockpit is not None and self.is_closed():
            raise InVain(f"the cockpit ended with status {self.cockpit.returncode} before it could be seen")

    def is_closed(self) -> bool:
        return self.cockpit is None or self.cockpit.poll() is not None

    def close_cockpit(self) -> None:
        if self.cockpit is not None:
            end(self.cockpit)

    def complaints(self) -> str:
        """What the cockpit printed, and the errors that it kept: both should be empty."""
        kept = self.paths.root / "logs" / "cockpit-errors.log"
        return "".join(one.read_text(errors="replace") for one in (self._log, kept) if one.exists())


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def window_manager(private: Path) -> Iterator[None]:
    config = private / "openbox.xml"
    config.write_text(_WINDOWS)
    command = ["openbox", "--sm-disable", "--config-file", str(config)]
    manager = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        end(manager)


@contextmanager
def place(size: tuple[int, int], theme: str) -> Iterator[Place]:
    """All of it, and at the end none of it."""
    require_tools()
    private = Path(tempfile.mkdtemp(prefix="mosaic-walk-"))
    os.environ["QT_ACCESSIBILITY"] = "0"
    try:
        with x_server(size, private), window_manager(private), data_root() as paths:
            (paths.root / "cockpit.json").write_text(json.dumps({"theme": theme}))
            here = Place(paths, private)
            try:
                yield here
            finally:
                here.close_cockpit()
    finally:
        shutil.rmtree(private, ignore_errors=True)
