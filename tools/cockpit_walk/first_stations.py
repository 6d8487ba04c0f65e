"""The first minutes: the welcome, the tour, the demo, and a run from the form."""

from __future__ import annotations

import time

from tools.cockpit_walk.eyes import InVain, Target, until
from tools.cockpit_walk.walk import Walk

RUNS = Target(kind="items", cls="RunList")
LAUNCH = Target(said="Launch the run", within="train")


def field(said: str) -> Target:
    return Target(said=said, within="train")


def first_start(walk: Walk) -> None:
    walk.eyes.says("Welcome to MOSAIC")
    walk.eyes.says("connected to the trainer daemon")
    if walk.by_keys and not walk.eyes.find(Target(text="Train PPO on CartPole", kind="button")).focus:
        raise InVain("the first button of the welcome does not have the keyboard")


def tour(walk: Walk) -> None:
    eyes, hands = walk.eyes, walk.hands
    hands.press(Target(text="Show me around", kind="button"))
    eyes.says("1 / 6")
    for number in range(2, 7):
        hands.key("Return") if walk.by_keys else hands.press(Target(text="Next", kind="button", within="Tour"))
        eyes.says(f"{number} / 6")
        walk.picture(str(number))
    hands.press(Target(text="Back", kind="button", within="Tour"))
    eyes.says("5 / 6")
    hands.key("Escape") if walk.by_keys else hands.press(Target(text="Close", kind="button", within="Tour"))
    eyes.says("Welcome to MOSAIC")


def demo(walk: Walk) -> None:
    walk.hands.press(Target(text="Train PPO on CartPole", kind="button"))
    walk.eyes.says("first-steps", "stage")
    walk.eyes.says("training|starting", "stage")


def set_up(walk: Walk) -> None:
    eyes, hands = walk.eyes, walk.hands
    hands.show("Train")
    hands.pick(Target(said="Workers"), "/^CleanRL/")
    if eyes.first(Target(text="Set up a run", kind="button")):
        hands.press(Target(text="Set up a run", kind="button"))
    eyes.find(field("Algorithm"))
    hands.choose(field("Algorithm"), "dqn")
    until("the flags of dqn", lambda: eyes.first(Target(said="Launch the run", enabled=True)))
    hands.choose(field("Algorithm"), "ppo")
    put_environment(walk, "CartPole-v1")
    hands.fill(field("Total timesteps"), "6k")
    hands.fill(field("Run name"), "walk-short")
    until("the form to be ready", lambda: eyes.first(Target(said="Launch the run", enabled=True)))


def put_environment(walk: Walk, env_id: str) -> None:
    walk.hands.fill(Target(said="Environment", kind="combo", within="train"), env_id)
    walk.hands.key("Return")


def parameters(walk: Walk) -> None:
    hands = walk.hands
    hands.fill(field("Search parameters"), "environments")
    hands.fill(field("Environments"), "2")
    walk.picture("searched")
    hands.fill(field("Search parameters"), "")


def dry_run(walk: Walk) -> None:
    walk.hands.press(Target(text="Dry run", within="train"))
    walk.eyes.says("dry run passed", "train")


def refused(walk: Walk) -> None:
    """What cannot be launched is not launched, and the form says why."""
    eyes, hands = walk.eyes, walk.hands
    hands.fill(field("Seed"), "minus one")
    eyes.says("whole number|not a number|must be", "train")
    walk.picture("seed")
    hands.fill(field("Seed"), "1")
    put_environment(walk, "CartPole-v9")
    launch = eyes.find(LAUNCH)
    if launch.enabled:
        hands.press(LAUNCH)
    eyes.says("CartPole-v9.*(not|no |unknown)|(not|no |unknown).*CartPole-v9", "train")
    walk.picture("environment")
    put_environment(walk, "CartPole-v1")


def launched(walk: Walk, name: str, steps: str) -> None:
    eyes, hands = walk.eyes, walk.hands
    hands.show("Train")
    hands.fill(field("Total timesteps"), steps)
    hands.fill(field("Run name"), name)
    until("the form to be ready", lambda: eyes.first(Target(said="Launch the run", enabled=True)))
    hands.press(LAUNCH)
    eyes.says(f"^{name}$", "stage")


def launch(walk: Walk) -> None:
    """The new run is chosen, and its row can be seen."""
    launched(walk, "walk-short", "6k")
    walk.hands.show("Runs")
    row = until("its row", lambda: [one for one in walk.eyes.find(RUNS).items if one.text == "walk-short"])
    if not row[0].chosen:
        raise InVain("the new run is not the chosen one")


def launch_more(walk: Walk) -> None:
    """A run that fails, and one that trains for long."""
    walk.hands.show("Train")
    walk.hands.fill(field("Search parameters"), "learning rate")
    walk.hands.fill(field("Learning rate"), "1e30")
    launched(walk, "walk-fails", "6k")
    walk.hands.fill(field("Search parameters"), "learning rate")
    walk.hands.fill(field("Learning rate"), "")
    walk.hands.fill(field("Search parameters"), "")
    launched(walk, "walk-long", "9M")
    walk.eyes.says("training", "stage", 60)


def pick_run(walk: Walk, name: str, *, also: bool = False) -> None:
    walk.hands.show("Runs")
    walk.hands.pick(RUNS, f"/^{name}$/", also=also)
    time.sleep(0.3)


def pause_and_resume(walk: Walk) -> None:
    eyes, hands = walk.eyes, walk.hands
    pick_run(walk, "walk-long")
    eyes.says("training", "stage", 60)
    hands.press(Target(text="Pause", within="stage"))
    eyes.says("paused", "stage")
    walk.picture("paused")
    focused = eyes.focus()
    if walk.by_keys and (focused is None or focused.words != "Resume"):
        walk.hands.remarks.append(f"after Pause the focus is on {focused}")
    hands.press(Target(text="Resume", within="stage"))
    eyes.says("training", "stage")


def cancel(walk: Walk) -> None:
    eyes, hands = walk.eyes, walk.hands
    pick_run(walk, "walk-long")
    hands.press(Target(text="Cancel…", within="stage"))
    reason = Target(said="Reason for cancelling")
    eyes.find(reason)
    hands.fill(reason, "it was only a walk")
    walk.picture("asked")
    hands.key("Return") if walk.by_keys else hands.press(Target(text="Cancel it", kind="button"))
    eyes.says("it was only a walk", "stage")
    eyes.says("canceled", "stage")


def failed(walk: Walk) -> None:
    pick_run(walk, "walk-fails")
    walk.eyes.says("finite", "stage", 60)
    if "waiting for the first numbers" in walk.eyes.texts("stage"):
        raise InVain("a failed run still says that it waits for numbers")


STATIONS = (
    ("first-start", first_start),
    ("tour", tour),
    ("demo", demo),
    ("form", set_up),
    ("form-parameters", parameters),
    ("form-dry-run", dry_run),
    ("form-refused", refused),
    ("launch", launch),
    ("launch-more", launch_more),
    ("pause-resume", pause_and_resume),
    ("cancel", cancel),
    ("failed-run", failed),
)
