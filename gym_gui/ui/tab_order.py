"""Where Tab goes: through one pane after the other, and in each as it is laid out.

Qt's own chain follows the order in which widgets were made. Forms are made when a worker is first chosen, and fields
when the flags of a script are known, so that what matters most would come last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QLayout,
    QScrollArea,
    QSplitter,
    QStackedWidget,
    QTabWidget,
    QWidget,
)

_WHOLE = (QAbstractItemView, QAbstractSpinBox, QComboBox)
"""What is inside these is theirs."""


def stops(root: QWidget) -> list[QWidget]:
    """Everything in a widget, itself included, that Tab can reach now, in the order of its layouts."""
    return list(_stops(root))


def neighbour(panes: Sequence[QWidget], focused: QWidget | None, *, forwards: bool) -> QWidget | None:
    """What comes next after the focused widget, around the end to the beginning; None where nothing can be reached."""
    chain = [stop for pane in panes for stop in _stops(pane)]
    if not chain:
        return None
    places = [number for number, stop in enumerate(chain) if _is_in(stop, focused)]
    if not places:
        return chain[0] if forwards else chain[-1]
    return chain[(places[-1] + (1 if forwards else -1)) % len(chain)]  # the innermost of several comes last


def pane_of(panes: Sequence[QWidget], focused: QWidget | None) -> int:
    """The number of the pane that has the focus, -1 when none has."""
    return next((number for number, pane in enumerate(panes) if _is_in(pane, focused)), -1)


def _is_in(widget: QWidget, focused: QWidget | None) -> bool:
    return focused is not None and (focused is widget or widget.isAncestorOf(focused))


def _stops(widget: QWidget) -> Iterator[QWidget]:
    if not widget.isVisible() or not widget.isEnabled():
        return
    inside = [] if isinstance(widget, _WHOLE) else [stop for child in _children(widget) for stop in _stops(child)]
    # What only scrolls is worth a stop where nothing in it can be reached: the arrow keys scroll it.
    if _is_stop(widget) and not (isinstance(widget, QScrollArea) and inside):
        yield widget
    yield from inside


def _is_stop(widget: QWidget) -> bool:
    group = widget.group() if isinstance(widget, QAbstractButton) else None
    if isinstance(widget, QAbstractButton) and group is not None and group.exclusive():
        return widget.isChecked()  # the arrow keys lead to the others
    return bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus) and widget.focusProxy() is None


def _children(widget: QWidget) -> Iterator[QWidget]:
    """Its widgets as they are laid out, then those that no layout has."""
    if isinstance(widget, QScrollArea):
        found = [widget.widget()]
    elif isinstance(widget, QStackedWidget):
        found = [widget.currentWidget()]
    elif isinstance(widget, QTabWidget):
        found = [widget.tabBar(), widget.currentWidget()]
    elif isinstance(widget, QSplitter):
        found = [widget.widget(number) for number in range(widget.count())]
    else:
        layout = widget.layout()
        placed = list(_placed(layout)) if layout is not None else []
        loose = [child for child in widget.children() if isinstance(child, QWidget) and not child.isWindow()]
        found = [*placed, *(child for child in loose if child not in placed)]
    return (one for one in found if one is not None)


def _placed(layout: QLayout) -> Iterator[QWidget]:
    for number in range(layout.count()):
        item = layout.itemAt(number)
        # A layout is asked first: widget() of a stacked one is another method.
        if isinstance(item, QLayout):
            yield from _placed(item)
        elif item is not None and (widget := item.widget()) is not None:
            yield widget
