"""Real events of an X server: what both kinds of hands can do, by the pointer or by keys alone."""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod

from tools.cockpit_walk.eyes import Eyes, InVain, Item, Place, Seen, Target, until

_REST = 0.06
_MOST_TABS = 220
_MOST_ARROWS = 60
_MOST_WHEELS = 40
_ATTEMPTS = 4
_PANES = 9
_ROUNDS = 2
"""Something that was grey for a moment is met in the second round."""


def xdotool(*arguments: str) -> None:
    subprocess.run(["xdotool", *arguments], check=True, capture_output=True, timeout=30)


def middle(place: Place) -> tuple[int, int]:
    return place[0] + place[2] // 2, place[1] + place[3] // 2


class Hands(ABC):
    """One way to use the cockpit. Every method raises :class:`InVain` where it cannot."""

    name: str

    def __init__(self, eyes: Eyes) -> None:
        self.eyes = eyes
        self.remarks: list[str] = []
        """What went on the way, and should not have been so."""

    def type(self, text: str) -> None:
        xdotool("type", "--delay", "8", text)
        time.sleep(_REST)

    def key(self, *keys: str) -> None:
        xdotool("key", "--delay", "20", *keys)
        time.sleep(_REST)

    def fill(self, target: Target, text: str) -> None:
        """Replace what stands in a field."""
        for _ in range(_ATTEMPTS):
            seen = self.reach(target)
            if self.has_keyboard(seen):
                break
            time.sleep(0.3)  # the form moved while it was clicked
        else:
            raise InVain(f"{target} does not get the keyboard")
        self.key("ctrl+a")
        if text:
            self.type(text)
        else:
            self.key("Delete")

    def has_keyboard(self, seen: Seen) -> bool:
        focused = self.eyes.focus()
        return focused is not None and (seen.id in focused.parents or focused.id in seen.parents[:2])

    @abstractmethod
    def reach(self, target: Target) -> Seen:
        """Give a widget the keyboard."""

    @abstractmethod
    def press(self, target: Target) -> None:
        """Press a button, a box, a card."""

    @abstractmethod
    def pick(self, target: Target, item: str, *, also: bool = False) -> None:
        """Make an entry of a list the chosen one, or choose it as well."""

    @abstractmethod
    def choose(self, target: Target, item: str) -> None:
        """Choose an entry of a folding list."""

    @abstractmethod
    def show(self, panel: str) -> None:
        """Bring a panel forward by the title of its tab."""

    @abstractmethod
    def tab(self, target: Target, item: str) -> None:
        """Turn to a tab of a tab bar."""

    @abstractmethod
    def command(self, *path: str, shortcut: str = "") -> None:
        """Give a command: its menus and its title."""


class Mouse(Hands):
    """The pointer; keys are for typing into fields alone."""

    name = "mouse"

    def click(self, x: int, y: int, *, double: bool = False, control: bool = False) -> None:
        xdotool("mousemove", str(x), str(y))
        time.sleep(0.02)
        click = ["click", *(("--repeat", "2", "--delay", "60") if double else ()), "1"]
        xdotool(*(["keydown", "ctrl", *click, "keyup", "ctrl"] if control else click))
        time.sleep(_REST)

    def reach(self, target: Target) -> Seen:
        for attempt in range(_ATTEMPTS):
            seen = self._in_sight(target)
            try:
                spot = self._spot(seen)
                break
            except InVain:  # what was just unfolded or filtered still moves
                if attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(0.3)
        self.click(*spot)
        return seen

    def press(self, target: Target) -> None:
        until(f"{target} to be of use", lambda: (one := self.eyes.first(target)) and one.enabled, 15)
        self.reach(target)

    def pick(self, target: Target, item: str, *, also: bool = False) -> None:
        """A list that is sorted by what changes may move the entry between the look and the click: one looks again."""
        match = Target(text=item)
        for _ in range(1 if also else _ATTEMPTS):
            found = self._item_in_sight(target, item)
            self.click(*middle(found.place), control=also)
            lists = self.eyes.all(target)
            if not lists or any(
                match.fits(Seen({**one.facts, "text": row.text})) for one in lists for row in one.items if row.current
            ):
                return

    def choose(self, target: Target, item: str) -> None:
        combo = self.reach(target)

        def popup() -> Seen | None:
            found = self.eyes.all(Target(kind="items", item=item))
            return next((one for one in found if one.window != combo.window), None)

        entry = self._entry(until(f"the entry {item}", popup, 10), item)
        self.click(*middle(entry.place))
        until("the list to fold", lambda: popup() is None, 5)

    def show(self, panel: str) -> None:
        if f"dock-{panel.lower()}" in {name for one in self.eyes.look() if one.seen for name in one.inside}:
            return
        title = "/^(Train|Play)$/" if panel == "Train" else f"/^{panel}$/"
        try:
            self.tab(Target(kind="tabs", item=title), title)
        except InVain:
            self.command("View", "Panels", f"Show {panel}")

    def tab(self, target: Target, item: str) -> None:
        entry = self._entry(self.eyes.find(target), item)
        if entry.place[2] < 8:
            raise InVain(f"the tab {item} cannot be seen")
        self.click(*middle(entry.place))

    def command(self, *path: str, shortcut: str = "") -> None:
        self.click(*middle(self._entry(self.eyes.find(Target(kind="menubar")), path[0]).place))
        for title in path[1:]:
            menu = Target(kind="menu", item=title)
            entry = self._entry(self.eyes.find(menu, 5), title)
            if not entry.enabled:
                self.key("Escape", "Escape")
                raise InVain(f"{' › '.join(path)} is grey")
            self.click(*middle(entry.place))

    def _entry(self, seen: Seen, item: str) -> Item:
        match = Target(text=item)
        for one in seen.items:
            if match.fits(Seen({**seen.facts, "text": one.text})):
                return one
        raise InVain(f"{seen} has no entry {item}")

    def _item_in_sight(self, target: Target, item: str) -> Item:
        for turn in range(_MOST_WHEELS):
            seen = self.eyes.find(target)
            try:
                return self._entry(seen, item)
            except InVain:
                self._wheel(seen.seen or seen.place, down=turn < _MOST_WHEELS // 2)
        raise InVain(f"{target} has no entry {item}")

    def _in_sight(self, target: Target) -> Seen:
        seen, stuck = self.eyes.find(target), 0
        for _ in range(_MOST_WHEELS):
            if _is_whole(seen) or seen.room is None or stuck > 3:
                break
            below = seen.place[1] + seen.place[3] - seen.room[1] - seen.room[3]
            far = below if below > 0 else seen.room[1] - seen.place[1]
            self._wheel(seen.room, down=below > 0, times=max(1, far // 100))
            before, seen = seen, self.eyes.find(target)
            stuck = stuck + 1 if before.place == seen.place else 0
        if seen.seen is None:
            raise InVain(f"{target} is there and cannot be seen")
        return seen

    def _wheel(self, room: Place, *, down: bool, times: int = 1) -> None:
        xdotool("mousemove", str(room[0] + room[2] - 3), str(room[1] + room[3] // 2))
        xdotool("click", "--repeat", str(times), "--delay", "5", "5" if down else "4")
        time.sleep(0.08)

    def _spot(self, seen: Seen) -> tuple[int, int]:
        x, y = middle(tuple(seen.seen))
        if seen.kind == "button" and seen.facts["class"] in ("QCheckBox", "QRadioButton"):
            x = seen.seen[0] + min(9, seen.seen[2] // 2)
        met = self.eyes.ask(f"at {x} {y}")
        if met and seen.id not in met:
            other = next((one for one in self.eyes.look() if one.id == met[0]), None)
            raise InVain(f"{other} lies over {seen}")
        return x, y


def _is_whole(seen: Seen) -> bool:
    return seen.seen is not None and seen.seen[3] >= min(seen.place[3], 24) - 2


class Keys(Hands):
    """Tab, arrows, Return, Space, shortcuts and the palette."""

    name = "keys"

    def reach(self, target: Target) -> Seen:
        wanted = self.eyes.find(target)
        self._to_pane(wanted)
        self._leave_game()
        if (ahead := self.eyes.ask(f"tabs {wanted.id}")) > 1 and not self._game_is_on():
            xdotool("key", "--delay", "15", *["Tab"] * ahead)  # whether that led there is seen below
            self._rest()
        first, rounds = 0, 0
        for _ in range(_MOST_TABS):
            focused = self.eyes.focus()
            if focused is not None:
                if focused.id == wanted.id or wanted.id in focused.parents[:3] or focused.id in wanted.parents[:2]:
                    self._check_sight(focused)
                    return focused
                if self._through_group(focused, wanted):
                    return wanted
                rounds += focused.id == first
                if rounds == _ROUNDS:
                    break
                first = first or focused.id
            self._tab(focused)
        raise InVain(f"Tab does not lead to {target}")

    def _tab(self, before: Seen | None) -> None:
        """One step on, and not another one before it is made; backwards past a game, where Tab hands the seat over."""
        self.key("shift+Tab" if self._game_is_on() else "Tab")
        deadline = time.monotonic() + 2.0
        while (now := self.eyes.focus()) and before and now.id == before.id and time.monotonic() < deadline:
            time.sleep(0.03)

    def _game_is_on(self) -> bool:
        return self.eyes.first(Target(cls="LiveStage")) is not None

    def _leave_game(self) -> None:
        focused = self.eyes.focus()
        if focused is not None and focused.facts["class"] == "LiveStage":
            self.key("shift+Tab")

    def _rest(self) -> None:
        """Until the focus stays where it is."""
        before, now = -1, 0
        while before != now:
            time.sleep(0.25)
            focused = self.eyes.focus()
            before, now = now, focused.id if focused is not None else 0

    def _to_pane(self, wanted: Seen) -> None:
        """F6 as long as the focus is in another panel."""
        dock = next((name for name in wanted.inside if name.startswith("dock:")), "")
        for _ in range(_PANES):
            focused = self.eyes.focus()
            if focused is None or focused.window != wanted.window or "QDialog" in focused.inside:
                return
            here = next((name for name in focused.inside if name.startswith("dock:")), "")
            floating = "FloatingCard" in wanted.inside or wanted.window != focused.window
            if here == dock or floating:
                return
            self.key("F6")

    def _through_group(self, focused: Seen, wanted: Seen) -> bool:
        """Arrows, in a group of which one is chosen."""
        if not (focused.exclusive and wanted.exclusive and focused.parents[1] == wanted.parents[1]):
            return False
        for arrow in ("Right", "Left"):
            for _ in range(8):
                self.key(arrow)
                now = self.eyes.focus()
                if now is not None and now.id == wanted.id:
                    return True
        return False

    def _check_sight(self, focused: Seen) -> None:
        time.sleep(0.05)
        now = self.eyes.focus()
        if now is not None and now.seen is None:
            self.remarks.append(f"{now} has the focus and cannot be seen")

    def press(self, target: Target) -> None:
        until(f"{target} to be of use", lambda: (one := self.eyes.first(target)) and one.enabled, 15)
        seen = self.eyes.find(target)
        self.reach(target)
        if not (seen.exclusive and (now := self.eyes.first(target)) and now.checked):
            self.key("space")

    def pick(self, target: Target, item: str, *, also: bool = False) -> None:
        self.reach(target)
        match = Target(text=item)
        if not also:
            self.key("Home")
        for arrow in ("Down", "Up"):
            for _ in range(_MOST_ARROWS):
                seen = self.eyes.find(target)
                row = " | ".join(one.text for one in seen.items if one.current)
                if any(match.fits(Seen({**seen.facts, "text": one.text})) for one in seen.items if one.current):
                    if also:
                        self.key("ctrl+space")
                    return
                self.key(f"ctrl+{arrow}" if also else arrow)
                after = self.eyes.find(target)
                if row == " | ".join(one.text for one in after.items if one.current):
                    break
        raise InVain(f"the arrows do not lead to {item} in {target}")

    def choose(self, target: Target, item: str) -> None:
        self.reach(target)
        match = Target(text=item)
        self.key("Home")
        for _ in range(_MOST_ARROWS):
            seen = self.eyes.find(target)
            if match.fits(seen):
                return
            self.key("Down")
        raise InVain(f"{target} has no entry {item}")

    def show(self, panel: str) -> None:
        self.command("View", "Panels", f"Show {panel}", shortcut=_PANEL_KEYS.get(panel, ""))

    def tab(self, target: Target, item: str) -> None:
        self.reach(target)
        match = Target(text=item)
        for arrow in ("Left", "Right"):
            for _ in range(12):
                bar = self.eyes.find(target)
                now = next((one.text for one in bar.items if one.current), "")
                if match.fits(Seen({**bar.facts, "text": now})):
                    return
                self.key(arrow)
        raise InVain(f"the arrows do not lead to the tab {item}")

    def command(self, *path: str, shortcut: str = "") -> None:
        if shortcut:
            self.key(shortcut)
            return
        self.key("ctrl+k")
        query = self.eyes.find(Target(kind="line", within="CommandPalette"))
        if not query.focus:
            raise InVain("the palette does not have the keyboard")
        self.type(path[-1])
        listed = self.eyes.find(Target(kind="items", within="CommandPalette"))
        if not any(path[-1] in one.text and one.current for one in listed.items):
            shown = ", ".join(one.text for one in listed.items[:4])
            self.key("Escape")
            raise InVain(f"the palette finds {shown or 'nothing'} for {path[-1]}")
        self.key("Return")


_PANEL_KEYS = {
    title: f"ctrl+{number}"
    for number, title in enumerate(
        ("Train", "Metrics", "Run", "Capacity", "Doctor", "Runs", "Log", "Episodes", "Sweeps"), start=1
    )
} | {"Datasets": "ctrl+alt+d", "Arena": "ctrl+alt+a"}
