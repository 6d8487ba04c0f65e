"""A film that was recorded while a run trained, open for a screen as an episode would be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mosaic_protocol.live.frames import FramesError
from mosaic_protocol.replay_messages import Export, Exported, Ready, Seek, Shown
from mosaic_worker.errors import UsageError
from mosaic_worker.live.picture_file import PictureFile
from mosaic_worker.replay.clips import Clip, ClipError

if TYPE_CHECKING:
    from mosaic_worker.replay.serving import Conversation


class ServedClip:
    """Nothing is simulated, so nothing is checked: places are pictures. Use :meth:`run` once."""

    def __init__(self, file: Path, talk: Conversation) -> None:
        """Raises UsageError for a film that cannot be shown."""
        self._talk, self._pictures = talk, PictureFile()
        try:
            self._clip = Clip(file)
        except ClipError as error:
            raise UsageError(str(error)) from error

    def run(self) -> None:
        last = len(self._clip) - 1
        try:
            self._talk.tell(Ready(env_id="", steps=last, fps=self._clip.fps))
            self._show(0)
            while not self._talk.is_over:
                for one in self._talk.asked(wait=True):
                    if isinstance(one, Seek):
                        self._show(min(max(one.place, 0), last))
                    elif isinstance(one, Export):
                        self._talk.tell(Exported(one.file, why="it is a film already"))
        finally:
            self._pictures.close()

    def _show(self, place: int) -> None:
        try:
            self._pictures.put(self._clip.picture(place))
            self._talk.tell(Shown(place, place, self._pictures.path, "clip"))
        except (ClipError, FramesError) as error:
            self._talk.tell(Shown(place, place, why=str(error)))
