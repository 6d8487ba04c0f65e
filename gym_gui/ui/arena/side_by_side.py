"""The same seed, played side by side: a picture for each entry, and one clock for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PyQt6.QtCore import Qt
from PyQt6.QtGui import QHideEvent, QKeyEvent, QShowEvent
from PyQt6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QSlider,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.arena.played import Result, returns_of
from gym_gui.services.arena.standings import Standing
from gym_gui.services.compare.report import figure
from gym_gui.services.recorded_steps import of_folder
from gym_gui.services.replay.open_replay import Gone, OpenReplay
from gym_gui.services.run_words import counted
from gym_gui.ui.arena.desk import ArenaDesk
from gym_gui.ui.arena.looks import colour_of
from gym_gui.ui.context import Cockpit
from gym_gui.ui.icons import icon
from gym_gui.ui.replay.player import Player
from gym_gui.ui.widgets.calm import CalmCombo
from gym_gui.ui.widgets.elided_label import ElidedLabel
from gym_gui.ui.widgets.frame_view import FrameView
from mosaic_protocol.live.frames import FrameReader, FramesError
from mosaic_protocol.replay_messages import Shown, Told

MOST_CELLS = 6
"""Each is a process that simulates."""
_STEPS_A_SECOND = 6.0
_ICON_ONLY = "QPushButton { padding: 5px 8px; min-width: 18px; }"


@dataclass(frozen=True)
class Shot:
    """One entry's episode of the seed."""

    standing: Standing
    result: Result


class Cell(QWidget):
    """One picture. ``shot`` is open until :meth:`close_replay`."""

    def __init__(self, shot: Shot, side: SideBySide, cockpit: Cockpit) -> None:
        super().__init__()
        self.shot, self._side, self._cockpit = shot, side, cockpit
        self.returns: NDArray[np.float64] = np.zeros(0)
        self.view = FrameView(fills=True)
        self.view.words = self.tr("The environment is being started…")
        self.view.setMinimumSize(90, 80)
        self.view.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)  # whatever room is left
        self.dot, self.name = QLabel("●"), ElidedLabel(shot.standing.entry.label)
        self.name.setStyleSheet("font-weight: 600;")
        self.told, self.end = ElidedLabel(), ElidedLabel()
        for label in (self.told, self.end):
            label.setProperty("role", "small")
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(5)
        self.bar.setRange(0, max(1, shot.result.length))
        self._frames: FrameReader | None = None
        head = QHBoxLayout()
        head.addWidget(self.dot)
        head.addWidget(self.name)
        head.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        layout.addLayout(head)
        layout.addWidget(self.view, 1)
        for widget in (self.told, self.bar, self.end):
            layout.addWidget(widget)
        result = shot.result
        ends = self.tr("ends with {total} in {steps}")
        self.end.setText(ends.format(total=figure(result.total), steps=counted(result.length, "step")))
        post = cockpit.bridge.post
        source = of_folder(result.recording)
        self.replay: OpenReplay | None = OpenReplay.of_episode(
            source, result.episode, cockpit.bridge.paths, lambda told: post(partial(self._take, told))
        )

    def dress(self, colour: str) -> None:
        self.dot.setStyleSheet(f"color: {colour};")
        self.bar.setStyleSheet(f"QProgressBar::chunk {{ background: {colour}; }} QProgressBar {{ min-height: 5px; }}")

    def stand_at(self, place: int) -> None:
        at = min(place, self.shot.result.length)
        self.bar.setValue(at)
        total = float(self.returns[at - 1]) if 0 < at <= len(self.returns) else 0.0
        over = self.tr("over") if at >= self.shot.result.length else self.tr("step {step}").format(step=at)
        self.told.setText(f"{figure(total)} · {over}")
        if self.replay is not None:
            self.replay.seek(at)

    def close_replay(self) -> None:
        replay, self.replay = self.replay, None
        if replay is not None:
            self._cockpit.bridge.in_background(replay.close)
        if self._frames is not None:
            self._frames.close()
            self._frames = None

    def _take(self, told: Told | Gone) -> None:
        if self.replay is None:
            return
        if isinstance(told, Gone | Shown):
            self.view.words = ""
            if not self.view.has_frame:
                self.view.update()
        if isinstance(told, Gone):
            self.end.setText(told.why or self.end.text())
            self._side.arrived(self)
        elif isinstance(told, Shown):
            if told.source:
                self._draw(told)
            elif told.why:
                self.end.setText(told.why)
            self._side.arrived(self)

    def _draw(self, shown: Shown) -> None:
        try:
            if self._frames is None or str(self._frames.path) != shown.frames:
                if self._frames is not None:
                    self._frames.close()
                self._frames = FrameReader(Path(shown.frames))
            frame = self._frames.latest()
        except FramesError:
            self._frames, frame = None, None
        if frame is not None:
            self.view.show_frame(np.frombuffer(frame.pixels, np.uint8).reshape(frame.height, frame.width, 3))


class SideBySide(QFrame):
    """Follows the desk. Replays are open only while it can be seen."""

    def __init__(self, cockpit: Cockpit, desk: ArenaDesk) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self._cockpit, self._desk = cockpit, desk
        self.cells: list[Cell] = []
        self._shown: tuple[object, ...] = ()
        self._awaited: set[Cell] = set()
        self.place = 0
        self.player = Player(self)
        self.player.set_rate(_STEPS_A_SECOND)
        self.player.wanted.connect(self.seek)
        self.player.changed.connect(self._dress)
        self._make_bar()
        self._row = QHBoxLayout()
        self._row.setSpacing(10)
        self.empty = QLabel()
        self.empty.setProperty("role", "muted")
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.empty.setWordWrap(True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 10, 12, 10)
        layout.addLayout(self._bar)
        layout.addWidget(self.empty, 1)
        layout.addLayout(self._row, 1)
        desk.changed.connect(self._follow)
        desk.seed_changed.connect(self._follow)
        cockpit.themes.changed.connect(lambda _: self._dress())
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(self.tr("The same seed side by side"))
        self._dress()

    def _make_bar(self) -> None:
        tr = self.tr
        self.play = QPushButton()
        self.play.setProperty("kind", "primary")
        self.play.clicked.connect(self.player.toggle)
        self.back, self.on = QPushButton(), QPushButton()
        for button, name, by in ((self.back, tr("One step back"), -1), (self.on, tr("One step on"), 1)):
            button.setAccessibleName(name)
            button.setToolTip(tr("{name} ({key})").format(name=name, key="," if by < 0 else "."))
            button.setStyleSheet(_ICON_ONLY)
            button.clicked.connect(partial(self._step, by))
        self.told = QLabel()
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName(tr("Step"))
        self.slider.setToolTip(tr("The step that all stand at; who is over stays at the end"))
        self.slider.valueChanged.connect(self._slid)
        self.seeds = CalmCombo()
        self.seeds.setAccessibleName(tr("Seed"))
        self.seeds.setToolTip(tr("The seed to look at (PgUp and PgDown)"))
        self.seeds.activated.connect(lambda at: self._desk.choose_seed(int(self.seeds.itemData(at))))
        self._bar = QHBoxLayout()
        for widget in (self.play, self.back, self.on, self.told):
            self._bar.addWidget(widget)
        self._bar.addWidget(self.slider, 1)
        self._bar.addWidget(self.seeds)

    # ---- what is shown -------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._follow()

    def hideEvent(self, event: QHideEvent | None) -> None:
        self.close_replays()
        super().hideEvent(event)

    def _follow(self) -> None:
        found, seed = self._desk.standings, self._desk.seed
        shots = []
        if found is not None and seed is not None:
            self._offer_seeds(found.arena.seeds, seed)
            shots = [Shot(one, one.played.results[seed]) for one in found.standings if seed in one.played.results]
        wanted = (seed, *((one.standing.entry.key, one.result.recording, one.result.episode) for one in shots))
        if (wanted == self._shown and self.cells) or not self.isVisible():
            return
        self.close_replays()
        self._shown, self.place = wanted, 0
        for shot in shots[:MOST_CELLS]:
            cell = Cell(shot, self, self._cockpit)
            self.cells.append(cell)
            self._row.addWidget(cell, 1)
        left = len(shots) - MOST_CELLS
        self.empty.setVisible(not shots)
        self.empty.setText(self.tr("Nobody has played this seed yet: pictures stand here as soon as somebody has."))
        length = max((cell.shot.result.length for cell in self.cells), default=0)
        self.slider.blockSignals(True)
        self.slider.setRange(0, length)
        self.slider.setValue(0)
        self.slider.blockSignals(False)
        self.player.pause()
        self.player.set_length(length)
        self._more = self.tr(", the best {count}").format(count=MOST_CELLS) if left > 0 else ""
        for widget in (self.play, self.back, self.on, self.slider):
            widget.setEnabled(bool(self.cells))
        self._read_returns()
        self.seek(0)
        self._dress()

    def _offer_seeds(self, seeds: Sequence[int], seed: int) -> None:
        if self.seeds.count() != len(seeds) or self.seeds.itemData(0) != seeds[0]:
            self.seeds.clear()
            for one in seeds:
                self.seeds.addItem(self.tr("Seed {seed}").format(seed=one), one)
        self.seeds.setCurrentIndex(seeds.index(seed))

    def _read_returns(self) -> None:
        cells = list(self.cells)

        def take(found: list[NDArray[np.float64]]) -> None:
            for cell, returns in zip(cells, found, strict=True):
                cell.returns = returns
            if cells == self.cells:
                self._tell()
                self.seek(self.place)

        read = partial(returns_of, [cell.shot.result for cell in cells])
        self._cockpit.bridge.in_background(read, take, self._desk.told.emit, owner=self)

    def close_replays(self) -> None:
        self.player.pause()
        for cell in self.cells:
            cell.close_replay()
            self._row.removeWidget(cell)
            cell.hide()
            cell.deleteLater()
        self.cells, self._shown, self._awaited = [], (), set()

    # ---- moving --------------------------------------------------------------------------------------------------

    def seek(self, place: int) -> None:
        self.place = min(max(place, 0), self.slider.maximum())
        self.player.stand_at(self.place)
        self._awaited = {cell for cell in self.cells if cell.replay is not None}
        for cell in self.cells:
            cell.stand_at(self.place)
        if not self._awaited:
            self.player.arrived()
        self.slider.blockSignals(True)
        self.slider.setValue(self.place)
        self.slider.blockSignals(False)
        self._tell()

    def arrived(self, cell: Cell) -> None:
        """A picture is there, or there will be none: the next step may come when all have theirs."""
        self._awaited.discard(cell)
        if not self._awaited:
            self.player.arrived()

    def _slid(self, place: int) -> None:
        self.player.pause()
        self.seek(place)

    def _step(self, by: int) -> None:
        self.player.pause()
        self.seek(self.place + by)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is None or not self.handle_key(event.key()):
            super().keyPressEvent(event)

    def handle_key(self, key: int) -> bool:
        """Space, comma and full stop, PgUp and PgDown; whether it was one of them."""
        match key:
            case Qt.Key.Key_Space:
                self.player.toggle()
            case Qt.Key.Key_Comma | Qt.Key.Key_Period:
                self._step(1 if key == Qt.Key.Key_Period else -1)
            case Qt.Key.Key_PageUp | Qt.Key.Key_PageDown:
                self._desk.step_seed(1 if key == Qt.Key.Key_PageDown else -1)
            case _:
                return False
        return True

    def _tell(self) -> None:
        text = self.tr("Seed {seed}, step {step}").format(seed=self._desk.seed, step=self.place)
        self.told.setText(f"{text}{getattr(self, '_more', '')}" if self.cells else "")

    def _dress(self) -> None:
        theme, found = self._cockpit.themes.theme, self._desk.standings
        playing = self.player.is_playing
        self.play.setText(self.tr("Pause") if playing else self.tr("Play"))
        self.play.setToolTip(self.tr("Stand still (Space)") if playing else self.tr("Play all of them (Space)"))
        self.play.setIcon(icon("pause" if playing else "run", theme.colour("on_fill")))
        self.back.setIcon(icon("step-back", theme.colour("text")))
        self.on.setIcon(icon("one-step", theme.colour("text")))
        if found is not None:
            for cell in self.cells:
                cell.dress(colour_of(found, cell.shot.standing, theme).name())
