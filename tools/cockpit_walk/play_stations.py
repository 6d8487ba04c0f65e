"""What was trained and what is played: checkpoints, sessions, replays, sweeps."""

from __future__ import annotations

import time

from tools.cockpit_walk.eyes import Target, until
from tools.cockpit_walk.first_stations import field, pick_run
from tools.cockpit_walk.walk import Walk


def mode(walk: Walk, name: str) -> None:
    walk.hands.show("Train")
    walk.hands.press(Target(text=name, kind="button", within="train"))


def checkpoint(walk: Walk) -> None:
    """The demo is over, and its best checkpoint is evaluated."""
    eyes, hands = walk.eyes, walk.hands
    pick_run(walk, "walk-short")
    eyes.says("completed", "stage", 120)
    mode(walk, "Use trained")
    card = Target(cls="CheckpointCard")
    eyes.find(card, 30)
    hands.press(card)
    hands.fill(Target(said="Episodes", within="train"), "3")
    hands.press(Target(text="Evaluate", kind="button"))
    eyes.says("Evaluated: ", "train", 90)


def deploy(walk: Walk) -> None:
    eyes, hands = walk.eyes, walk.hands
    hands.press(Target(text="Deploy", kind="button"))
    eyes.says("has the seat|policy", "stage", 60)
    eyes.says("return", "stage")
    walk.picture("plays")
    mode(walk, "Hybrid")
    hands.press(Target(text="End and keep", kind="button"))
    eyes.find(Target(text="Start session", kind="button", enabled=True), 40)


def play_lake(walk: Walk) -> None:
    eyes, hands = walk.eyes, walk.hands
    mode(walk, "Human")
    hands.fill(Target(said="Environment", kind="combo", within="train"), "FrozenLake-v1")
    hands.key("Return")
    start = Target(text="Start session", kind="button", enabled=True)
    eyes.find(start, 40)
    hands.press(start)
    eyes.says("Your move", "stage", 60)
    hands.key("Right", "Down", "Right")
    hands.show("Run")
    eyes.says("right|down", "dock-run")
    walk.picture("moves")
    hands.press(Target(text="grid", kind="button", within="stage"))
    walk.picture("grid")
    hands.press(Target(text="End and keep", kind="button"))
    eyes.find(Target(text="Start session", kind="button", enabled=True), 40)


def play_pole(walk: Walk) -> None:
    """Together with the policy: it plays, the person takes over, it gets the seat again."""
    eyes, hands = walk.eyes, walk.hands
    mode(walk, "Hybrid")
    hands.fill(Target(said="Environment", kind="combo", within="train"), "CartPole-v1")
    hands.key("Return")
    start = Target(text="Start session", kind="button", enabled=True)
    eyes.find(start, 40)
    hands.press(start)
    eyes.find(Target(text="End and keep", kind="button"), 60)
    hand_over = Target(text="/Hand over|Take the seat back/", kind="button", within="train", enabled=True)
    eyes.find(hand_over, 40)
    hands.press(hand_over)
    eyes.says("Take the seat back", "train", 40)
    walk.picture("policy")
    hands.press(hand_over)
    eyes.says("Hand over", "train", 40)
    walk.picture("taken-over")
    hands.press(Target(text="End and keep", kind="button"))
    eyes.find(Target(text="Start session", kind="button", enabled=True), 40)
    mode(walk, "Agent")


def replay(walk: Walk) -> None:
    eyes, hands = walk.eyes, walk.hands
    pick_run(walk, "play-frozenlake.*")
    hands.press(Target(said="Replay", within="stage"))
    eyes.says("verified|as recorded", "stage", 60)
    walk.picture("verified")
    if walk.by_keys:
        hands.key("End", "Left")
    else:
        x, y, width, height = eyes.find(Target(cls="RewardStrip")).place
        walk.mouse.click(x + width * 2 // 3, y + height // 2)
    walk.picture("scrubbed")
    export = Target(text="Export MP4…", kind="button", within="stage")
    if eyes.first(export):
        hands.press(export)
    else:
        hands.command("Run", "Replay", "Export MP4…")
    eyes.find(Target(cls="QFileDialog"))
    walk.picture("export")
    hands.key("Return")
    eyes.says("frames", "", 60)
    walk.picture("exported")
    hands.command("Run", "Replay", "Close the replay")


def sweep(walk: Walk) -> None:
    eyes, hands = walk.eyes, walk.hands
    mode(walk, "Agent")
    mode(walk, "Train new")
    if not eyes.first(Target(text="Search settings", within="train")):
        hands.press(Target(text="Sweep", kind="button", within="train"))
    hands.press(Target(text="Search settings", within="train"))
    hands.fill(field("Trials"), "2")
    hands.fill(field("Search parameters"), "learning rate")
    hands.press(Target(said="/Search .*learning rate|Learning rate.*search/", within="train"))
    hands.type("1e-4 to 1e-2 log")
    walk.picture("range")
    hands.fill(field("Total timesteps"), "3k")
    hands.fill(field("Run name"), "walk-sweep")
    launch = Target(text="Start sweep", within="train", enabled=True)
    until("the form to be ready", lambda: eyes.first(launch))
    hands.press(launch)
    eyes.says("walk-sweep", "stage")
    eyes.says("6k of 6k steps used", "stage", 120)
    walk.picture("over")
    hands.show("Sweep")
    walk.picture("charts")


def leave_sweep(walk: Walk) -> None:
    eyes, hands = walk.eyes, walk.hands
    hands.command("View", "Sweep", "Close the sweep")
    mode(walk, "Train new")
    hands.press(Target(text="Search settings", within="train"))
    hands.fill(field("Search parameters"), "")
    time.sleep(0.2)
    pick_run(walk, "first-steps")
    eyes.says("first-steps", "stage")


STATIONS = (
    ("checkpoint-evaluate", checkpoint),
    ("checkpoint-deploy", deploy),
    ("play-frozenlake", play_lake),
    ("play-cartpole", play_pole),
    ("replay", replay),
    ("sweep", sweep),
    ("sweep-leave", leave_sweep),
)
