"""The keys of the game and of the session, and a way to change the game's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PyQt6.QtCore import QEvent, QObject, Qt, pyqtSignal
from PyQt6.QtGui import QKeyEvent
from PyQt6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from gym_gui.ui.play.keys import STEERING, key_name
from mosaic_protocol.live.key_map import Binding, KeyMap
from mosaic_protocol.plain_text import one_line

GLYPHS = {"up": "↑", "down": "↓", "left": "←", "right": "→", "backspace": "⌫", "escape": "Esc"}
MOST_SHOWN = 18
_SIZE = "padding: 2px 6px; min-width: 30px; min-height: 16px;"
_CAP = f"QPushButton {{ {_SIZE} }} QPushButton:disabled {{ color: palette(text); }}"
_FIXED = f"QLabel {{ {_SIZE} border: 1px solid palette(mid); border-radius: 6px; }}"


def spelt(key: str) -> str:
    """A key as it stands on the keyboard."""
    return GLYPHS.get(key) or (key.upper() if len(key) == 1 else key.capitalize())


def rebound(bindings: Sequence[Binding], old: str, new: str) -> dict[str, Any]:
    """What changes when one key is to mean what another meant, alone and together with others."""
    changes: dict[str, Any] = {}
    for one in bindings:
        if old in one.keys:
            changes["+".join(one.keys)] = None
    for one in bindings:
        if old in one.keys:
            changes["+".join(new if key == old else key for key in one.keys)] = one.action
    return changes


class KeysPanel(QWidget):
    """``changed(dict)`` brings what a person changed: actions by keys, None for a key that means nothing any more."""

    changed = pyqtSignal(dict)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._map = KeyMap()
        self._is_changed = False
        self._asking: QPushButton | None = None
        self.caps: dict[str, QPushButton] = {}
        self.edit = QPushButton(self.tr("Change…"))
        self.edit.setProperty("kind", "flat")
        self.edit.setCheckable(True)
        self.edit.setToolTip(self.tr("Choose other keys: press one here, then the key on the keyboard"))
        self.edit.toggled.connect(self._editing)
        self.reset = QPushButton(self.tr("Usual keys"))
        self.reset.setProperty("kind", "flat")
        self.reset.setToolTip(self.tr("Back to the keys that the game comes with"))
        self.reset.clicked.connect(lambda: self.changed.emit({}))
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(6)
        self._grid.setColumnStretch(1, 1)
        self._grid.setColumnStretch(3, 1)
        self.note = QLabel()
        self.note.setProperty("role", "muted")
        self.note.setWordWrap(True)
        below = QHBoxLayout()
        below.addWidget(self.note, 1)
        below.addWidget(self.reset)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addLayout(self._grid)
        layout.addLayout(below)
        self.show_map(KeyMap(), is_changed=False)

    def show_map(self, key_map: KeyMap, *, is_changed: bool, awaited: str = "") -> None:
        """Show these keys; ``is_changed`` of a person's own. ``awaited``: the environment that was chosen and
        whose keys are not known yet."""
        self._awaited = awaited
        if (key_map, is_changed) == (self._map, self._is_changed) and self.caps:
            return
        self._map, self._is_changed = key_map, is_changed
        self._fill()

    # ---- what is shown -------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        self._stop_asking()
        while self._grid.count():
            item = self._grid.takeAt(0)
            widget = item.widget() if item is not None else None
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        self.caps = {}
        single = [one for one in self._map.bindings if len(one.keys) == 1]
        for row, one in enumerate(single[:MOST_SHOWN]):
            cap = self.caps[one.keys[0]] = self._cap(spelt(one.keys[0]))
            cap.clicked.connect(lambda _, key=one.keys[0]: self._ask(key))
            self._row(row, 0, cap, one.label or str(one.action))
        if self._map.idle_label:
            self._row(len(self.caps), 0, self._fixed(self.tr("none")), self._map.idle_label)
        taken = {key for one in self._map.bindings for key in one.keys}
        for row, (key, does) in enumerate(STEERING.items()):
            shown = "P" if key == "Space" and "space" in taken else key
            self._row(row, 2, self._fixed(shown), self.tr(does))
        self._tell(len(single))

    def _row(self, row: int, column: int, cap: QWidget, text: str) -> None:
        label = QLabel(text)
        label.setProperty("role", "muted")
        label.setWordWrap(True)
        self._grid.addWidget(cap, row, column, Qt.AlignmentFlag.AlignTop)
        self._grid.addWidget(label, row, column + 1)

    def _cap(self, text: str) -> QPushButton:
        cap = QPushButton(text)
        cap.setProperty("kind", "key")
        cap.setStyleSheet(_CAP)
        cap.installEventFilter(self)
        self._allow(cap)
        return cap

    def _fixed(self, text: str) -> QLabel:
        """A key that cannot be changed."""
        cap = QLabel(text)
        cap.setAlignment(Qt.AlignmentFlag.AlignCenter)
        cap.setStyleSheet(_FIXED)
        return cap

    def _allow(self, cap: QPushButton) -> None:
        """A key of the game can be pressed, and reached by Tab, only while keys are being changed."""
        editing = self.edit.isChecked()
        cap.setEnabled(editing)
        cap.setFocusPolicy(Qt.FocusPolicy.StrongFocus if editing else Qt.FocusPolicy.NoFocus)
        about = self.tr("Press, then the new key; Esc leaves it as it is")
        cap.setToolTip(about if editing else self.tr("Change… lets you choose another key"))

    def _editing(self, editing: bool) -> None:
        self.edit.setText(self.tr("Done") if editing else self.tr("Change…"))
        self._stop_asking()
        for cap in self.caps.values():
            self._allow(cap)
        self._tell(len(self.caps))

    def _tell(self, count: int) -> None:
        if not self.caps:
            asked = self.tr("Looking up the keys of {env}…").format(env=one_line(self._awaited))
            said = asked if self._awaited else self.tr("Choose an environment to see its keys.")
        elif self.edit.isChecked():
            said = self.tr("Press a key here, then the new one.")
        elif count > MOST_SHOWN:
            said = self.tr("{n} more keys are not shown.").format(n=count - MOST_SHOWN)
        else:
            said = ""
        self.note.setText(said)
        self.note.setVisible(bool(said))
        self.reset.setVisible(self._is_changed)
        self.edit.setEnabled(bool(self.caps))

    # ---- changing ------------------------------------------------------------------------------------------------

    def _ask(self, key: str) -> None:
        self._stop_asking()
        self._asking = self.caps[key]
        self._asking.setText(self.tr("press…"))
        self._asking.setFocus()

    def _stop_asking(self) -> None:
        if self._asking is not None:
            asked, self._asking = self._asking, None
            asked.setText(spelt(next(key for key, cap in self.caps.items() if cap is asked)))

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if self._asking is None or watched is not self._asking or not isinstance(event, QKeyEvent):
            return False
        if event.type() == QEvent.Type.KeyPress:
            self._take(event)
        return event.type() in (QEvent.Type.KeyPress, QEvent.Type.KeyRelease, QEvent.Type.ShortcutOverride)

    def _take(self, event: QKeyEvent) -> None:
        new, asked = key_name(event), self._asking
        old = next(key for key, cap in self.caps.items() if cap is asked)
        if not new:
            return  # Shift and the like: a key is still to come
        self._stop_asking()
        if new in ("escape", old):
            return
        if new == "tab":
            self.note.setText(self.tr("Tab hands the seat over: choose another key."))
            self.note.show()
            return
        self.changed.emit(rebound(self._map.bindings, old, new))


def merged(before: Mapping[str, Any], changes: Mapping[str, Any], usual: KeyMap) -> dict[str, Any]:
    """A person's keys after a change, without what the game has anyway; {} takes all changes back."""
    if not changes:
        return {}
    own = {"+".join(one.keys): one.action for one in usual.bindings}
    found = {**before, **changes}
    return {keys: action for keys, action in found.items() if own.get(keys) != action}


def difference(now: KeyMap, wanted: KeyMap) -> dict[str, Any]:
    """The changes that make one map another: None for keys that mean nothing any more."""
    before = {"+".join(one.keys): one.action for one in now.bindings}
    after = {"+".join(one.keys): one.action for one in wanted.bindings}
    gone: dict[str, Any] = dict.fromkeys(keys for keys in before if keys not in after)
    return {**gone, **{keys: action for keys, action in after.items() if before.get(keys) != action}}
