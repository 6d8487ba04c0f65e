"""Everything in the window can be found, named and reached: by keyboard, by a screen reader, by a translator."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from PyQt6.QtCore import QRect, Qt
from PyQt6.QtGui import QFont
from PyQt6.QtWidgets import QAbstractButton, QApplication, QComboBox, QLineEdit, QPushButton, QToolButton, QWidget
from pytestqt.qtbot import QtBot

import gym_gui.ui
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.whole_window import HANG, OpenWhole, open_whole, toy_form, train_dock
from gym_gui.ui.app import CockpitApp

__all__ = ["open_whole"]

SAID = {"setText", "setToolTip", "setPlaceholderText", "setWindowTitle", "setAccessibleName", "setStatusTip"}
MADE = {"QLabel", "QPushButton", "QToolButton", "QCheckBox", "QRadioButton", "QGroupBox", "QAction"}
KEYS_OF_PARTS = {"Ctrl+C", "Ctrl+Z", "Ctrl+Alt+Z", "Alt+Home", "Alt+Left", "Alt+Right"}
"""What lines of text, sessions, labels and charts answer to by themselves."""
ROOT = Path(__file__).resolve().parents[3]
NOT_TRANSLATED = {"MOSAIC", "CartPole-v1"}


@pytest.fixture
def full(open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot) -> CockpitApp:
    """A window in which every page was made once: both forms, the checkpoints, a run."""
    cockpit = open_whole(daemon)
    qtbot.waitUntil(lambda: toy_form(cockpit) is not None, timeout=HANG)
    run_id = daemon.submit(total_timesteps=5)
    qtbot.waitUntil(lambda: cockpit.window.cockpit.runs.get(run_id) is not None, timeout=HANG)
    cockpit.window.cockpit.selection.select([run_id])
    dock = train_dock(cockpit)
    dock.workers.choose("cleanrl")
    dock.presets_button.setChecked(True)
    for name in cockpit.window.docks:
        cockpit.window.show_part(name)
    return cockpit


def _described(widget: QWidget) -> str:
    parents: list[str] = []
    above = widget.parentWidget()
    while above is not None and len(parents) < 4:
        parents.append(type(above).__name__)
        above = above.parentWidget()
    text = widget.text() if isinstance(widget, QAbstractButton | QLineEdit) else ""
    return f"{type(widget).__name__} {widget.objectName()!r} {text!r} in {' < '.join(parents)}"


def _is_ours(widget: QWidget) -> bool:
    """Not one that Qt puts inside its own widgets: the line of a spin box, scroll arrows."""
    above = widget.parentWidget()
    inside = ("QSpinBox", "QComboBox", "QLineEdit", "QDockWidget", "QTabBar", "QTableView", "RunView", "QMenuBar")
    return above is not None and not any(above.inherits(kind) for kind in inside) and not _of_qt(widget)


def _of_qt(widget: QWidget) -> bool:
    return widget.objectName().startswith("qt_")


def _is_one_of_a_group(widget: QWidget) -> bool:
    """Tab reaches the chosen one of a group, the arrow keys the others."""
    return isinstance(widget, QAbstractButton) and widget.group() is not None


def _is_put_away(widget: QWidget) -> bool:
    """A button that has nothing to offer just now."""
    return isinstance(widget, QAbstractButton) and widget.isHidden() and not widget.text() and widget.icon().isNull()


def test_every_control_has_a_name_and_every_button_says_what_it_does(full: CockpitApp) -> None:
    nameless, silent = [], []
    for kind in (QAbstractButton, QLineEdit, QComboBox):
        for widget in full.window.findChildren(kind):
            if not _is_ours(widget) or _is_put_away(widget):
                continue
            text = widget.text() if isinstance(widget, QAbstractButton) else ""
            if not (widget.accessibleName() or text or widget.toolTip()):
                nameless.append(_described(widget))
            if isinstance(widget, QPushButton | QToolButton) and not widget.toolTip():
                silent.append(_described(widget))
    assert "\n".join(sorted({*nameless, *silent})) == ""


def test_every_enabled_control_can_have_the_focus(full: CockpitApp) -> None:
    stuck = [
        _described(widget)
        for kind in (QAbstractButton, QLineEdit, QComboBox)
        for widget in full.window.findChildren(kind)
        if _is_ours(widget) and not widget.focusPolicy() & Qt.FocusPolicy.TabFocus and not _is_one_of_a_group(widget)
    ]
    assert "\n".join(sorted(set(stuck))) == ""


def test_every_command_says_what_it_does_and_is_in_a_menu(full: CockpitApp) -> None:
    commands = full.window.cockpit.commands.all()
    assert [command.name for command, _ in commands if not command.help.strip()] == []
    menus = {command.name: command.menu.split("/")[0] for command, _ in commands}
    assert [name for name, menu in menus.items() if menu not in ("File", "Run", "View", "Help")] == []


def test_menus_and_keys_that_the_guides_name_are_there(make_cockpit: MakeCockpit) -> None:
    commands = make_cockpit(parts=None).window.cockpit.commands.all()
    menus = {" › ".join([*command.menu.split("/"), action.text()]) for command, action in commands}
    menus |= {command.menu.replace("/", " › ") for command, _ in commands}
    keys = {command.shortcut for command, _ in commands} | KEYS_OF_PARTS
    wrong = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text(encoding="utf-8")
        named = [(path, menus) for path in re.findall(r"\*((?:File|Run|View|Help) › [^*]+)\*", text)]
        named += [(key, keys) for key in re.findall(r"`((?:Ctrl|Alt)\+[A-Za-z0-9+]+|F\d+)`", text)]
        wrong += [f"{page.name}: {name}" for name, there in named if name not in there]
    assert wrong == []


def test_the_window_fits_a_screen_of_1024_by_600(full: CockpitApp, qtbot: QtBot) -> None:
    window = full.window
    window.show_part("metrics")
    train_dock(full).workers.choose("toy")
    least = window.minimumSizeHint()
    assert least.width() <= 1024 and least.height() <= 600, (least.width(), least.height())
    window.resize(1024, 600)
    QApplication.processEvents()
    assert (window.width(), window.height()) == (1024, 600)
    form = toy_form(full)
    assert form is not None
    for button in (form.bar.launch_button, form.bar.dry_run_button):
        corner = button.mapTo(window, button.rect().topLeft())
        assert window.rect().contains(QRect(corner, button.size())), "it must be seen without scrolling"
        assert button.visibleRegion().boundingRect().height() >= button.height() - 1
    qtbot.waitUntil(form.bar.launch_button.isEnabled, timeout=HANG)
    form.bar.launch_button.setFocus()
    qtbot.keyClick(form.bar.launch_button, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: len(window.cockpit.runs) == 2, timeout=HANG)


def test_a_font_that_is_missing_changes_nothing_that_matters(open_whole: OpenWhole, qapp: QApplication) -> None:
    before = qapp.font()
    try:
        qapp.setFont(QFont("No Such Family At All", 11))
        cockpit = open_whole(connect=False)
        QApplication.processEvents()
        assert not cockpit.window.grab().isNull()
    finally:
        qapp.setFont(before)


# ---- for translators -------------------------------------------------------------------------------------------------


def _bare(node: ast.expr) -> bool:
    words = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.JoinedStr):
        return False  # pieces put together: numbers and units, which a test cannot distinguish from sentences
    return isinstance(words, str) and words not in NOT_TRANSLATED and any(letter.isalpha() for letter in words)


def _untranslated(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        said = node.args[:1] if name in SAID | MADE else node.args if name == "addTab" else []
        if any(_bare(argument) for argument in said):
            yield node.lineno, ast.unparse(node)


def test_what_a_person_reads_can_be_translated() -> None:
    root = Path(gym_gui.ui.__file__).parent
    found = [
        f"{file.relative_to(root)}:{line}: {call}"
        for file in sorted(root.rglob("*.py"))
        for line, call in _untranslated(ast.parse(file.read_text()))
    ]
    assert found == []
