"""The environment of a session: made, stepped and drawn, and what is said when it breaks."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

import gymnasium as gym

from mosaic_protocol.live.frames import FramesError
from mosaic_protocol.live.key_map import KeyMapError
from mosaic_protocol.plain_text import one_line
from mosaic_worker.errors import UsageError
from mosaic_worker.live.picture_file import PictureFile
from mosaic_worker.recording.frame_rate import frames_a_second
from play_worker.games import WAITING_FAMILIES, family_of, make_game
from play_worker.key_maps import key_map_for, with_changes

T = TypeVar("T")

_HANGING_SECONDS = 2.0
_MOST_TEXT = 16 * 1024
_NO_PYGAME = "no pictures: pygame is missing, `python -m mosaic_worker.extras --set video` installs it"
"""Holds for the whole session: the next episode cannot be drawn either."""


def _no_pictures(error: Exception) -> str:
    if isinstance(error, gym.error.DependencyNotInstalled | ImportError) and find_spec("pygame") is None:
        return _NO_PYGAME
    said = str(error) if isinstance(error, FramesError) else f"{type(error).__name__}: {error}"
    return f"there are no pictures until the next episode: {one_line(said)}"


class Stage:
    """Belongs to the session's thread, apart from :meth:`trouble`.

    ``env`` may become another one of the same kind: a step that was undone is reached in a second environment.
    """

    def __init__(self, env_id: str, params: Mapping[str, Any]) -> None:
        """Raises UsageError for an environment that cannot be made."""
        self.env_id = env_id
        self.env = make_game(env_id, params)
        self.family = family_of(self.env)
        self.key_map = key_map_for(self.env, self.family)
        turns = params.get("turns", "auto")
        self.waits = self.family in WAITING_FAMILIES if turns == "auto" else turns == "wait"
        self.fps = frames_a_second(self.env.metadata)
        self.picture_problem = ""
        self.picture_failures = 0
        self._draws = self.env.render_mode == "rgb_array"
        self._writes = self.family == "toy_text" and "ansi" in (self.env.metadata.get("render_modes") or ())
        self._pictures = PictureFile()
        self._doing: tuple[str, float] | None = None

    def reset(self, seed: int) -> Any:
        """Raises UsageError when the environment breaks, as :meth:`step` does."""
        if self.picture_problem != _NO_PYGAME:
            self._draws = self.env.render_mode == "rgb_array"  # one that failed to draw gets another chance
            self.picture_problem = ""

        def begun() -> Any:
            observation, _ = self.env.reset(seed=seed)
            return observation

        return self._guarded("reset", begun)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool]:
        """(observation, reward, terminated, truncated)."""

        def made() -> tuple[Any, Any, bool, bool]:
            observation, reward, terminated, truncated, _ = self.env.step(action)
            return observation, reward, bool(terminated), bool(truncated)

        return self._guarded("step", made)

    def draw(self) -> None:
        """Show the picture of now. What goes wrong costs pictures and nothing else."""
        if not self._draws:
            return
        try:
            with self._busy("render"):
                picture = self.env.render()
            self._pictures.put(picture)
        except Exception as error:  # noqa: BLE001 - drawing is foreign code, and the game goes on without it
            self._draws = False
            self.picture_failures += 1
            self.picture_problem = _no_pictures(error)
            print(f"mosaic: {self.picture_problem}", file=sys.stderr, flush=True)

    def text(self) -> str:
        """The environment in characters, where it can be drawn so; else nothing."""
        if not self._writes:
            return ""
        env: Any = self.env.unwrapped
        before = env.render_mode
        try:
            env.render_mode = "ansi"  # toy text decides in render() alone
            return str(env.render() or "")[:_MOST_TEXT]
        except Exception:  # noqa: BLE001 - the picture is there as well
            self._writes = False
            return ""
        finally:
            env.render_mode = before

    @property
    def frames_path(self) -> str:
        return self._pictures.path

    def trouble(self) -> str:
        """What the environment hangs in; empty while it does not. Any thread."""
        doing = self._doing
        if doing is None or time.monotonic() - doing[1] < _HANGING_SECONDS:
            return ""
        return f"the environment does not come back from {doing[0]}: end the session if it stays away"

    def close(self) -> None:
        self._pictures.close()
        try:
            self.env.close()
        except Exception as error:  # noqa: BLE001 - foreign code, and nothing is lost any more
            print(f"mosaic: the environment failed to close: {one_line(str(error))}", file=sys.stderr, flush=True)

    @contextmanager
    def _busy(self, what: str) -> Iterator[None]:
        self._doing = (what, time.monotonic())
        try:
            yield
        finally:
            self._doing = None

    def busy(self, what: str, call: Callable[[], T]) -> T:
        """Do something of which it can be said that it does not come back."""
        with self._busy(what):
            return call()

    def take(self, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        """Go on with another environment of the same kind; the one of before."""
        before, self.env = self.env, env
        return before

    def _guarded(self, what: str, call: Callable[[], T]) -> T:
        try:
            with self._busy(what):
                return call()
        except Exception as error:  # an environment is foreign code
            traceback.print_exc()
            said = f"{type(error).__name__}: {one_line(str(error))}"
            raise UsageError(f"the environment {self.env_id} failed in {what}: {said}") from error


def with_keys(stage: Stage, params: Mapping[str, Any]) -> Stage:
    """With the keys that were chosen for it. Raises UsageError, and closes the stage, for keys that cannot be used."""
    try:
        stage.key_map = with_changes(stage.key_map, params.get("keys") or {}, stage.env.action_space)
    except KeyMapError as error:
        stage.close()
        raise UsageError(f"--keys: {error}") from None
    return stage
