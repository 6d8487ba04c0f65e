"""What a language model was asked at a step and what it answered: the shape in which a worker records it and everybody
else reads it.

An :class:`Exchange` stands among the extras of a step, under :data:`DIALOGUE`. Its prompt is a list of roles and
hashes; a text stands among ``texts`` the first time that it is used in an episode, so that what every prompt begins
with is written once, and each episode can be read by itself. :class:`DialogueReader` puts them together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

DIALOGUE = "dialogue"
"""The key among a step's extras."""

Validity = Literal["valid", "repaired", "defaulted", "planned", "person"]
"""``repaired``: in a second turn. ``defaulted``: no answer was valid, and the idle action was taken. ``planned``: it
comes from an earlier answer. ``person``: somebody took over."""
Source = Literal["", "server", "cache", "ledger"]


class DialogueError(ValueError):
    """A record that is none; the text is one sentence."""


class Message(msgspec.Struct, frozen=True, array_like=True):
    """One message of a prompt. In a record ``text`` is the hash of it."""

    role: str
    text: str


class Exchange(msgspec.Struct, omit_defaults=True, frozen=True):
    """One step."""

    prompt: tuple[Message, ...] = ()
    texts: dict[str, str] = {}
    response: str = ""
    reasoning: str = ""
    action: str = ""
    validity: Validity = "valid"
    rung: str = ""
    source: Source = ""
    calls: int = 0
    attempts: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cached_tokens: int | None = None
    is_estimated: bool = False
    """Whether the server did not count, and the tokens are estimated."""
    seconds: float = 0.0
    cost: float | None = None
    """In dollars; None where nobody knows the price."""
    plan: tuple[str, ...] = ()
    """What is left of the plan after this step."""
    note: str = ""
    """What happened besides: a plan that was given up, a history that shrank."""


def noted(exchange: Exchange, note: str) -> Exchange:
    """With one more thing that happened."""
    return msgspec.structs.replace(exchange, note=f"{exchange.note}; {note}" if exchange.note else note)


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def recorded(exchange: Exchange, known: set[str]) -> Exchange:
    """For a step's extras. ``known``: the hashes of this episode, to which those that are new are added."""
    texts, prompt = {}, []
    for one in exchange.prompt:
        name = text_hash(one.text)
        prompt.append(Message(one.role, name))
        if name not in known:
            known.add(name)
            texts[name] = one.text
    return msgspec.structs.replace(exchange, prompt=tuple(prompt), texts=texts)


class DialogueReader:
    """Gives prompts their texts back. Take the steps of an episode from its beginning."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def take(self, extra: object) -> Exchange:
        """Raises :class:`DialogueError`."""
        try:
            told = msgspec.convert(extra, Exchange)
        except msgspec.ValidationError as error:
            raise DialogueError(f"the record of what the model was asked cannot be read: {error}") from None
        self._texts |= told.texts
        missing = "(this part of the prompt was not recorded)"
        prompt = tuple(Message(one.role, self._texts.get(one.text, missing)) for one in told.prompt)
        return msgspec.structs.replace(told, prompt=prompt, texts={})


def in_full(exchange: Exchange) -> dict[str, Any]:
    """Every field, those that have their usual value too, as plain values."""
    return {name: msgspec.to_builtins(getattr(exchange, name)) for name in exchange.__struct_fields__}


def exchange_at(place: int, extras: Mapping[int, Mapping[str, Any]]) -> Exchange | None:
    """That of a step, from the extras of its episode; None where there is none, or it cannot be read."""
    if DIALOGUE not in extras.get(place, {}):
        return None
    reader, found = DialogueReader(), None
    for one in range(place + 1):
        if (extra := extras.get(one, {}).get(DIALOGUE)) is not None:
            try:
                found = reader.take(extra)
            except DialogueError:
                found = None
    return found
