"""What is open on the Replay screen: a run's episodes, one of them, and the place in it. The widgets show the desk.

Recorded steps are read beside the process that simulates them, so they can be looked at whatever that process does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PyQt6.QtCore import QObject, pyqtSignal

from gym_gui.services import recorded_steps
from gym_gui.services.recorded_steps import StepSource
from gym_gui.services.replay.catalog import (
    Catalogue,
    catalogue_of_folder,
    catalogue_of_run,
    films_of,
    source_of_run,
)
from gym_gui.services.replay.episode_list import ListedEpisode
from gym_gui.services.replay.episode_record import EpisodeRecord
from gym_gui.services.replay.open_replay import Gone, OpenReplay
from gym_gui.services.replay.recorded_evaluations import RecordedEvaluation
from gym_gui.ui.context import Cockpit
from gym_gui.ui.replay.player import Player
from mosaic_protocol.live.frames import FrameReader, FramesError
from mosaic_protocol.replay_messages import Checked, Exported, Exporting, Ready, Shown, Told, Trouble
from mosaic_protocol.steps.recorded_episodes import read_episodes
from mosaic_protocol.steps.recordings import RecordingError

Picture = npt.NDArray[np.uint8]


@dataclass
class Opened:
    """An episode or a clip that is open, and everything that is known of it by now."""

    key: tuple[str, int] | None
    """(source, number) of an episode; None for a clip."""
    title: str
    episode: ListedEpisode | None = None
    clip: Path | None = None
    record: EpisodeRecord | None = None
    ready: Ready | None = None
    checked: Checked | None = None
    shown: Shown | None = None
    trouble: str = ""
    gone: str = ""
    """Why the process is not there any more."""
    unread: str = ""
    """Why the recorded steps cannot be read."""
    exporting: Exporting | None = None
    waiting_file: str = ""
    steps: int = 0
    fps: float = 30.0


class ReplayDesk(QObject):
    """``listed()``: other episodes. ``opened()``: another one is open, or none. ``told()``: there is more to say of
    it. ``place_changed(int)``. ``picture_arrived(object)``: a picture, or None where there is none of this place.
    ``exported(Exported)``: a film is there, or is not."""

    listed = pyqtSignal()
    opened = pyqtSignal()
    told = pyqtSignal()
    place_changed = pyqtSignal(int)
    picture_arrived = pyqtSignal(object)
    exported = pyqtSignal(object)

    def __init__(self, cockpit: Cockpit, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.cockpit = cockpit
        self.source: StepSource | None = None
        self.run_id = ""
        """Whose episodes or evaluations are listed; empty for a folder of its own."""
        self.evaluations: list[RecordedEvaluation] = []
        """Those that can be shown in the place of the run's own episodes."""
        self.catalogue = Catalogue()
        self.is_listing = False
        self.problem = ""
        """Why there are no episodes to choose from."""
        self.current: Opened | None = None
        self.place = 0
        self.verdicts: dict[tuple[str, int], Checked] = {}
        """What was found of episodes that were open before, by source and number."""
        self.player = Player(self)
        self.player.wanted.connect(self.seek)
        self._replay: OpenReplay | None = None
        self._ending: list[OpenReplay] = []
        """Those that were closed, and may still have a process."""
        self._frames: FrameReader | None = None
        self._wanted: int | None = None

    # ---- what can be opened --------------------------------------------------------------------------------------

    def show_run(self, run_id: str, episode: int | None = None) -> None:
        """List a run's episodes and clips; open one of them, without a number the newest."""
        run = self.cockpit.runs.get(run_id)
        if run is None:
            return
        paths = self.cockpit.bridge.paths
        source = source_of_run(paths, run)
        if run_id != self.run_id:
            self.evaluations = []
        self._list(source, run_id, lambda: catalogue_of_run(paths, run), episode)

    def show_clip(self, run_id: str, clip: Path) -> None:
        """List the same, and open one of its clips."""
        self.show_run(run_id)
        self._wanted = None
        self.open_clip(clip)

    def show_folder(self, folder: Path, episode: int | None = None) -> None:
        """The same for a recorded evaluation. Raises RecordingError for a folder that is none."""
        source = recorded_steps.of_folder(folder)
        of_run = self.run_id if folder in [one.folder for one in self.evaluations] else ""
        if not of_run:
            self.evaluations = []
        self._list(source, of_run, lambda: catalogue_of_folder(source), episode)

    def show_evaluation(self, evaluation: RecordedEvaluation | None) -> None:
        """One of :attr:`evaluations`, or with None the run's own episodes again."""
        if evaluation is None:
            self.show_run(self.run_id)
            return
        try:
            self.show_folder(evaluation.folder)
        except (RecordingError, OSError) as error:  # it was removed since it was listed
            self.close()
            self.catalogue, self.problem = Catalogue(), str(error)
            self.listed.emit()

    def refresh(self) -> None:
        """Look again which episodes there are; what is open stays."""
        run = self.cockpit.runs.get(self.run_id)
        if run is not None and self.source is not None and self.source.folder is None:
            paths = self.cockpit.bridge.paths
            self._read_list(self.source, lambda: catalogue_of_run(paths, run), None)

    def _list(self, source: StepSource, run_id: str, read: Any, episode: int | None) -> None:
        self.close()
        self.source, self.run_id = source, run_id
        self.catalogue, self.problem = Catalogue(), ""
        self._wanted = episode if episode is not None else -1
        self._read_list(source, read, episode)

    def _read_list(self, source: StepSource, read: Any, episode: int | None) -> None:
        self.is_listing = True
        self.listed.emit()

        def done(found: Catalogue) -> None:
            if source is self.source:
                self.is_listing, self.catalogue, self.problem = False, found, found.problem
                if source.folder is None:
                    self.evaluations = found.evaluations
                self.listed.emit()
                self._open_wanted()

        def failed(sentence: str) -> None:
            if source is self.source:
                self.is_listing, self.problem = False, sentence
                self.listed.emit()

        self.cockpit.bridge.in_background(read, done, failed, owner=self)

    def _open_wanted(self) -> None:
        wanted, self._wanted = self._wanted, None
        if wanted is None:
            return
        episodes = self.catalogue.episodes
        found = next((one for one in episodes if one.number == wanted), None)
        if found is None and wanted < 0:
            ended = [one for one in episodes if one.outcome]
            found = (ended or episodes)[-1] if episodes else None
        if found is not None:
            self.open(found)
        elif self.catalogue.clips and wanted < 0:
            self.open_clip(self.catalogue.clips[-1])
        elif self.catalogue.evaluations and wanted < 0:
            self.show_evaluation(self.catalogue.evaluations[0])  # a training has nothing else to show

    # ---- opening and closing -------------------------------------------------------------------------------------

    def open(self, episode: ListedEpisode) -> None:
        source = self.source
        if source is None:
            return
        self.close()
        key = (self._source_name, episode.number)
        title = self.tr("Episode {number}").format(number=episode.number)
        now = self.current = Opened(key, title, episode, steps=episode.steps, checked=self.verdicts.get(key))
        self.place = 0
        films = films_of(self.cockpit.runs.get(self.run_id)) if source.folder is None else None
        paths = self.cockpit.bridge.paths
        self._replay = OpenReplay.of_episode(source, episode.number, paths, self._taker(now), films)
        self.opened.emit()
        self._read_record(source, now, episode.number)

    def open_clip(self, clip: Path) -> None:
        source = self.source
        if source is None:
            return
        self.close()
        now = self.current = Opened(None, clip.stem, clip=clip)
        self.place = 0
        paths = self.cockpit.bridge.paths
        self._replay = OpenReplay.of_clip(clip, source.manifest, paths, self._taker(now))
        self.opened.emit()

    def reopen(self) -> None:
        """Once more, after its process ended; where it stood."""
        now, place = self.current, self.place
        if now is None:
            return
        if now.episode is not None:
            self.open(now.episode)
        elif now.clip is not None:
            self.open_clip(now.clip)
        self.seek(place)

    def close(self) -> None:
        """Nothing is open any more; its process ends."""
        self.player.pause()
        replay, self._replay = self._replay, None
        was_open, self.current = self.current is not None, None
        if replay is not None:
            self._ending = [one for one in self._ending if not one.is_over]
            self._ending.append(replay)
            self.cockpit.bridge.in_background(replay.close)
        if self._frames is not None:
            self._frames.close()
            self._frames = None
        if was_open:
            self.opened.emit()

    def shut(self) -> None:
        """With the window: wait until every process has ended."""
        self.close()
        for replay in self._ending:
            replay.close(wait=False)
        for replay in self._ending:
            replay.close()

    @property
    def pid(self) -> int | None:
        """Of the process that simulates."""
        return self._replay.pid if self._replay is not None else None

    @property
    def _source_name(self) -> str:
        folder = self.source.folder if self.source is not None else None
        return self.run_id if folder is None else str(folder)

    def verdict_of(self, number: int) -> Checked | None:
        return self.verdicts.get((self._source_name, number))

    def _read_record(self, source: StepSource, now: Opened, number: int) -> None:
        env_id = str(source.about.get("env_id") or "")

        def read() -> EpisodeRecord:
            episode = next(iter(read_episodes(source.chunks(number), number)), None)
            if episode is None:
                raise ValueError(f"the steps of episode {number} are not there any more")
            return EpisodeRecord(episode, env_id)

        def done(record: EpisodeRecord) -> None:
            if now is self.current:
                now.record, now.steps = record, len(record)
                record.action_names = now.ready.action_names if now.ready is not None else ()
                self.player.set_length(now.steps)
                self.told.emit()
                self.place_changed.emit(self.place)
                self._show_recorded_picture()

        def failed(sentence: str) -> None:
            now.unread = sentence
            self.told.emit()

        self.cockpit.bridge.in_background(read, done, failed, owner=self)

    # ---- moving --------------------------------------------------------------------------------------------------

    def seek(self, place: int) -> None:
        """Go to a place, kept within the episode."""
        now = self.current
        if now is None:
            return
        self.place = min(max(place, 0), now.steps)
        self.player.stand_at(self.place)
        if self._replay is not None and not now.gone:
            self._replay.seek(self.place)
        else:
            self._show_recorded_picture()
            self.player.arrived()
        self.place_changed.emit(self.place)

    def step(self, by: int) -> None:
        """So many steps on, or back; what plays pauses."""
        self.player.pause()
        self.seek(self.place + by)

    def hand_over(self, *, forwards: bool) -> None:
        """To the next step at which somebody else took the seat, or to the last one before."""
        record = self.current.record if self.current is not None else None
        if record is not None:
            self.player.pause()
            self.seek(record.next_hand_over(self.place) if forwards else record.previous_hand_over(self.place))

    # ---- films ---------------------------------------------------------------------------------------------------

    def export(self, file: Path) -> None:
        now = self.current
        if now is None or self._replay is None or now.gone:
            return
        now.exporting, now.waiting_file = Exporting(0, now.steps), str(file)
        self._replay.export(file)
        self.told.emit()

    def cancel_export(self) -> None:
        if self._replay is not None:
            self._replay.cancel_export()

    # ---- what the process says -----------------------------------------------------------------------------------

    def _taker(self, now: Opened) -> Any:
        """Called in the replay's thread; what is said of something that was closed meanwhile is dropped."""
        post = self.cockpit.bridge.post

        def take(told: Told | Gone) -> None:
            post(lambda: self._take(told) if now is self.current else None)

        return take

    def _take(self, told: Told | Gone) -> None:
        now = self.current
        assert now is not None
        match told:
            case Ready():
                now.ready, now.steps, now.fps = told, told.steps, told.fps
                self.player.set_length(told.steps)
                self.player.set_rate(told.fps)
                if now.record is not None:
                    now.record.action_names = told.action_names
                self.told.emit()
                self.place_changed.emit(self.place)
            case Checked():
                now.checked = told
                if now.key is not None and told.done:
                    self.verdicts[now.key] = told
                self.told.emit()
            case Shown():
                now.shown = told
                self._take_picture(told)
                self.player.arrived()
                self.told.emit()
            case Trouble(why):
                now.trouble = why
                self.told.emit()
            case Exporting():
                now.exporting = told
                self.told.emit()
            case Exported():
                now.exporting, now.waiting_file = None, ""
                self.told.emit()
                self.exported.emit(told)
            case Gone(why):
                self._gone(now, why)

    def _gone(self, now: Opened, why: str) -> None:
        now.gone = why or self.tr("the replay ended")
        if now.exporting is not None:
            file, now.exporting = now.waiting_file, None
            self.exported.emit(Exported(file, why=now.gone))
        self.player.arrived()
        self.told.emit()
        self._show_recorded_picture()

    def _take_picture(self, shown: Shown) -> None:
        if not shown.source:
            self._show_recorded_picture()
            return
        try:
            if self._frames is None or str(self._frames.path) != shown.frames:
                if self._frames is not None:
                    self._frames.close()
                    self._frames = None
                self._frames = FrameReader(Path(shown.frames))
            frame = self._frames.latest()
        except FramesError:
            frame = None
        if frame is not None:
            picture = np.frombuffer(frame.pixels, np.uint8).reshape(frame.height, frame.width, 3)
            self.picture_arrived.emit(picture)

    def _show_recorded_picture(self) -> None:
        """Without a simulated picture, what was seen is shown where that is a picture itself."""
        now = self.current
        if now is None or (now.shown is not None and now.shown.source and not now.gone):
            return
        if now.shown is None and not now.gone:
            return  # the first one is on its way
        self.picture_arrived.emit(now.record.picture(self.place) if now.record is not None else None)
