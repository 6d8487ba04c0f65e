"""What the other workers bring: their forms, data to learn from offline, and an agent whose mind can be looked into."""

from __future__ import annotations

from tools.cockpit_walk.eyes import Target, until
from tools.cockpit_walk.first_stations import LAUNCH, field, pick_run
from tools.cockpit_walk.play_stations import mode
from tools.cockpit_walk.walk import Walk

WORKERS = Target(said="Workers")
DATASETS = Target(said="Datasets", kind="items")
ARENAS = Target(said="Arenas", kind="items")
_FORMS = {
    "corl": ("CORL", "Dataset"),
    "llm": ("LLM", "Environment"),
    "play": ("Play", "Environment"),
    "spade-bdi": ("Spade BDI", "Plans"),
}
"""By the name of the picture: how the worker's name begins, and a field that no other form has or needs to have."""


def use_form(walk: Walk, worker: str, one_field: str) -> None:
    mode(walk, "Agent")
    mode(walk, "Train new")
    walk.hands.pick(WORKERS, f"/^{worker}/")
    begin = Target(text="Set up a run", kind="button")
    if walk.eyes.first(begin):
        walk.hands.press(begin)
    walk.eyes.find(field(one_field), 60)


def forms(walk: Walk) -> None:
    """A form that waits for the first entry asks for it, and blames nobody yet."""
    for picture, (worker, one_field) in _FORMS.items():
        use_form(walk, worker, one_field)
        walk.eyes.says("must be chosen|must not be left empty|is needed", "train")
        walk.picture(picture)
        walk.hands.reach(field("Seed"))
        walk.hands.reach(field("Memory"))
        walk.picture(f"{picture}-below")


def datasets(walk: Walk) -> None:
    """From nothing over a policy that plays to a dataset that can be trusted, and to the form that learns from it."""
    eyes, hands = walk.eyes, walk.hands
    hands.show("Datasets")
    eyes.says("No dataset yet", "dock-datasets")
    walk.picture("none")
    hands.press(Target(said="Collect…", within="dock-datasets"))
    hands.fill(Target(said="Policies", within="stage"), "walk-short@best")
    hands.fill(Target(said="Name", within="stage"), "walk-data")
    hands.fill(Target(said="Steps", within="stage"), "600")
    walk.picture("asked")
    hands.press(Target(text="Make the dataset", within="stage"))
    until("the dataset", lambda: (found := eyes.first(DATASETS)) and found.items, 120)
    eyes.find(Target(said="Sample episodes", within="stage"), 60)
    walk.picture("inside")
    hands.press(Target(said="Train on it", within="dock-datasets"))
    eyes.find(field("Dataset"))
    eyes.says("verified", "train")
    walk.picture("train-on-it")
    hands.command("File", "Datasets", "Close the dataset")


def mind(walk: Walk) -> None:
    """An agent that learns: what it believes and why it does what it does, while it does it."""
    eyes, hands = walk.eyes, walk.hands
    use_form(walk, "Spade BDI", "Plans")
    hands.fill(field("Environment"), "FrozenLake-v1")
    hands.fill(field("Total timesteps"), "400k")
    hands.fill(field("Run name"), "walk-mind")
    until("the form to be ready", lambda: (one := eyes.first(LAUNCH)) and one.enabled)
    hands.press(LAUNCH)
    eyes.says("^walk-mind$", "stage")
    hands.show("Run")
    hands.tab(Target(kind="tabs", within="dock-run", item="Mind"), "Mind")
    eyes.find(Target(said="What the agent believes", within="dock-run"), 120)
    walk.picture("live")
    use_form(walk, "CleanRL", "Algorithm")
    pick_run(walk, "first-steps")


def arena(walk: Walk) -> None:
    """Players that meet on the same seeds: begun in the panel, looked at on the stage, and left for the list."""
    eyes, hands = walk.eyes, walk.hands
    hands.show("Arena")
    eyes.says("No arena yet", "ArenasPanel")
    walk.picture("none")
    hands.press(Target(text="Begin", within="ArenasPanel"))
    eyes.says("Say who plays", "ArenasPanel")
    hands.fill(Target(said="Seeds", within="ArenasPanel"), "0-4")
    hands.fill(Target(said="Entries", within="ArenasPanel"), "optimal random")
    hands.press(Target(text="Begin", within="ArenasPanel"))
    eyes.says("2 entries on the same 5 seeds", "stage", 60)
    eyes.says("^complete$", "ArenaPage", 90)
    walk.picture("played")
    hands.press(Target(text="Steps", kind="button", within="ArenaPage"))
    walk.picture("by-steps")
    hands.press(Target(text="‹ All arenas", within="ArenaPage"))
    until("the arena in the list", lambda: (one := eyes.first(ARENAS)) and one.items)
    if walk.by_keys and not eyes.find(ARENAS).focus:
        hands.remarks.append(f"after the arena was left the focus is on {eyes.focus()}")


STATIONS = (
    ("form-workers", forms),
    ("datasets", datasets),
    ("mind", mind),
    ("arena", arena),
)
