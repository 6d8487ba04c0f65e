"""What an entry looks like: its colour in all parts of the screen, and an icon by its kind."""

from __future__ import annotations

from PyQt6.QtGui import QColor

from gym_gui.services.arena.model import Kind
from gym_gui.services.arena.standings import Standing, Standings
from gym_gui.ui.theme import Theme

_ORANGE = "warning"
_ORANGE_CURVE = 1


def colour_of(standings: Standings, one: Standing, theme: Theme) -> QColor:
    """By the place at which it came into the arena, so that it keeps its colour when others pass it; orange is the
    person's, everywhere in the cockpit."""
    if one.is_person:
        return theme.colour(_ORANGE)
    keys = [entry.key for entry in standings.arena.entries]
    others = [number for number in range(len(theme.curves)) if number != _ORANGE_CURVE]
    return theme.curve(others[keys.index(one.entry.key) % len(others)])


def icon_of(one: Standing) -> str:
    if one.is_person:
        return "human"
    if one.entry.kind is Kind.BASELINE:
        return "dice" if one.entry.identity == "random" else "evaluate"
    return "worker" if one.entry.kind is Kind.CHECKPOINT else "replay"
