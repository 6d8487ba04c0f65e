"""The newest steps of a run as a table, the newest on top."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PyQt6.QtCore import QModelIndex, QObject, QSize, Qt
from PyQt6.QtGui import QColor, QFont, QIcon
from PyQt6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from gym_gui.ui.icons import icon
from gym_gui.ui.models.headed_table import NOWHERE, HeadedTable
from gym_gui.ui.play.actors import actor_colour, actor_icon, actor_title
from gym_gui.ui.play.steps_ring import StepRing, StepRow
from gym_gui.ui.play.words import signed
from gym_gui.ui.theme import Theme, Themes
from mosaic_protocol.plain_text import one_line

COLUMNS = STEP, WHO, ACTION, REWARD, VALUE = range(5)
DIFFERS = "≠"
_WHO_WIDTH, _MOST_NAME_WIDTH, _BESIDE_NAME = 26, 90, 14


class StepTable(HeadedTable):
    """A view of a ring. Tell it with :meth:`refresh` that the ring took steps."""

    def __init__(self, ring: StepRing, themes: Themes, words: Callable[[Any], str], parent: QObject) -> None:
        tr = parent.tr
        titles = (tr("Step"), "", tr("Action"), tr("Reward"), tr("Value"))
        helps = (
            tr("The step in its episode; after # the step of the run, where the episode's beginning was not seen"),
            tr("Who chose the action"),
            tr("What was done; {sign} where you and the policy chose differently").format(sign=DIFFERS),
            tr("The reward of the step"),
            tr("The return that the policy expected before the step"),
        )
        super().__init__(titles, (STEP, REWARD, VALUE), parent, helps)
        self._ring, self._themes, self._words = ring, themes, words
        self.rows: list[StepRow] = []
        self.names_agents = False
        """Whether several seats or agents make steps in turns: then each step says whose it is."""
        self._icons: dict[tuple[str, str], QIcon] = {}

    def refresh(self) -> None:
        """Show what the ring holds now. Of many new rows the view hears once."""
        self.beginResetModel()
        self.rows = list(self._ring.rows)
        self.names_agents = len({row.agent for row in self.rows}) > 1
        self.endResetModel()

    def row_at(self, place: int) -> StepRow:
        """From the top."""
        return self.rows[-1 - place]

    # ---- Qt ------------------------------------------------------------------------------------------------------

    def rowCount(self, parent: QModelIndex = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row, column = self.row_at(index.row()), index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(row, column)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(column)
        if role == Qt.ItemDataRole.ForegroundRole:
            return self._colour(row, column, self._themes.theme)
        if role == Qt.ItemDataRole.BackgroundRole:
            return self._themes.theme.colour("window") if row.episode % 2 else None
        if role == Qt.ItemDataRole.DecorationRole and column == WHO:
            return self._icon(row.actor)
        if role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
            return self._help(row, column)
        return None

    def _text(self, row: StepRow, column: int) -> str:
        match column:
            case 0:
                return f"{row.number:,}" if row.number is not None else f"#{row.step:,}"
            case 2:
                words = self._words(row.action)
                return f"{words} {DIFFERS}" if row.differs else words
            case 3:
                return signed(row.reward, 3)
            case 4:
                return "" if row.value is None else f"{row.value:,.4g}"
        return one_line(row.agent) if self.names_agents else ""

    def _colour(self, row: StepRow, column: int, theme: Theme) -> QColor | None:
        if row.undone:
            return theme.colour("strong_border")
        if column == REWARD and row.reward:
            return theme.colour("good" if row.reward > 0 else "bad")
        if column == ACTION and row.differs:
            return theme.colour("warning")
        if column == STEP and row.number is None:
            return theme.colour("muted")
        return None

    def _icon(self, actor: str) -> QIcon:
        key = (actor, self._themes.theme.name)
        if key not in self._icons:
            self._icons[key] = icon(actor_icon(actor), actor_colour(actor, self._themes.theme))
        return self._icons[key]

    def _help(self, row: StepRow, column: int) -> str:
        if column == WHO:
            return actor_title(row.actor)
        if column == STEP:
            ended = self.tr(", the last of its episode") if row.ended else ""
            told = self.tr("step {step} of the run, episode {episode}{ended}")
            return told.format(step=f"{row.step:,}", episode=row.episode, ended=ended)
        if row.undone:
            return self.tr("This step was undone; it stays recorded")
        if column == ACTION and row.differs:
            return self.tr("The policy would have chosen: {action}").format(action=self._words(row.advised))
        return self._text(row, column)


class StepView(QTableView):
    """Keeps what a person reads in place: rows come on top only while the top is in sight."""

    def __init__(self, table: StepTable, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setModel(table)
        table.modelReset.connect(self._fit_names)
        self.setAccessibleName(self.tr("Steps, the newest on top"))
        self.setShowGrid(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setIconSize(QSize(15, 15))
        rows, across = self.verticalHeader(), self.horizontalHeader()
        assert rows is not None and across is not None
        rows.hide()
        rows.setDefaultSectionSize(24)
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        across.setHighlightSections(False)
        across.setSectionsClickable(False)
        across.setMinimumSectionSize(24)
        for column, width in ((STEP, 66), (WHO, _WHO_WIDTH), (REWARD, 70), (VALUE, 66)):
            across.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
            self.setColumnWidth(column, width)
        across.setSectionResizeMode(ACTION, QHeaderView.ResizeMode.Stretch)
        bold = QFont(self.font())
        bold.setWeight(QFont.Weight.DemiBold)
        across.setFont(bold)

    def _fit_names(self) -> None:
        table = self.model()
        assert isinstance(table, StepTable)
        name = max((one_line(row.agent) for row in table.rows), key=len) if table.names_agents else ""
        wide = self.fontMetrics().horizontalAdvance(name) + _BESIDE_NAME if name else 0
        self.setColumnWidth(WHO, _WHO_WIDTH + min(wide, _MOST_NAME_WIDTH))

    @property
    def is_at_top(self) -> bool:
        bar = self.verticalScrollBar()
        return bar is None or bar.value() <= 0
