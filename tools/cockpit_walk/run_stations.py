"""Runs that are there: the list, one run's panels, several compared, deleted and restored."""

from __future__ import annotations

from tools.cockpit_walk.eyes import PATIENCE_SECONDS, InVain, Target, until
from tools.cockpit_walk.first_stations import RUNS, pick_run
from tools.cockpit_walk.walk import Walk

TABS = Target(kind="tabs", within="dock-run", item="Overview")


def names(walk: Walk) -> list[str]:
    """The runs in the list, as they stand."""
    seen = walk.eyes.find(RUNS)
    known = ("first-steps", "walk-", "play-")
    return [one.text for one in seen.items if one.text.startswith(known)]


def sort(walk: Walk) -> None:
    walk.hands.show("Runs")
    if walk.by_keys:
        walk.hands.command("View", "Runs", "Best return first")
    else:
        walk.hands.tab(Target(kind="header", within="dock-runs"), "/^Mean return/")
    walk.picture("by-return")
    until("the order of the returns", lambda: names(walk) and names(walk)[-1] in ("walk-fails", "walk-long"), 5)


def filter_runs(walk: Walk) -> None:
    walk.hands.show("Runs")
    line = Target(said="Filter the runs")
    walk.hands.fill(line, "algo=ppo walk-short")
    until("one run", lambda: names(walk) == ["walk-short"], 10)
    walk.picture("filtered")
    walk.hands.fill(line, "")
    until("all runs", lambda: len(names(walk)) > 2, 10)
    failed = Target(text="/^Failed/", kind="button", within="dock-runs")
    walk.hands.press(failed)
    until("the failed run", lambda: names(walk) == ["walk-fails"], 10)
    walk.hands.press(failed)
    until("all runs", lambda: len(names(walk)) > 2, 10)


def group(walk: Walk) -> None:
    walk.hands.show("Runs")
    grouping = Target(said="Group the runs")
    walk.hands.choose(grouping, "/algorithm/")
    walk.picture("grouped")
    walk.hands.choose(grouping, "No groups")


def pin_and_hide(walk: Walk) -> None:
    pick_run(walk, "walk-fails")
    walk.hands.command("View", "Runs", "Pin or unpin", shortcut="ctrl+shift+b")
    until("the pinned run above the others", lambda: names(walk)[0] == "walk-fails", 10)
    walk.picture("pinned")
    walk.hands.command("View", "Runs", "Pin or unpin", shortcut="ctrl+shift+b")
    pick_run(walk, "walk-fails")
    walk.hands.command("View", "Runs", "Hide from the list", shortcut="ctrl+shift+u")
    until("the hidden run to go", lambda: "walk-fails" not in names(walk), 10)
    walk.hands.command("View", "Runs", "Show hidden runs")
    until("the hidden run", lambda: "walk-fails" in names(walk), 10)
    pick_run(walk, "walk-fails")
    walk.hands.command("View", "Runs", "Hide from the list", shortcut="ctrl+shift+u")


def columns(walk: Walk) -> None:
    walk.hands.show("Runs")
    walk.hands.press(Target(said="Columns", within="dock-runs"))
    walk.eyes.find(Target(hint="/Find a column/"))
    walk.hands.type("learning")
    walk.picture("asked")
    walk.hands.key("Escape")
    walk.eyes.gone(Target(hint="/Find a column/"), 5)


def saved_view(walk: Walk) -> None:
    walk.hands.show("Runs")
    walk.hands.press(Target(said="Saved views"))
    line = Target(said="Name of the view")
    walk.eyes.find(line)
    if walk.by_keys:
        until("the name to have the keyboard", lambda: walk.eyes.find(line).focus, 3)
    else:
        walk.hands.reach(line)
    walk.hands.type("my walk")
    walk.picture("named")
    walk.hands.key("Return")
    walk.eyes.says("my walk is saved")


def overview(walk: Walk) -> None:
    eyes, hands = walk.eyes, walk.hands
    pick_run(walk, "walk-short")
    hands.show("Run")
    hands.tab(TABS, "Overview")
    hands.fill(Target(said="Name of the run"), "walk-renamed")
    hands.key("Return")
    eyes.says("^walk-renamed$", "stage")
    hands.fill(Target(said="Add a tag"), "walked")
    hands.key("Return")
    eyes.find(Target(said="/Tag walked/"))
    hands.reach(Target(said="Notes about the run"))
    hands.type("Seen on a walk.")
    walk.picture("labels")
    hands.fill(Target(said="Name of the run"), "walk-short")
    hands.key("Return")
    eyes.says("^walk-short$", "stage")


def metrics(walk: Walk) -> None:
    eyes, hands = walk.eyes, walk.hands
    pick_run(walk, "first-steps")
    hands.show("Metrics")
    eyes.says("return", "dock-metrics")
    slider = Target(said="Smoothing", kind="slider")
    before = eyes.find(slider).words
    if walk.by_keys:
        hands.reach(slider)
        hands.key("Right", "Right", "Right")
    else:
        x, y, width, height = hands.reach(slider).place
        walk.mouse.click(x + width - 6, y + height // 2)
        walk.mouse.click(x + width - 6, y + height // 2)
    until("another smoothing", lambda: eyes.find(slider).words != before, 5)
    walk.picture("smoothed")
    hands.command("View", "Curves", "Curves on the stage", shortcut="ctrl+shift+m")
    walk.picture("wide")
    hands.command("View", "Curves", "Curves on the stage", shortcut="ctrl+shift+m")
    focused = eyes.focus()
    if walk.by_keys and (focused is None or "dock-metrics" not in focused.inside):
        hands.remarks.append(f"after the curves came back the focus is on {focused}")


def log(walk: Walk) -> None:
    pick_run(walk, "walk-fails")
    walk.hands.show("Log")
    walk.eyes.says("finite", "dock-log")
    walk.hands.fill(Target(said="Search in the log"), "finite")
    walk.hands.press(Target(said="Next place of the words"))


def analytics(walk: Walk) -> None:
    eyes, hands = walk.eyes, walk.hands
    pick_run(walk, "walk-short")
    hands.show("Run")
    hands.tab(TABS, "TensorBoard")
    eyes.says("TensorBoard", "dock-run")
    until("TensorBoard to start", lambda: "Starting TensorBoard" not in eyes.texts("dock-run"), 120)
    walk.picture("tensorboard")
    hands.tab(TABS, "WB")
    walk.picture("wandb")
    hands.tab(TABS, "Optuna")
    walk.picture("optuna")
    hands.tab(TABS, "Overview")


def compare(walk: Walk) -> None:
    eyes, hands = walk.eyes, walk.hands
    pick_run(walk, "walk-short")
    pick_run(walk, "first-steps", also=True)
    eyes.find(Target(text="Differences", kind="button", within="stage"))
    walk.picture("curves")
    hands.press(Target(text="Differences", kind="button", within="stage"))
    eyes.find(Target(text="only changed or different", within="stage"))
    walk.picture("differences")
    hands.press(Target(text="Compare", kind="button", within="stage"))
    eyes.says("IQM", "stage")
    walk.picture("statistics")
    hands.press(Target(text="Curves", kind="button", within="stage"))


def delete_and_undo(walk: Walk) -> None:
    pick_run(walk, "walk-long")
    _delete(walk)
    until("the run to go", lambda: "walk-long" not in names(walk), 15)
    walk.picture("deleted")
    walk.hands.press(Target(text="Undo", kind="button"))
    until("the run to be back", lambda: "walk-long" in names(walk), 15)
    focused = walk.eyes.focus()
    if not walk.by_keys and (focused is None or "dock-runs" not in focused.inside):
        walk.hands.remarks.append(f"after Undo the focus is on {focused}")


def _delete(walk: Walk) -> None:
    if walk.by_keys:
        walk.hands.key("Delete")
    else:
        walk.hands.press(Target(said="Delete", within="dock-runs"))


def trash(walk: Walk) -> None:
    eyes, hands = walk.eyes, walk.hands
    pick_run(walk, "walk-long")
    _delete(walk)
    until("the run to go", lambda: "walk-long" not in names(walk), 15)
    if walk.by_keys:
        hands.key("ctrl+shift+t")
    else:
        hands.press(Target(said="/^Trash/", kind="button"))
    deleted = Target(said="Deleted runs")
    until("the deleted run", lambda: any(one.text == "walk-long" for one in eyes.find(deleted).items), 15)
    hands.pick(deleted, "walk-long")
    walk.picture("chosen")
    hands.press(Target(text="Restore", kind="button"))
    until("the run to be back", lambda: "walk-long" in names(walk), 15)


def capacity(walk: Walk) -> None:
    walk.hands.show("Capacity")
    walk.eyes.says("memory", "dock-capacity")


def doctor(walk: Walk) -> None:
    """Its list is long: on a small screen what is well stands below what is not, out of sight."""
    checked = Target(text="Data root", within="dock-doctor")
    walk.hands.show("Doctor")
    walk.eyes.find(checked, PATIENCE_SECONDS)
    walk.hands.press(Target(text="Check again"))
    walk.eyes.find(checked, PATIENCE_SECONDS)


def check_names(walk: Walk, *wanted: str) -> None:
    for name in wanted:
        if name not in names(walk):
            raise InVain(f"the list has no {name}")


STATIONS = (
    ("runs-sort", sort),
    ("runs-filter", filter_runs),
    ("runs-group", group),
    ("runs-pin-hide", pin_and_hide),
    ("runs-columns", columns),
    ("runs-view", saved_view),
    ("run-overview", overview),
    ("metrics", metrics),
    ("log", log),
    ("run-analytics", analytics),
    ("compare", compare),
    ("delete-undo", delete_and_undo),
    ("trash-restore", trash),
    ("capacity", capacity),
    ("doctor", doctor),
)
