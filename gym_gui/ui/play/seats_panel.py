"""Several seats side by side, each with an environment of its own on the same seeds: how many, and who sits where."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import QSize, Qt, pyqtSignal
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QToolButton, QVBoxLayout, QWidget

from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.play_sessions import MOST_SEATS
from gym_gui.ui.icons import icon
from gym_gui.ui.play.actors import HUMAN, POLICY, RANDOM, actor_colour, actor_icon
from gym_gui.ui.play.seat_panel import best_of, entry_words
from gym_gui.ui.styling import let_shrink
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.calm import CalmCombo
from gym_gui.ui.widgets.checkpoint_card import facts_text
from mosaic_protocol.live.messages import State

_ICON = 16
_POLICY = f"{POLICY}:"


class SeatRow(QWidget):
    """One seat: who is there now, and who is to be. ``chosen()`` when a person chose, ``removed()`` for its cross."""

    chosen = pyqtSignal()
    removed = pyqtSignal()

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes, self._actor = themes, ""
        self.entries: Sequence[CheckpointEntry] = ()
        self._sign, self._name = QLabel(), QLabel()
        self.choice = CalmCombo()
        let_shrink(self.choice)
        self.choice.activated.connect(lambda _: self.chosen.emit())
        self.choice.currentIndexChanged.connect(self._dress)
        self.remove = QToolButton()
        self.remove.clicked.connect(self.removed)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self._sign)
        layout.addWidget(self._name)
        layout.addWidget(self.choice, 1)
        layout.addWidget(self.remove)
        themes.changed.connect(self._dress)  # not a lambda, which would outlive a row that is removed

    @property
    def occupant(self) -> str:
        """``human``, ``random``, or the folder of a checkpoint."""
        return str(self.choice.currentData() or HUMAN)

    @property
    def spec(self) -> str:
        """As the session is told."""
        return self.occupant if self.occupant in (HUMAN, RANDOM) else f"{_POLICY}{self.occupant}"

    @property
    def policy(self) -> CheckpointEntry | None:
        return next((entry for entry in self.entries if str(entry.path) == self.occupant), None)

    def number(self, seat: int) -> None:
        """Which one it is, counted from 1."""
        name = self.tr("Seat {number}").format(number=seat)
        self._name.setText(name)
        self.choice.setAccessibleName(self.tr("Who has seat {number}").format(number=seat))
        self.remove.setAccessibleName(self.tr("Remove seat {number}").format(number=seat))
        self.remove.setToolTip(self.tr("Remove this seat; a session that runs is not changed before its restart"))
        self._dress()

    def offer(self, entries: Sequence[CheckpointEntry], occupant: str) -> None:
        """Who may sit here, and who does; a checkpoint that is not listed any more stays."""
        self.entries = entries
        self.choice.clear()
        self.choice.addItem(self.tr("You"), HUMAN)
        self.choice.addItem(self.tr("Chance"), RANDOM)
        for entry in entries:
            self.choice.addItem(entry_words(entry), str(entry.path))
            self.choice.setItemData(self.choice.count() - 1, facts_text(entry), Qt.ItemDataRole.ToolTipRole)
        if self.choice.findData(occupant) < 0:
            self.choice.addItem(occupant.rpartition("/")[2], occupant)
        self.choice.setCurrentIndex(self.choice.findData(occupant))

    def tell(self, actor: str) -> None:
        """Who has the seat in the session; "" without one."""
        if actor != self._actor:
            self._actor = actor
            self._dress()

    def _dress(self, *_: object) -> None:
        chosen = self.occupant if self.occupant in (HUMAN, RANDOM) else POLICY
        about = self.tr("Who plays in this seat. While a session runs the seat changes hands at once")
        self.choice.setToolTip(f"{self.choice.currentText()}\n{about}")  # where it is cut it is whole here
        actor, theme = self._actor or chosen, self._themes.theme
        self._sign.setPixmap(icon(actor_icon(actor), actor_colour(actor, theme)).pixmap(QSize(_ICON, _ICON)))
        self.remove.setIcon(icon("close", theme.colour("muted")))


class SeatsPanel(QWidget):
    """No rows is a session with one seat, which is most of them. ``changed()`` when seats were added, removed or given
    to somebody else; ``seated(int, SeatRow)`` with the seat, counted from 1, that a person gave to somebody else."""

    changed = pyqtSignal()
    seated = pyqtSignal(int, object)

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._entries: Sequence[CheckpointEntry] = ()
        self.rows: list[SeatRow] = []
        self.note = QLabel(self.tr("Each seat has its own environment, on the same seeds and step by step together."))
        self.note.setProperty("role", "muted")
        self.note.setWordWrap(True)
        self.add = QPushButton(self.tr("Add a seat"))
        about = self.tr("Play beside somebody on the same seeds: you against a policy, or policies against each other")
        self.add.setToolTip(about)
        self.add.clicked.connect(self.add_seat)
        self._list = QVBoxLayout()
        self._list.setSpacing(6)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.note)
        layout.addLayout(self._list)
        layout.addWidget(self.add)

    # ---- seats ---------------------------------------------------------------------------------------------------

    @property
    def specs(self) -> list[str]:
        """Who takes each seat, as a session is told; nothing for one seat."""
        return [row.spec for row in self.rows]

    def add_seat(self) -> None:
        """The first one that is added stands beside the seat that there is: it is the person's."""
        rival = best_of(self._entries)
        occupant = str(rival.path) if rival is not None else RANDOM
        self.put([row.spec for row in self.rows] or [HUMAN], occupant)
        self.rows[-1].choice.setFocus()
        self.changed.emit()

    def put(self, specs: Sequence[str], *more: str) -> None:
        """Show these seats, as :attr:`specs` spells them, and ``more`` behind them; fewer than two are none."""
        occupants = [*(one.removeprefix(_POLICY) for one in specs), *more]
        occupants = occupants if len(occupants) > 1 else []
        while len(self.rows) > len(occupants):
            self._drop(self.rows[-1])
        while len(self.rows) < len(occupants):
            self._grow()
        for row, occupant in zip(self.rows, occupants, strict=True):
            row.offer(self._entries, occupant)
        self._count()

    def offer(self, entries: Sequence[CheckpointEntry]) -> None:
        """The checkpoints that fit the environment."""
        self._entries = list(entries)
        for row in self.rows:
            row.offer(self._entries, row.occupant)

    def tell(self, state: State | None) -> None:
        """Who has which seat; None without a session."""
        seats = state.seats if state is not None else ()
        for number, row in enumerate(self.rows):
            row.tell(seats[number].actor if number < len(seats) else "")

    def _grow(self) -> None:
        row = SeatRow(self._themes)
        row.chosen.connect(lambda: self._chosen(row))
        row.removed.connect(lambda: self._remove(row))
        self.rows.append(row)
        self._list.addWidget(row)

    def _chosen(self, row: SeatRow) -> None:
        self.seated.emit(self.rows.index(row) + 1, row)
        self.changed.emit()

    def _remove(self, row: SeatRow) -> None:
        """Of two seats one stays, which needs no list."""
        self._drop(row)
        self.put(self.specs)
        self.add.setFocus()
        self.changed.emit()

    def _drop(self, row: SeatRow) -> None:
        self.rows.remove(row)
        row.hide()
        row.deleteLater()

    def _count(self) -> None:
        for number, row in enumerate(self.rows, start=1):
            row.number(number)
        self.add.setEnabled(len(self.rows) < MOST_SEATS)
