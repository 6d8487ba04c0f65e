"""Keeps the record of an agent's mind: for each episode what changed, now and then all of it, and what a screen
sees."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import agentspeak as asp
import msgspec

from mosaic_protocol.mind import (
    MIND,
    WHOLE_EVERY,
    AgentMind,
    Belief,
    Considered,
    Intention,
    Mind,
    PlanSpan,
    Said,
    ValueTable,
)
from spade_bdi_rl_worker.agent.reasoner import Reasoner, goal_text
from spade_bdi_rl_worker.agent.terms import PERSON, belief_of, source_of

MOST_MESSAGES, MOST_SPANS = 50, 200
MOST_FROM_A_PERSON = 20
"""Messages that stay among those that are seen, however many others come: who told something waits for it."""
MOST_UNSAID = 1000
"""Messages that wait for the next episode to be recorded with; of more the newest are kept."""


class MindKeeper:
    """Belongs to the agent's thread."""

    def __init__(self, reasoner: Reasoner) -> None:
        self.confidence = 0.0
        self._reasoner = reasoner
        self._unsaid: deque[Said] = deque(maxlen=MOST_UNSAID)
        self._messages: deque[Said] = deque(maxlen=MOST_MESSAGES)
        self._from_a_person: deque[Said] = deque(maxlen=MOST_FROM_A_PERSON)
        self._spans: deque[list[Any]] = deque(maxlen=MOST_SPANS)
        self._since_whole: int | None = None
        self._told: dict[str, Any] = {}
        self._choice_number = -1
        self._intentions_key: Any = None
        self._shown_before: dict[str, Belief] | None = None

    def said(self, way: str, peer: str, performative: str, text: str) -> None:
        """A message came or went."""
        message = Said("in" if way == "in" else "out", peer, performative, text, time.time())
        self._unsaid.append(message)
        self._messages.append(message)
        if peer == PERSON:
            self._from_a_person.append(message)

    # ---- records -------------------------------------------------------------------------------------------------

    def record(self, episode: int, number: int, *, same_action: bool = False) -> dict[str, Any]:
        """What belongs to the first step of the agent's episode ``number``, which is about to begin; ``episode`` is its
        number in the run, about. ``same_action``: as the one before. Then nothing was reasoned in between, and
        confidence is all that can have changed."""
        reasoner = self._reasoner
        whole = self._since_whole is None or number % WHOLE_EVERY == 0
        found: dict[str, Any] = {}
        if same_action and not whole:
            if self._spans:
                self._spans[-1][2] += 1
            self._note("confidence", self.confidence, found)
            return found
        if whole:
            self._told.clear()
            self._choice_number, self._intentions_key, self._since_whole = -1, None, number
            found["whole"] = True
            found["added"] = _plain(self.distinct_beliefs().values())
            reasoner.beliefs.changes.clear()
        elif reasoner.beliefs.changes:
            self._note_changes(found)
        choice = reasoner.choice
        if choice is not None and choice.chosen is not None:
            self._note("plan", choice.chosen.label, found)
            self._note("goal", goal_text(choice.event), found)
            self._note_span(choice.chosen.label, episode)
            if reasoner.choice_number != self._choice_number:
                self._choice_number = reasoner.choice_number
                found["considered"] = [list(one) for one in choice.considered]
        self._note("confidence", self.confidence, found)
        self._note("problem", reasoner.problem, found)
        self._note_intentions(found)
        if self._unsaid:
            found["messages"] = _plain(self._unsaid)
            self._unsaid.clear()
        return found

    def record_more(self, confidences: Sequence[float]) -> list[dict[str, Any]]:
        """Extras for the first steps of the episodes that followed the one of :meth:`record` in the same action;
        ``confidences`` are those after each of them, that one's first. Nothing was reasoned in between."""
        found: list[dict[str, Any]] = []
        if not confidences:
            return found
        told = self._told.get("confidence")
        for confidence in confidences[:-1]:
            found.append(_NOTHING_NEW if confidence == told else _confident(confidence))
            told = confidence
        self._told["confidence"], self.confidence = told, confidences[-1]
        if self._spans:
            self._spans[-1][2] += len(found)
        return found

    def _note(self, key: str, value: Any, found: dict[str, Any]) -> None:
        if self._told.get(key) != value:
            self._told[key] = found[key] = value

    def _note_changes(self, found: dict[str, Any]) -> None:
        changes = self._reasoner.beliefs.changes
        added = [belief_of(literal) for literal, came in changes.items() if came]
        removed = [belief_of(literal) for literal, came in changes.items() if not came and not self._has_twin(literal)]
        if added:
            found["added"] = _plain(added)
        if removed:
            found["removed"] = _plain(removed)
        changes.clear()

    def _has_twin(self, literal: Any) -> bool:
        """Whether the same is still believed with other marks: records know none but the source."""
        beliefs = self._reasoner.beliefs
        if not beliefs.has_marks:
            return False
        group, source = beliefs[literal.literal_group()], source_of(literal)
        return any(one.args == literal.args and source_of(one) == source for one in group)

    def _note_span(self, plan: str, episode: int) -> None:
        if self._spans and self._spans[-1][1] == plan:
            self._spans[-1][2] += 1
        else:
            self._spans.append([episode, plan, 1])

    def _note_intentions(self, found: dict[str, Any]) -> None:
        key = [(one.plan, one.instr, one.waiter is None) for stack in self._reasoner.intentions for one in stack]
        if key != self._intentions_key:
            self._intentions_key = key
            intentions = self.intentions()
            self._note("intentions", _plain(intentions), found)
            self._note("goals", list(dict.fromkeys(one.goal for one in intentions)), found)

    def intentions(self) -> list[Intention]:
        found = []
        for number, stack in enumerate(self._reasoner.intentions):
            for purpose in stack:
                mark = "" if purpose.is_goal else f"{purpose.plan.trigger.value}"
                doing = getattr(purpose.instr, "text", "")
                waits = purpose.waiter is not None
                found.append(Intention(mark + goal_text(purpose.event), purpose.plan.label, doing, waits, number))
        return found

    def distinct_beliefs(self) -> dict[str, Belief]:
        """As records have them, each once: they keep no other marks of a belief than its source."""
        found = map(belief_of, self._reasoner.beliefs.all())
        return {f"{one.text}/{one.source}": one for one in found}

    # ---- for those who watch -------------------------------------------------------------------------------------

    def seen(self, name: str, episode: int, strategy: dict[str, float], table: ValueTable | None) -> AgentMind:
        """The mind as it is now, with what changed since the last look."""
        reasoner = self._reasoner
        held = self.distinct_beliefs()
        before = self._shown_before
        choice = reasoner.choice
        intentions = self.intentions()
        mind = Mind(
            plan=choice.chosen.label if choice is not None and choice.chosen is not None else "",
            goal=goal_text(choice.event) if choice is not None and choice.event is not None else "",
            confidence=self.confidence,
            beliefs=tuple(held.values()),
            added=() if before is None else tuple(one for key, one in held.items() if key not in before),
            removed=() if before is None else tuple(one for key, one in before.items() if key not in held),
            goals=tuple(dict.fromkeys(one.goal for one in intentions)),
            intentions=tuple(intentions),
            considered=tuple(Considered(*one) for one in choice.considered) if choice is not None else (),
            messages=self._newest_messages(),
            problem=reasoner.problem,
            values=table.values[table.state] if table is not None and table.state is not None else (),
        )
        self._shown_before = held
        spans = tuple(PlanSpan(*one) for one in self._spans)
        return AgentMind(name, episode, mind, spans, strategy, table)

    def _newest_messages(self) -> tuple[Said, ...]:
        newest = set(map(id, self._messages))
        return (*(one for one in self._from_a_person if id(one) not in newest), *self._messages)

    @property
    def beliefs(self) -> list[str]:
        """Every belief as AgentSpeak writes it, sources and other marks included, for a checkpoint. The order within a
        group decides what a condition finds first; that of groups decides nothing."""
        groups = sorted(self._reasoner.beliefs.items(), key=lambda one: one[0])
        return [asp.asl_repr(literal) for _, group in groups for literal in group]


_NOTHING_NEW: dict[str, Any] = {MIND: {}}


@lru_cache(maxsize=1000)
def _confident(confidence: float) -> dict[str, Any]:
    """Shared by all records that say nothing else: nobody changes one."""
    return {MIND: {"confidence": confidence}}


def _plain(structs: Any) -> list[Any]:
    """As JSON."""
    found: list[Any] = msgspec.to_builtins(list(structs))
    return found
