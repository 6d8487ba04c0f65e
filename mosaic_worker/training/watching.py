"""A run that trains, shown to those who watch: its first environment, and how far it is.

Pictures are drawn, and minds looked into, only while somebody watches. Until then all that is there is a socket and a
thread that sleeps; the training thread does not look at either. While somebody watches, drawing takes a small share of
the time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from mosaic_protocol.live.key_map import KeyMap
from mosaic_protocol.live.messages import Command, Hello, State, Tell
from mosaic_protocol.mind import AgentMind
from mosaic_protocol.plain_text import one_line
from mosaic_worker.live.picture_file import PictureFile
from mosaic_worker.live.server import LiveServer
from mosaic_worker.training.episode_digest import EpisodeDigest

FRAMES_A_SECOND = 30.0
MINDS_A_SECOND = 5.0
"""A mind is a hundred times as long as the rest of a state, and goes with each."""
LARGEST_SHARE = 0.05
"""Of the training thread's time, for drawing."""
LONGEST_WAIT = 1.0
"""Seconds between two states, however long pictures take, and between the first picture and the second: the first takes
long, because what draws is imported with it."""
_REFUSAL = "this run trains: it can be watched, not played; `mosaic watch RUN@last` lets its newest checkpoint play"
_NO_MINDS = "this run has no agent that can be told something"


class Minds(Protocol):
    """The agents of a run, for those who watch."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the agents."""

    def seen(self) -> tuple[AgentMind, ...]:
        """How they are now. Called where pictures are drawn."""

    def tell(self, told: Tell) -> str:
        """A person tells them something; why not, in one sentence, or "". Called in another thread."""


class TrainingWatch:
    """Belongs to the training thread. ``wake`` is called, in another one, when somebody came."""

    def __init__(
        self,
        run_dir: Path,
        env_id: str,
        picture: Callable[[], Any],
        wake: Callable[[], None],
        minds: Minds | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Listen. Raises OSError."""
        self._picture, self._wake, self._minds, self._clock = picture, wake, minds, clock
        self._rate = FRAMES_A_SECOND if minds is None else MINDS_A_SECOND
        self._file = PictureFile()
        self._due = self._next_picture = 0.0
        self._has_drawn = False
        self._problem = ""
        self._draws = True
        names = minds.names if minds is not None else ()
        hello = Hello(env_id, "", KeyMap(), False, self._rate, is_training=True, agents=names)
        self._server = LiveServer(run_dir, hello, self._take, lambda: "")

    def look(self, step: int, rate: float, episodes: EpisodeDigest) -> bool:
        """Show where the training is, if that is due; whether anybody watches."""
        if not self._server.watchers:
            return False
        now = self._clock()
        if now >= self._due:
            draws = now >= self._next_picture
            if draws:
                self._draw()
            self._server.publish(self._state(step, rate, episodes))
            over = self._clock()
            rest = max(now + 1 / self._rate - over, (over - now) * (1 / LARGEST_SHARE - 1))
            self._due = over + min(rest, LONGEST_WAIT)
            if draws:
                self._next_picture = over + rest if self._has_drawn else self._due
                self._has_drawn = True
        return True

    def close(self) -> None:
        self._server.close()
        self._file.close()

    def _take(self, command: Command | None) -> None:
        """In the server's thread."""
        if command is None:
            self._wake()
        elif not isinstance(command, Tell):
            self._server.refuse(_REFUSAL)
        elif why := self._tell(command):
            self._server.refuse(why)
        else:
            self._wake()

    def _tell(self, command: Tell) -> str:
        if self._minds is None:
            return _NO_MINDS
        try:
            return self._minds.tell(command)
        except Exception as error:  # noqa: BLE001 - it would end the thread that serves everybody
            return f"the agent cannot make anything of that: {type(error).__name__}: {one_line(str(error))}"

    def _draw(self) -> None:
        """What goes wrong costs pictures and nothing else."""
        if not self._draws:
            return
        try:
            if (picture := self._picture()) is not None:
                self._file.put(picture)
        except Exception as error:  # noqa: BLE001 - drawing is foreign code, and the training goes on without it
            self._draws = False
            self._problem = f"the environment cannot be drawn: {type(error).__name__}: {one_line(str(error))}"
            print(f"mosaic: {self._problem}", file=sys.stderr, flush=True)

    def _state(self, step: int, rate: float, episodes: EpisodeDigest) -> State:
        recent = episodes.recent
        return State(
            steps=step,
            episode=episodes.episodes,
            episodes=episodes.episodes,
            total=recent[-1] if recent else None,
            best=max(recent) if recent else None,
            mean=episodes.mean_return if recent else None,
            rate=rate,
            actor="policy",
            problem=self._problem,
            frames=self._file.path,
            mind=self._minds.seen() if self._minds is not None else None,
        )


def drawing(env: Any) -> Callable[[], Any]:
    """Draws an environment that was not made to be drawn. Its wrappers are left out: they may count or record."""
    inner = env.unwrapped

    def draw() -> Any:
        if "rgb_array" not in (inner.metadata.get("render_modes") or ()):
            return None
        before = inner.render_mode
        inner.render_mode = "rgb_array"  # gymnasium's environments look at it when they draw
        try:
            return inner.render()
        finally:
            inner.render_mode = before

    return draw


def open_watch(
    run_dir: Path, env_id: str, picture: Callable[[], Any], wake: Callable[[], None], minds: Minds | None = None
) -> TrainingWatch | None:
    """One that listens, or none: a run trains as well without."""
    from mosaic_worker.recording.video import choose_display_drivers

    choose_display_drivers()
    with suppress(OSError):
        return TrainingWatch(run_dir, env_id, picture, wake, minds)
    return None
