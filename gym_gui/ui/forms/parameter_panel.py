"""The parameters of an algorithm, as its script declares them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QPushButton, QVBoxLayout, QWidget

from gym_gui.ui.forms.field_editor import FieldEditor
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.field_spec import Entry, FieldError, FieldSpec, from_flag, from_flags
from gym_gui.ui.styling import tell
from gym_gui.ui.theme import Themes
from mosaic_protocol.flag_words import FlagWordError, split_flags
from mosaic_protocol.suggest import did_you_mean


class ParameterPanel(QWidget):
    """``changed()`` follows every edit, ``retry()`` the wish to read the flags once more.

    Entries for flags that are not known yet are kept until they are.
    """

    changed = pyqtSignal()
    retry = pyqtSignal()

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._flags: dict[str, Mapping[str, Any]] | None = None
        self._wanted: dict[str, Entry] = {}
        self.search = QLineEdit()
        self.search.setPlaceholderText(self.tr("Search parameters"))
        self.search.setClearButtonEnabled(True)
        self.search.setAccessibleName(self.tr("Search parameters"))
        self.search.setToolTip(self.tr("Show only parameters whose name or explanation has these letters"))
        self.search.textChanged.connect(self._filter)
        self.reset_button = QPushButton(self.tr("Reset all"))
        self.reset_button.setToolTip(self.tr("Every parameter back to the script's default"))
        self.reset_button.clicked.connect(self._reset)
        self.told = QLabel()
        self.told.setWordWrap(True)
        self.again = QPushButton(self.tr("Try again"))
        self.again.setToolTip(self.tr("Ask the worker for the script's flags once more"))
        self.again.clicked.connect(self.retry)
        self.fields = FieldGroup(themes)
        self.fields.changed.connect(self.changed)
        self.more = FieldEditor(
            FieldSpec(
                "more_flags",
                self.tr("Other flags"),
                help=self.tr("Further flags of the script, as on its command line"),
                placeholder="--flag value",  # more is cut off in a small window
            ),
            themes,
        )
        self.more.changed.connect(self.changed)
        top = QHBoxLayout()
        top.addWidget(self.search, 1)
        top.addWidget(self.reset_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addLayout(top)
        layout.addWidget(self.told)
        layout.addWidget(self.again, alignment=Qt.AlignmentFlag.AlignLeft)
        layout.addWidget(self.fields)
        layout.addWidget(self.more)
        self.expect()

    # ---- flags ---------------------------------------------------------------------------------------------------

    @property
    def is_known(self) -> bool:
        return self._flags is not None

    def expect(self, sentence: str = "") -> None:
        """The flags are being read, or wait for what the sentence says."""
        self._forget_fields()
        self._tell(sentence or self.tr("Reading the script's flags…"), "muted")

    def fail(self, sentence: str) -> None:
        """They could not be read."""
        self._forget_fields()
        self._tell(sentence, "error")
        self.again.show()

    def use_flags(self, flags: Iterable[Mapping[str, Any]], leave_out: Iterable[str]) -> None:
        """Ask for these, apart from those that have a place of their own in the form."""
        listed = list(flags)
        self._flags = {flag["name"]: flag for flag in listed}
        self.fields.set_fields(from_flags(listed, leave_out), self._wanted)
        self._wanted = {}
        empty = self.tr("The script's flags cannot be read from its source; give them under “Other flags”.")
        self._tell("" if listed else empty, "muted")
        self._filter(self.search.text())

    def spec_of(self, name: str) -> FieldSpec | None:
        """What the script says of a flag, None when it does not have it."""
        flag = (self._flags or {}).get(name)
        return from_flag(flag) if flag is not None else None

    # ---- values --------------------------------------------------------------------------------------------------

    def entries(self) -> dict[str, Entry]:
        return self.fields.entries() if self.is_known else dict(self._wanted)

    def put(self, entries: Mapping[str, Any]) -> None:
        wanted = {name: value for name, value in entries.items() if isinstance(value, str | bool)}
        if self.is_known:
            self.fields.put(wanted)
        else:
            self._wanted = wanted

    def params(self) -> dict[str, Any]:
        """What is given to the script: what was changed, and the other flags."""
        changed = {name: value for name, value in self.fields.changed_values().items() if value is not None}
        return {**changed, **self._more_flags()[0]}

    def problems(self) -> dict[str, str]:
        sentence = self._more_flags()[1]
        return {**self.fields.problems(), **({"more_flags": sentence} if sentence else {})}

    def _more_flags(self) -> tuple[dict[str, Any], str]:
        """The other flags as their types, and what is wrong with them."""
        found: dict[str, Any] = {}
        try:
            for flag, name, value in split_flags(shlex.split(str(self.more.entry))):
                if self._flags and name not in self._flags:
                    options = [one["option"] for one in self._flags.values()]
                    return found, f"has {flag}, which the script does not know{did_you_mean(flag, options)}"
                spec = self.spec_of(name)
                found[name] = spec.read(value) if spec is not None else value
        except (FlagWordError, FieldError, ValueError) as error:
            return found, f"cannot be read: {error}"
        return found, ""

    def _forget_fields(self) -> None:
        if self.is_known:
            self._wanted = self.fields.entries()
        self._flags = None
        self.fields.set_fields([])
        self.again.hide()

    def _reset(self) -> None:
        self.fields.reset()
        self.more.reset()

    def _filter(self, text: str) -> None:
        for editor in self.fields.editors.values():
            about = f"{editor.spec.name} {editor.spec.title} {editor.spec.help}".lower()
            editor.setVisible(all(word in about for word in text.lower().split()))

    def _tell(self, sentence: str, role: str) -> None:
        tell(self.told, sentence, role)
