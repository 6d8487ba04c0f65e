"""A question in its place: what is asked by keyboard is left by keyboard where one was."""

from __future__ import annotations

import pytest
from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QApplication, QLineEdit, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.ui.widgets.ask_bar import AskBar


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Escape])
def test_the_focus_returns_to_where_the_question_came_from(qtbot: QtBot, key: Qt.Key) -> None:
    page, filter_field, button = QWidget(), QLineEdit(), QPushButton("Add")
    name = QLineEdit()
    bar = AskBar(name, harmless=True)
    layout = QVBoxLayout(page)
    for widget in (button, bar, filter_field):
        layout.addWidget(widget)
    qtbot.addWidget(page)
    with qtbot.waitActive(page):
        page.show()
    made: list[str] = []
    button.setFocus()
    for _ in range(2):  # also when somebody asks again before there is an answer
        bar.ask("Make one?", [], ("Make it", "Cancel"), "", lambda: made.append(name.text()))
    name.setFocus()
    qtbot.keyClicks(name, "mine")
    qtbot.keyClick(name, key)
    assert bar.isHidden() and made == (["mine"] if key == Qt.Key.Key_Return else [])
    assert QApplication.focusWidget() is button
