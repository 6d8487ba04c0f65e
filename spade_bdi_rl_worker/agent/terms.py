"""Terms of AgentSpeak as the interpreter has them, as records keep them, and as people write them."""

from __future__ import annotations

from typing import Any

import agentspeak as asp

from mosaic_protocol.mind import Belief, Term, text_of

SOURCE = "source"
SELF, PERCEPT, LEARNED, PERSON, RECORDING = SOURCES = ("self", "percept", "learned", "person", "recording")
_PRECEDENCE = {"|": 1, "&": 2, "not": 3}
_COMPARISON, _ARITHMETIC = 4, 5


def atom(name: str) -> Any:
    return asp.Literal(name)


def sourced(functor: str, args: tuple[Any, ...], source: str) -> Any:
    """A literal that says where it comes from."""
    return asp.Literal(functor, args, frozenset((_mark(source),)))


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
