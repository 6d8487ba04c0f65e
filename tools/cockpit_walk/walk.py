"""One walk: its stations one after the other, a picture of each, and a report. A station that fails ends no walk."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from tools.cockpit_walk.eyes import Eyes, InVain, Pixels, Seen, Target
from tools.cockpit_walk.hands import Hands, Keys, Mouse
from tools.cockpit_walk.place import Place

_FEWEST_PIXELS = 12
"""So many at least must change where a widget gets the focus."""


@dataclass
class Visit:
    """What came of one station."""

    name: str
    seconds: float = 0.0
    trouble: str = ""
    misfits: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)


class Walk:
    """The hands, the eyes and what they found. Stations are functions of one of these."""

    def __init__(self, place: Place, hands: Hands, out: Path) -> None:
        self.place, self.out = place, out
        self.eyes: Eyes = place.eyes
        self.hands = hands
        self.visits: list[Visit] = []

    @property
    def by_keys(self) -> bool:
        return isinstance(self.hands, Keys)

    @property
    def mouse(self) -> Mouse:
        assert isinstance(self.hands, Mouse)
        return self.hands

    def visit(self, name: str, station: Callable[[Walk], None]) -> Visit:
        visit = Visit(name)
        self.visits.append(visit)
        begin = time.monotonic()
        try:
            station(self)
        except (InVain, RuntimeError, OSError, subprocess.SubprocessError) as error:
            visit.trouble = str(error)
        visit.seconds = round(time.monotonic() - begin, 1)
        visit.remarks, self.hands.remarks = self.hands.remarks, []
        try:
            self._close(visit)
        except (InVain, RuntimeError) as error:
            visit.trouble = visit.trouble or str(error)
        state = f"FAILED: {visit.trouble}" if visit.trouble else "reached"
        print(f"{name:24} {visit.seconds:6.1f} s  {state}", flush=True)
        self.report()  # a walk that is cut short has told what it saw
        return visit

    def picture(self, aside: str = "") -> None:
        """A picture in the middle of a station."""
        visit = self.visits[-1]
        self._settle()
        name = f"{len(self.visits):02}-{visit.name}{'-' + aside if aside else ''}.png"
        self.eyes.picture(self.out / name)
        visit.pictures.append(name)
        self._judge(visit)

    def _settle(self, most_looks: int = 6) -> None:
        """Until the screen is the same twice; a live run is taken as it goes after some looks."""
        seen = self.eyes.screen()
        for _ in range(most_looks):
            time.sleep(0.2)
            before, seen = seen, self.eyes.screen()
            if np.array_equal(before, seen):
                break

    def _close(self, visit: Visit) -> None:
        """The last picture, and out of whatever is open still: the next station begins in the window."""
        if self.place.is_closed():
            return
        self.picture()
        for _ in range(3):
            popup = [one for one in self.eyes.look() if one.is_window and one.facts["class"] != "MainWindow"]
            if not visit.trouble or not popup:
                break
            self.hands.key("Escape")

    def _judge(self, visit: Visit) -> None:
        for one in map(Seen, self.eyes.ask("judge")):
            for misfit in one.misfits:
                part = next((name for name in one.inside if name.startswith("dock:")), "")
                said = f"{one} at {one.place} in {part or 'the stage'}: {misfit}"
                if said not in visit.misfits:
                    visit.misfits.append(said)

    def report(self) -> Path:
        told = {
            "visits": [asdict(visit) for visit in self.visits],
            "complaints": self.place.complaints(),
        }
        path = self.out / "report.json"
        path.write_text(json.dumps(told, indent=1))
        return path

    # ---- the ring around what has the keyboard -------------------------------------------------------------------

    def tab_round(self, most: int = 160) -> list[str]:
        """Once around the window by Tab: what has the focus must be seen, and be seen to have it."""
        found: list[str] = []
        first: int | None = None
        before: tuple[Seen, Pixels] | None = None
        for _ in range(most):
            self.hands.key("Tab")
            focused, shot = self._focus_at_rest()
            if focused is None:
                found.append("Tab leads to nothing")
                break
            if before is not None and not _differs(before[1], shot, before[0]):
                found.append(f"{before[0]} at {before[0].place} does not show that it has the focus")
            if focused.seen is None:
                found.append(f"{focused} has the focus and cannot be seen")
            before = (focused, shot)
            if focused.id == first:
                break
            first = first or focused.id
        else:
            found.append(f"{most} Tabs do not lead around")
        return found

    def _focus_at_rest(self) -> tuple[Seen | None, Pixels]:
        """What has the keyboard, once it is scrolled to where it stays, and the screen then."""
        for _ in range(10):
            before = self.eyes.focus()
            time.sleep(0.1)
            shot, now = self.eyes.screen(), self.eyes.focus()
            if before is None or now is None or (before.id, before.place) == (now.id, now.place):
                break
        return now, shot


def _differs(with_focus: Pixels, without: Pixels, seen: Seen) -> bool:
    if seen.seen is None:
        return True
    x, y, width, height = seen.place
    part = np.s_[max(0, y - 4) : y + height + 4, max(0, x - 4) : x + width + 4]
    return int((with_focus[part] != without[part]).sum()) >= _FEWEST_PIXELS


__all__ = ["InVain", "Target", "Visit", "Walk"]
