"""Who acted: what each actor is called, its colour and icon, and who made which part of an episode. Mostly without Qt.

Orange is the person and blue the policy, the agent that learns, or the language model, wherever a step is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from PyQt6.QtCore import QCoreApplication
from PyQt6.QtGui import QColor

from gym_gui.ui.theme import Theme
from mosaic_protocol.events import StepChunk
from mosaic_protocol.live.messages import State
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.steps.chunk import ACTOR, EPISODE, OpenedChunk

HUMAN, POLICY, RANDOM, SCRIPTED, AGENT, MODEL = "human", "policy", "random", "scripted", "agent", "llm"
UNKNOWN = ""
"""Steps that were made before somebody looked."""
_TITLES = {
    HUMAN: "you",
    POLICY: "the policy",
    RANDOM: "chance",
    SCRIPTED: "the script",
    AGENT: "the agent",
    MODEL: "the model",
    UNKNOWN: "unknown",
}
_CURVES = {POLICY: 0, AGENT: 0, MODEL: 0, HUMAN: 1, RANDOM: 2, SCRIPTED: 3}
_ICONS = {HUMAN: "human", POLICY: "worker", RANDOM: "dice", SCRIPTED: "script"}
MOST_PIECES = 240
"""Finer than a stripe on the screen shows."""


def actor_title(actor: str) -> str:
    """Who that is, in words that go on in a sentence."""
    known = _TITLES.get(actor)
    return QCoreApplication.translate("Actor", known) if known is not None else one_line(actor)


def last_actor(state: State) -> str:
    """Who made the last step of the episode; before its first step, who has the seat. A run that does not say who acted
    has one actor."""
    return state.acted if state.acted and state.step else state.actor


def actor_colour(actor: str, theme: Theme) -> QColor:
    number = _CURVES.get(actor)
    return theme.colour("idle") if number is None else theme.curve(number)


def actor_icon(actor: str) -> str:
    """The name of the icon; what is no person is drawn as an agent."""
    return _ICONS.get(actor, "worker")


class ActorStripe:
    """Who made the steps of an episode, in order, in bounded room: an episode of any length has at most
    :data:`MOST_PIECES` pieces, each of :attr:`steps_a_piece` steps."""

    def __init__(self) -> None:
        self.steps_a_piece = 1
        self.steps = 0
        self._pieces: list[Counter[str]] = []

    def add(self, actor: str, steps: int = 1) -> None:
        """The next so many steps were made by this actor."""
        while steps > 0:
            room = len(self._pieces) * self.steps_a_piece - self.steps
            if not room:
                if len(self._pieces) == MOST_PIECES:
                    self._halve()
                    continue
                self._pieces.append(Counter())
                room = self.steps_a_piece
            taken = min(room, steps)
            self._pieces[-1][actor] += taken
            self.steps += taken
            steps -= taken

    def cut(self, steps: int) -> None:
        """Forget everything after so many steps: they were undone."""
        if steps >= self.steps:
            return
        whole, rest = divmod(max(0, steps), self.steps_a_piece)
        kept, last = self._pieces[:whole], self._pieces[whole] if rest else Counter()
        self._pieces, self.steps = kept, whole * self.steps_a_piece
        for actor, count in last.items():
            self.add(actor, min(count, rest))
            rest -= min(count, rest)

    def clear(self) -> None:
        self.steps_a_piece, self.steps, self._pieces = 1, 0, []

    @property
    def pieces(self) -> list[tuple[str, int]]:
        """(actor, steps) from the first step on, neighbours of one actor put together. Where a piece has several
        actors it is given to the one with the most steps."""
        found: list[tuple[str, int]] = []
        for piece in self._pieces:
            (actor, _), count = piece.most_common(1)[0], piece.total()
            if found and found[-1][0] == actor:
                count += found.pop()[1]
            found.append((actor, count))
        return found

    @property
    def counts(self) -> Counter[str]:
        """How many steps each made."""
        return sum(self._pieces, Counter())

    def _halve(self) -> None:
        pairs = zip(self._pieces[::2], self._pieces[1::2], strict=True)
        self._pieces = [first + second for first, second in pairs]
        self.steps_a_piece *= 2


def stripe_words(stripe: ActorStripe) -> str:
    """Who acted, for a tooltip and for those who hear the screen."""
    return ", ".join(f"{actor_title(actor)} {count:,}" for actor, count in stripe.counts.most_common())


def stripe_of(chunks: Iterable[StepChunk], episode: int) -> ActorStripe:
    """Who made the steps of a recorded episode. Reads two columns, and no observation."""
    stripe = ActorStripe()
    for record in chunks:
        chunk = OpenedChunk(record)
        for number, actor in zip(chunk.column((EPISODE,)), chunk.column((ACTOR,)), strict=True):
            if number == episode:
                stripe.add(chunk.names[actor])
    return stripe
