"""Terms of AgentSpeak as the interpreter has them, as records keep them, and as people write them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import agentspeak as asp

from mosaic_protocol.mind import Belief, Term, text_of

SOURCE = "source"
SELF, PERCEPT, LEARNED, PERSON, RECORDING = SOURCES = ("self", "percept", "learned", "person", "recording")
_PRECEDENCE = {"|": 1, "&": 2, "not": 3}
_COMPARISON, _ARITHMETIC = 4, 5
_PLAIN = (int, float, str)


def atom(name: str) -> Any:
    return asp.Literal(name)


def is_constant(term: Any) -> bool:
    """Whether it is a number, a text or an atom, which needs no copy with variables put in."""
    kind = type(term)
    return kind in _PLAIN or (kind is asp.Literal and not term.args and not term.annots)


MOST_PARTS = 100_000
"""Of a goal, of a belief and of what is put together: each formula may make one twice as large as the last."""
_LETTERS_A_PART = 64


def is_too_large(term: Any) -> bool:
    """Whether it has more than :data:`MOST_PARTS`; a long text counts as several."""
    left, parts = [term], 0
    while left and parts <= MOST_PARTS:
        one = left.pop()
        parts += 1
        if isinstance(one, str):
            parts += len(one) // _LETTERS_A_PART
        elif isinstance(one, asp.Literal):
            left += one.args
            left += one.annots
        elif isinstance(one, tuple | list):
            left += one
    return parts > MOST_PARTS


class Fact(asp.Literal):
    """A literal that is looked up many times: what it is looked up by is computed once."""

    def __init__(self, functor: str, args: tuple[Any, ...], annots: frozenset[Any]) -> None:
        self.functor, self.args, self.annots = functor, args, annots
        self._hash = hash((functor, args, annots))
        self._belief: Belief | None = None

    def __hash__(self) -> int:
        return self._hash

    @property
    def belief(self) -> Belief:
        """For a record; made once."""
        if self._belief is None:
            self._belief = Belief(self.functor, tuple(map(plain, self.args)), source_of(self))
        return self._belief

    __eq__ = asp.Literal.__eq__


@lru_cache(maxsize=1000)
def sourced(functor: str, args: tuple[Any, ...], source: str) -> Any:
    """A literal that says where it comes from. Its arguments are ground."""
    return Fact(functor, args, frozenset((_mark(source),)))


def with_source(literal: Any, source: str) -> Any:
    kept = frozenset(annot for annot in literal.annots if getattr(annot, "functor", "") != SOURCE)
    return asp.Literal(literal.functor, literal.args, kept | {_mark(source)})


_marks: dict[str, Any] = {}


def _mark(source: str) -> Any:
    if source not in _marks:
        _marks[source] = asp.Literal(SOURCE, (asp.Literal(source),))
    return _marks[source]


def source_of(literal: Any) -> str:
    for annot in literal.annots:
        if getattr(annot, "functor", "") == SOURCE and annot.args:
            return str(getattr(annot.args[0], "functor", annot.args[0]))
    return SELF


def belief_of(literal: Any) -> Belief:
    """For a record."""
    if isinstance(literal, Fact):
        return literal.belief
    return Belief(literal.functor, tuple(map(plain, literal.args)), source_of(literal))


def plain(term: Any) -> Term:
    """A term of the interpreter as JSON."""
    if isinstance(term, bool | int | float | str):
        return term
    if isinstance(term, asp.Literal):
        return {"f": term.functor, "a": [plain(one) for one in term.args]} if term.args else {"f": term.functor}
    if isinstance(term, tuple | asp.LinkedList):
        return [plain(one) for one in term]
    return {"f": "_"}  # a variable that nobody bound


def written(term: Any) -> str:
    """A term of the interpreter as AgentSpeak writes it, without sources."""
    return text_of(plain(term))


def as_written(node: Any, outer: int = 0) -> str:
    """A condition or formula from the syntax tree, with no more brackets than it needs."""
    operator = getattr(getattr(node, "operator", None), "value", None)
    if operator is None:
        return _leaf(node)
    name = operator.lexeme
    own = _PRECEDENCE.get(name, _COMPARISON if operator.comp_op or operator.query_op else _ARITHMETIC)
    if hasattr(node, "operand"):
        text = f"{name} {as_written(node.operand, own)}" if name == "not" else f"{name}{as_written(node.operand, own)}"
    else:
        text = f"{as_written(node.left, own)} {name} {as_written(node.right, own + (own == _ARITHMETIC))}"
    return f"({text})" if own < outer else text


def _leaf(node: Any) -> str:
    if hasattr(node, "functor"):
        inside = ", ".join(as_written(one) for one in node.terms)
        marks = ", ".join(as_written(one) for one in node.annotations)
        return node.functor + (f"({inside})" if inside else "") + (f"[{marks}]" if marks else "")
    if hasattr(node, "value"):
        return text_of(node.value)
    return str(node)
