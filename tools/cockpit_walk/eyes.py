"""What the walk sees: the probe's answers as widgets to look for, and pictures of the screen."""

from __future__ import annotations

import json
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from PyQt6.QtGui import QImage

Place = tuple[int, int, int, int]
Pixels = npt.NDArray[np.uint32]
Result = TypeVar("Result")
PATIENCE_SECONDS = 30.0


class InVain(RuntimeError):
    """Something that a station needs was not there, or did not happen."""


@dataclass(frozen=True)
class Item:
    """An entry of a list, a tab bar or a menu."""

    text: str
    place: Place
    current: bool
    enabled: bool
    row: int
    chosen: bool = False


@dataclass(frozen=True)
class Seen:
    """One widget, as the probe described it."""

    facts: dict[str, Any] = field(repr=False)

    def __getattr__(self, name: str) -> Any:
        return self.facts[name]

    @property
    def words(self) -> str:
        return str(self.facts["text"]).replace("&", "")

    @property
    def items(self) -> list[Item]:
        return [Item(**{**one, "place": tuple(one["place"])}) for one in self.facts["items"]]

    def __str__(self) -> str:
        name = self.words or self.facts["said"] or self.facts["name"] or self.facts["tip"]
        return f"{self.facts['class']} “{name[:40]}”"


@dataclass(frozen=True)
class Target:
    """What to look for: all that is given must fit. ``text`` may be a regular expression between slashes."""

    text: str = ""
    kind: str = ""
    within: str = ""
    name: str = ""
    cls: str = ""
    tip: str = ""
    hint: str = ""
    said: str = ""
    item: str = ""
    nth: int = 0
    enabled: bool | None = None

    def fits(self, seen: Seen) -> bool:
        wanted = (
            (self.text, seen.words),
            (self.kind, seen.kind),
            (self.name, seen.name),
            (self.cls, seen.facts["class"]),
            (self.tip, seen.tip),
            (self.hint, seen.hint),
            (self.said, seen.said),
        )
        if any(want and not _like(want, has) for want, has in wanted):
            return False
        if self.within and not any(_like(self.within, one) for one in seen.inside):
            return False
        if self.item and not any(_like(self.item, one.text) for one in seen.items):
            return False
        return self.enabled is None or bool(seen.enabled) == self.enabled

    def __str__(self) -> str:
        given = {name: value for name, value in vars(self).items() if value}
        return ", ".join(f"{name} {value!r}" for name, value in given.items())


def _like(wanted: str, has: str) -> bool:
    if len(wanted) > 1 and wanted.startswith("/") and wanted.endswith("/"):
        return re.search(wanted[1:-1], has, re.IGNORECASE | re.DOTALL) is not None
    return wanted == has


class Eyes:
    """Asks the probe, and takes pictures."""

    def __init__(self, probe: Path, screen: Path) -> None:
        self._probe, self._screen = probe, screen

    def open(self, patience: float, require: Callable[[], None]) -> None:
        """Wait for the cockpit's probe; ``require`` raises :class:`InVain` once there is nobody to wait for."""
        until("the cockpit", lambda: self._answers(require), patience)

    def _answers(self, require: Callable[[], None]) -> bool:
        require()
        try:
            return bool(self.ask("look", 3.0))
        except InVain:
            return False

    def ask(self, question: str, patience: float = PATIENCE_SECONDS) -> Any:
        answer = b""
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(patience)
                probe.connect(str(self._probe))
                probe.sendall(f"{question}\n".encode())
                while not answer.endswith(b"\n"):
                    if not (piece := probe.recv(1 << 20)):
                        raise InVain("the cockpit closed")
                    answer += piece
        except OSError as error:
            raise InVain(f"the cockpit does not answer: {error}") from error
        told = json.loads(answer)
        if isinstance(told, dict) and "error" in told:
            raise RuntimeError(told["error"])
        return told

    def look(self) -> list[Seen]:
        return [Seen(facts) for facts in self.ask("look")]

    def focus(self) -> Seen | None:
        facts = self.ask("focus")
        return Seen(facts) if facts else None

    def all(self, target: Target) -> list[Seen]:
        return [one for one in self.look() if target.fits(one)]

    def first(self, target: Target) -> Seen | None:
        found = self.all(target)
        return found[target.nth] if len(found) > target.nth else None

    def find(self, target: Target, patience: float = 10.0) -> Seen:
        return until(str(target), lambda: self.first(target), patience)

    def texts(self, within: str = "") -> str:
        """All words in sight, entries of lists included."""
        return "\n".join(_words(self.look(), within))

    def says(self, words: str, within: str = "", patience: float = PATIENCE_SECONDS) -> None:
        """Wait until something in sight says it; a regular expression."""
        until(
            f"the words “{words}”", lambda: re.search(words, self.texts(within), re.IGNORECASE | re.MULTILINE), patience
        )

    def gone(self, target: Target, patience: float = PATIENCE_SECONDS) -> None:
        until(f"{target} to go", lambda: self.first(target) is None, patience)

    def screen(self) -> Pixels:
        return pixels(self._screen.read_bytes())

    def picture(self, path: Path) -> None:
        seen = np.ascontiguousarray(self.screen() | np.uint32(0xFF000000))
        height, width = seen.shape
        image = QImage(seen.tobytes(), width, height, width * 4, QImage.Format.Format_RGB32)
        if not image.save(str(path), "PNG", 60):
            raise InVain(f"{path} could not be written")


def _words(seen: list[Seen], within: str) -> Iterator[str]:
    for one in seen:
        if one.seen is None or (within and within not in one.inside):
            continue
        yield one.words
        if not one.kind:  # a painted widget
            yield from (one.said, one.described)
        yield from (item.text for item in one.items)


def pixels(dump: bytes) -> Pixels:
    """A screen as X servers write it (XWD), as rows of 0x00RRGGBB."""
    header = struct.unpack(">25I", dump[:100])
    size, width, height, stride, colours = header[0], header[4], header[5], header[12], header[19]
    flat = np.frombuffer(dump, np.uint32, height * stride // 4, offset=size + colours * 12)
    return flat.reshape(height, stride // 4)[:, :width] & np.uint32(0xFFFFFF)


def until(what: str, probe: Callable[[], Result | None], patience: float = PATIENCE_SECONDS) -> Result:
    """What the probe finds, as soon as it finds something. Raises :class:`InVain`."""
    deadline = time.monotonic() + patience
    while not (found := probe()):
        if time.monotonic() > deadline:
            raise InVain(f"waited {patience:g} s in vain for {what}")
        time.sleep(0.05)
    return found
