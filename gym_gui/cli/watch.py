"""A picture of the daemon's world that is redrawn in its place every second, until Ctrl-C or until it is complete."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from gym_gui.cli import format as fmt
from gym_gui.cli.session import CliSession, program

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient

_SECONDS = 1.0
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
"""A line that is too wide is cut by the terminal; wrapped, it would take two and be found again in the wrong place."""

Picture = Callable[["TrainerClient", int], str]
"""From a connection and how many lines there is room for to the lines."""


class InPlace:
    """Lines of a terminal that are written over. What is drawn last stays when it ends."""

    def __init__(self) -> None:
        self._lines = 0

    @property
    def room(self) -> int:
        """How many lines can be drawn: more could not be written over, because they have left the screen."""
        return max(4, shutil.get_terminal_size().lines - 1)

    def draw(self, text: str) -> None:
        lines = text.splitlines()[: self.room]
        back = f"\x1b[{self._lines}F" if self._lines else ""
        sys.stdout.write(back + "\x1b[J" + _NO_WRAP + "".join(f"{line}\n" for line in lines) + _WRAP)
        sys.stdout.flush()
        self._lines = len(lines)


class Watch:
    """Looks once a second. A daemon that is away is waited for, beside the last picture that was had. ``hint`` says
    under the picture what Ctrl-C does; nothing more comes after a picture for which ``is_last`` holds."""

    def __init__(
        self,
        session: CliSession,
        picture: Picture,
        hint: str = "Ctrl-C ends this list, not the runs.",
        is_last: Callable[[], bool] = lambda: False,
    ) -> None:
        self._session, self._picture, self._hint, self._is_last = session, picture, hint, is_last
        self._screen, self._last = InPlace(), ""
        self._client: TrainerClient | None = None

    def until_interrupted(self) -> None:
        try:
            while True:
                self._screen.draw(self._look())
                if self._is_last():
                    return
                time.sleep(_SECONDS)
        except KeyboardInterrupt:
            return
        finally:
            self._drop_client()

    def _look(self) -> str:
        from gym_gui.services.trainer.client import DaemonAwayError

        if self._client is None:
            self._client = self._session.impatient_client()
        if self._client is not None:
            try:
                self._last = self._picture(self._client, self._screen.room - 1)
            except DaemonAwayError:
                self._drop_client()  # the next daemon may listen elsewhere
            else:
                return self._last if self._is_last() else f"{self._last}\n{fmt.dimmed(self._hint)}"
        why = self._session.why_away()
        away = f"{why or 'trainer daemon away'}, waiting… "
        away += "" if why else f"(`{program()} daemon start` brings it back)"
        return f"{self._last}\n{fmt.painted(away, 'warn')}" if self._last else away

    def _drop_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
