"""The frame around it all: themes, palette, help, a daemon that is stopped, a small window, and the end."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial

from tools.cockpit_walk.eyes import InVain, Target, until
from tools.cockpit_walk.first_stations import LAUNCH, launched, pick_run
from tools.cockpit_walk.hands import xdotool
from tools.cockpit_walk.run_stations import names
from tools.cockpit_walk.walk import Walk

QUERY = Target(kind="line", within="CommandPalette")
_SLOW_SECONDS = 3.0
PANELS = ("Metrics", "Run", "Capacity", "Doctor", "Runs", "Log", "Episodes", "Sweeps", "Datasets", "Arena", "Train")
FOUND = Target(kind="items", within="CommandPalette")


def theme(walk: Walk) -> None:
    before = walk.eyes.screen()[-3, 3]
    walk.hands.command("View", "Dark or light", shortcut="ctrl+shift+l")
    asked = time.monotonic()
    until("other colours", lambda: walk.eyes.screen()[-3, 3] != before)
    if (took := time.monotonic() - asked) > _SLOW_SECONDS:
        walk.hands.remarks.append(f"another theme took {took:.1f} s")
    walk.picture("other")
    walk.hands.command("View", "Dark or light", shortcut="ctrl+shift+l")
    until("the colours from before", lambda: walk.eyes.screen()[-3, 3] == before)


def palette(walk: Walk) -> None:
    """It finds a run, a setting, a worker and a command by another word for it."""
    walk.hands.command("Help", "Find a command or a run…", shortcut="ctrl+k")
    for words, wanted in (("walk-short", "walk-short"), ("gamma", "amma"), ("spade", "Spade"), ("night", "Dark")):
        walk.eyes.find(QUERY)
        walk.hands.key("ctrl+a")  # it has the keyboard from the beginning
        walk.hands.type(words)
        until(f"{wanted} in the palette", partial(_offers, walk, wanted), 10)
        walk.picture(words)
    walk.hands.key("Escape")
    walk.eyes.gone(QUERY, 5)


def _offers(walk: Walk, words: str) -> bool:
    return any(words in one.text for one in walk.eyes.find(FOUND).items)


def help_windows(walk: Walk) -> None:
    hands, eyes = walk.hands, walk.eyes
    hands.command("Help", "About MOSAIC")
    eyes.find(Target(cls="AboutWindow"))
    walk.picture("about")
    _close(walk, "AboutWindow")
    hands.command("Help", "User guide", shortcut="shift+F1")
    eyes.find(Target(cls="GuideWindow"))
    walk.picture("guide")
    _close(walk, "GuideWindow")


def _close(walk: Walk, window: str) -> None:
    if walk.by_keys:
        walk.hands.key("Escape")
    else:
        walk.hands.press(Target(text="Close", kind="button", within=window))
    walk.eyes.gone(Target(cls=window), 5)


def panels(walk: Walk) -> None:
    """Every panel once, for the pictures."""
    for panel in PANELS:
        walk.hands.show(panel)
        walk.picture(panel.lower())
    walk.hands.command("File", "Hosts", "Show Hosts", shortcut="ctrl+alt+h")
    walk.eyes.says("this machine", "dock-hosts")
    walk.picture("hosts")
    walk.hands.show("Runs")
    walk.hands.show("Metrics")


def tab_round(walk: Walk) -> None:
    if not walk.by_keys:
        return
    walk.hands.show("Train")
    walk.hands.remarks += walk.tab_round()


def daemon(walk: Walk) -> None:
    """Somebody stops the daemon in a terminal; the cockpit says so, and starts it again when asked."""
    hands, eyes = walk.hands, walk.eyes
    subprocess.run([sys.executable, "-m", "gym_gui.cli", "daemon", "stop"], check=True, capture_output=True)
    eyes.says("stopped|away")
    walk.picture("stopped")
    start = Target(text="/^Start/", kind="button", enabled=True, within="StatusLine")
    hands.press(start)
    eyes.says("connected to the trainer daemon", "", 60)


def small_window(walk: Walk) -> None:
    """As small as it gets; panels share their places, and nothing is cut off."""
    found = subprocess.run(["xdotool", "search", "--name", "^MOSAIC$"], capture_output=True, text=True, check=True)
    window = found.stdout.split()[-1]
    whole = walk.eyes.find(Target(cls="MainWindow")).place
    for size in ((900, 560), (1024, 600)):
        subprocess.run(["wmctrl", "-i", "-r", window, "-b", "remove,maximized_vert,maximized_horz"], check=True)
        xdotool("windowsize", "--sync", window, *map(str, size))
        until("a small window", partial(_has_size, walk, size), 10)
        walk.hands.show("Train")
        walk.picture(f"{size[0]}-train")
        if walk.eyes.find(LAUNCH).seen is None:
            raise InVain("Launch cannot be seen")
        walk.hands.show("Runs")
        walk.picture(f"{size[0]}-runs")
    subprocess.run(["wmctrl", "-i", "-r", window, "-b", "add,maximized_vert,maximized_horz"], check=True)
    until("the whole window", lambda: walk.eyes.find(Target(cls="MainWindow")).place == whole, 10)


def _has_size(walk: Walk, size: tuple[int, int]) -> bool:
    return tuple(walk.eyes.find(Target(cls="MainWindow")).place[2:]) == size


def leave(walk: Walk) -> None:
    """Quit while a run trains: it goes on, and the next cockpit shows it."""
    launched(walk, "walk-on", "9M")
    walk.eyes.says("training", "stage", 60)
    walk.picture("before")
    walk.hands.command("File", "Quit", shortcut="ctrl+q")
    until("the cockpit to close", walk.place.is_closed)
    time.sleep(0.5)
    walk.place.open_cockpit()
    walk.eyes.says("connected to the trainer daemon")
    walk.hands.show("Runs")
    until("the runs in the list", lambda: names(walk))
    pick_run(walk, "walk-on")
    walk.eyes.says("training", "stage")


STATIONS = (
    ("panels", panels),
    ("theme", theme),
    ("palette", palette),
    ("help", help_windows),
    ("focus-ring", tab_round),
    ("daemon-stopped", daemon),
    ("small-window", small_window),
    ("quit", leave),
)
