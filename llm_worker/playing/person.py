"""A person at a run of a language model: sees what it is asked and answers, tells it something, takes over.

Commands arrive in the thread of the live channel; the run looks at them between two steps.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec

from mosaic_protocol.dialogue import Exchange, Message
from mosaic_protocol.live.messages import Tell
from mosaic_protocol.mind import GIVE_BACK, TAKE_OVER, AgentMind, Mind, Said
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.suggest import did_you_mean

AGENT = "model"
LONGEST_SHOWN = 24_000
"""Characters of one text on the live channel; the record has all of it."""
_MOST_MESSAGES = 12
_MOST_TOLD = 20


class Person:
    """What somebody wants of the run, and what the run shows of itself."""

    def __init__(self, actions: Sequence[str]) -> None:
        self._actions = tuple(actions)
        self._lock = threading.Lock()
        self._holds = False
        self._action: int | None = None
        self._hints: list[str] = []
        self._said: list[Said] = []
        self._exchange = Exchange()
        self._episode = 0
        self._sums: dict[str, float] = {}

    # ---- for those who watch -------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        return (AGENT,)

    def seen(self) -> tuple[AgentMind, ...]:
        with self._lock:
            mind = Mind(messages=tuple(self._said))
            return (
                AgentMind(
                    AGENT,
                    self._episode,
                    mind,
                    strategy=self._sums,
                    exchange=_short(self._exchange),
                    choices=self._actions,
                    is_held=self._holds,
                ),
            )

    def tell(self, told: Tell) -> str:
        """Why not, in one sentence, or ""."""
        text = " ".join(told.text.split())
        with self._lock:
            if told.kind == "belief":
                self._hints = [*self._hints, one_line(text)][-_MOST_TOLD:]
            elif text == TAKE_OVER:
                self._holds = True
            elif text == GIVE_BACK:
                self._holds, self._action = False, None
            elif text.casefold() in (known := [one.casefold() for one in self._actions]):
                self._action = known.index(text.casefold())
            else:
                words = (*self._actions, TAKE_OVER, GIVE_BACK)
                return f"there is no action {one_line(text)[:60]!r}{did_you_mean(text, words)}"
            said = Said("in", "person", told.kind, one_line(text))
            self._said = [*self._said, said][-_MOST_MESSAGES:]
        return ""

    # ---- for the run ---------------------------------------------------------------------------------------------

    @property
    def holds(self) -> bool:
        """Whether the run waits for a person's action."""
        with self._lock:
            return self._holds and self._action is None

    def take_action(self) -> int | None:
        """What a person wants done now, instead of what the model says."""
        with self._lock:
            action, self._action = self._action, None
            return action

    def take_hints(self) -> str:
        with self._lock:
            hints, self._hints = self._hints, []
            return "; ".join(hints)

    def show(self, exchange: Exchange, episode: int, sums: dict[str, float]) -> None:
        """What was asked and answered, for those who watch."""
        with self._lock:
            self._exchange, self._episode, self._sums = exchange, episode, sums


def _short(exchange: Exchange) -> Exchange:
    room = LONGEST_SHOWN // max(len(exchange.prompt), 1)
    prompt = tuple(Message(one.role, _cut(one.text, max(room, 400))) for one in exchange.prompt[-20:])
    changes = {name: _cut(getattr(exchange, name), LONGEST_SHOWN) for name in ("response", "reasoning", "note")}
    return msgspec.structs.replace(exchange, prompt=prompt, **changes)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters are in the record)"
