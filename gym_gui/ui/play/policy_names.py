"""What a policy is called on the screen, from the place of its checkpoint."""

from __future__ import annotations

from gym_gui.ui.context import Cockpit
from gym_gui.ui.play.words import at_step, checkpoint_name


def policy_name(cockpit: Cockpit, place: str) -> str:
    """The name of the run that trained it, where this cockpit knows the run, else its folder; with its step."""
    found = (cockpit.runs.get(part) for part in place.split("/"))
    run = next((run for run in found if run is not None), None)
    return at_step(cockpit.runs.label(run), place) if run is not None else checkpoint_name(place)
