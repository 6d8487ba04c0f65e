"""What a walk through the cockpit sees: the probe tells what is there, and what does not fit is named."""

from __future__ import annotations

import struct
import threading
from pathlib import Path

import numpy as np
from PyQt6.QtWidgets import QApplication, QHBoxLayout, QLabel, QLineEdit, QListWidget, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.ui.widgets.empty_page import EmptyPage
from tools.cockpit_walk.eyes import Eyes, Seen, Target, pixels
from tools.cockpit_walk.misfits import misfits
from tools.cockpit_walk.probe import Probe, look


def shown(qtbot: QtBot, *widgets: QWidget, width: int = 400) -> QWidget:
    window = QWidget()
    layout = QVBoxLayout(window)
    for widget in widgets:
        layout.addWidget(widget)
    qtbot.addWidget(window)
    window.resize(width, 200)
    window.show()
    qtbot.waitExposed(window)
    return window


def test_what_can_be_seen_is_told_over_the_socket(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> None:
    listed = QListWidget()
    listed.addItems(["one", "two"])
    listed.setCurrentRow(1)
    window = shown(qtbot, QPushButton("&Launch"), QLabel("a word"), listed)
    probe = Probe(str(tmp_path / "probe"), qapp)
    answers: list[list[Seen]] = []
    asking = threading.Thread(target=lambda: answers.append(Eyes(tmp_path / "probe", tmp_path / "screen").look()))
    asking.start()
    qtbot.waitUntil(lambda: bool(answers), timeout=20_000)
    asking.join()
    probe.close()
    button = next(one for one in answers[0] if Target(text="Launch", kind="button").fits(one))
    assert button.enabled and button.seen is not None and window.isVisible()
    items = next(one for one in answers[0] if one.kind == "items").items
    assert [(item.text, item.current) for item in items] == [("one", False), ("two", True)]


def test_a_target_fits_by_expression_and_by_where_it_lies(qtbot: QtBot) -> None:
    field = QLineEdit()
    field.setAccessibleName("Run name")
    window = shown(qtbot, field, QPushButton("Failed 3"))
    window.setObjectName("panel")
    seen = [Seen(facts) for facts in look()]
    assert [str(one) for one in seen if Target(text="/^failed/", within="panel").fits(one)] == [
        "QPushButton “Failed 3”"
    ]
    assert not [one for one in seen if Target(text="Failed", within="panel").fits(one)]
    assert [one.said for one in seen if Target(said="Run name", kind="line").fits(one)] == ["Run name"]


def test_words_that_are_cut_off_are_named(qtbot: QtBot) -> None:
    label, button = QLabel("a sentence that is far too long for its place"), QPushButton("Cancel the run…")
    wrapped = QLabel("words that go on and on, over several lines")
    wrapped.setWordWrap(True)
    window = shown(qtbot, label, button, wrapped)
    assert window.isVisible()
    assert not misfits(label) and not misfits(button) and not misfits(wrapped)
    label.setFixedWidth(60)
    button.setFixedWidth(40)
    wrapped.setFixedSize(80, 16)
    for widget in (label, button, wrapped):
        assert len(misfits(widget)) == 1 and "cut off" in misfits(widget)[0]


def test_parts_that_lie_over_each_other_are_named(qtbot: QtBot) -> None:
    left, right, row = QPushButton("left"), QPushButton("right"), QWidget()
    layout = QHBoxLayout(row)
    layout.addWidget(left)
    layout.addWidget(right)
    window = shown(qtbot, row)
    assert window.isVisible()
    assert not misfits(left)
    right.move(left.pos())
    assert "lies over it" in misfits(left)[0]


def test_a_dump_of_the_screen_becomes_pixels() -> None:
    header = [0] * 25
    header[0], header[4], header[5], header[12], header[19] = 104, 2, 1, 12, 1
    row = struct.pack("<3I", 0xFF102030, 0x00405060, 0)
    dump = struct.pack(">25I", *header) + b"\0" * 4 + b"\0" * 12 + row
    assert np.array_equal(pixels(dump), np.array([[0x102030, 0x405060]], dtype=np.uint32))


def test_an_empty_page_is_whole_in_a_narrow_dock(qtbot: QtBot) -> None:
    page = EmptyPage("Reading what was recorded…", "Episodes of long runs take a moment.")
    window = shown(qtbot, page, width=120)
    in_one_line = page.title.fontMetrics().horizontalAdvance(page.title.text())
    assert window.width() < in_one_line, "it takes no width from others"
    assert not misfits(page.title) and not misfits(page.text)
