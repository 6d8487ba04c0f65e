"""What an agent learned, painted: four values in each place of its grid, or a row of them for each state."""

from __future__ import annotations

from PyQt6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, pyqtSignal
from PyQt6.QtGui import (
    QColor,
    QFocusEvent,
    QFont,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
)
from PyQt6.QtWidgets import QSizePolicy, QToolTip, QWidget

from gym_gui.ui.icons import icon
from gym_gui.ui.mind.heat import ink, shade
from gym_gui.ui.mind.values import (
    SIDES,
    Cell,
    Shelves,
    Side,
    Span,
    ValueGrid,
    best_of,
    grid_of,
    reading,
    shelves_of,
    short,
    span_of,
)
from gym_gui.ui.theme import Theme, Themes, blended
from mosaic_protocol.mind import ValueTable
from mosaic_protocol.plain_text import one_line

_MOST_CELL = 132.0
_CHIPS_FROM, _NUMBERS_FROM, _WORDS_FROM = 84.0, 58.0, 44.0
"""The least size of a cell that holds numbers with a chip beside them, numbers, and words."""
_HEAD, _GUTTER = 18.0, 34.0
_MIDDLE = Qt.AlignmentFlag.AlignCenter
_DIRECTIONS: dict[Side, tuple[int, int]] = {"left": (-1, 0), "down": (0, 1), "right": (1, 0), "up": (0, -1)}
_EDGES: dict[Side, Qt.AlignmentFlag] = {
    "left": Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter,
    "down": Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignBottom,
    "right": Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter,
    "up": Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop,
}
_MOVES = {Qt.Key.Key_Left: "left", Qt.Key.Key_Right: "right", Qt.Key.Key_Up: "up", Qt.Key.Key_Down: "down"}


class ValueView(QWidget):
    """Shows a table of values. A state can be pointed at with the mouse, or with the arrow keys; ``pointed(str)``
    brings what is known of it, of the agent's own state where nobody points."""

    pointed = pyqtSignal(str)

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.table: ValueTable | None = None
        self.grid: ValueGrid | None = None
        self.span = Span(0.0, 0.0)
        self.pointed_state: int | None = None
        """The state that the keyboard points at."""
        self.paints = 0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(120, 100)
        self.setAccessibleName(self.tr("What the agent expects of its actions"))
        themes.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        return QSize(360, 360)

    def show_table(self, table: ValueTable | None) -> None:
        """The same table as before paints nothing."""
        if table == self.table:
            return
        self.table = table
        self.grid = grid_of(table) if table is not None else None
        self.span = span_of(table) if table is not None else Span(0.0, 0.0)
        if self.pointed_state is not None and self.pointed_state >= self._states:
            self.pointed_state = None
        self._tell()
        self.update()

    # ---- pointing ------------------------------------------------------------------------------------------------

    @property
    def _states(self) -> int:
        return len(self.table.values) if self.table is not None else 0

    def point_at(self, state: int | None) -> None:
        self.pointed_state = state if state is not None and 0 <= state < self._states else None
        self._tell()
        self.update()

    def _tell(self) -> None:
        table = self.table
        at = self.pointed_state if self.pointed_state is not None else table.state if table is not None else None
        told = reading(table, at) if table is not None and at is not None else ""
        self.setAccessibleDescription(told)
        self.pointed.emit(told)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is None or self.table is None or not self._states:
            return
        if event.key() == Qt.Key.Key_Escape and self.pointed_state is not None:
            self.point_at(None)
        elif (move := _MOVES.get(Qt.Key(event.key()))) is not None:
            self._move(*_DIRECTIONS[move])  # type: ignore[index]
        else:
            super().keyPressEvent(event)

    def _move(self, across: int, down: int) -> None:
        at = (
            self.pointed_state
            if self.pointed_state is not None
            else (self.table.state if self.table is not None else None) or 0
        )
        if self.grid is not None:
            column, row = self.grid.place(at)
            column = min(max(column + across, 0), self.grid.columns - 1)
            row = min(max(row + down, 0), self.grid.rows - 1)
            self.point_at(row * self.grid.columns + column)
        else:
            wanted = at + down + across * self._shelves().rows
            self.point_at(wanted if 0 <= wanted < self._states else at)

    def mousePressEvent(self, event: QMouseEvent | None) -> None:
        if event is not None:
            self.point_at(self.state_at(event.position()))
        super().mousePressEvent(event)

    def focusOutEvent(self, event: QFocusEvent | None) -> None:
        super().focusOutEvent(event)
        self.point_at(None)

    def event(self, event: QEvent | None) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip and self.table is not None:
            state = self.state_at(QPointF(event.pos()))
            if state is not None:
                QToolTip.showText(event.globalPos(), reading(self.table, state), self)
                return True
        return super().event(event)

    def state_at(self, place: QPointF) -> int | None:
        if self.grid is not None:
            size, left, top = self._cells(self.grid)
            column, row = (place.x() - left) // size, (place.y() - top) // size
            inside = 0 <= column < self.grid.columns and 0 <= row < self.grid.rows
            return int(row * self.grid.columns + column) if inside else None
        found = self._shelves().state_at(place.x() - _GUTTER, place.y() - _HEAD)
        return found if found is not None and found < self._states else None

    # ---- room ----------------------------------------------------------------------------------------------------

    def _cells(self, grid: ValueGrid) -> tuple[float, float, float]:
        """The size of a cell, and where the first one is."""
        size = max(4.0, min((self.width() - 2) / grid.columns, (self.height() - 2) / grid.rows, _MOST_CELL))
        return size, (self.width() - size * grid.columns) / 2, (self.height() - size * grid.rows) / 2

    def _shelves(self) -> Shelves:
        actions = max((len(row) for row in self.table.values), default=1) if self.table is not None else 1
        room = (max(20.0, self.width() - _GUTTER - 2), max(20.0, self.height() - _HEAD - 2))
        return shelves_of(self._states, actions, *room, gap=_GUTTER)

    # ---- painting ------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent | None) -> None:
        painter, theme = QPainter(self), self._themes.theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.table is None or not self._states:
            painter.setPen(theme.colour("muted"))
            text = self.tr("No table of values: too many states to draw, or nothing learned yet.")
            painter.drawText(self.rect().adjusted(12, 12, -12, -12), _MIDDLE | Qt.TextFlag.TextWordWrap, text)
            return
        self.paints += 1
        if self.grid is not None:
            self._paint_grid(painter, theme, self.grid)
        else:
            self._paint_shelves(painter, theme, self.table)

    def _paint_grid(self, painter: QPainter, theme: Theme, grid: ValueGrid) -> None:
        size, left, top = self._cells(grid)
        rooms = {}
        for cell in grid.cells:
            column, row = grid.place(cell.state)
            room = rooms[cell.state] = QRectF(left + column * size, top + row * size, size, size)
            if cell.values is None:
                self._paint_end(painter, theme, cell, room)
            else:
                self._paint_values(painter, theme, cell, room)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(theme.colour("strong_border"), 1))
        painter.drawRect(QRectF(left, top, size * grid.columns, size * grid.rows))
        if grid.agent is not None:
            self._paint_agent(painter, theme, rooms[grid.agent])
        self._paint_cursor(painter, theme, rooms.get(self.pointed_state) if self.pointed_state is not None else None)

    def _paint_values(self, painter: QPainter, theme: Theme, cell: Cell, room: QRectF) -> None:
        assert cell.values is not None
        middle = room.center()
        corners = {
            "left": (room.topLeft(), room.bottomLeft()),
            "down": (room.bottomLeft(), room.bottomRight()),
            "right": (room.topRight(), room.bottomRight()),
            "up": (room.topLeft(), room.topRight()),
        }
        grounds = {}
        painter.setPen(QPen(theme.colour("window"), 1))
        for side, value in zip(SIDES, cell.values, strict=True):
            grounds[side] = shade(self.span.share(value), theme.name)
            painter.setBrush(QColor(*grounds[side]))
            painter.drawPolygon(QPolygonF([*corners[side], middle]))
        if room.width() >= _NUMBERS_FROM:
            self._paint_numbers(painter, cell, room, grounds)
        if cell.kind == "start" and room.width() >= _CHIPS_FROM:
            self._paint_chip(painter, theme, room, self.tr("start"))
        self._paint_arrows(painter, cell, room)

    def _paint_numbers(
        self, painter: QPainter, cell: Cell, room: QRectF, grounds: dict[Side, tuple[int, int, int]]
    ) -> None:
        assert cell.values is not None
        high = max(10.0, min(13.0, room.width() * 0.125))
        inside = room.adjusted(4, 2, -4, -2)
        for side, value in zip(SIDES, cell.values, strict=True):
            font = QFont(self.font())
            font.setPixelSize(int(high))
            font.setWeight(QFont.Weight.Bold if side in cell.best else QFont.Weight.Normal)
            painter.setFont(font)
            painter.setPen(QColor(*ink(grounds[side])))
            painter.drawText(inside, _EDGES[side], short(value))

    def _paint_arrows(self, painter: QPainter, cell: Cell, room: QRectF) -> None:
        if not cell.best:
            return
        radius = max(3.0, min(15.0, room.width() * 0.13))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(12, 16, 24, 190))
        painter.drawEllipse(room.center(), radius, radius)
        painter.setPen(QPen(QColor("white"), max(1.0, radius * 0.14), cap=Qt.PenCapStyle.RoundCap))
        for side in cell.best:
            _arrow(painter, room.center(), _DIRECTIONS[side], radius * 0.62)

    def _paint_end(self, painter: QPainter, theme: Theme, cell: Cell, room: QRectF) -> None:
        inside = room.adjusted(0.5, 0.5, -0.5, -0.5)
        words = {"hole": self.tr("hole"), "goal": self.tr("goal"), "wall": "", "start": self.tr("end")}
        word = words.get(cell.kind, "")
        is_goal, is_wall = cell.kind == "goal", cell.kind == "wall"
        dark = theme.colour("field" if theme.name == "dark" else "raised")  # a hole is darker than what is around it
        ground = blended(theme.colour("good"), theme.colour("panel"), 0.22) if is_goal else dark
        painter.setPen(QPen(theme.colour("window"), 1))
        painter.setBrush(theme.colour("strong_border") if is_wall else ground)
        painter.drawRect(inside)
        if is_wall:
            return
        painter.setBrush(Qt.BrushStyle.NoBrush)
        size = room.width()
        if is_goal:
            if size >= 22:
                _flag(painter, room, theme.colour("good"))
        else:
            painter.setPen(QPen(theme.colour("strong_border"), 1.5))
            painter.drawEllipse(room.center(), size * 0.25, size * 0.25)
        if size >= _WORDS_FROM:
            font = QFont(self.font())
            font.setPixelSize(int(max(9.0, min(12.0, size * 0.12))))
            painter.setFont(font)
            painter.setPen(theme.pill_text("good") if is_goal else theme.colour("muted"))
            painter.drawText(room.adjusted(0, size * 0.62, 0, 0) if is_goal else room, _MIDDLE, word)

    def _paint_chip(self, painter: QPainter, theme: Theme, room: QRectF, word: str) -> None:
        font = QFont(self.font())
        font.setPixelSize(10)
        painter.setFont(font)
        wide = painter.fontMetrics().horizontalAdvance(word) + 8
        chip = QRectF(room.left() + 3, room.top() + 3, wide, 15)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(12, 16, 24, 215))
        painter.drawRoundedRect(chip, 3, 3)
        painter.setPen(QColor("white"))
        painter.drawText(chip, _MIDDLE, word)

    def _paint_agent(self, painter: QPainter, theme: Theme, room: QRectF) -> None:
        colour = theme.curve(1)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(colour, 3))
        painter.drawRect(room.adjusted(1.5, 1.5, -1.5, -1.5))
        radius = max(3.0, min(17.0, room.width() * 0.15))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colour)
        painter.drawEllipse(room.center(), radius, radius)
        if radius >= 9:
            side = int(radius * 1.25)
            picture = icon("worker", QColor("black")).pixmap(QSize(side, side))
            painter.drawPixmap(QPointF(room.center().x() - side / 2, room.center().y() - side / 2), picture)

    def _paint_cursor(self, painter: QPainter, theme: Theme, room: QRectF | None) -> None:
        if room is not None and self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(theme.colour("window"), 4))
            painter.drawRect(room.adjusted(1, 1, -1, -1))
            painter.setPen(QPen(theme.colour("text"), 2))
            painter.drawRect(room.adjusted(1, 1, -1, -1))
        elif self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(theme.colour("accent"), 2))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 6, 6)

    # ---- a table -------------------------------------------------------------------------------------------------

    def _paint_shelves(self, painter: QPainter, theme: Theme, table: ValueTable) -> None:
        shelves = self._shelves()
        ends = frozenset(table.terminal)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        small = QFont(self.font())
        small.setPixelSize(10)
        painter.setFont(small)
        self._paint_heads(painter, theme, table, shelves)
        has_numbers = shelves.wide >= 30 and shelves.high >= 13
        for state, row in enumerate(table.values):
            x, y = shelves.place(state)
            best = best_of(row)
            for place, value in enumerate(row):
                room = QRectF(_GUTTER + x + place * shelves.wide, _HEAD + y, shelves.wide, shelves.high)
                if state in ends:
                    painter.fillRect(room, theme.colour("field"))
                    continue
                ground = shade(self.span.share(value), theme.name)
                painter.fillRect(room.adjusted(0, 0, -1, -1) if shelves.high > 5 else room, QColor(*ground))
                if has_numbers:
                    small.setBold(place in best)
                    painter.setFont(small)
                    painter.setPen(QColor(*ink(ground)))
                    painter.drawText(room, _MIDDLE, short(value))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if table.state is not None and 0 <= table.state < self._states:
            self._paint_mark(painter, shelves, table.state, theme.curve(1))
        if self.pointed_state is not None and self.hasFocus():
            self._paint_mark(painter, shelves, self.pointed_state, theme.colour("text"))
        elif self.hasFocus():
            self._paint_cursor(painter, theme, None)

    def _paint_heads(self, painter: QPainter, theme: Theme, table: ValueTable, shelves: Shelves) -> None:
        """Names of actions above each shelf, and numbers of states beside it where they fit."""
        painter.setPen(theme.colour("muted"))
        metrics = painter.fontMetrics()
        every = next(step for step in (1, 2, 5, 10, 20, 50, 100, 1000) if step * shelves.high >= 12 or step == 1000)
        for shelf in range(shelves.shelves):
            left = _GUTTER + shelf * shelves.shelf_width
            for place in range(shelves.actions):
                name = one_line(table.actions[place]) if place < len(table.actions) else str(place)
                fits = metrics.horizontalAdvance(name) <= shelves.wide - 2
                shown = name if fits else metrics.elidedText(name, Qt.TextElideMode.ElideRight, int(shelves.wide - 1))
                shown = name[:1] if shown in ("", "…") else shown
                painter.drawText(QRectF(left + place * shelves.wide, 0, shelves.wide, _HEAD), _MIDDLE, shown)
            for row in range(0, shelves.rows, every):
                state = shelf * shelves.rows + row
                if state < self._states:
                    room = QRectF(left - _GUTTER, _HEAD + row * shelves.high - 6 + min(shelves.high, 12) / 2, 30, 12)
                    painter.drawText(room, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, str(state))

    def _paint_mark(self, painter: QPainter, shelves: Shelves, state: int, colour: QColor) -> None:
        x, y = shelves.place(state)
        room = QRectF(_GUTTER + x, _HEAD + y, shelves.wide * shelves.actions, shelves.high)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(colour, 2))
        painter.drawRect(room.adjusted(-1.5, -1.5, 1.5, 1.5))


class ValueScale(QWidget):
    """From low to high: what the colours mean."""

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.span = Span(0.0, 0.0)
        self.says_its_name = False
        """Whether it has its name between the ends, where there is no room for a heading."""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("What the colours of values mean"))
        self.setToolTip(self.tr("The return that the agent expects of an action: the brighter blue, the more"))
        themes.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        return QSize(140, 30)

    def show_span(self, span: Span) -> None:
        if span != self.span:
            self.span = span
            self.setAccessibleDescription(f"{short(span.low)} – {short(span.high)}")
            self.update()

    def say_its_name(self, wanted: bool) -> None:
        self.says_its_name = wanted
        self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        painter, theme = QPainter(self), self._themes.theme
        for x in range(self.width()):
            painter.setPen(QColor(*shade(x / max(1, self.width() - 1), theme.name)))
            painter.drawLine(x, 0, x, 9)
        painter.setPen(theme.colour("muted"))
        room = QRectF(0, 11, self.width(), 18)
        low, high = self.span.low, self.span.high
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(room, middle | Qt.AlignmentFlag.AlignLeft, short(low))
        painter.drawText(room, middle | Qt.AlignmentFlag.AlignRight, short(high))
        if self.says_its_name:
            painter.drawText(room, _MIDDLE, self.tr("expected return"))
        elif high > low:
            painter.drawText(room, _MIDDLE, short((low + high) / 2))


def _arrow(painter: QPainter, middle: QPointF, direction: tuple[int, int], length: float) -> None:
    x, y = direction
    tip = middle + QPointF(x * length, y * length)
    painter.drawLine(middle - QPointF(x * length, y * length), tip)
    barb = length * 0.6
    for turn in (-1, 1):
        painter.drawLine(tip, tip - QPointF((x - turn * y) * barb, (y + turn * x) * barb))


def _flag(painter: QPainter, room: QRectF, colour: QColor) -> None:
    size = room.width() * 0.24
    left, top = room.center().x() - size * 0.6, room.center().y() - size * 1.1
    painter.setPen(QPen(colour, max(1.5, size * 0.09)))
    painter.drawLine(QPointF(left, top), QPointF(left, top + size * 1.7))
    ends = [(0.0, 0.0), (1.3, 0.0), (1.0, 0.42), (1.3, 0.85), (0.0, 0.85)]
    painter.drawPolyline(QPolygonF([QPointF(left + x * size, top + y * size) for x, y in ends]))
