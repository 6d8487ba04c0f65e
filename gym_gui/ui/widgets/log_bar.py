"""The tools above a log: whose it is, which of its sources, what to look for, whether to follow it."""

from __future__ import annotations

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QGuiApplication
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QPushButton, QToolButton, QVBoxLayout, QWidget

from gym_gui.ui.models.run_rows import RunRow
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.elided_label import ElidedLabel, cut_name
from gym_gui.ui.widgets.folding_bar import FoldingBar
from gym_gui.ui.widgets.segments import Segments
from gym_gui.ui.widgets.status_badge import StatusBadge


class LogBar(QWidget):
    """``find_asked(backwards)``: go to another place of the words in :attr:`search`."""

    find_asked = pyqtSignal(bool)

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        tr = self.tr
        self.name, self.badge = ElidedLabel(cut=cut_name), StatusBadge(themes)
        self.source = Segments(
            [
                ("both", tr("Both"), tr("Show what the run wrote to stdout and to stderr")),
                ("stdout", tr("stdout"), tr("Show only what the run wrote to stdout")),
                ("stderr", tr("stderr"), tr("Show only what the run wrote to stderr")),
            ]
        )
        self.search = self._make_search()
        self.found = QLabel()
        self.found.setProperty("role", "muted")
        self.previous = self._make_step("‹", tr("Previous place of the words"), backwards=True)
        self.next = self._make_step("›", tr("Next place of the words"), backwards=False)
        self.wrap = _toggle(tr("Wrap"), tr("Break long lines instead of scrolling sideways"))
        help_text = tr("Stay at the end of the log. Scrolling up pauses it; new lines wait meanwhile")
        self.follow = _toggle(tr("Follow"), help_text)
        about = _row(self.name, self.badge, None, self.source)
        tools = _row(self.search, self.previous, self.next, self.found, None, self.wrap, self.follow)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(FoldingBar(about, tools))

    def _make_search(self) -> QLineEdit:
        line = QLineEdit()
        line.setPlaceholderText(self.tr("Search"))
        line.setAccessibleName(self.tr("Search in the log"))
        line.setToolTip(self.tr("Enter goes to the next place, Shift+Enter to the one before"))
        line.setClearButtonEnabled(True)
        line.setMinimumWidth(90)
        line.setMaximumWidth(260)
        line.returnPressed.connect(self._find_by_key)
        return line

    def _make_step(self, sign: str, tooltip: str, *, backwards: bool) -> QPushButton:
        button = QPushButton(sign)
        button.setProperty("kind", "flat")
        button.setFixedWidth(32)
        button.setStyleSheet("padding: 4px;")
        button.setToolTip(tooltip)
        button.setAccessibleName(tooltip)
        button.setEnabled(False)
        button.clicked.connect(lambda _: self.find_asked.emit(backwards))
        return button

    def _find_by_key(self) -> None:
        shifted = QGuiApplication.keyboardModifiers() & Qt.KeyboardModifier.ShiftModifier
        self.find_asked.emit(bool(shifted))

    # ---- showing -------------------------------------------------------------------------------------------------

    def show_run(self, row: RunRow | None, elapsed: str) -> None:
        self.name.setText(row.run.name if row is not None else "")
        self.badge.show_state(row.word if row is not None else "", elapsed)
        for widget in (self.source, self.search, self.follow):
            widget.setEnabled(row is not None)

    def tell_waiting(self, count: int) -> None:
        """Lines that came since someone scrolled up."""
        self.follow.setText(self.tr("Follow ({count} new)").format(count=f"{count:,}") if count else self.tr("Follow"))

    def tell_found(self, count: int) -> None:
        self.found.setText(self.tr("{count} found").format(count=f"{count:,}") if self.search.text() else "")
        for button in (self.next, self.previous):
            button.setEnabled(count > 0)


def _toggle(title: str, help_text: str) -> QToolButton:
    button = QToolButton()
    button.setText(title)
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
    button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    button.setCheckable(True)
    button.setChecked(True)
    button.setToolTip(help_text)
    return button


def _row(*widgets: QWidget | None) -> QWidget:
    """Widgets beside each other; None is what gives way."""
    row = QWidget()
    layout = QHBoxLayout(row)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(8)
    for widget in widgets:
        layout.addStretch(1) if widget is None else layout.addWidget(widget)
    return row
