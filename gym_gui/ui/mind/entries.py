"""Intentions, considered plans and messages as entries of a list. No Qt."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from mosaic_protocol.mind import Considered, Intention, Mind, Said
from mosaic_protocol.plain_text import one_line

PERSON = "person"


@dataclass(frozen=True)
class Entry:
    """``title`` is bold; ``aside`` stands at its right end, in a colour of the theme; ``code`` below it as it is
    written, ``text`` as a sentence. ``colour`` names a colour of the theme for the bar at the left; "" for none."""

    title: str
    aside: str = ""
    aside_colour: str = "muted"
    code: str = ""
    text: str = ""
    colour: str = ""
    strong: bool = True

    @property
    def spoken(self) -> str:
        """For tooltips and screen readers."""
        return "\n".join(filter(None, (f"{self.title}  {self.aside}".strip(), self.code, self.text)))


def intention_entries(intentions: Sequence[Intention]) -> list[Entry]:
    """What runs next on top. Of several stacks one after the other."""
    stacks: dict[int, list[Intention]] = {}
    for one in intentions:
        stacks.setdefault(one.stack, []).append(one)
    found = []
    for stack in stacks.values():
        for depth, one in enumerate(reversed(stack)):
            found.append(_intention(one, is_on_top=depth == 0))
    return found


def _intention(one: Intention, *, is_on_top: bool) -> Entry:
    runs = is_on_top and not one.waits
    return Entry(
        title=one_line(one.plan) or one_line(one.goal),
        aside="runs" if runs else "waits",
        aside_colour="accent" if runs else "muted",
        code=one_line(one.doing),
        text=f"for {one_line(one.goal)}" if one.plan else "",
        colour="accent" if runs else "border",
    )


def considered_entries(considered: Sequence[Considered]) -> list[Entry]:
    """The plan that was chosen first, then why each of the others was not, as they are listed in the program."""
    chosen = [one for one in considered if not one.why_not]
    others = [one for one in considered if one.why_not]
    return [_considered(one) for one in (*chosen, *others)]


def _considered(one: Considered) -> Entry:
    is_chosen = not one.why_not
    condition = one_line(one.context)
    return Entry(
        title=one_line(one.plan),
        aside="chosen" if is_chosen else "",
        aside_colour="good",
        code=condition,
        text=one_line(one.why_not) or ("" if condition else "it has no condition"),
        colour="good" if is_chosen else "border",
        strong=is_chosen,
    )


def message_entries(messages: Sequence[Said]) -> list[Entry]:
    """The newest on top."""
    return [_message(one) for one in reversed(messages)]


def _message(one: Said) -> Entry:
    peer, is_person = one_line(one.peer), one.peer == PERSON
    heard = one.way == "in"
    who = "you" if is_person else peer
    at = time.strftime("%H:%M:%S", time.localtime(one.at)) if one.at > 0 else ""
    return Entry(
        title=f"{'←' if heard else '→'} {who}",
        aside=f"{one_line(one.performative)}  {at}".strip(),
        code=one_line(one.text),
        colour="warning" if is_person else "accent" if not heard else "border",
    )


def why_title(mind: Mind) -> str:
    """The heading above the considered plans."""
    plan = one_line(mind.plan)
    return f"Why {plan}, and not the others" if plan else "Which plan, and why"


def share_words(confidence: float) -> str:
    return f"{min(1.0, max(0.0, confidence)):.2f}"


def strategy_words(strategy: dict[str, float]) -> list[str]:
    """``ε 0.05``, ``α 0.4``; what has no letter by its name."""
    letters = {"epsilon": "ε", "alpha": "α", "gamma": "γ", "temperature": "τ", "learning_rate": "α"}
    return [f"{letters.get(name, one_line(name))} {value:.3g}" for name, value in strategy.items()]
