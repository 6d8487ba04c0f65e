"""The words of an AgentSpeak program, for colouring, and where a mistake in one is. No Qt, and no interpreter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from gym_gui.ui.own_files.mistake import Mistake

Kind = Literal[
    "comment", "string", "trigger", "annotation", "action", "variable", "number", "keyword", "goal", "operator"
]

_WORDS = re.compile(
    r"(?P<comment>//.*|#.*)"
    r"|(?P<string>\"(?:[^\\\"]|\\.)*\"?)"
    r"|(?P<annotation>@[a-z]\w*|@)"
    r"|(?P<action>(?<![\w)])\.[a-z]\w*(?:\.[a-z]\w*)*)"
    r"|(?P<keyword>(?<!\w)(?:true|false|not|div|mod|if|else|while|for|include|begin|end)(?!\w))"
    r"|(?P<variable>(?<!\w)(?:_*[A-Z]\w*|_+)(?!\w))"
    r"|(?P<number>(?<!\w)(?:\d*\.\d+|\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<trigger>^\s*[+-][!?]?(?=\s*~?[a-z]))"
    r"|(?P<goal>!!|[!?](?=\s*~?[a-zA-Z_]))"
    r"|(?P<operator><-|:-|-\+|[:;&|])"
)
_OPEN, _CLOSE = "/*", "*/"


@dataclass(frozen=True)
class Word:
    start: int
    length: int
    kind: Kind


def words_of(line: str, in_comment: bool = False) -> tuple[list[Word], bool]:
    """The words of a line that have a colour, and whether a comment goes on after it. ``in_comment``: whether one goes
    on from the line before."""
    found: list[Word] = []
    place = 0
    if in_comment:
        end = line.find(_CLOSE)
        if end < 0:
            return [Word(0, len(line), "comment")] if line else [], True
        place = end + len(_CLOSE)
        found.append(Word(0, place, "comment"))
    while place < len(line):
        match = _WORDS.search(line, place)
        opened = line.find(_OPEN, place)
        if opened >= 0 and (match is None or opened <= match.start()):
            end = line.find(_CLOSE, opened + len(_OPEN))
            if end < 0:
                found.append(Word(opened, len(line) - opened, "comment"))
                return found, True
            place = end + len(_CLOSE)
            found.append(Word(opened, place - opened, "comment"))
            continue
        if match is None:
            break
        kind: Kind = match.lastgroup  # type: ignore[assignment]
        start = match.start() + len(match[0]) - len(match[0].lstrip())
        found.append(Word(start, match.end() - start, kind))
        place = max(match.end(), place + 1)
    return found, False


# ---- mistakes ----------------------------------------------------------------------------------------------------


_PLACE = re.compile(r"(?P<file>.+?\.asl):(?P<line>\d+):(?P<column>\d+): (?P<what>.+)")


def mistake_in(sentence: str) -> Mistake | None:
    """The mistake that a worker's refusal names; None for a refusal of another kind."""
    found = _PLACE.search(sentence)
    if found is None:
        return None
    return Mistake(found["file"].strip(), int(found["line"]), int(found["column"]), found["what"].strip())
