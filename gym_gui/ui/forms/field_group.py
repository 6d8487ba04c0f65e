"""Several fields with one memory: their entries by name, and only those that differ from the defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PyQt6.QtCore import pyqtSignal
from PyQt6.QtWidgets import QVBoxLayout, QWidget

from gym_gui.ui.forms.field_editor import FieldEditor
from gym_gui.ui.forms.field_spec import Entry, FieldError, FieldSpec
from gym_gui.ui.theme import Themes


class FieldGroup(QWidget):
    """Editors for fields from top to bottom. The fields can be exchanged; entries of the same name are kept."""

    changed = pyqtSignal()

    def __init__(self, themes: Themes, specs: Sequence[FieldSpec] = (), parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.editors: dict[str, FieldEditor] = {}
        self._rows = QVBoxLayout(self)
        self._rows.setContentsMargins(0, 0, 0, 0)
        self._rows.setSpacing(8)
        self.set_fields(specs)

    def set_fields(self, specs: Sequence[FieldSpec], entries: Mapping[str, Entry] | None = None) -> None:
        """Ask for these instead, with these entries; others stand at their defaults."""
        for editor in self.editors.values():
            self._rows.removeWidget(editor)
            editor.hide()
            editor.deleteLater()
        self.editors = {}
        for spec in specs:
            editor = FieldEditor(spec, self._themes)
            if entries and spec.name in entries:
                editor.put(entries[spec.name])
            editor.changed.connect(self.changed)
            self.editors[spec.name] = editor
            self._rows.addWidget(editor)

    def __getitem__(self, name: str) -> FieldEditor:
        return self.editors[name]

    def __contains__(self, name: str) -> bool:
        return name in self.editors

    def entries(self) -> dict[str, Entry]:
        """What was typed that is not the default."""
        return {name: editor.entry for name, editor in self.editors.items() if editor.entry != editor.spec.start}

    def put(self, entries: Mapping[str, Any]) -> None:
        """Take these entries, and the defaults for the others; what there is no field for is left out."""
        for name, editor in self.editors.items():
            wanted = entries.get(name, editor.spec.start)
            if isinstance(wanted, str | bool) and editor.entry != wanted:
                editor.put(wanted)

    def values(self) -> dict[str, Any]:
        """Every field as its type, None for one that is empty or cannot be read."""
        return {name: _value(editor) for name, editor in self.editors.items()}

    def changed_values(self) -> dict[str, Any]:
        """The fields that were changed, as their types."""
        return {name: _value(editor) for name, editor in self.editors.items() if editor.is_changed}

    def problems(self) -> dict[str, str]:
        found = {name: editor.problem() for name, editor in self.editors.items() if not editor.why_not}
        return {name: sentence for name, sentence in found.items() if sentence}

    def reset(self) -> None:
        for editor in self.editors.values():
            editor.reset()


def _value(editor: FieldEditor) -> Any:
    try:
        return editor.value()
    except FieldError:
        return None
