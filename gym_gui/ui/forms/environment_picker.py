"""Choosing an environment: by family, by a few letters, and with how to install what is not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PyQt6.QtCore import QEvent, QObject, Qt, pyqtSignal
from PyQt6.QtGui import QFocusEvent
from PyQt6.QtWidgets import QComboBox, QCompleter, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from gym_gui.services.worker_queries import EnvironmentFamily
from gym_gui.ui.clipboard import copy_text
from gym_gui.ui.forms.field_editor import LABEL_WIDTH, RESET_WIDTH
from gym_gui.ui.styling import let_shrink, set_style_property, tell
from gym_gui.ui.widgets.calm import CalmCombo
from gym_gui.ui.widgets.completions import close_when_complete

_ALL = ""
_FOR_A_MOMENT = (
    Qt.FocusReason.PopupFocusReason,
    Qt.FocusReason.ActiveWindowFocusReason,
    Qt.FocusReason.MenuBarFocusReason,
)
"""Why the keyboard goes and comes back to somebody who is typing."""


class EnvironmentPicker(QWidget):
    """``changed()`` follows every edit; ``extra_wanted(str)`` the wish to install the set that an environment needs.
    Anything may be typed: what the list does not know, the dry run judges."""

    changed = pyqtSignal()
    extra_wanted = pyqtSignal(str)

    def __init__(self, parent: QWidget | None = None, *, beside: int = RESET_WIDTH + 8) -> None:
        """``beside``: room at the right, where fields below it have a button."""
        super().__init__(parent)
        self._families: list[EnvironmentFamily] = []
        self._refusal, self._needed = "", False
        self._coming: frozenset[str] = frozenset()
        self._sources: tuple[str, ...] | None = None
        self.family = CalmCombo()
        self.family.setAccessibleName(self.tr("Family of environments"))
        self.family.setToolTip(self.tr("Show only environments of this family"))
        self.family.currentIndexChanged.connect(self._list_environments)
        self.choice = CalmCombo()
        self.choice.setEditable(True)
        self.choice.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.choice.setAccessibleName(self.tr("Environment"))
        self.choice.setToolTip(self.tr("What the agent is trained on; type a few letters to search"))
        let_shrink(self.choice)
        let_shrink(self.family)
        completer = self.choice.completer()
        if completer is not None:
            completer.setFilterMode(Qt.MatchFlag.MatchContains)
            completer.setCompletionMode(QCompleter.CompletionMode.PopupCompletion)
            line = self.choice.lineEdit()
            assert line is not None
            close_when_complete(line, completer)
            line.editingFinished.connect(self._show_beginning)
            self.choice.installEventFilter(self)  # it has the focus for its line
        self.choice.editTextChanged.connect(self._edited)
        self.told = QLabel()
        self.told.setWordWrap(True)
        self.told.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.copy_button = QPushButton(self.tr("Copy"))
        self.copy_button.setToolTip(self.tr("Copy the command that installs what this environment needs"))
        self.copy_button.clicked.connect(self._copy)
        self.install_button = QPushButton(self.tr("Install with the run"))
        self.install_button.setToolTip(
            self.tr("Tick the extras that this environment needs; Launch installs them first")
        )
        self.install_button.clicked.connect(self._want_extra)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addLayout(_row(self.tr("Family"), self.family, beside))
        layout.addLayout(_row(self.tr("Environment"), self.choice, beside))
        layout.addWidget(self.told)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(self.install_button)
        buttons.addWidget(self.copy_button)
        layout.addLayout(buttons)
        self._tell("", "")

    @property
    def env_id(self) -> str:
        return self.choice.currentText().strip()

    def put(self, env_id: str) -> None:
        self._write(env_id)

    def _write(self, env_id: str) -> None:
        self.choice.setEditText(env_id)
        self._show_beginning()

    def _show_beginning(self) -> None:
        """Of a name that is too long the beginning is seen, not the end, also of one that was typed."""
        line = self.choice.lineEdit()
        if line is not None:
            line.home(False)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        """Tab chooses the whole name on its way through, and leaves its end in sight."""
        if isinstance(event, QFocusEvent) and event.lostFocus() and event.reason() not in _FOR_A_MOMENT:
            self._show_beginning()
        return super().eventFilter(watched, event)

    def offer(self, families: Sequence[EnvironmentFamily]) -> None:
        """The environments that there are; what stands in the picker stays."""
        self._families = list(families)
        self._list_families()

    def use_sources(self, sources: tuple[str, ...] | None) -> None:
        """Only families that come from one of these places; None for all."""
        if sources != self._sources:
            self._sources = sources
            self._list_families()

    def tell(self, sentence: str) -> None:
        """Say what is wrong with the environment, until another one is chosen; "" takes it back."""
        self._refusal = sentence
        self._judge()

    def need(self, needed: bool) -> None:
        """Whether to say that one must be chosen."""
        self._needed = needed
        self._judge()

    def expect(self, sets: Iterable[str]) -> None:
        """These sets of extras are installed before the run starts: what needs them is not missing."""
        self._coming = frozenset(sets)
        self._judge()

    def missing(self) -> str:
        """Why the chosen environment cannot be made here, "" when nothing is known against it."""
        family = self._family_of(self.env_id)
        if family is not None and family.extra in self._coming:
            return ""
        return f"{self.env_id} needs {family.name}, which is {family.advice}" if family and family.advice else ""

    def _suitable(self) -> list[EnvironmentFamily]:
        wanted = self._sources
        return [one for one in self._families if wanted is None or set(wanted) & set(one.sources)]

    def _list_families(self) -> None:
        before = self.family.currentData()
        self.family.blockSignals(True)
        self.family.clear()
        self.family.addItem(self.tr("All families"), _ALL)
        for one in sorted(self._suitable(), key=lambda family: not family.installed):
            missing = "" if one.installed else self.tr(" (not installed)")
            self.family.addItem(f"{one.name} · {len(one.environments)}{missing}", one.name)
        self.family.setCurrentIndex(max(0, self.family.findData(before)))
        self.family.blockSignals(False)
        self._list_environments()

    def _list_environments(self, *_: object) -> None:
        typed, chosen = self.choice.currentText(), self.family.currentData()
        families = sorted(self._suitable(), key=lambda family: not family.installed)
        self.choice.blockSignals(True)
        self.choice.clear()
        for family in families:
            if chosen in (_ALL, None, family.name):
                for env_id in family.environments:
                    self.choice.addItem(env_id)
                    tip = f"{family.name}: {family.advice}" if family.advice else family.name
                    self.choice.setItemData(self.choice.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self._write(typed)
        self.choice.blockSignals(False)
        self._judge()

    def _family_of(self, env_id: str) -> EnvironmentFamily | None:
        """Where the algorithm would get it from; several families may have one of the same name."""
        candidates = (*self._suitable(), *self._families)
        return next((family for family in candidates if env_id in family.environments), None)

    def _judge(self) -> None:
        if self._refusal:
            self._tell(self._refusal, "error")
        elif self._needed:
            self._tell(self.tr("Choose an environment."), "error")
        else:
            missing = self.missing()
            self._tell(missing or self._promised(), "warning" if missing else "muted")

    def _promised(self) -> str:
        family = self._family_of(self.env_id)
        if family is None or not family.advice or family.extra not in self._coming:
            return ""
        return self.tr("{family} is installed before the run starts.").format(family=family.name)

    def _want_extra(self) -> None:
        family = self._family_of(self.env_id)
        if family is not None and family.extra:
            self.extra_wanted.emit(family.extra)

    def _tell(self, sentence: str, role: str) -> None:
        tell(self.told, sentence, role)
        for button in (self.copy_button, self.install_button):
            button.setVisible("Install it with: " in sentence)
        set_style_property(self.choice, "invalid", role == "error")

    def _copy(self) -> None:
        copy_text(self.told.text().partition("Install it with: ")[2])

    def _edited(self, *_: object) -> None:
        self._refusal = ""
        self._judge()
        self.changed.emit()


def _row(title: str, widget: QWidget, beside: int) -> QHBoxLayout:
    label = QLabel(title)
    label.setFixedWidth(LABEL_WIDTH)
    label.setBuddy(widget)
    row = QHBoxLayout()
    row.setContentsMargins(0, 0, beside, 0)
    row.setSpacing(8)
    row.addWidget(label)
    row.addWidget(widget, 1)
    return row
