"""One recorded episode, open for a screen: shown at any step, checked in the free time, filmed on the side.

The environment is made up to three times: one stands where the person looks, one checks, one is filmed. They share the
kept states, so that a place which was checked is reached in few steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from enum import EnumMeta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mosaic_protocol.live.frames import FramesError
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.replay_messages import (
    CancelExport,
    Checked,
    Differing,
    Export,
    Exported,
    Exporting,
    Ready,
    Seek,
    Shown,
)
from mosaic_worker.errors import UsageError
from mosaic_worker.live.picture_file import PictureFile
from mosaic_worker.recording.frame_rate import frames_a_second
from mosaic_worker.replay import pictures
from mosaic_worker.replay.clips import Clip, ClipError, clip_of
from mosaic_worker.replay.environments import make_env
from mosaic_worker.replay.simulation import Replay, require_replayable
from mosaic_worker.replay.snapshots import Snapshots
from mosaic_worker.replay.verdict import described, whose_fault

if TYPE_CHECKING:
    import gymnasium as gym

    from mosaic_protocol.steps.recorded_episodes import RecordedEpisode
    from mosaic_protocol.steps.recordings import Recording
    from mosaic_worker.replay.serving import Conversation

_SLICE_SECONDS = 0.02
"""How long a seek may have to wait for the checking."""
_TELL_SECONDS = 0.1


class CancelledExport(Exception):
    """Nobody wants the film any more."""


class ServedEpisode:
    """Use :meth:`run` once."""

    def __init__(
        self,
        recording: Recording,
        worker: Path,
        episode: RecordedEpisode,
        talk: Conversation,
        films: Path | None = None,
    ) -> None:
        """``films``: where clips of the episodes are, if not beside the steps. Raises UsageError for an episode that
        cannot be simulated."""
        require_replayable(episode)
        self._recording, self._worker, self._episode, self._talk = recording, worker, episode, talk
        self._snapshots = Snapshots()
        self._pictures = PictureFile()
        self._no_pictures = ""
        self._films = films or recording.folder
        self._clip: Clip | None = None
        self._looked_for_clip = False
        self._checker: Replay | None = None
        self._is_checked = False
        self._told_at = 0.0
        self._export: Export | None = None
        self._cancelled = False

    def run(self) -> None:
        """Answer until the input ends. Raises UsageError when the environment cannot even begin."""
        self._shower = Replay(self._episode, self._make, self._snapshots)
        try:
            self._talk.tell(self._ready())
            self._show(0)
            while not self._talk.is_over:
                self._attend(wait=self._is_checked and self._export is None)
                if self._talk.is_over:
                    return
                if self._export is not None:
                    self._film()
                elif not self._is_checked:
                    self._check()
        finally:
            self._close()

    def _close(self) -> None:
        self._pictures.close()
        for replay in (self._shower, self._checker):
            if replay is not None:
                replay.close()

    def _make(self) -> gym.Env[Any, Any]:
        """An environment that can be drawn, or at least simulated."""
        if self._no_pictures:
            return make_env(self._recording.about, self._worker)
        try:
            return make_env(self._recording.about, self._worker, pictures=True)
        except UsageError as error:
            self._no_pictures = str(error)
            return make_env(self._recording.about, self._worker)

    def _ready(self) -> Ready:
        env, episode = self._shower.env, self._episode
        return Ready(
            env_id=str(self._recording.about.get("env_id") or ""),
            steps=len(episode),
            fps=frames_a_second(env.metadata),
            episode=episode.number,
            seed=episode.seed,
            action_names=action_names(env),
        )

    def _attend(self, *, wait: bool = False) -> None:
        for one in self._talk.asked(wait=wait):
            match one:
                case Seek(place):
                    self._show(min(max(place, 0), len(self._episode)))
                case Export(file) if self._export is not None:
                    self._talk.tell(Exported(file, why="another film is being made"))
                case Export():
                    self._export, self._cancelled = one, False
                case CancelExport():
                    self._cancelled = True

    # ---- showing -------------------------------------------------------------------------------------------------

    def _show(self, place: int) -> None:
        why = ""
        try:
            with self._talk.busy(f"the way to step {place}"):
                self._shower.seek(place)
        except UsageError as error:
            why = str(error)
        reached = self._shower.place
        left = self._shower.difference
        if reached < place and left is not None:
            why = f"the simulation leaves the recording at step {left.place}"
        source = ""
        if reached == place and not self._no_pictures:
            source, why = ("simulation", "") if self._draw() else ("", self._no_pictures)
        if not source:
            why = why or self._no_pictures
            source = "clip" if self._draw_recorded(place) else ""
        frames = self._pictures.path if source else ""
        self._talk.tell(Shown(place, reached, frames, source, why))

    def _draw(self) -> bool:
        try:
            with self._talk.busy("render"):
                picture = self._shower.env.render()
            if picture is None:
                raise ValueError("it gives no pictures")
            self._pictures.put(picture)
            return True
        except FramesError as error:
            self._no_pictures = str(error)
        except Exception as error:  # noqa: BLE001 - drawing is foreign code, and the steps can be looked at without
            self._no_pictures = f"the environment cannot be drawn: {type(error).__name__}: {one_line(str(error))}"
        return False

    def _draw_recorded(self, place: int) -> bool:
        """A picture from the time of the recording, where a clip of the episode was kept."""
        try:
            if not self._looked_for_clip:
                self._looked_for_clip = True
                found = clip_of(self._films, self._episode.number)
                self._clip = Clip(found) if found is not None else None
            if self._clip is None or place >= len(self._clip):
                return False
            self._pictures.put(self._clip.picture(place))
            return True
        except (ClipError, FramesError):
            self._clip = None
            return False

    # ---- checking ------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Go on a little; tell now and then."""
        try:
            with self._talk.busy("the check"):
                if self._checker is None:
                    self._checker = Replay(self._episode, self._make, self._snapshots)
                until = time.monotonic() + _SLICE_SECONDS
                while self._checker.difference is None and time.monotonic() < until:
                    if not self._checker.advance():
                        break
        except UsageError as error:
            self._is_checked = True
            self._tell_checked(done=True, stopped=str(error))
            return
        self._is_checked = self._checker.is_over or self._checker.difference is not None
        if self._is_checked:
            self._tell_verdict(self._checker)
        elif time.monotonic() - self._told_at > _TELL_SECONDS:
            self._tell_checked()

    def _tell_verdict(self, checker: Replay) -> None:
        found = checker.difference
        if found is None:
            self._tell_checked(done=True)
            return
        difference = Differing(**described(found))
        self._tell_checked(difference=difference)  # the rest takes two more simulations
        with self._talk.busy("being simulated twice more"):
            fault = whose_fault(checker, found.place, self._recording, self._worker)
        self._tell_checked(done=True, difference=difference, **fault)

    def _tell_checked(self, **more: Any) -> None:
        self._told_at = time.monotonic()
        checker = self._checker
        if checker is not None:
            more |= {"checked": checker.checked, **asdict(checker.compared)}
        self._talk.tell(Checked(checker.verified if checker is not None else 0, len(self._episode), **more))

    # ---- filming -------------------------------------------------------------------------------------------------

    def _film(self) -> None:
        """Make the film that was asked for; what is asked meanwhile is answered between two pictures."""
        assert self._export is not None
        file = Path(self._export.file)
        try:
            pictures.require_format(file)
            with closing(Replay(self._episode, self._make)) as replay:
                count = pictures.write(file, replay.env, self._advance(replay))
                self._talk.tell(Exported(str(file), count, cut=not replay.is_over))
        except CancelledExport:
            self._talk.tell(Exported(str(file), why="cancelled"))
        except UsageError as error:
            self._talk.tell(Exported(str(file), why=str(error)))
        finally:
            self._export = None

    def _advance(self, replay: Replay) -> Callable[[], bool]:
        told = time.monotonic()

        def advance() -> bool:
            nonlocal told
            self._attend()
            if self._cancelled or self._talk.is_over:
                raise CancelledExport
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                self._talk.tell(Exporting(replay.place, len(self._episode)))
            if replay.difference is not None:
                return False
            with self._talk.busy(f"step {replay.place}"):
                return replay.advance()

        return advance


def action_names(env: gym.Env[Any, Any]) -> tuple[str, ...]:
    """What an environment calls its actions: Atari's tells, MiniGrid has an enumeration."""
    base: Any = env.unwrapped
    try:
        if hasattr(base, "get_action_meanings"):
            return tuple(str(name).lower() for name in base.get_action_meanings())
        if isinstance(getattr(base, "actions", None), EnumMeta):
            return tuple(str(one.name) for one in base.actions)
    except Exception:  # noqa: BLE001 - foreign code; numbers serve as well
        return ()
    return ()
