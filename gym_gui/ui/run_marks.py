"""What a person did to runs in the lists alone: pinned, hidden, given a colour. Kept in the preferences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from PyQt6.QtCore import QObject, pyqtSignal

from gym_gui.ui.bridge import TrainerBridge
from gym_gui.ui.preferences import Preferences

_KEY = "runs.marks"
_MOST = 2000
COLOURS = 8


class RunMarks(QObject):
    """``changed()`` after each. Runs that are gone keep theirs until there are too many."""

    changed = pyqtSignal()

    def __init__(self, bridge: TrainerBridge, preferences: Preferences) -> None:
        super().__init__(bridge)
        self._preferences = preferences
        kept = preferences.get(_KEY, {})
        self.pinned = _ids(kept.get("pinned"))
        self.hidden = _ids(kept.get("hidden"))
        colours = kept.get("colours")
        self.colours: dict[str, int] = {
            run_id: number
            for run_id, number in (colours.items() if isinstance(colours, dict) else ())
            if isinstance(number, int) and 0 <= number < COLOURS
        }

    @classmethod
    def of(cls, bridge: TrainerBridge, preferences: Preferences) -> RunMarks:
        """The ones of a cockpit."""
        found: RunMarks | None = bridge.findChild(cls)
        return cls(bridge, preferences) if found is None else found

    def pin(self, run_ids: Iterable[str], on: bool) -> None:
        self.pinned = self.pinned | set(run_ids) if on else self.pinned - set(run_ids)
        self._keep()

    def hide(self, run_ids: Iterable[str], on: bool) -> None:
        self.hidden = self.hidden | set(run_ids) if on else self.hidden - set(run_ids)
        self._keep()

    def paint(self, run_ids: Iterable[str], colour: int | None) -> None:
        """None takes the colour away."""
        for run_id in run_ids:
            self.colours.pop(run_id, None)
            if colour is not None:
                self.colours[run_id] = colour % COLOURS
        self._keep()

    def _keep(self) -> None:
        marks = {
            "pinned": sorted(self.pinned)[-_MOST:],
            "hidden": sorted(self.hidden)[-_MOST:],
            "colours": dict(list(self.colours.items())[-_MOST:]),
        }
        self._preferences.put(_KEY, marks if any(marks.values()) else None)
        self.changed.emit()


def _ids(value: Any) -> frozenset[str]:
    return frozenset(one for one in value if isinstance(one, str)) if isinstance(value, list) else frozenset()
