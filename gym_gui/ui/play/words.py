"""What is said of a session and its episodes: pure, from what the session told."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import msgspec
from PyQt6.QtCore import QCoreApplication

from gym_gui.ui.play.actors import HUMAN, actor_title
from mosaic_protocol.live.key_map import KeyMap
from mosaic_protocol.live.messages import Hello, State
from mosaic_protocol.plain_text import one_line

TERMINATED, TRUNCATED = "terminated", "truncated"
GLYPHS = {"up": "↑", "down": "↓", "left": "←", "right": "→", "space": "Space", "enter": "Enter", "tab": "Tab"}
GLYPHS |= {"escape": "Esc", "backspace": "⌫"}
_NAMES_OF_CHECKPOINTS = ("checkpoints", "latest", "best", "final")
_STEP = re.compile(r"step-([0-9]{1,15})")


def _tr(text: str) -> str:
    return QCoreApplication.translate("Session", text)


@dataclass(frozen=True)
class Said:
    """A word for the badge, its colour by the name of the theme's, and a sentence where there is more to say."""

    word: str
    colour: str
    sentence: str = ""
    role: str = "muted"


# How episodes of known games end. A game that is not here says only that it ended, which is true of any.
_ENDINGS: dict[str, dict[str, tuple[str, str]]] = {
    "CartPole": {TERMINATED: ("fell", "bad"), TRUNCATED: ("balanced", "good")},
    "MountainCar": {TERMINATED: ("goal", "good")},
    "Acrobot": {TERMINATED: ("goal", "good")},
    "CliffWalking": {TERMINATED: ("goal", "good")},
    "Taxi": {TERMINATED: ("delivered", "good")},
}
_REWARDED = ("FrozenLake", "MiniGrid", "BabyAI")
"""Games whose return is above 0 exactly when their goal was reached."""


def outcome(env_id: str, ended: str, total: float | None) -> Said:
    """How an episode ended: of a known game in its own words."""
    game = env_id.rpartition(":")[2]
    if ended == TERMINATED and game.startswith(_REWARDED):
        return Said(_tr("goal"), "good") if (total or 0) > 0 else Said(_tr("lost"), "bad")
    known = next((ways for name, ways in _ENDINGS.items() if game.startswith(name)), {})
    if ended in known:
        word, colour = known[ended]
        return Said(_tr(word), colour)
    if ended == TRUNCATED:
        return Said(_tr("out of time"), "warning")
    return Said(_tr("ended") if ended == TERMINATED else _tr("stopped"), "idle")


def situation(
    hello: Hello | None,
    state: State,
    closed: str | None = None,
    *,
    joined: bool = True,
    named: Callable[[str], str] | None = None,
) -> Said:
    """What the session does now: the most important thing first. ``named`` gives the name of a checkpoint."""
    if closed is not None:
        return Said(_tr("ended"), "idle", closed or _tr("The session ended."))
    if hello is None:
        return Said(_tr("starting"), "accent", _tr("The session is being started…"))
    if not joined:
        return Said(_tr("disconnected"), "warning", _tr("The session does not answer; looking for it…"), "warning")
    said = _of_play(hello, state, named or checkpoint_name)
    if state.problem:
        return Said(said.word, said.colour, one_line(state.problem), "error")
    return said


def _of_play(hello: Hello, state: State, named: Callable[[str], str]) -> Said:
    if state.held:
        return Said(_tr("held"), "warning", _tr("The run is paused: nothing moves until it is resumed."), "warning")
    if state.over:
        said = outcome(hello.env_id, state.over, state.total)
        mine = state.actor == HUMAN
        following = _tr("any key begins the next episode") if mine else _tr("the next episode begins")
        if state.paused and not mine:
            following = _tr("paused: Go (P) begins the next episode")
        total = signed(state.total)
        sentence = _tr("Episode over: {how}, return {total}; {following}.")
        return Said(said.word, said.colour, sentence.format(how=said.word, total=total, following=following), "")
    if state.paused:
        return Said(_tr("paused"), "warning", _tr("Paused."))
    if state.loading:
        mine = state.actor == HUMAN
        told = _tr("{name} is being loaded; you play on.") if mine else _tr("{name} is being loaded; {who} plays on.")
        sentence = told.format(name=named(state.loading), who=actor_title(state.actor))
        return Said(_tr("playing"), "accent", sentence)
    if state.waiting:
        sentence = _tr("Your move.") if hello.waits else _tr("A key begins.")
        return Said(_tr("your turn"), "warning", sentence)
    return Said(_tr("playing"), "accent")


def about(hello: Hello | None, state: State, named: Callable[[str], str]) -> str:
    """The line below the title: seed, settings that were changed, and whose policy watches or plays; ``named`` gives
    the name of a checkpoint."""
    if hello is None:
        return ""
    parts = [_tr("seed {seed}").format(seed=state.seed)]
    parts += [f"{name.replace('_', ' ')} {plain(value)}" for name, value in hello.settings.items()]
    if won := rounds_won(state):
        parts.append(won)
    elif state.advisor:
        parts.append(_tr("with {policy}").format(policy=named(state.advisor)))
    return " · ".join(parts)


def own_seat(state: State) -> State:
    """What a state says of the person's seat: the first that a person has, else the first of all."""
    own = next((seat for seat in state.seats if seat.actor == HUMAN), None)
    if own is None:
        return state
    return msgspec.structs.replace(state, actor=own.actor, loading=own.loading, advisor=own.advisor)


def rounds_won(state: State) -> str:
    """How the seats of a session stand against each other, over the rounds that it still tells of; "" for one seat."""
    if not state.seats or not state.rounds:
        return ""
    won = [0] * len(state.seats)
    for one in state.rounds:
        totals = [-math.inf if total is None else total for total in one.totals]
        best = [seat for seat, total in enumerate(totals) if total == max(totals)]
        if len(best) == 1 and best[0] < len(won):
            won[best[0]] += 1
    names = [one_line(seat.name) for seat in state.seats]
    score = ", ".join(f"{name} {count}" for name, count in zip(names, won, strict=True))
    return _tr("won of {rounds} rounds: {score}").format(rounds=len(state.rounds), score=score)


def checkpoint_name(place: str) -> str:
    """A policy by the name of its run where its place says so, else by its folder; with its step where known."""
    parts = [part for part in PurePath(place).parts if part not in ("/", "")]
    named = [part for part in parts if part not in _NAMES_OF_CHECKPOINTS and not _STEP.fullmatch(part)]
    return at_step(one_line(named[-1]) if named else one_line(place), place)


def at_step(name: str, place: str) -> str:
    """The name of a policy with the step of its checkpoint, where its folder says it."""
    found = _STEP.fullmatch(PurePath(place).name)
    return _tr("{name} at step {step}").format(name=name, step=f"{int(found[1]):,}") if found else name


def action_words(action: Any, hello: Hello | None) -> str:
    """An action as the session calls it; its number or numbers where it has no name."""
    if hello is not None:
        is_counted = isinstance(action, int) and not isinstance(action, bool)
        if is_counted and 0 <= action < len(hello.action_names):
            return one_line(hello.action_names[action])
        if label := hello.key_map.label_of(action):
            return one_line(label)
    return plain(action)


def plain(value: Any) -> str:
    """A value in a few characters."""
    match value:
        case bool():
            return _tr("on") if value else _tr("off")
        case float():
            return f"{value:.3g}"
        case list() | tuple():
            inside = ", ".join(plain(one) for one in value[:4])
            return f"[{inside}{', …' if len(value) > 4 else ''}]"
        case Mapping():
            return "{…}"
        case None:
            return "–"
    text = one_line(str(value))
    return text if len(text) <= 32 else f"{text[:31]}…"


def signed(value: float | None, digits: int = 4) -> str:
    """A number with its sign; "–" for none, and for what is no number."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    text = f"{abs(value):,.{digits}g}" if abs(value) < 10**digits else f"{abs(value):,.0f}"
    return f"{'−' if value < 0 else '+'}{text}"


def speed_words(times: float) -> str:
    known = {0.25: "¼×", 0.5: "½×", 0.0: _tr("max")}
    return known.get(times, f"{times:g}×")


def keys_in_words(key_map: KeyMap) -> list[tuple[str, str]]:
    """(keys, what they do) for every binding, the action without a key at the end."""
    rows = [
        ("+".join(GLYPHS.get(key, key.upper()) for key in one.keys), one.label or plain(one.action))
        for one in key_map.bindings
    ]
    if key_map.idle is not None and not key_map.adds:
        rows.append((_tr("none"), key_map.idle_label or plain(key_map.idle)))
    return rows
