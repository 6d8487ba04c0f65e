"""Which arena is looked at, how it stands, and the contest that this window plays. No widgets here."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PyQt6.QtCore import QObject, pyqtSignal

from gym_gui.services.arena.contest import Contest, Progress
from gym_gui.services.arena.entries import Finder
from gym_gui.services.arena.model import Arena
from gym_gui.services.arena.seeds import read_seeds
from gym_gui.services.arena.service import Wanted, begun, extended, read_standings
from gym_gui.services.arena.standings import Measure, Standings
from gym_gui.services.arena.store import ArenaStore
from gym_gui.services.replay.catalog import source_of_run
from gym_gui.services.trainer.client import TrainerClient
from gym_gui.ui.context import Cockpit

if TYPE_CHECKING:
    from gym_gui.services.recorded_steps import StepSource
    from mosaic_protocol.proto import trainer_pb2 as pb


class ArenaDesk(QObject):
    """One for a window, in the GUI's thread; what takes time is done in others.

    ``listed(list[Arena])``, newest first. ``changed()``: another arena is looked at, or it stands otherwise.
    ``progressed()``: an entry that plays came further. ``told(str)``: why something was not done. ``seed_changed()``.
    """

    listed = pyqtSignal(list)
    changed = pyqtSignal()
    progressed = pyqtSignal()
    told = pyqtSignal(str)
    seed_changed = pyqtSignal()

    def __init__(self, cockpit: Cockpit, parent: QObject) -> None:
        super().__init__(parent)
        self._cockpit = cockpit
        self._store = ArenaStore(cockpit.bridge.paths)
        self.name = ""
        self.standings: Standings | None = None
        self.measure = Measure.RETURN
        self.seed: int | None = None
        self.progress: dict[str, Progress] = {}
        self.playing = ""
        """The name of the arena that this window plays; empty for none."""
        self.is_preparing = False
        self._contest: Contest | None = None
        self._thread: threading.Thread | None = None

    # ---- looking -------------------------------------------------------------------------------------------------

    def look_for_arenas(self) -> None:
        self._cockpit.bridge.in_background(self._store.all, self.listed.emit, self.told.emit, owner=self)

    def open(self, name: str) -> None:
        """Look at an arena; "" for none."""
        if name != self.name:
            self.name, self.standings, self.seed = name, None, None
            self.progress = self.progress if name == self.playing else {}
            self.changed.emit()
        self.read()

    def use_measure(self, measure: Measure) -> None:
        self.measure = measure
        self.read()

    def read(self) -> None:
        if not self.name:
            return
        name, measure = self.name, self.measure
        what = partial(read_standings, self._cockpit.bridge.paths, name, measure)
        self._cockpit.bridge.in_background(what, partial(self._take, name, measure), self.told.emit, owner=self)

    def _take(self, name: str, measure: Measure, found: Standings) -> None:
        if (name, measure) != (self.name, self.measure):
            return
        self.standings = found
        if self.seed not in found.arena.seeds:
            self.seed = found.arena.seeds[0]
        self.changed.emit()

    def choose_seed(self, seed: int) -> None:
        if self.standings is not None and seed in self.standings.arena.seeds and seed != self.seed:
            self.seed = seed
            self.seed_changed.emit()

    def step_seed(self, by: int) -> None:
        """To the next seed, or one before; around at the ends."""
        if self.standings is not None and self.seed is not None:
            seeds = self.standings.arena.seeds
            self.choose_seed(seeds[(seeds.index(self.seed) + by) % len(seeds)])

    # ---- playing -------------------------------------------------------------------------------------------------

    def begin(self, env_id: str, seeds: str, words: Sequence[str]) -> None:
        """Begin an arena, or go on with the one of this game and these seeds."""
        paths, finder = self._cockpit.bridge.paths, Finder(self._cockpit.bridge.paths, self._run)

        def prepare() -> Arena:
            return begun(paths, Wanted(env_id, tuple(read_seeds(seeds)), {}, words), finder)

        self._prepare(prepare)

    def add(self, words: Sequence[str]) -> None:
        """Let more entries play in the open arena; without one, go on."""
        paths, finder, name = self._cockpit.bridge.paths, Finder(self._cockpit.bridge.paths, self._run), self.name
        self._prepare(lambda: extended(paths, name, words, finder))

    def stop(self) -> None:
        """Stop playing; what was played stays."""
        if self._contest is not None:
            self._contest.stop()

    def close_panel(self) -> None:
        """The window closes: the programs that play end with it."""
        self.stop()
        if self._thread is not None:
            self._thread.join(10.0)

    def _prepare(self, prepare: object) -> None:
        if self.playing or self.is_preparing:
            self.told.emit(self.tr("An arena is being played: stop it first, or wait for it."))
            return
        self.is_preparing = True
        self.progressed.emit()
        self._cockpit.bridge.in_background(prepare, self._play, self._failed, owner=self)  # type: ignore[arg-type]

    def _failed(self, sentence: str) -> None:
        self.is_preparing = False
        self.progressed.emit()
        self.told.emit(sentence)

    def _play(self, arena: Arena) -> None:
        self.is_preparing, self.playing, self.progress = False, arena.name, {}
        self.open(arena.name)
        self.look_for_arenas()
        post = self._cockpit.bridge.post
        self._contest = Contest(
            self._store, arena.name, self._source, lambda progress: post(lambda: self._take_progress(progress))
        )
        # Not of the pool: the programs that play end with the thread that started the contest's threads.
        self._thread = threading.Thread(target=self._work, args=(self._contest,), name="arena", daemon=True)
        self._thread.start()
        self.progressed.emit()

    def _work(self, contest: Contest) -> None:
        why = ""
        try:
            contest.run()
        except Exception as error:  # noqa: BLE001 - whatever it is belongs on the screen
            why = str(error) or type(error).__name__
        self._cockpit.bridge.post(lambda: self._ended(why))

    def _take_progress(self, progress: Progress) -> None:
        self.progress[progress.key] = progress
        self.progressed.emit()

    def _ended(self, why: str) -> None:
        self.playing, self._contest = "", None
        self.read()
        self.progressed.emit()
        if why:
            self.told.emit(why)

    def _run(self, word: str) -> pb.Run:
        """In a thread that may wait."""
        with TrainerClient.connect(self._cockpit.bridge.paths, start=False) as client:
            return client.run(word)

    def _source(self, run_id: str) -> StepSource:
        return source_of_run(self._cockpit.bridge.paths, self._run(run_id))
