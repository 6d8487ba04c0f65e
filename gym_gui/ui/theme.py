"""Two looks, dark and light: a palette and a little style sheet on Qt's Fusion style.

Colours are named by what they are for. Widgets ask :func:`current` when they paint, and follow :attr:`Themes.changed`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from string import Template

from PyQt6.QtCore import QObject, pyqtSignal
from PyQt6.QtGui import QColor, QPalette
from PyQt6.QtWidgets import QApplication, QStyleFactory

from gym_gui.services.charts.drawing import CURVES_DARK, CURVES_LIGHT

PILL_TINT = 0.15
_PILL_TEXT = 0.6


def blended(upper: QColor, lower: QColor, share: float) -> QColor:
    """What is seen of one colour over another, ``share`` of it being opaque."""
    channels = zip((upper.red(), upper.green(), upper.blue()), (lower.red(), lower.green(), lower.blue()), strict=True)
    return QColor(*(round(one * share + other * (1 - share)) for one, other in channels))


@dataclass(frozen=True)
class Theme:
    """The colours of one look."""

    name: str
    window: str
    panel: str
    field: str
    raised: str
    border: str
    strong_border: str
    text: str
    muted: str
    accent: str
    """Lines, dots and words that are to be noticed; what is filled with colour has ``fill`` instead."""
    fill: str
    on_fill: str
    good: str
    warning: str
    bad: str
    idle: str
    selection: str
    curves: tuple[str, ...]

    def colour(self, name: str) -> QColor:
        return QColor(getattr(self, name))

    def pill_text(self, name: str) -> QColor:
        """For words on a tint of the colour: the colour itself is too near to it to be read well."""
        return blended(self.colour(name), self.colour("text"), _PILL_TEXT)

    def curve(self, number: int) -> QColor:
        """The colour of the nth of several curves; they repeat when there are many."""
        return QColor(self.curves[number % len(self.curves)])


DARK = Theme(
    name="dark",
    window="#1b1e25",
    panel="#20242c",
    field="#15181d",
    raised="#2a2f39",
    border="#2f3541",
    strong_border="#465063",
    text="#e3e7ee",
    muted="#a6b0c1",
    accent="#62a8ff",
    fill="#1f6fe0",
    on_fill="#ffffff",
    good="#45bd82",
    warning="#e0a73a",
    bad="#f58885",
    idle="#9ca6b8",
    selection="#243750",
    curves=CURVES_DARK,
)
LIGHT = Theme(
    name="light",
    window="#f4f5f8",
    panel="#ffffff",
    field="#ffffff",
    raised="#e9ecf1",
    border="#d9dde5",
    strong_border="#b3bac7",
    text="#1c2230",
    muted="#566073",
    accent="#1a62c8",
    fill="#1f6fe0",
    on_fill="#ffffff",
    good="#147345",
    warning="#855500",
    bad="#b8302c",
    idle="#5d6676",
    selection="#d9e7fd",
    curves=CURVES_LIGHT,
)
ASSETS = Path(__file__).with_name("assets")
THEMES = {theme.name: theme for theme in (DARK, LIGHT)}

_SHEET = Template("""
* { outline: none; }
QMainWindow, QDialog { background: $window; }
QMainWindow::separator { background: $border; width: 1px; height: 1px; }
QMainWindow::separator:hover { background: $accent; }
QToolTip { background: $raised; color: $text; border: 1px solid $strong_border; padding: 4px 6px; }
QDockWidget { color: $muted; font-weight: 600; }
QDockWidget::title { background: $window; padding: 8px 12px 6px 12px; text-align: left; }
/* Names of runs, tags and errors are the text of others; a label whose markup is ours has the property "rich". */
QLabel { qproperty-textFormat: PlainText; }
QLabel[rich="true"] { qproperty-textFormat: RichText; }
QLabel[role="muted"] { color: $muted; }
QLabel[role="small"] { color: $muted; font-size: 11px; }
QLabel[role="title"] { font-size: 15px; font-weight: 600; }
QLabel[role="huge"] { font-size: 26px; font-weight: 600; }
QLabel[role="section"] { color: $muted; font-weight: 600; font-size: 11px; }
QLabel[role="error"] { color: $bad; }
QLabel[role="warning"] { color: $warning; }
QLabel[role="good"] { color: $good; }
QFrame[role="card"] { background: $panel; border: 1px solid $border; border-radius: 8px; }
QFrame[role="card"][selected="true"], QFrame[role="card"]:focus { border: 1px solid $accent; }
QFrame[role="drop"] { background: $accent; border: none; border-radius: 1px; }
QFrame[role="floating"] { background: $panel; border: 1px solid $accent; border-radius: 8px; }
QFrame[role="banner"] { background: $raised; border: 1px solid $border; border-radius: 6px; }
QFrame[role="line"] { background: $border; border: none; max-height: 1px; }
QPushButton {
    background: $raised; color: $text; border: 1px solid $border; border-radius: 6px;
    padding: 6px 14px; min-height: 18px;
}
QPushButton:hover { border-color: $strong_border; }
QPushButton:pressed { background: $field; }
QPushButton:focus { border-color: $accent; }
QPushButton:disabled { color: $muted; background: transparent; }
QPushButton[kind="primary"] { background: $fill; color: $on_fill; border-color: $fill; font-weight: 600; }
QPushButton[kind="primary"]:disabled { background: $raised; color: $muted; border-color: $border; }
QPushButton[kind="danger"] { color: $bad; }
QPushButton[kind="danger"]:disabled { color: $muted; }
QPushButton[kind="flat"], QToolButton { background: transparent; border: 1px solid transparent; }
QPushButton[kind="flat"]:hover, QToolButton:hover { background: $raised; }
QToolButton { border-radius: 6px; padding: 4px; color: $text; }
QToolButton:focus { border-color: $accent; }
QToolButton:checked { background: $selection; }
QPushButton[kind="tag"] { padding: 2px 8px; min-height: 16px; border-radius: 5px; }
QPushButton[kind="segment"] { border-radius: 0; padding: 6px 10px; }
QPushButton[kind="segment"]:checked { background: $fill; color: $on_fill; border-color: $fill; }
QLineEdit, QPlainTextEdit, QTextEdit, QTextBrowser, QComboBox, QSpinBox, QDoubleSpinBox {
    background: $field; color: $text; border: 1px solid $border; border-radius: 6px; padding: 5px 8px;
    selection-background-color: $fill; selection-color: $on_fill;
    placeholder-text-color: $muted;
}
QComboBox QLineEdit { border: none; padding: 0; background: transparent; }
QLineEdit:hover, QComboBox:hover, QSpinBox:hover { border-color: $strong_border; }
QLineEdit:focus, QPlainTextEdit:focus, QTextEdit:focus, QComboBox:focus, QSpinBox:focus { border-color: $accent; }
QLineEdit[invalid="true"], QComboBox[invalid="true"] { border-color: $bad; }
QLineEdit:disabled, QComboBox:disabled, QSpinBox:disabled { color: $muted; background: $panel; }
QComboBox QAbstractItemView {
    background: $panel; border: 1px solid $strong_border; selection-background-color: $selection;
}
QComboBox::drop-down { border: none; width: 24px; }
QComboBox::down-arrow { image: url("$assets/down-$name.svg"); width: 12px; height: 12px; }
QSpinBox::up-button, QDoubleSpinBox::up-button, QSpinBox::down-button, QDoubleSpinBox::down-button {
    background: transparent; border: none; width: 20px;
}
QSpinBox::up-arrow, QDoubleSpinBox::up-arrow { image: url("$assets/up-$name.svg"); width: 10px; height: 10px; }
QSpinBox::down-arrow, QDoubleSpinBox::down-arrow { image: url("$assets/down-$name.svg"); width: 10px; height: 10px; }
QCheckBox::indicator, QTableView::indicator, QListView::indicator {
    width: 15px; height: 15px; border: 1px solid $strong_border; border-radius: 4px; background: $field;
}
QCheckBox::indicator:checked, QTableView::indicator:checked, QListView::indicator:checked {
    background: $fill; border-color: $fill; image: url("$assets/check.svg");
}
QCheckBox::indicator:focus { border-color: $accent; }
QCheckBox::indicator:disabled { background: $panel; border-color: $border; }
QCheckBox, QRadioButton { spacing: 8px; }
QTabWidget::pane { border: none; border-top: 1px solid $border; }
QTabBar { qproperty-drawBase: 0; }
QTabBar::tab { background: transparent; color: $muted; padding: 8px 14px; border-bottom: 2px solid transparent; }
QTabBar[close="true"]::tab { padding: 8px 5px; }
QTabBar::tab:selected { color: $text; border-bottom: 2px solid $accent; }
QTabBar::tab:hover { color: $text; }
QTabBar::tab:focus { color: $accent; }
QHeaderView { font-weight: 600; } /* titles are cut by the measure of this font, not of the section's */
QHeaderView::section {
    background: $window; color: $muted; border: none; border-bottom: 1px solid $border;
    padding: 6px 8px; font-weight: 600;
}
QTableView, QTreeView, QListView {
    background: $panel; alternate-background-color: $window; border: none; gridline-color: $border;
    selection-background-color: $selection; selection-color: $text;
}
QTableView::item, QTreeView::item, QListView::item { padding: 3px 6px; }
QTableCornerButton::section { background: $window; border: none; }
QScrollArea, QScrollArea > QWidget > QWidget { background: transparent; border: none; }
QScrollBar:vertical { background: transparent; width: 10px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 10px; margin: 0; }
QScrollBar::handle { background: $strong_border; border-radius: 4px; min-height: 28px; min-width: 28px; margin: 1px; }
QScrollBar::handle:hover { background: $muted; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QProgressBar {
    background: $field; border: 1px solid $border; border-radius: 6px; text-align: center; min-height: 16px;
}
QProgressBar::chunk { background: $accent; border-radius: 5px; }
QSplitter::handle { background: $border; }
QSplitter::handle:hover { background: $accent; }
QMenuBar { background: $window; }
QMenuBar::item { padding: 5px 10px; background: transparent; }
QMenuBar::item:selected { background: $raised; }
QMenu { background: $panel; border: 1px solid $strong_border; padding: 4px; }
QMenu::item { padding: 6px 28px 6px 14px; border-radius: 4px; }
QMenu::item:selected { background: $selection; }
QMenu::item:disabled { color: $muted; }
QMenu::separator { height: 1px; background: $border; margin: 4px 8px; }
QStatusBar { background: $window; color: $muted; border-top: 1px solid $border; }
QStatusBar::item { border: none; }
QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 0; }
QGroupBox { border: none; margin-top: 18px; font-weight: 600; }
QGroupBox::title { subcontrol-origin: margin; color: $muted; }
""")

# Where the keyboard is: two pixels, and at least 3:1 against what is inside and outside of the ring.
_FOCUS_RINGS = Template("""
QPushButton:focus { border: 2px solid $accent; padding: 5px 13px; }
QPushButton[kind="segment"]:focus { padding: 5px 9px; }
QPushButton[kind="tag"]:focus { padding: 1px 7px; }
QPushButton[kind="primary"]:focus, QPushButton[kind="segment"]:checked:focus {
    background: #1f6fe0; border: 2px solid $text;
}
QPushButton[kind="primary"]:focus:disabled { background: $raised; }
QToolButton:focus { border: 2px solid $accent; padding: 3px; }
QCheckBox::indicator:focus { border: 2px solid $text; }
QTabBar:focus { border-bottom: 2px solid $accent; }
QListView::item:focus { border: 2px solid $accent; padding: 1px 4px; }
""")


class Themes(QObject):
    """The look of the application. ``changed(Theme)`` follows a switch."""

    changed = pyqtSignal(object)

    def __init__(self, app: QApplication, name: str = "dark") -> None:
        super().__init__(app)
        self._app = app
        self.theme = THEMES.get(name, DARK)
        app.setStyle(QStyleFactory.create("Fusion"))  # once: it makes Qt polish every widget again
        self._apply()

    def use(self, name: str) -> None:
        """Switch to a look by its name; an unknown one is taken for dark."""
        theme = THEMES.get(name, DARK)
        if theme != self.theme:
            self.theme = theme
            self._apply()
            self.changed.emit(theme)

    def toggle(self) -> None:
        self.use("light" if self.theme.name == "dark" else "dark")

    def _apply(self) -> None:
        self._app.setPalette(_palette(self.theme))
        colours = {one.name: getattr(self.theme, one.name) for one in fields(Theme) if one.name != "curves"}
        sheets = (_SHEET, _FOCUS_RINGS)
        self._app.setStyleSheet("".join(sheet.substitute(colours, assets=ASSETS.as_posix()) for sheet in sheets))


def _palette(theme: Theme) -> QPalette:
    role = QPalette.ColorRole
    palette = QPalette()
    for target, name in (
        (role.Window, "window"),
        (role.WindowText, "text"),
        (role.Base, "field"),
        (role.AlternateBase, "window"),
        (role.ToolTipBase, "raised"),
        (role.ToolTipText, "text"),
        (role.Text, "text"),
        (role.PlaceholderText, "muted"),
        (role.Button, "raised"),
        (role.ButtonText, "text"),
        (role.BrightText, "bad"),
        (role.Link, "accent"),
        (role.Highlight, "fill"),
        (role.HighlightedText, "on_fill"),
        (role.Mid, "border"),
        (role.Light, "strong_border"),
        (role.Dark, "border"),
    ):
        palette.setColor(target, theme.colour(name))
    for target in (role.Text, role.WindowText, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, target, theme.colour("muted"))
    return palette
