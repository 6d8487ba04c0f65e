"""An arena on the stage: standings and who beats whom above, the same seed side by side below."""

from __future__ import annotations

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QKeyEvent, QResizeEvent
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QLineEdit, QPushButton, QScrollArea, QVBoxLayout, QWidget

from gym_gui.services.arena.entries import entry_words
from gym_gui.services.arena.errors import ArenaError
from gym_gui.services.arena.report import finding
from gym_gui.services.arena.seeds import shown_seeds
from gym_gui.services.arena.standings import Measure
from gym_gui.services.run_words import counted
from gym_gui.ui.arena.desk import ArenaDesk
from gym_gui.ui.arena.matrix import ImprovementMatrix
from gym_gui.ui.arena.side_by_side import SideBySide
from gym_gui.ui.arena.standings_table import StandingsTable
from gym_gui.ui.context import Cockpit
from gym_gui.ui.styling import tell
from gym_gui.ui.widgets.elided_label import ElidedLabel
from gym_gui.ui.widgets.segments import Segments
from gym_gui.ui.widgets.status_badge import StatusBadge

_BESIDE = 780
"""In less width the matrix stands below the standings."""
_PLAYER_HEIGHT = 240


class ArenaPage(QWidget):
    """``left()``: somebody wants the stage back."""

    left = pyqtSignal()

    def __init__(self, cockpit: Cockpit, desk: ArenaDesk) -> None:
        super().__init__()
        self._desk = desk
        tr = self.tr
        self.name = ElidedLabel()
        self.name.setProperty("role", "title")
        self.badge = StatusBadge(cockpit.themes)
        self.about, self.sentence, self.notes = ElidedLabel(), QLabel(), QLabel()
        self.about.setProperty("role", "muted")
        for label in (self.sentence, self.notes):
            label.setWordWrap(True)
        self.notes.setProperty("role", "warning")
        self.measures = Segments(
            [
                ("return", tr("Return"), tr("Compare what episodes returned")),
                ("steps", tr("Steps"), tr("Compare how many steps episodes took; fewer are better")),
                ("gap", tr("Gap to optimal"), tr("Compare what is missing to the optimal return on the same seed")),
            ]
        )
        self.measures.chosen.connect(lambda name: desk.use_measure(Measure(name)))
        self.table = StandingsTable(desk, cockpit.themes)
        self.matrix = ImprovementMatrix(desk, cockpit.themes)
        self.side_by_side = SideBySide(cockpit, desk)
        self.side_by_side.setMinimumHeight(_PLAYER_HEIGHT)
        self.entry = QLineEdit()
        self.entry.setPlaceholderText(tr("Add an entry: random, optimal, a run, steps:RUN"))
        self.entry.setAccessibleName(tr("Entries to add"))
        self.entry.setToolTip(tr("Who plays besides, with a blank between several; nobody plays again who has played"))
        self.add = QPushButton(tr("Add"))
        self.add.setToolTip(tr("Let the entries play; where none is named, those that were interrupted go on"))
        self.stop = QPushButton(tr("Stop"))
        self.stop.setToolTip(tr("End the episodes that are being played; what was played stays"))
        self.back = QPushButton(tr("‹ All arenas"))
        self.back.setProperty("kind", "flat")
        self.back.setToolTip(tr("Give the stage back and show the list (Esc); what is being played goes on"))
        self.back.clicked.connect(self.left)
        self._lay_out()
        self.entry.returnPressed.connect(self._add)
        self.add.clicked.connect(self._add)
        self.stop.clicked.connect(desk.stop)
        for changed in (desk.changed, desk.progressed):
            changed.connect(self.tell)
        desk.told.connect(lambda sentence: tell(self.sentence, sentence, "error"))
        self.tell()

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self.back)
        head.addWidget(self.name)
        head.addWidget(self.badge)
        head.addStretch(1)
        head.addWidget(self.measures)
        under = QHBoxLayout()
        under.addWidget(self.about, 1)
        under.addWidget(self.entry, 1)
        under.addWidget(self.add)
        under.addWidget(self.stop)
        self._table_card = _card(self.table)
        self._matrix_card = _card(
            self.matrix, title=self.tr("Probability of improvement"), aside=self.tr("row over column")
        )
        self._hint = QLabel(self.tr("Paired by seed, a tie counts half."))
        self._hint.setProperty("role", "small")
        layout = self._matrix_card.layout()
        assert layout is not None
        layout.addWidget(self._hint)
        inside = QWidget()
        self._inside = QVBoxLayout(inside)
        self._inside.setContentsMargins(12, 10, 12, 10)
        self._inside.setSpacing(8)
        self._upper = QHBoxLayout()
        self._upper.setSpacing(10)
        self._upper.addWidget(self._table_card, 5, Qt.AlignmentFlag.AlignTop)
        self._upper.addWidget(self._matrix_card, 3, Qt.AlignmentFlag.AlignTop)
        self._inside.addLayout(head)
        self._inside.addLayout(under)
        self._inside.addWidget(self.sentence)
        self._inside.addLayout(self._upper)
        self._inside.addWidget(self.notes)
        self._inside.addWidget(self.side_by_side, 1)
        self.area = QScrollArea()
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setWidget(inside)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self.area)

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        beside = self.width() >= _BESIDE
        self._upper.setDirection(QHBoxLayout.Direction.LeftToRight if beside else QHBoxLayout.Direction.TopToBottom)
        self._upper.setAlignment(self._table_card, Qt.AlignmentFlag.AlignTop if beside else Qt.AlignmentFlag(0))
        self._upper.setAlignment(self._matrix_card, Qt.AlignmentFlag.AlignTop if beside else Qt.AlignmentFlag(0))

    def _add(self) -> None:
        try:
            self._desk.add(entry_words(self.entry.text()))
        except ArenaError as error:
            tell(self.sentence, str(error), "error")

    # ---- telling -------------------------------------------------------------------------------------------------

    def tell(self) -> None:
        found, desk = self._desk.standings, self._desk
        playing = bool(desk.name) and desk.playing == desk.name
        self.stop.setVisible(playing)
        for widget in (self.entry, self.add):
            widget.setEnabled(not desk.playing and not desk.is_preparing)
        if found is None:
            self.name.setText(self.tr("Reading the arena…") if desk.name else "")
            self.badge.show_state("")
            for label in (self.about, self.sentence, self.notes):
                label.setText("")
            return
        arena = found.arena
        count = len(arena.entries)
        entries = self.tr("1 entry") if count == 1 else self.tr("{count} entries").format(count=count)
        seeds = counted(len(arena.seeds), "seed")
        self.name.setText(self.tr("{entries} on the same {seeds}").format(entries=entries, seeds=seeds))
        state = "playing" if playing else "complete" if found.is_complete else "not complete"
        self.badge.show_state(state, colour_name="accent" if playing else "good" if found.is_complete else "warning")
        told = self.tr("{env} · seeds {seeds}").format(env=arena.env_id, seeds=shown_seeds(arena.seeds))
        self.about.setText(told)
        self._offer_gap(any(entry.identity == "optimal" for entry in arena.entries))
        if playing or desk.is_preparing:
            tell(self.sentence, self._progress(), "muted")
        else:
            tell(self.sentence, finding(found), "muted")
        self.notes.setText("\n".join(found.notes) if not playing else "")
        self.notes.setVisible(bool(self.notes.text()))

    def _offer_gap(self, there: bool) -> None:
        button = self.measures.buttons["gap"]
        button.setEnabled(there)

    def _progress(self) -> str:
        if not self._desk.progress:
            return self.tr("Programs that play are being started…")
        played = sum(one.played for one in self._desk.progress.values())
        verified = sum(one.verified for one in self._desk.progress.values())
        total = sum(one.total for one in self._desk.progress.values())
        return self.tr("{played} of {total} episodes played, {verified} verified by replay").format(
            played=f"{played:,}", total=f"{total:,}", verified=f"{verified:,}"
        )

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is not None and event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        elif event is None or not self.side_by_side.handle_key(event.key()):
            super().keyPressEvent(event)


def _card(inside: QWidget, title: str = "", aside: str = "") -> QFrame:
    card = QFrame()
    card.setProperty("role", "card")
    layout = QVBoxLayout(card)
    layout.setContentsMargins(8, 6, 8, 8)
    if title:
        top, heading, beside = QHBoxLayout(), QLabel(title), QLabel(aside)
        heading.setStyleSheet("font-weight: 600;")
        beside.setProperty("role", "small")
        top.addWidget(heading)
        top.addStretch(1)
        top.addWidget(beside)
        layout.addLayout(top)
    layout.addWidget(inside)
    return card
