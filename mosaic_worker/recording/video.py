"""Short clips of an environment while it trains. All that the training thread does for one is to render.

A script wraps its first environment with :func:`clips`, which changes nothing until :func:`attach` says where clips go.
Scripts whose environments cannot be rendered one by one use a :class:`ClipRecorder` with frames of their own.
Whatever goes wrong is one sentence on stderr; recording ends and the training goes on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from mosaic_worker.recording.clip_encoder import ClipEncoder, ClipStart
from mosaic_worker.recording.frame_rate import whole_frames_a_second

MAX_FRAMES = 200
MAX_WAITING_FRAMES = 100
"""A clip is begun only when the encoder is no further behind, so no more than this and one clip are ever in memory."""
LONGEST_SIDE = 1024
CLOSE_SECONDS = 2.0

_INSTALL = "python -m mosaic_worker.extras --set video"
_FRAMES_PER_SECOND = 30


def is_recorded(episode: int) -> bool:
    """Often at first, when much changes: 0, 1, 8, 27, … up to 1000, then every thousandth."""
    if episode >= 1000:
        return episode % 1000 == 0
    return round(episode ** (1 / 3)) ** 3 == episode


class ClipRecorder:
    """Makes clips from the frames that a script hands over: at most :data:`MAX_FRAMES` of each recorded episode.

    ``step`` returns the global step, which becomes part of a clip's name. Belongs to the training thread; only
    :meth:`close` waits.
    """

    def __init__(self, directory: Path, step: Callable[[], int], frames_per_second: int = _FRAMES_PER_SECOND) -> None:
        self.skipped_clips = 0
        self._directory, self._step, self._frames_per_second = directory, step, frames_per_second
        self._episode = -1
        self._frames = 0
        self._shape: tuple[int, ...] = ()
        self._open = self._over = self._gave_up = False
        self._encoder: ClipEncoder | None = None
        if find_spec("av") is None:
            self.give_up(f"PyAV is not installed (`{_INSTALL}` does that)")

    def wants_frames(self, episode: int) -> bool:
        """Whether a frame of this episode is of use now; the first question about an episode decides about it."""
        if episode != self._episode and not self._over:
            self.finish()
            self._episode = episode
            if is_recorded(episode):
                self._begin()
        return self._open

    def add(self, frame: Any) -> None:
        """Add an RGB or grey picture of bytes to the clip; it is copied. Ignored while no clip wants frames."""
        if not self._open or self._encoder is None:
            return
        if problem := self._problem_with(frame):
            self.give_up(problem)
            return
        self._shape = frame.shape
        stride = -(-max(frame.shape[:2]) // LONGEST_SIDE)
        self._encoder.add(np.array(frame[::stride, ::stride]))
        self._frames += 1
        if self._frames >= MAX_FRAMES:
            self.finish()

    def finish(self) -> None:
        """The clip is over; the encoder writes it when it gets to it."""
        if self._open and self._encoder is not None:
            self._encoder.end()
        self._open = False

    def close(self, patience: float = CLOSE_SECONDS) -> None:
        """End the running clip and wait until it is written, for ``patience`` seconds and a little more at most."""
        self.finish()
        self._over = True
        encoder, self._encoder = self._encoder, None
        if encoder is not None and not encoder.close(patience):
            _say(f"The encoder was behind: the last clip in {self._directory} may be shorter than the episode.")
        if self.skipped_clips:
            _say(f"{self.skipped_clips} video clips were skipped because the encoder was behind.")
            self.skipped_clips = 0

    def give_up(self, reason: str) -> None:
        """Record no more, and say why. Safe in any thread; said once."""
        self._over, self._open = True, False
        if not self._gave_up:
            self._gave_up = True
            _say(f"No more videos are recorded: {reason}. Training goes on.")

    def _begin(self) -> None:
        if self._encoder is None:
            self._encoder = ClipEncoder(self.give_up)
        if self._encoder.waiting_frames > MAX_WAITING_FRAMES:
            if self.skipped_clips == 0:
                _say(f"The video of episode {self._episode} is skipped: the encoder is behind. Training does not wait.")
            self.skipped_clips += 1
            return
        name = f"episode-{self._episode}-step-{self._step()}.mp4"
        self._encoder.begin(ClipStart(self._directory / name, self._frames_per_second))
        self._open, self._frames, self._shape = True, 0, ()

    def _problem_with(self, frame: Any) -> str:
        if not isinstance(frame, np.ndarray):
            return f"a picture should be an array of bytes, got {type(frame).__name__}"
        if frame.dtype != np.uint8 or not (frame.ndim == 2 or (frame.ndim == 3 and frame.shape[2] in (1, 3))):
            return f"a picture should be bytes of height × width × 3, got {frame.dtype} {frame.shape}"
        if 0 in frame.shape:
            return f"a picture is empty: {frame.shape}"
        if self._shape and frame.shape != self._shape:
            return f"the pictures of a clip must have one size, got {frame.shape} after {self._shape}"
        return ""


class Clips(gym.Wrapper[Any, Any, Any, Any]):
    """See :func:`clips`. Its own attributes carry "render" in their names, so that checkpoints leave them out."""

    stateless_layer = True
    """Environments are the same with and without it, so a checkpoint of the one may be resumed with the other."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._render_recorder: ClipRecorder | None = None
        self._render_episode = -1
        self._render_patience = CLOSE_SECONDS

    def attach(self, directory: Path, step: Callable[[], int], patience: float) -> None:
        """Record from now on."""
        choose_display_drivers()
        self._render_patience = patience
        self._render_recorder = ClipRecorder(directory, step, whole_frames_a_second(self.env.metadata))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        found = self.env.reset(seed=seed, options=options)
        self._render_episode += 1
        self._look()
        return found

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        found = self.env.step(action)
        self._look()
        return found

    def close(self) -> None:
        if self._render_recorder is not None:
            self._render_recorder.close(self._render_patience)
        self.env.close()

    def _look(self) -> None:
        recorder = self._render_recorder
        if recorder is None or not recorder.wants_frames(self._render_episode):
            return
        try:
            frame = self.env.render()
        except Exception as error:  # noqa: BLE001 - drivers and simulators raise anything; the training must go on
            recorder.give_up(f"the environment cannot be rendered ({_reason(error)})")
            return
        recorder.add(frame)


def clips(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Prepare an environment made with ``render_mode="rgb_array"`` for recording. Renders nothing until attached."""
    return Clips(env)


def attach(envs: Any, directory: Path, step: Callable[[], int], *, patience: float = CLOSE_SECONDS) -> None:
    """Record every environment that :func:`clips` prepared, in a vector environment, a list or alone. An environment
    that is closed waits ``patience`` seconds for clips that are not written yet."""
    for env in _prepared(envs):
        env.attach(directory, step, patience)


def _prepared(envs: Any) -> Iterator[Clips]:
    outermost = envs if isinstance(envs, list | tuple) else getattr(envs, "envs", None) or [envs]
    for first in outermost:
        layer = first
        while layer is not None:
            if isinstance(layer, Clips):
                yield layer
            layer = vars(layer).get("env")


def choose_display_drivers(*, windows: bool = True) -> None:
    """Without a display, simulators need a setting to draw in memory; without ``windows`` games open none, and make no
    sound, on any machine. What the user chose stays."""
    has_display = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if not has_display:
        os.environ.setdefault("MUJOCO_GL", "egl")
    if not (has_display and windows):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("SDL_AUDIODRIVER", "dummy")


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
    words = text.lower()
    if "pygame" in words:
        return f"{text}; `{_INSTALL}` installs it"
    if any(word in words for word in ("egl", "opengl", "osmesa", "glfw", "gladload")):
        chosen = os.environ.get("MUJOCO_GL", "not set")
        return f"{text}; MUJOCO_GL is {chosen}: egl needs Debian's libegl1, osmesa needs libosmesa6"
    return text


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
