"""The keyboard of a live session: which keys are the game's, which steer the session, and what each sends.

A widget that shows a session gets a :class:`SessionKeys` as an event filter. Keys count while that widget has the focus
and at no other time, so nothing that is typed into a field reaches the game.
"""

from __future__ import annotations

from collections.abc import Callable

from PyQt6.QtCore import QEvent, QObject, Qt, pyqtSignal
from PyQt6.QtGui import QFocusEvent, QKeyEvent, QKeySequence
from PyQt6.QtWidgets import QWidget

from gym_gui.ui.play.live_session import LiveSession
from mosaic_protocol.live.messages import (
    Command,
    Go,
    HandOver,
    Hello,
    Hold,
    Pause,
    Restart,
    SingleStep,
    Speed,
    State,
    Undo,
)

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
STEERING = {
    "Space": "pause",
    ".": "one step",
    "R": "same seed",
    "N": "next seed",
    "Tab": "hand over",
    "Ctrl+Z": "undo",
}
"""For people: what steers the session. Where the game needs Space itself, P pauses; it always does."""
_NAMES = {
    Qt.Key.Key_Up: "up",
    Qt.Key.Key_Down: "down",
    Qt.Key.Key_Left: "left",
    Qt.Key.Key_Right: "right",
    Qt.Key.Key_Space: "space",
    Qt.Key.Key_Return: "enter",
    Qt.Key.Key_Enter: "enter",
    Qt.Key.Key_Tab: "tab",
    Qt.Key.Key_Escape: "escape",
    Qt.Key.Key_Backspace: "backspace",
}
_NOT_OURS = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.MetaModifier


def key_name(event: QKeyEvent) -> str:
    """The name of a key as :mod:`mosaic_protocol.live.key_map` has it; "" for one that it does not know."""
    if (name := _NAMES.get(Qt.Key(event.key()))) is not None:
        return name
    text = event.text().lower()
    if len(text) == 1 and text.isprintable():
        return text
    code = event.key()
    return chr(code).lower() if 0x20 < code < 0x7F else ""


def steering_command(key: str, state: State) -> Command | None:
    """What a key that is not the game's does to the session; None for nothing."""
    match key:
        case "p" | "space":
            return Go() if state.paused else Pause()
        case ".":
            return SingleStep()
        case "r":
            return Restart("same")
        case "n":
            return Restart("next")
        case "+" | "=":
            return Speed(min((one for one in SPEEDS if one > state.speed), default=SPEEDS[-1]))
        case "-":
            return Speed(max((one for one in SPEEDS if one < state.speed), default=SPEEDS[0]))
    return None


def game_keys(hello: Hello | None) -> frozenset[str]:
    """The keys that mean something in the game."""
    bindings = hello.key_map.bindings if hello is not None else ()
    return frozenset(key for binding in bindings for key in binding.keys)


class SessionKeys(QObject):
    """Give it to the widget that shows the session with :meth:`install`; one widget or several.

    Held keys are sent as they go down and up; letting go of the focus lets go of all. A key of the game takes the seat
    back at once when somebody else has it. ``held_changed(object)`` brings the keys of the game that are down, for a
    screen that shows them.
    """

    held_changed = pyqtSignal(object)

    def __init__(self, session: LiveSession, hand_over: Callable[[], None], parent: QObject | None = None) -> None:
        """``hand_over`` is called for Tab: whom to hand over to is not the keyboard's business."""
        super().__init__(parent)
        self._session, self._hand_over = session, hand_over
        self._down: dict[int, str] = {}
        """By Qt's number: with Shift let go first, a key has another text when it comes up."""

    def install(self, widget: QWidget) -> None:
        widget.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        widget.installEventFilter(self)

    @property
    def held(self) -> tuple[str, ...]:
        """The keys of the game that are down, the one pressed last at the end."""
        return tuple(dict.fromkeys(self._down.values()))

    def release_all(self) -> None:
        if self._down:
            self._down.clear()
            self._tell_held()

    # ---- events --------------------------------------------------------------------------------------------------

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if isinstance(event, QFocusEvent) and event.type() == QEvent.Type.FocusOut:
            self.release_all()
        if not isinstance(event, QKeyEvent):
            return False
        if event.type() == QEvent.Type.ShortcutOverride:
            if self._is_ours(event):
                event.accept()  # a shortcut of the window with the same key is not meant here
            return False
        if event.type() == QEvent.Type.KeyRelease:
            return self._released(event)
        return event.type() == QEvent.Type.KeyPress and self._pressed(event)

    def _is_ours(self, event: QKeyEvent) -> bool:
        if event.matches(QKeySequence.StandardKey.Undo):
            return True
        if event.modifiers() & _NOT_OURS:
            return False
        key = key_name(event)
        return key == "tab" or key in self._keys() or steering_command(key, self._session.state) is not None

    def _keys(self) -> frozenset[str]:
        return game_keys(self._session.hello_message)

    def _pressed(self, event: QKeyEvent) -> bool:
        if not self._is_ours(event):
            return False
        if event.isAutoRepeat():
            return True
        state, key = self._session.state, key_name(event)
        if event.matches(QKeySequence.StandardKey.Undo):
            if state.can_undo:
                self._session.send(Undo())
        elif key == "tab":
            self._hand_over()
        elif key in self._keys():
            self._hold(event.key(), key, state)
        elif (command := steering_command(key, state)) is not None:
            self._session.send(command)
        return True

    def _hold(self, number: int, key: str, state: State) -> None:
        self._down.pop(number, None)
        self._down[number] = key
        if state.actor != "human" and not state.seats:
            self._session.send(HandOver("human"))
        self._tell_held()

    def _released(self, event: QKeyEvent) -> bool:
        if event.isAutoRepeat():
            return event.key() in self._down
        if self._down.pop(event.key(), None) is None:
            return False
        self._tell_held()
        return True

    def _tell_held(self) -> None:
        if self._session.is_joined:
            self._session.send(Hold(self.held))
        self.held_changed.emit(self.held)
