"""A run that trains, watched in a terminal: its first environment, and how far it is."""

from __future__ import annotations

import os
import select
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from gym_gui.cli.live.terminal import keys_in
from gym_gui.cli.live.view import Shown, painted, picture
from mosaic_protocol.live.client import LiveClient
from mosaic_protocol.live.frames import Frame
from mosaic_protocol.live.messages import Hello, State
from mosaic_protocol.plain_text import one_line

_LOOK_SECONDS = 0.1
_OTHER_LINES = 6
_LEAVING = frozenset({"q", "interrupt", "escape"})


@dataclass
class TrainingView:
    """Shows the training until it ends, or until the person has seen enough: then it goes on unwatched."""

    client: LiveClient
    name: str
    shown: Shown = "auto"

    def run(self, keyboard: int, write: Callable[[bytes], None]) -> None:
        """Raises SessionAwayError when the run ends."""
        hello = self.client.wait_for_hello()
        frame, drawn_size = None, (0, 0)
        while True:
            ready = select.select([keyboard, self.client.fileno()], [], [], _LOOK_SECONDS)[0]
            changed = self.client.fileno() in ready and self.client.receive()
            if keyboard in ready:
                data = os.read(keyboard, 1024)
                if not data or _LEAVING.intersection(keys_in(data)):
                    return
            if (newer := self.client.frame()) is not None:
                frame, changed = newer, True
            size = shutil.get_terminal_size()
            if changed or size != drawn_size:
                drawn_size = size
                write(painted(training_screen(hello, self.client.state, frame, self.name, *size, self.shown), size[1]))


def training_screen(
    hello: Hello, state: State, frame: Frame | None, name: str, columns: int, lines: int, shown: Shown = "auto"
) -> list[str]:
    """The lines of the screen, the picture in their middle."""
    head = f"\x1b[1m{one_line(name)}\x1b[0m  {one_line(hello.env_id)}  \x1b[34mit trains\x1b[0m"
    drawn = picture("", frame, columns, lines - _OTHER_LINES, "blocks" if shown == "text" else shown)
    problem = [f"\x1b[31m{one_line(state.problem)}\x1b[0m"] if state.problem else []
    return [head, _figures(state), "", *drawn, "", "\x1b[2mq leaves: the run goes on\x1b[0m", *problem]


def _figures(state: State) -> str:
    told = [f"step {state.steps:,}"]
    told += [f"{state.rate:,.0f} steps/s"] if state.rate else []
    told += [f"episodes {state.episodes:,}"] if state.episodes else []
    told += [f"last return {state.total:.4g}"] if state.total is not None and state.episodes else []
    told += [f"mean of 100 {state.mean:.4g}"] if state.mean is not None else []
    return "  ".join(told)
