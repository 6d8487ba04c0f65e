"""What a run printed, as lines of bounded number and length, free of escape sequences. Without Qt."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge

from mosaic_protocol.plain_text import clean_line

MOST_LINES = 20_000
LONGEST_LINE = 4_000
_LONGEST_REST = 16 * LONGEST_LINE
SOURCES = ("stdout", "stderr")


def clean(line: str) -> str:
    """A line as a terminal would leave it, of bounded length."""
    line = clean_line(line)
    if len(line) > LONGEST_LINE:
        return f"{line[:LONGEST_LINE]}… ({len(line) - LONGEST_LINE:,} more characters)"
    return line


@dataclass(slots=True)
class LogLine:
    """``number`` counts lines of all sources as they came. A line that has not ended is ``open``: more may follow."""

    number: int
    source: str
    text: str
    open: bool = False


class LineReader:
    """Makes lines of the bytes of several sources, however they come in pieces. Belongs to the thread that reads."""

    def __init__(self) -> None:
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}
        self._rests: dict[str, str] = {}
        self._number = 0

    def read(self, source: str, data: bytes) -> list[LogLine]:
        """New lines in order. The first one takes the place of the source's open line, when there was one."""
        decoder = self._decoders.setdefault(source, codecs.getincrementaldecoder("utf-8")("replace"))
        *whole, rest = (self._rests.get(source, "") + decoder.decode(data)).split("\n")
        if len(rest) > _LONGEST_REST:
            whole, rest = [*whole, rest], ""
        overwritten = rest.rstrip("\r").rfind("\r") + 1
        self._rests[source] = rest = rest[overwritten:]
        lines = [self._line(source, text) for text in whole]
        if rest.strip("\r"):
            lines.append(self._line(source, rest, still_open=True))
        return lines

    def _line(self, source: str, text: str, *, still_open: bool = False) -> LogLine:
        self._number += 1
        return LogLine(self._number, source, clean(text), still_open)


class LogBuffer:
    """The newest lines of each source. One source that floods does not push out the other."""

    def __init__(self, most: int = MOST_LINES) -> None:
        self._most = most
        self._lines: dict[str, deque[LogLine]] = {}
        self._left_out: set[str] = set()

    def add(self, lines: Sequence[LogLine]) -> None:
        for line in lines:
            kept = self._lines.get(line.source)
            if kept is None:
                kept = self._lines[line.source] = deque(maxlen=self._most)
            if kept and kept[-1].open:
                kept.pop()
            if len(kept) == self._most:
                self._left_out.add(line.source)
            kept.append(line)

    def lines(self, sources: Iterable[str] = SOURCES) -> list[LogLine]:
        """What is kept of these sources, as it came."""
        kept = [self._lines[source] for source in sources if source in self._lines]
        return list(merge(*kept, key=lambda line: line.number))[-self._most :]

    def has_lines(self, sources: Iterable[str] = SOURCES) -> bool:
        return any(self._lines.get(source) for source in sources)

    def left_out(self, sources: Iterable[str] = SOURCES) -> list[str]:
        """The sources of which earlier lines are no longer here."""
        return [source for source in sources if source in self._left_out]
