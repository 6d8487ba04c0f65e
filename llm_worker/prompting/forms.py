"""The ladder: in which form a model may answer, from what the server enforces down to what it is only asked for.

``grammar``   llama.cpp's GBNF: nothing else can be said
``guided``    vLLM's choice among texts
``schema``    a JSON schema, which most servers know and not all of them keep
``tagged``    free text with the action between tags

Below them all come one turn in which the model may mend its answer, and last the environment's idle action, which is
counted as invalid. Which rung a server has is tried out when a run begins, because servers ignore what they do not
know: it is asked for a word that no model would say by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from mosaic_protocol.plain_text import one_line

Rung = Literal["grammar", "guided", "schema", "tagged"]
RUNGS: tuple[Rung, ...] = ("grammar", "guided", "schema", "tagged")
THINKING_CHARACTERS = 400
"""That a grammar lets a model think, before it has to act."""
_PROBE_WORD = "zyx-mosaic-7"
_TAG = re.compile(r"<(/?)action>", re.IGNORECASE)
_THINKS = re.compile(r"\s*thinking:(.*?)(?:\n|\Z)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class AnswerForm:
    """How one kind of question is to be answered: so many actions, with or without thinking aloud."""

    rung: Rung
    actions: tuple[str, ...]
    most: int = 1
    """Actions in one answer: more than one for plans."""
    thinks: bool = False

    # ---- what is asked -------------------------------------------------------------------------------------------

    def instruction(self) -> str:
        """The sentence that a prompt's {format} stands for."""
        if self.rung in ("grammar", "guided"):
            many = f"your next 1 to {self.most} actions, with commas between them"
            actions = "one action and nothing else" if self.most == 1 else many
            first = "First one line that begins with Thinking: and says your thoughts, then a line with "
            return f"{first if self.thinks else 'Answer with '}{actions}."
        if self.rung == "schema":
            what = '"action": "…"' if self.most == 1 else f'"actions": ["…", …] with 1 to {self.most} actions'
            thinking = '"thinking": "…", ' if self.thinks else ""
            return f"Answer with JSON: {{{thinking}{what}}}."
        what = "your action" if self.most == 1 else f"your next 1 to {self.most} actions, with commas between them,"
        first = "Think first, briefly. Then write " if self.thinks else "Write "
        return f"{first}{what} between tags, such as <action>{self.actions[0]}</action>."

    def enforced(self) -> dict[str, Any]:
        """What goes into the request."""
        match self.rung:
            case "grammar":
                return {"grammar": self._grammar()}
            case "guided":
                return {"guided_choice": list(self.actions)}
            case "schema":
                return {"response_format": _schema_format(self._schema())}
        return {}

    def _grammar(self) -> str:
        actions = f"action ({_quoted(', ')} action){{0,{self.most - 1}}}" if self.most > 1 else "action"
        thinking = f'{_quoted("Thinking: ")} [^\\n<>]{{1,{THINKING_CHARACTERS}}} "\\n" ' if self.thinks else ""
        return f"root ::= {thinking}{actions}\naction ::= {' | '.join(map(_quoted, self.actions))}\n"

    def _schema(self) -> dict[str, Any]:
        one: dict[str, Any] = {"type": "string", "enum": list(self.actions)}
        many = {"type": "array", "items": one, "minItems": 1, "maxItems": self.most}
        thinking = {"type": "string", "maxLength": THINKING_CHARACTERS}
        properties: dict[str, Any] = {"thinking": thinking} if self.thinks else {}
        properties |= {"action": one} if self.most == 1 else {"actions": many}
        return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}

    # ---- what was answered ---------------------------------------------------------------------------------------

    def read(self, text: str) -> Understood:
        """Never raises: what cannot be understood has a problem."""
        if not text.strip():
            return Understood(problem="the answer is empty")
        match self.rung:
            case "schema":
                found = self._from_json(text)
            case "tagged":
                found = self._from_tags(text)
            case _:
                thought = _THINKS.match(text) if self.thinks else None
                rest = text[thought.end() :] if thought else text
                found = self._from_words(rest, thought[1].strip() if thought else "")
        return found

    def _from_json(self, text: str) -> Understood:
        begin, end = text.find("{"), text.rfind("}")
        try:
            told = msgspec.json.decode(text[begin : end + 1].encode("utf-8", "replace"))
        except (msgspec.DecodeError, RecursionError):
            return Understood(problem="the answer is not JSON")
        if not isinstance(told, dict):
            return Understood(problem="the answer is no JSON object")
        thinking = told.get("thinking")
        reasoning = thinking if isinstance(thinking, str) else ""
        words = told.get("actions", told.get("action"))
        words = [words] if isinstance(words, str) else words
        if not isinstance(words, list) or not words or not all(isinstance(one, str) for one in words):
            return Understood(reasoning=reasoning, problem="the answer names no action")
        return self._numbered(words, reasoning)

    def _from_tags(self, text: str) -> Understood:
        """The last pair counts. Tag by tag: a pattern for pairs would take hours for a text of nothing but tags."""
        opened, pair = None, None
        for tag in _TAG.finditer(text):
            if not tag[1]:
                opened = tag
            elif opened is not None:
                pair, opened = (opened, tag), None
        if pair is None:
            return Understood(reasoning=text.strip(), problem="the answer has no <action>…</action>")
        return self._from_words(text[pair[0].end() : pair[1].start()], text[: pair[0].start()].strip())

    def _from_words(self, text: str, reasoning: str) -> Understood:
        words = [text] if self.most == 1 else text.split(",")
        return self._numbered(words, reasoning)

    def _numbered(self, words: Sequence[str], reasoning: str) -> Understood:
        by_name = {_plain(name): number for number, name in enumerate(self.actions)}
        found = []
        for word in words[: self.most]:
            number = by_name.get(_plain(word))
            if number is None:
                return Understood(reasoning=reasoning, problem=f"{one_line(word)[:60]!r} is not one of the actions")
            found.append(number)
        return Understood(tuple(found), reasoning)


@dataclass(frozen=True)
class Understood:
    """What an answer means: the numbers of actions, or a problem."""

    actions: tuple[int, ...] = ()
    reasoning: str = ""
    problem: str = ""


def _plain(word: str) -> str:
    """Case, quotes, dots and the kind of space between words do not matter."""
    return " ".join(word.strip().strip("\"'`.*").replace("_", " ").casefold().split())


def _quoted(text: str) -> str:
    return json.dumps(text)


def _schema_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


# ---- what a server can do ------------------------------------------------------------------------------------------


@dataclass
class Ladder:
    """What was found out about a server, for the run's record."""

    rung: Rung = "tagged"
    tried: dict[str, str] = field(default_factory=dict)
    """What came of each rung that was tried, in a few words."""


Ask = Callable[[str, dict[str, Any]], str]
"""Asks the server, at a place of that name, with these additions to a request; its answer as text. Raises a
CallError that ends the run, or :class:`RungMissingError`."""


class RungMissingError(Exception):
    """The server refuses the additions of a rung."""


def climb(ask: Ask, wanted: str, *, thinks: bool, plans: bool) -> Ladder:
    """The highest rung that the server has, or the one that is wanted."""
    if wanted != "auto":
        return Ladder(next(one for one in RUNGS if one == wanted), {wanted: "asked for"})
    ladder = Ladder()
    for rung in RUNGS[:-1]:
        if rung == "guided" and (thinks or plans):
            ladder.tried[rung] = "cannot be used: it is a choice among single actions"
            continue
        try:
            said = ask(f"probe.{rung}", _PROBES[rung])
        except RungMissingError as error:
            ladder.tried[rung] = f"refused: {one_line(str(error))[:120]}"
            continue
        if _PROBE_WORD in said:
            ladder.rung = rung
            ladder.tried[rung] = "kept"
            return ladder
        ladder.tried[rung] = "ignored"
    ladder.tried["tagged"] = "needs nothing of the server"
    return ladder


_PROBES: dict[str, dict[str, Any]] = {
    "grammar": {"grammar": f'root ::= "{_PROBE_WORD}"'},
    "guided": {"guided_choice": [_PROBE_WORD]},
    "schema": {
        "response_format": _schema_format(
            {
                "type": "object",
                "properties": {"word": {"type": "string", "enum": [_PROBE_WORD]}},
                "required": ["word"],
                "additionalProperties": False,
            }
        )
    },
}
PROBE_QUESTION = "Say hello."
