"""The screen of a live session, and what its keys do."""

from __future__ import annotations

import os
import re
import select
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import msgspec

from gym_gui.cli.live.picture import half_blocks, has_all_colours
from gym_gui.cli.live.seats import side_by_side
from gym_gui.cli.live.terminal import keys_in
from mosaic_protocol.live.client import LiveClient
from mosaic_protocol.live.frames import Frame
from mosaic_protocol.live.messages import (
    Command,
    End,
    Go,
    HandOver,
    Hello,
    Pause,
    Press,
    Restart,
    SeatState,
    SingleStep,
    Speed,
    State,
    Undo,
)
from mosaic_protocol.plain_text import one_line, visible

Shown = Literal["auto", "text", "blocks", "none"]

_SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_LOOK_SECONDS = 0.1
_ANSWER_SECONDS = 3.0
"""How soon a session answers a key, however long its environment takes: it says so itself then."""
_SILENT = "The session does not answer: it was stopped, or the machine is very busy."
_COLOURS = re.compile(r"(\x1b\[[0-9;]*m)")
_OTHER_LINES = 8
"""Lines of the screen that are no picture."""
_SEAT_LINES = 4
"""Lines of a seat among several that are no picture."""
_FEW_LINES = 12
"""On fewer a picture is too coarse to play by."""
_STEERING = "p pause  . one step  ⌫ undo  r same seed  n next seed  Tab hand over  + - speed  q end"
_GLYPHS = {"up": "↑", "down": "↓", "left": "←", "right": "→", "space": "Space", "enter": "Enter"}
_ACTORS = {"human": "you", "policy": "the policy", "random": "chance", "scripted": "the script"}


@dataclass
class LiveView:
    """Shows one session until it or the person ends."""

    client: LiveClient
    other: HandOver
    """Who plays when the person hands over."""
    shown: Shown = "auto"
    ending: bool = False
    """Whether the person asked for the end."""
    seat: int = 0
    """Of several seats the one that the person had last, or has."""
    awaits_advice: bool = True
    """Whether the policy that is to watch was neither seen nor given up yet."""
    asked_at: float | None = None
    """When the first key was struck that was not answered yet."""

    def run(self, keyboard: int, write: Callable[[bytes], None]) -> None:
        """Raises SessionAwayError when the session ends, which is also how the end that was asked for arrives."""
        self.client.wait_for_hello()
        frames: dict[int, Frame] = {}
        drawn_size, was_silent = (0, 0), False
        while True:
            ready = select.select([keyboard, self.client.fileno()], [], [], _LOOK_SECONDS)[0]
            changed = self.client.fileno() in ready and self.client.receive()
            if changed:
                self.asked_at = None
            if keyboard in ready:
                self._strike(os.read(keyboard, 1024))
            for seat in range(1, max(1, len(self.client.state.seats)) + 1):
                if (newer := self.client.frame(seat)) is not None:
                    frames[seat], changed = newer, True
            size = shutil.get_terminal_size()
            if changed or (size, self.is_silent) != (drawn_size, was_silent):
                drawn_size, was_silent = size, self.is_silent
                write(painted(self._lines(frames, *size), size[1]))

    @property
    def is_silent(self) -> bool:
        """Whether a key was not answered for long, and the session told no reason. None is while the run is paused."""
        if self.asked_at is None or self.client.state.held or self.client.state.problem:
            return False
        return time.monotonic() - self.asked_at >= _ANSWER_SECONDS

    def _lines(self, frames: dict[int, Frame], columns: int, lines: int) -> list[str]:
        hello, state = self.client.hello, self.client.state
        refusals = [*self.client.refusals, *([_SILENT] if self.is_silent else [])]
        assert hello is not None, "it is waited for"
        if not state.seats:
            self.awaits_advice &= self.other.actor == "policy" and not (state.advisor or state.loading or state.problem)
            coming = self.awaits_advice
            return screen(
                hello, state, frames.get(1), columns, lines, shown=self.shown, refusals=refusals, coming=coming
            )
        room, width = lines - _OTHER_LINES - _SEAT_LINES, columns // len(state.seats) - 2
        seats = [
            [*_seat_head(seat), *picture(seat.text, frames.get(number), width, room, self.shown), *advised(seat)]
            for number, seat in enumerate(state.seats, 1)
        ]
        head = [
            f"\x1b[1m{one_line(hello.env_id)}\x1b[0m  seed {state.seed}  rounds {state.episodes}  {_speed(state)}",
            "",
        ]
        foot = ["", _rounds(state), _now(hello, state), _keys_of(hello), f"\x1b[2m{_STEERING}\x1b[0m"]
        return [*head, *side_by_side(seats, columns), *foot, *_problems(state, refusals)]

    def end(self, patience: float) -> None:
        """Ask for the end and wait for it. Raises SessionAwayError when it came."""
        self.client.send(End())
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            self.client.receive(_LOOK_SECONDS)

    def _strike(self, data: bytes) -> None:
        for key in keys_in(data) or ([] if data else ["interrupt"]):  # no data: the terminal is gone
            self.client.refusals.clear()
            command = self.command_for(key)
            self.ending = self.ending or isinstance(command, End)
            self.asked_at = self.asked_at or time.monotonic()
            self.client.send(command)

    def command_for(self, key: str) -> Command:
        """What a key does to the session; a key that steers nothing is the game's."""
        state = self.client.state
        seats = {number: seat for number, seat in enumerate(state.seats, 1) if seat.actor == "human"}
        self.seat = self.seat if self.seat in seats else next(iter(seats), self.seat)
        match key:
            case "q" | "interrupt":
                return End()
            case "p":
                return Go() if state.paused else Pause()
            case ".":
                return SingleStep()
            case "r":
                return Restart("same")
            case "n":
                return Restart("next")
            case "backspace":
                return Undo()
            case "tab" if state.seats:
                wish = self.other if self.seat in seats else HandOver("human")
                return msgspec.structs.replace(wish, seat=self.seat or 1)
            case "tab":
                return HandOver("human") if state.actor != "human" or state.loading else self.other
            case "+" | "=":
                return Speed(min([one for one in _SPEEDS if one > state.speed], default=_SPEEDS[-1]))
            case "-":
                return Speed(max([one for one in _SPEEDS if one < state.speed], default=_SPEEDS[0]))
        return Press(key)


def screen(
    hello: Hello,
    state: State,
    frame: Frame | None,
    columns: int,
    lines: int,
    *,
    shown: Shown,
    refusals: list[str],
    coming: bool = False,
) -> list[str]:
    """The lines of the screen, the picture in their middle; ``coming``: whether a policy that is to watch is loaded."""
    head = [
        f"\x1b[1m{one_line(hello.env_id)}\x1b[0m  seed {state.seed}  episode {state.episode}  {_seated(state.actor)}",
        f"step {state.step}  return {_number(state.total)}  {_best(state)}{_speed(state)}",
        "",
    ]
    foot = [
        "",
        *(_loading(state, coming) or advised(state)),
        _now(hello, state),
        _keys_of(hello),
        f"\x1b[2m{_STEERING}\x1b[0m",
    ]
    drawn = picture(state.text, frame, columns, lines - _OTHER_LINES, shown)
    return [*head, *drawn, *foot, *_problems(state, refusals)]


def advised(state: State | SeatState) -> list[str]:
    """What a policy that watches would do."""
    if not state.prefers or state.actor != "human" or state.over:
        return []
    at_best = max(state.advice, default=None)
    share = f" ({at_best:.0%})" if at_best is not None and state.advice_kind == "probability" else ""
    value = f", it expects {_number(state.value)}" if state.value is not None else ""
    return [f"\x1b[34mThe policy would: {one_line(state.prefers)}{share}{value}\x1b[0m"]


def _loading(state: State, coming: bool) -> list[str]:
    """That a policy is on its way, whatever else is to be said: loading takes seconds, and Tab ends it."""
    if state.loading:
        who = "you play" if state.actor == "human" else f"{_ACTORS.get(state.actor, one_line(state.actor))} plays"
        return [f"\x1b[34mThe policy is being loaded; {who} on until it is ready. Tab calls it off.\x1b[0m"]
    return ["\x1b[34mThe policy is being loaded; it will watch.\x1b[0m"] if coming else []


def painted(lines: list[str], height: int) -> bytes:
    """What draws a screen over the last one without a flicker."""
    body = "\x1b[K\r\n".join(lines[:height])
    return f"\x1b[H{body}\x1b[K\x1b[J".encode("utf-8", "replace")


def picture(text: str, frame: Frame | None, columns: int, lines: int, shown: Shown) -> list[str]:
    """The environment in characters or half blocks, whichever the terminal shows better."""
    all_colours = has_all_colours(os.environ)
    is_text_better = shown == "text" or (shown == "auto" and (frame is None or not all_colours or lines < _FEW_LINES))
    if is_text_better and text:
        return [_coloured_only(line) for line in text.rstrip("\n").split("\n")][: max(lines, 1)]
    if shown in ("auto", "blocks") and frame is not None:
        return half_blocks(frame, columns, lines, all_colours=all_colours)
    return []


def _coloured_only(line: str) -> str:
    """Drawn by an environment: colours pass, everything else that a terminal obeys is written out."""
    parts = _COLOURS.split(line)
    parts[::2] = map(visible, parts[::2])
    return "".join(parts) + "\x1b[0m"


def _seated(actor: str) -> str:
    return f"\x1b[{'33' if actor == 'human' else '34'}m{_ACTORS.get(actor, one_line(actor))}\x1b[0m"


def _seat_head(seat: SeatState) -> list[str]:
    ended = f"  {one_line(seat.over)}" if seat.over else ""
    who = f"\x1b[34m{one_line(seat.advisor)}\x1b[0m" if seat.actor == "policy" and seat.advisor else _seated(seat.actor)
    best = f"  best {_number(seat.best)}" if seat.best is not None else ""
    return [
        f"\x1b[1m{one_line(seat.name)}\x1b[0m  {who}{ended}",
        f"step {seat.step}  return {_number(seat.total)}{best}",
    ]


def _rounds(state: State) -> str:
    """How the last ones went; the returns in the order of the seats."""
    told = [f"seed {one.seed}: {' / '.join(map(_number, one.totals))}" for one in state.rounds[-4:]]
    return f"\x1b[2m{'   '.join(told)}\x1b[0m"


def _speed(state: State) -> str:
    return f"speed {state.speed:g}×"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _best(state: State) -> str:
    return f"best {_number(state.best)}  episodes {state.episodes}  " if state.episodes else ""


def _now(hello: Hello, state: State) -> str:
    if state.held:
        return "The run is paused: `mosaic resume` lets it go on."
    if any(seat.loading for seat in state.seats):
        return "A policy is being loaded; its seat is played on until it is ready. Tab calls it off."
    if state.seats and any(not seat.over for seat in state.seats) and any(seat.over for seat in state.seats):
        return "A seat that is over waits for the others."
    if state.over:
        again = "any key begins the next episode" if state.actor == "human" else "the next one begins"
        return f"\x1b[1mThe episode is over ({one_line(state.over)}), return {_number(state.total)}: {again}.\x1b[0m"
    if state.paused:
        return "Paused."
    if state.waiting and not hello.waits:
        return "A key begins."
    if state.waiting:
        return "Your move." if not state.action else f"Last: {one_line(state.action)}. Your move."
    return one_line(state.action)


def _keys_of(hello: Hello) -> str:
    single = [one for one in hello.key_map.bindings if len(one.keys) == 1]
    return "  ".join(f"{_GLYPHS.get(one.keys[0], one.keys[0])} {one.label}" for one in single[:12])


def _problems(state: State, refusals: list[str]) -> list[str]:
    said = next((sentence for sentence in (*refusals[-1:], state.problem) if sentence), "")
    return [f"\x1b[31m{one_line(said)}\x1b[0m"] if said else []
