"""What a run's event files hold beside scalars: histograms, pictures and texts, listed, and read one by one.

A look goes through what is new in the files and keeps places, not contents; a content is read when somebody asks for
it, bounded in every respect. What cannot be read is a sentence, and disturbs nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gym_gui.services.scalars import events as ev
from gym_gui.services.scalars.event_reader import EventFileError, EventFileReader, Listed, event_files
from gym_gui.services.scalars.histograms import Histogram, histogram_of
from gym_gui.services.scalars.pictures import Picture, PictureError, picture_of
from mosaic_protocol.plain_text import visible
from mosaic_protocol.protobuf_wire import WireError

KINDS = (ev.HISTOGRAM, ev.IMAGE, ev.TEXT)
MOST_STEPS = 240
"""So many histograms are read for one picture of them."""
MOST_PICTURES = 64
"""Of one step."""
MOST_LETTERS = 200_000
_MOST_LISTED = 200_000


class MediaError(Exception):
    """Something cannot be read; the message is a sentence."""


class Entry(NamedTuple):
    """One histogram, text or set of pictures, and where it lies."""

    kind: str
    tag: str
    step: int
    wall_time: float
    file: Path
    listed: Listed


@dataclass(frozen=True)
class Contents:
    """Entries by kind and tag, in the order of their steps; ``notes`` is a sentence for each thing that is wrong."""

    entries: Mapping[str, Mapping[str, Sequence[Entry]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def of(self, kind: str) -> Mapping[str, Sequence[Entry]]:
        return self.entries.get(kind, {})


class RunMedia:
    """The event files of one folder. In any thread, one call at a time: others wait."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._readers: dict[Path, EventFileReader] = {}
        self._entries: dict[Path, list[Entry]] = {}

    def look(self) -> Contents:
        """Read what came since the last look, and list everything. Raises nothing."""
        with self._lock:
            try:
                files = event_files(self.folder) if self.folder.is_dir() else []
            except (EventFileError, OSError) as error:
                return Contents(notes=(str(error),))
            notes = []
            for file in files:
                notes += self._read_on(file)
            return Contents(self._by_tag(files), tuple(notes))

    def _read_on(self, file: Path) -> list[str]:
        reader = self._readers.setdefault(file, EventFileReader(file))
        entries = self._entries.setdefault(file, [])
        room = _MOST_LISTED - sum(len(one) for one in self._entries.values())
        try:
            for part in reader.read():
                found = [one for one in part.listed if one.kind in KINDS][: max(0, room)]
                entries += [Entry(one.kind, one.tag, one.step, one.wall_time, file, one) for one in found]
                room -= len(found)
        except EventFileError as error:
            del self._readers[file], self._entries[file]  # it was written again: the next look begins at its beginning
            return [str(error)]
        return list(reader.troubles())

    def _by_tag(self, files: Sequence[Path]) -> dict[str, dict[str, list[Entry]]]:
        found: dict[str, dict[str, list[Entry]]] = {}
        for file in files:
            for entry in self._entries.get(file, []):
                found.setdefault(entry.kind, {}).setdefault(entry.tag, []).append(entry)
        for tags in found.values():
            for entries in tags.values():
                entries.sort(key=lambda one: (one.step, one.wall_time))
        return found

    # ---- one content ---------------------------------------------------------------------------------------------

    def histogram(self, entry: Entry) -> Histogram:
        """Raises :class:`MediaError`."""
        record, value = self._opened(entry)
        try:
            return histogram_of(ev.histogram(record, value), entry.step, entry.wall_time)
        except WireError as error:
            raise MediaError(f"{_called(entry)} cannot be read: {error}.") from None

    def histograms(self, entries: Sequence[Entry], most: int = MOST_STEPS) -> tuple[list[Histogram], list[str]]:
        """At most so many of them, evenly chosen with the first and the last; and why others are missing."""
        found, problems = [], []
        for entry in evenly(entries, most):
            try:
                found.append(self.histogram(entry))
            except MediaError as error:
                problems.append(str(error))
        return found, problems

    def pictures(self, entry: Entry, most: int = MOST_PICTURES) -> list[Picture]:
        """The pictures of one step. Raises :class:`MediaError`."""
        record, value = self._opened(entry)
        try:
            return [picture_of(data) for data in ev.images(record, value)[:most]]
        except (WireError, PictureError) as error:
            raise MediaError(f"{_called(entry)}: {error}") from None

    def text(self, entry: Entry) -> str:
        """As plain text: nothing in it is obeyed. Raises :class:`MediaError`."""
        record, value = self._opened(entry)
        try:
            text = "\n".join(ev.texts(record, value))
        except WireError as error:
            raise MediaError(f"{_called(entry)} cannot be read: {error}.") from None
        cut = f"\n… {len(text) - MOST_LETTERS:,} letters more" if len(text) > MOST_LETTERS else ""
        return visible(text[:MOST_LETTERS]) + cut

    def _opened(self, entry: Entry) -> tuple[bytes, ev.Value]:
        with self._lock:
            reader = self._readers.get(entry.file)
            if reader is None:
                raise MediaError(f"{entry.file} was written again: look at the run once more.")
            try:
                return reader.record_of(entry.listed)
            except EventFileError as error:
                raise MediaError(f"{error}.") from None


def evenly(entries: Sequence[Entry], most: int) -> list[Entry]:
    """At most so many, with the first and the last."""
    if len(entries) <= most:
        return list(entries)
    return [entries[round(number * (len(entries) - 1) / (most - 1))] for number in range(most)]


def _called(entry: Entry) -> str:
    return f"{visible(entry.tag)} at step {entry.step:,}"
