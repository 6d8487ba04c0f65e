"""Commands as a row of buttons, each in its place for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from PyQt6 import sip
from PyQt6.QtCore import QSize
from PyQt6.QtGui import QAction, QIcon, QResizeEvent
from PyQt6.QtWidgets import QHBoxLayout, QWidget

from gym_gui.ui.commands import Command, Commands
from gym_gui.ui.icons import icon
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.steady_button import SteadyButton

_ICON_ONLY = "QPushButton { padding: 4px; min-height: 16px; min-width: 16px; }"
_ICON_WIDTH, _AROUND_A_TITLE = 30, 32


class ActionButtons(QWidget):
    """One button for each of the named commands, as soon as a part offers it.

    A command that cannot be used now stays in its place, greyed, and its tooltip says why. Where there is no room for
    all titles, the last buttons show their icons instead, and with ``icons_only`` all do; ``signs`` names icons of
    commands that have none, which needs ``themes``. ``titles`` may shorten what a button says. Of ``partners`` (pause
    and resume) the one that can be used takes over the focus of the other.
    """

    def __init__(
        self,
        commands: Commands,
        names: Sequence[str],
        titles: Mapping[str, str] | None = None,
        parent: QWidget | None = None,
        *,
        themes: Themes | None = None,
        signs: Mapping[str, str] | None = None,
        partners: tuple[str, str] | None = None,
        icons_only: bool = False,
    ) -> None:
        super().__init__(parent)
        self._commands, self._names, self._titles = commands, list(names), titles or {}
        self._themes, self._signs = themes, signs or {}
        self._partners, self._icons_only = partners, icons_only
        self._titled = 0 if icons_only else len(names)
        """So many of the first ones say their titles."""
        self.buttons: dict[str, SteadyButton] = {}
        self._layout = QHBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSizeConstraint(QHBoxLayout.SizeConstraint.SetNoConstraint)  # titles give way to what there is
        self._layout.setSpacing(2 if icons_only else 8)
        self._layout.addStretch(1)
        for command, _ in commands.all():
            self._add(command.name)
        # Methods, not lambdas: they are forgotten with a row that goes before the window does.
        commands.added.connect(self._added)
        if themes is not None:
            themes.changed.connect(self._follow_all)

    def _added(self, command: Command) -> None:
        self._add(command.name)

    def _add(self, name: str) -> None:
        if name not in self._names or name in self.buttons:
            return
        action = self._commands.action(name)
        button = SteadyButton()
        if self._icons_only:
            button.setProperty("kind", "flat")
        button.clicked.connect(action.trigger)
        self.buttons[name] = button
        place = sum(1 for other in self.buttons if self._names.index(other) < self._names.index(name))
        self._layout.insertWidget(place, button)
        button.show()  # at once, also in a row that is seen already
        action.changed.connect(partial(self._follow, name, action))
        self._follow(name, action)
        self.updateGeometry()

    # ---- what each says ------------------------------------------------------------------------------------------

    def _follow(self, name: str, action: QAction) -> None:
        button = self.buttons[name]
        if sip.isdeleted(button):  # a command outlives the row of a page that was left
            return
        button.setToolTip(action.toolTip())
        button.setAccessibleName(self._title(name))
        button.set_usable(action.isEnabled())
        self._dress(name)
        self._hand_over()

    def _follow_all(self, *_: object) -> None:
        for name in self.buttons:
            self._follow(name, self._commands.action(name))

    def _title(self, name: str) -> str:
        return self._titles.get(name) or self._commands.action(name).text()

    def _dress(self, name: str) -> None:
        button, sign = self.buttons[name], self._icon(name)
        alone = self._places().index(name) >= self._titled and not sign.isNull()
        button.setText("" if alone else self._title(name))
        button.setIcon(sign if alone else QIcon())
        wanted = _ICON_ONLY if alone else ""
        if button.styleSheet() != wanted:
            button.setStyleSheet(wanted)

    def _icon(self, name: str) -> QIcon:
        if name in self._signs and self._themes is not None:
            return icon(self._signs[name], self._themes.theme.colour("text"))
        return self._commands.action(name).icon()

    def _hand_over(self) -> None:
        """The focus of a button that was just used up goes to the one that undoes it, and to nobody else."""
        pair = [self.buttons.get(name) for name in self._partners or ()]
        for one, other in (pair, pair[::-1]) if len(pair) == 2 else ():
            if one is not None and other is not None and one.hasFocus() and not one.usable and other.usable:
                other.setFocus()

    # ---- room ----------------------------------------------------------------------------------------------------

    def _places(self) -> list[str]:
        """The commands that there are, from left to right."""
        return [name for name in self._names if name in self.buttons]

    def _width(self, titled: int) -> int:
        """Of the row in which so many of the first buttons say their titles."""
        measure = self.fontMetrics().horizontalAdvance
        places = self._places()
        titles = sum(measure(self._title(name)) + _AROUND_A_TITLE for name in places[:titled])
        gaps = self._layout.spacing() * max(0, len(places) - 1)
        return titles + _ICON_WIDTH * len(places[titled:]) + gaps

    def sizeHint(self) -> QSize:
        return QSize(self._width(0 if self._icons_only else len(self.buttons)), self._layout.sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(self._width(0), self._layout.minimumSize().height())

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        counts = range(0 if self._icons_only else len(self.buttons), -1, -1)
        titled = next((count for count in counts if self._width(count) <= self.width()), 0)
        if titled != self._titled:
            self._titled = titled
            for name in self.buttons:
                self._dress(name)
