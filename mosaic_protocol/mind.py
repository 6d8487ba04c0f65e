"""What an agent believed, wanted and chose: the shape in which a worker records it and everybody else reads it.

A :class:`MindRecord` stands among the extras of a step, under :data:`MIND`: always with the first step of an episode,
and with every step where the run was asked for that. Agents play thousands of episodes a second, so a record says what
changed since the one before; one in :data:`WHOLE_EVERY` episodes is whole. :class:`MindReader` puts them together.

Terms are JSON: a number, a truth value, a text, a list; an atom or a structure is ``{"f": functor, "a": [arguments]}``.
Nothing here knows an AgentSpeak interpreter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from mosaic_protocol.dialogue import Exchange

MIND = "mind"
"""The key among a step's extras."""
WHOLE_EVERY = 64
"""The first of so many episodes of an agent has a whole record: a reader of any episode looks back no further."""
TAKE_OVER, GIVE_BACK = "take over", "give back"

Term: TypeAlias = Any
Way: TypeAlias = Literal["in", "out"]


class MindError(ValueError):
    """A record that is none, or changes without what they change; the text is one sentence."""


class Belief(msgspec.Struct, frozen=True, array_like=True):
    """One belief. ``source`` is where it comes from: ``percept``, ``self``, ``learned``, ``person``, or the agent who
    told it."""

    functor: str
    args: tuple[Term, ...] = ()
    source: str = ""

    @property
    def text(self) -> str:
        """As AgentSpeak writes it, without its source."""
        return text_of({"f": self.functor, "a": list(self.args)})


class Considered(msgspec.Struct, frozen=True, array_like=True):
    """One plan that could have served the goal."""

    plan: str
    """Its label, or its trigger where it has none."""
    context: str = ""
    """Its condition, as it is written."""
    why_not: str = ""
    """Why it was not chosen, in one sentence; empty for the plan that was."""


class Intention(msgspec.Struct, frozen=True, array_like=True):
    """One goal that is being pursued; those above it in a list wait for it."""

    goal: str
    plan: str
    doing: str = ""
    """The formula that runs next, as it is written."""
    waits: bool = False
    stack: int = 0
    """Intentions of the same number belong to one stack, the last one on top."""


class Said(msgspec.Struct, frozen=True, array_like=True):
    """One message."""

    way: Way
    peer: str
    """The other agent, or ``person``."""
    performative: str
    text: str
    at: float = 0.0
    """Seconds since the epoch."""


class MindRecord(msgspec.Struct, omit_defaults=True):
    """What changed since the record before. None, or absent: as it was. ``messages`` are those since then."""

    whole: bool = False
    """Whether it stands for itself: ``added`` are all beliefs."""
    plan: str | None = None
    """The plan that was chosen for ``goal``."""
    goal: str | None = None
    confidence: float | None = None
    """From 0 to 1: how far what the agent learned can be relied on."""
    added: list[Belief] = []
    removed: list[Belief] = []
    goals: list[str] | None = None
    intentions: list[Intention] | None = None
    considered: list[Considered] | None = None
    """Every plan for the goal, with the reason why it was not chosen."""
    messages: list[Said] = []
    problem: str | None = None
    """What went wrong last and which plan dealt with it; "" while nothing has."""
    values: list[float] | None = None
    """What it expects of each action in this step. Not carried over to the next."""

    def to_extra(self) -> dict[str, Any]:
        """For a step's extras."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class Mind(msgspec.Struct, frozen=True, omit_defaults=True):
    """An agent's mind at one step."""

    plan: str = ""
    goal: str = ""
    confidence: float = 0.0
    beliefs: tuple[Belief, ...] = ()
    added: tuple[Belief, ...] = ()
    """Of the beliefs, those that are new with this record; empty for a whole one, which does not say."""
    removed: tuple[Belief, ...] = ()
    goals: tuple[str, ...] = ()
    intentions: tuple[Intention, ...] = ()
    considered: tuple[Considered, ...] = ()
    messages: tuple[Said, ...] = ()
    problem: str = ""
    values: tuple[float, ...] = ()


class PlanSpan(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive episodes that one plan decided."""

    first_episode: int
    plan: str
    episodes: int = 1


class ValueTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an agent expects of each action in each state, for a screen to draw."""

    actions: tuple[str, ...] = ()
    """The actions in words, in the order of each row of ``values``."""
    values: tuple[tuple[float, ...], ...] = ()
    """A row for each state, in the order of their numbers."""
    visits: tuple[int, ...] = ()
    """How often each state was left by an action."""
    cells: tuple[str, ...] = ()
    """Of a world that is a grid: its rows, one character a cell, numbered from the left and from above as states are.
    Empty elsewhere."""
    terminal: tuple[int, ...] = ()
    """States in which an episode ends: they have no values."""
    state: int | None = None
    """Where the agent is now."""


class AgentMind(msgspec.Struct, frozen=True, omit_defaults=True):
    """One agent of a run that trains, as those who watch see it."""

    name: str
    episode: int = 0
    """The number of its newest episode in the run."""
    mind: Mind = Mind()
    """``messages`` are the newest ones; ``added`` and ``removed`` what changed since those who watch saw it last."""
    timeline: tuple[PlanSpan, ...] = ()
    """Which plan decided, over its newest episodes."""
    strategy: dict[str, float] = {}
    """What its learning is set to now, such as ``epsilon`` and ``alpha``."""
    table: ValueTable | None = None
    exchange: Exchange | None = None
    """Of a language model: what it was asked last, and what it answered."""
    choices: tuple[str, ...] = ()
    """Its actions in words. A goal of one of these words is played in its place, at the next step."""
    is_held: bool = False
    """Whether a person took over, and the run waits for actions. :data:`TAKE_OVER` and :data:`GIVE_BACK` are the goals
    by which that begins and ends."""


class MindReader:
    """Puts the records of one agent together, in their order. Begin with a whole one."""

    def __init__(self) -> None:
        self._mind: Mind | None = None

    def take(self, extra: object) -> Mind:
        """The mind after a record, as it stood in a step's extras. Raises :class:`MindError`; then the next whole
        record is the next that can be taken."""
        try:
            record = msgspec.convert(extra, MindRecord)
        except msgspec.ValidationError as error:
            self._mind = None
            raise MindError(f"the record of the agent's mind cannot be read: {error}") from None
        if record.whole:
            self._mind = Mind()
        elif self._mind is None:
            raise MindError("changes of a mind without a whole record before them")
        self._mind = _after(self._mind, record)
        return self._mind


def _after(before: Mind, record: MindRecord) -> Mind:
    gone = {_key(one) for one in record.removed}
    kept = [one for one in before.beliefs if _key(one) not in gone]
    held = {_key(one) for one in kept}
    new = [one for one in record.added if _key(one) not in held]
    return Mind(
        plan=_either(record.plan, before.plan),
        goal=_either(record.goal, before.goal),
        confidence=_either(record.confidence, before.confidence),
        beliefs=(*kept, *new),
        added=() if record.whole else tuple(new),
        removed=tuple(record.removed),
        goals=before.goals if record.goals is None else tuple(record.goals),
        intentions=before.intentions if record.intentions is None else tuple(record.intentions),
        considered=before.considered if record.considered is None else tuple(record.considered),
        messages=tuple(record.messages),
        problem=_either(record.problem, before.problem),
        values=tuple(record.values or ()),
    )


def _either(new: Any, old: Any) -> Any:
    return old if new is None else new


def _key(belief: Belief) -> str:
    """What two beliefs have in common that are the same."""
    return json.dumps([belief.functor, belief.args, belief.source], sort_keys=True)


def text_of(term: Term) -> str:
    """A term as AgentSpeak writes it."""
    match term:
        case True:
            return "true"
        case False:
            return "false"
        case str():
            return json.dumps(term, ensure_ascii=False)
        case float() if term.is_integer():
            return str(int(term))
        case {"f": str() as functor, **rest}:
            args: Any = rest.get("a") or ()
            inside = ", ".join(map(text_of, args))
            return f"{functor}({inside})" if inside else functor
        case Mapping():
            return json.dumps(term, ensure_ascii=False)
        case Sequence():
            return f"[{', '.join(map(text_of, term))}]"
        case _:
            return str(term)
