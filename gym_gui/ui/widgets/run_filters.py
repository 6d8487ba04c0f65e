"""The bar above the runs: words to look for, kinds to show, how to group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PyQt6.QtCore import QSize, Qt, QTimer, pyqtSignal
from PyQt6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from gym_gui.services.run_filter import EVERYTHING, FilterError, RunFilter, has_operator, parse
from gym_gui.ui.context import Cockpit
from gym_gui.ui.icons import icon
from gym_gui.ui.models.extra_columns import SETTING
from gym_gui.ui.models.run_order import GROUPINGS
from gym_gui.ui.models.run_rows import BUCKETS
from gym_gui.ui.styling import let_shrink
from gym_gui.ui.widgets.calm import CalmCombo
from gym_gui.ui.widgets.hinted_line import HintedLine

_KEY = "runs.filter"
_TYPING_MILLISECONDS = 120
_MOST_FOR_CHOICE = 60
"""Pixels that the bar gives to the name of what the runs are grouped by."""


class RunFilters(QWidget):
    """``changed()`` when something else is to be shown. Remembers itself in the preferences.

    With no kind chosen every kind is shown; choosing one narrows the list to it. A text with an operator is an
    expression; a mistake in one stands in :attr:`problem`, and the last valid one stays in force.
    """

    changed = pyqtSignal()

    def __init__(self, cockpit: Cockpit, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cockpit = cockpit
        self.text = self._make_text()
        self.problem = self._make_problem()
        self._wanted = self._before = EVERYTHING
        self.chips = self._make_chips()
        self._chip_titles = {name: chip.text() for name, chip in self.chips.items()}
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self.text, 4)
        row = QHBoxLayout()
        row.setSpacing(0)
        for chip in self.chips.values():
            row.addWidget(chip)
        layout.addLayout(row)
        layout.addStretch(1)
        self._restore()
        self._typing = QTimer(self)
        self._typing.setSingleShot(True)
        self._typing.setInterval(_TYPING_MILLISECONDS)
        self._typing.timeout.connect(self._tell)
        self.text.textChanged.connect(self._typing.start)
        for chip in self.chips.values():
            chip.toggled.connect(self._tell)

    def _make_text(self) -> QLineEdit:
        tr = self.tr
        line = HintedLine(
            [tr("Filter by words, or algo=ppo lr<1e-3 tag=paper"), tr("Filter by words, or algo=ppo"), tr("Filter")]
        )
        line.setAccessibleName(self.tr("Filter the runs"))
        line.setToolTip(
            self.tr(
                "Shows only runs with all of these words in name, id, algorithm or environment. With operators it is "
                "an expression over fields and settings: env=CartPole* seed=1,2 return>400 learning_rate<=3e-4"
            )
        )
        line.setClearButtonEnabled(True)
        line.setMinimumWidth(140)
        line.setMaximumWidth(360)
        return line

    def _make_problem(self) -> QLabel:
        """The code that lays the bar out puts it below."""
        label = QLabel()
        label.setProperty("role", "error")
        label.setWordWrap(True)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        label.setContentsMargins(12, 0, 12, 6)
        label.hide()
        return label

    def _make_chips(self) -> dict[str, QPushButton]:
        offered = {
            "live": (self.tr("Live"), self.tr("Show runs that start, train, pause or end")),
            "queued": (self.tr("Queued"), self.tr("Show runs that wait for CPU, GPU or memory")),
            "finished": (self.tr("Finished"), self.tr("Show runs that completed or were cancelled")),
            "failed": (self.tr("Failed"), self.tr("Show runs that failed, timed out or were lost")),
        }
        chips = {}
        for name in BUCKETS:
            title, tooltip = offered[name]
            chips[name] = chip = QPushButton(title)
            chip.setCheckable(True)
            chip.setProperty("kind", "segment")
            chip.setToolTip(tooltip)
            chip.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
            chip.setAccessibleName(tooltip)
        return chips

    # ---- the choice ----------------------------------------------------------------------------------------------

    @property
    def words(self) -> tuple[str, ...]:
        text = self.text.text()
        return () if has_operator(text) else tuple(text.lower().split())

    @property
    def wanted(self) -> RunFilter:
        """The expression that was understood last; everything where words are looked for."""
        return self._wanted

    @property
    def buckets(self) -> frozenset[str]:
        chosen = frozenset(name for name, chip in self.chips.items() if chip.isChecked())
        return chosen or frozenset(BUCKETS)

    @property
    def is_narrow(self) -> bool:
        return bool(self.words or self.wanted) or self.buckets != frozenset(BUCKETS)

    def clear(self) -> None:
        self.text.clear()
        for chip in self.chips.values():
            chip.setChecked(False)
        self._tell()

    @property
    def state(self) -> dict[str, Any]:
        """As it is kept, also in a saved view."""
        return {"text": self.text.text(), "kinds": [name for name, chip in self.chips.items() if chip.isChecked()]}

    def use(self, state: dict[str, Any]) -> None:
        """Filter as a saved view does; what makes no sense in it is no filter."""
        self._put(state)
        self._tell()

    def show_counts(self, counts: dict[str, int]) -> None:
        for name, chip in self.chips.items():
            number = counts.get(name, 0)
            title = self._chip_titles[name]
            chip.setText(f"{title} {number:,}" if number else title)

    def _tell(self) -> None:
        self._typing.stop()
        self._understand()
        self._cockpit.preferences.put(_KEY, self.state)
        self.changed.emit()

    def _understand(self) -> None:
        text = self.text.text()
        if text == self._wanted.text:
            self.tell_problem("")
            return
        try:
            self._before, self._wanted = self._wanted, parse(text) if has_operator(text) else EVERYTHING
        except FilterError as error:
            self.tell_problem(str(error))
        else:
            self.tell_problem("")

    def refuse(self, sentence: str) -> None:
        """For a caller that knows the runs: the expression asks for what none has. The one before stays in force."""
        self._wanted = self._before
        self.tell_problem(sentence)

    def tell_problem(self, sentence: str) -> None:
        """Say below the text what is wrong with it; "" when nothing is."""
        self.problem.setText(sentence[:1].upper() + sentence[1:])
        self.problem.setVisible(bool(sentence))
        self.text.setAccessibleDescription(sentence)

    def _restore(self) -> None:
        self._put(self._cockpit.preferences.get(_KEY, {}))
        self._understand()

    def _put(self, kept: dict[str, Any]) -> None:
        text, kinds = kept.get("text"), kept.get("kinds")
        self.text.setText(text if isinstance(text, str) else "")
        for name, chip in self.chips.items():
            chip.setChecked(isinstance(kinds, list) and name in kinds)


class RunGrouping(CalmCombo):
    """``chosen(str)``: "" for no groups, else a name of :data:`GROUPINGS`. Remembers itself."""

    chosen = pyqtSignal(str)
    _KEY = "runs.grouping"

    def __init__(self, cockpit: Cockpit, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cockpit = cockpit
        for title, name in (
            (self.tr("No groups"), ""),
            (self.tr("By algorithm"), "algorithm"),
            (self.tr("By environment"), "environment"),
            (self.tr("By tags"), "tags"),
            (self.tr("By group"), "group"),
        ):
            self.addItem(title, name)
        self.setToolTip(self.tr("Put runs together that have something in common; settings with a column are here too"))
        self.setAccessibleName(self.tr("Group the runs"))
        let_shrink(self)
        self.choose(cockpit.preferences.get(self._KEY, ""))
        self.currentIndexChanged.connect(self._tell)

    def sizeHint(self) -> QSize:
        """With room for what is chosen, where there is some: the least stays as it is, so that no panel gets wider."""
        least = super().sizeHint()
        more = self.fontMetrics().horizontalAdvance(self.currentText()) - self.room_for_words(least)
        return QSize(least.width() + max(0, min(more, _MOST_FOR_CHOICE)), least.height())

    def choose(self, grouping: str) -> None:
        """By a name of :data:`GROUPINGS` or of a setting's column; anything else means no groups."""
        if self.findData(grouping) < 0 and grouping.startswith(SETTING):
            self._add_setting(grouping)
        self.setCurrentIndex(max(0, self.findData(grouping)))

    def offer_settings(self, columns: Sequence[str]) -> None:
        """Settings that have a column can group the runs; the one that does so now stays."""
        wanted = [name for name in columns if name.startswith(SETTING)]
        for place in reversed(range(len(GROUPINGS), self.count())):
            if self.itemData(place) not in (*wanted, self.grouping):
                self.removeItem(place)
        for name in wanted:
            if self.findData(name) < 0:
                self._add_setting(name)

    def _add_setting(self, name: str) -> None:
        self.addItem(self.tr("By {setting}").format(setting=name.removeprefix(SETTING)), name)

    @property
    def grouping(self) -> str:
        return str(self.currentData())

    def _tell(self) -> None:
        self._cockpit.preferences.put(self._KEY, self.grouping)
        self.updateGeometry()
        self.chosen.emit(self.grouping)


def columns_button(cockpit: Cockpit, parent: QWidget) -> QToolButton:
    """Opens the menu of columns; its icon follows the theme."""
    button = QToolButton(parent)
    button.setToolTip(parent.tr("Choose which columns are shown"))
    button.setAccessibleName(parent.tr("Columns"))

    def paint() -> None:
        button.setIcon(icon("settings", cockpit.themes.theme.colour("muted")))

    paint()
    cockpit.themes.changed.connect(paint)
    return button
