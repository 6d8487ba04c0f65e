"""What can be seen in a cockpit, told over a private socket. It reads; it never touches a widget's state.

Each connection brings one question, and gets a line of JSON: ``look`` lists every widget that can be
seen with its place on the screen, ``focus`` the one that has the keyboard.
"""

from __future__ import annotations

import json
import socket
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from PyQt6 import sip
from PyQt6.QtCore import QObject, QPoint, QRect, QSocketNotifier, Qt
from PyQt6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDockWidget,
    QHeaderView,
    QLabel,
    QLineEdit,
    QMenu,
    QMenuBar,
    QPlainTextEdit,
    QScrollArea,
    QSlider,
    QTabBar,
    QTextEdit,
    QWidget,
)

from gym_gui.ui.main_window import MainWindow
from gym_gui.ui.tab_order import stops
from tools.cockpit_walk.misfits import misfits

_KINDS: tuple[tuple[type[QWidget], str], ...] = (
    (QAbstractButton, "button"),
    (QComboBox, "combo"),
    (QLineEdit, "line"),
    (QAbstractSpinBox, "spin"),
    (QTabBar, "tabs"),
    (QMenuBar, "menubar"),
    (QMenu, "menu"),
    (QHeaderView, "header"),
    (QAbstractItemView, "items"),
    (QPlainTextEdit, "text"),
    (QTextEdit, "text"),
    (QSlider, "slider"),
    (QScrollArea, "scroll"),
    (QLabel, "label"),
)
_MOST_ROWS, _MOST_COLUMNS = 400, 60
_MOST_TEXT = 6000
_PATIENCE_SECONDS = 2.0


class Probe(QObject):
    """Listens on a socket in a folder that only its owner can enter, for as long as the application lives."""

    def __init__(self, path: str, app: QApplication) -> None:
        super().__init__(app)
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(path)
        self._server.listen()
        self._asked = QSocketNotifier(sip.voidptr(self._server.fileno()), QSocketNotifier.Type.Read, self)
        self._asked.activated.connect(self._answer)

    def close(self) -> None:
        self._asked.setEnabled(False)
        self._server.close()

    def _answer(self) -> None:
        """One question per connection, answered at once: nothing changes between the looks at two widgets."""
        client, _ = self._server.accept()
        with client, suppress(OSError):
            client.settimeout(_PATIENCE_SECONDS)
            with client.makefile("r") as questions:
                name, *arguments = questions.readline().split()
            try:
                answer = _ANSWERS[name](*arguments)
            except Exception:  # noqa: BLE001 - the one that asked should read it
                answer = {"error": traceback.format_exc()}
            client.sendall(json.dumps(answer).encode() + b"\n")


def _address(widget: QWidget | None) -> int:
    """Of the widget itself: Python's names for what Qt made come and go."""
    address: Any = sip.unwrapinstance(widget) if widget is not None else 0  # type: ignore[func-returns-value]
    return int(address)


def focus() -> dict[str, Any] | None:
    """The widget that has the keyboard. An item view or a tab bar says which of its entries is the current one."""
    popup = QApplication.activePopupWidget()
    widget = popup if isinstance(popup, QMenu) else QApplication.focusWidget()
    return _described(widget) if widget is not None else None


def at(x: str, y: str) -> list[int]:
    """The widget that a click there would meet, and all that it lies in."""
    widget = QApplication.widgetAt(int(x), int(y))
    return [_address(one) for one in _parents(widget)] if widget is not None else []


def tabs(wanted: str) -> int:
    """How often Tab has to be pressed until a widget, or one of its group, has the focus; -1 if it never gets it."""
    focused = QApplication.focusWidget()
    window = focused.window() if focused is not None else None
    if focused is None or not isinstance(window, MainWindow):
        return -1
    chain = [stop for pane in window._panes._stretches() for stop in stops(pane)]
    here = next((n for n, stop in reversed(list(enumerate(chain))) if stop in list(_parents(focused))), -1)
    there = next((n for n, stop in enumerate(chain) if int(wanted) in (_address(stop), *_group(stop))), -1)
    return (there - here) % len(chain) if there >= 0 else -1


def _group(stop: QWidget) -> list[int]:
    group = stop.group() if isinstance(stop, QAbstractButton) else None
    return [_address(one) for one in group.buttons()] if group is not None and group.exclusive() else []


def judge() -> list[dict[str, Any]]:
    """The widgets in sight with which something is wrong, and what."""
    windows = [window for window in QApplication.topLevelWidgets() if window.isVisible()]
    shown = (one for window in windows for one in _visible(window) if not one.visibleRegion().isEmpty())
    return [{**_described(one), "misfits": wrong} for one in shown if (wrong := misfits(one))]


def look() -> list[dict[str, Any]]:
    """Every widget that is shown, parents before their children, windows as they lie."""
    found: list[dict[str, Any]] = []
    for window in QApplication.topLevelWidgets():
        if window.isVisible():
            _look_into(window, found, _around(window), [_address(one) for one in _parents(window)])
    return found


def _look_into(widget: QWidget, found: list[dict[str, Any]], inside: list[str], parents: list[int]) -> None:
    """Names and parents are handed down: asking for them at every widget would take most of the time."""
    found.append({**_facts(widget), "inside": inside, "parents": parents})
    for child in widget.children():
        if isinstance(child, QWidget) and child.isVisible() and not child.isWindow():
            _look_into(child, found, [*_names(child), *inside], [_address(child), *parents])


def _visible(widget: QWidget) -> Iterator[QWidget]:
    yield widget
    for child in widget.children():
        if isinstance(child, QWidget) and child.isVisible() and not child.isWindow():
            yield from _visible(child)


def _described(widget: QWidget) -> dict[str, Any]:
    parents = [_address(one) for one in _parents(widget)]
    return {**_facts(widget), "inside": _around(widget), "parents": parents}


def _facts(widget: QWidget) -> dict[str, Any]:
    seen = widget.visibleRegion().boundingRect()
    return {
        "id": _address(widget),
        "class": type(widget).__name__,
        "kind": next((kind for base, kind in _KINDS if isinstance(widget, base)), ""),
        "name": widget.objectName(),
        "said": widget.accessibleName(),
        "described": widget.accessibleDescription(),
        "text": _text(widget)[:_MOST_TEXT],
        "tip": widget.toolTip(),
        "hint": widget.placeholderText() if isinstance(widget, QLineEdit | QPlainTextEdit) else "",
        "place": _global(widget, widget.rect()),
        "seen": _global(widget, seen) if not seen.isEmpty() else None,
        "enabled": widget.isEnabled(),
        "focus": widget.hasFocus(),
        "checked": widget.isChecked() if isinstance(widget, QAbstractButton) else False,
        "exclusive": _is_exclusive(widget),
        "window": _address(widget.window()),
        "is_window": widget.isWindow(),
        "modal": widget.isModal(),
        "room": _room(widget),
        "items": list(_items(widget)),
    }


def _parents(widget: QWidget) -> Iterator[QWidget]:
    around: QWidget | None = widget
    while around is not None:
        yield around
        around = around.parentWidget()


def _room(widget: QWidget) -> list[int] | None:
    """The place on the screen in which it is scrolled, where it is."""
    for around in list(_parents(widget))[1:]:
        viewport = around.viewport() if isinstance(around, QScrollArea) else None
        if viewport is not None:
            return _global(viewport, viewport.visibleRegion().boundingRect())
    return None


def _is_exclusive(widget: QWidget) -> bool:
    group = widget.group() if isinstance(widget, QAbstractButton) else None
    return group is not None and group.exclusive()


def _around(widget: QWidget) -> list[str]:
    """Names and classes of all that it lies in, from the inside out; docks by their title as well."""
    return [name for one in _parents(widget) for name in _names(one)]


def _names(widget: QWidget) -> list[str]:
    title = f"dock:{widget.windowTitle()}" if isinstance(widget, QDockWidget) else ""
    return [name for name in (widget.objectName(), type(widget).__name__, title) if name]


def _text(widget: QWidget) -> str:
    if isinstance(widget, QComboBox):
        return widget.currentText()
    if isinstance(widget, QPlainTextEdit | QTextEdit):
        return str(widget.toPlainText())
    if isinstance(widget, QSlider):
        return str(widget.value())
    read = getattr(widget, "text", None)
    try:
        return str(read()) if callable(read) else widget.windowTitle() if widget.isWindow() else ""
    except TypeError:  # a method of another kind with that name
        return ""


def _global(widget: QWidget, inside: QRect) -> list[int]:
    corner = widget.mapToGlobal(inside.topLeft())
    return [corner.x(), corner.y(), inside.width(), inside.height()]


def _entry(text: str, place: list[int], *, current: bool, enabled: bool = True, row: int = 0) -> dict[str, Any]:
    return {"text": text.replace("&", ""), "place": place, "current": current, "enabled": enabled, "row": row}


def _items(widget: QWidget) -> Iterator[dict[str, Any]]:
    if isinstance(widget, QTabBar):
        for number in range(widget.count()):
            if widget.isTabVisible(number):
                place = _global(widget, widget.tabRect(number) & widget.rect())
                yield _entry(widget.tabText(number), place, current=number == widget.currentIndex())
    elif isinstance(widget, QMenu | QMenuBar):
        for action in widget.actions():
            if action.isVisible() and not action.isSeparator():
                place = _global(widget, widget.actionGeometry(action))
                current = action is widget.activeAction()
                yield _entry(action.text(), place, current=current, enabled=action.isEnabled())
    elif isinstance(widget, QHeaderView):
        yield from _headings(widget)
    elif isinstance(widget, QAbstractItemView):
        yield from _rows(widget)


def _headings(header: QHeaderView) -> Iterator[dict[str, Any]]:
    model, viewport = header.model(), header.viewport()
    for number in range(header.count() if header.orientation() == Qt.Orientation.Horizontal else 0):
        if model is None or viewport is None or header.isSectionHidden(number):
            continue
        left = header.sectionViewportPosition(number)
        place = QRect(left, 0, header.sectionSize(number), header.height()) & viewport.rect()
        text = str(model.headerData(number, header.orientation()) or "")
        if not place.isEmpty():
            yield _entry(text, _global(viewport, place), current=header.sortIndicatorSection() == number)


def _rows(view: QAbstractItemView) -> Iterator[dict[str, Any]]:
    model, viewport = view.model(), view.viewport()
    if model is None or viewport is None:
        return
    for row in range(min(model.rowCount(view.rootIndex()), _MOST_ROWS)):
        for column in range(_MOST_COLUMNS):
            index = model.index(row, column, view.rootIndex())
            if not index.isValid():
                break
            place = view.visualRect(index) & viewport.rect()
            if place.isEmpty():
                continue
            text = str(index.data(Qt.ItemDataRole.DisplayRole) or "")
            corner = viewport.mapToGlobal(QPoint(place.x(), place.y()))
            where = [corner.x(), corner.y(), place.width(), place.height()]
            enabled = bool(index.flags() & Qt.ItemFlag.ItemIsEnabled)
            entry = _entry(text, where, current=index.row() == view.currentIndex().row(), enabled=enabled, row=row)
            chosen = view.selectionModel()
            yield {**entry, "chosen": chosen is not None and chosen.isSelected(index)}


_ANSWERS: dict[str, Callable[..., Any]] = {"look": look, "focus": focus, "at": at, "judge": judge, "tabs": tabs}
