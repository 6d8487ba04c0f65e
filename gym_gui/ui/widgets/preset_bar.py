"""Settings under a name, to come back to: choose one, keep what is set now, forget one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QWidget

from gym_gui.ui.context import Cockpit
from gym_gui.ui.widgets.calm import CalmCombo
from gym_gui.ui.widgets.snackbar import Notice


@dataclass(frozen=True)
class Shipped:
    """A preset that came with a worker: what it sets, and why one may trust it."""

    state: Mapping[str, Any]
    evidence: str


class PresetBar(QWidget):
    """Presets of one kind, kept in the preferences under ``presets.<kind>``; other kinds never see them."""

    def __init__(
        self,
        cockpit: Cockpit,
        kind: str,
        state: Callable[[], dict[str, Any]],
        put: Callable[[Mapping[str, Any]], None],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._cockpit, self._memory = cockpit, f"presets.{kind}"
        self._state, self._put = state, put
        self._shipped: Mapping[str, Shipped] = {}
        self.choice = CalmCombo()
        self.choice.setAccessibleName(self.tr("Preset"))
        self.choice.setToolTip(self.tr("Set everything as it was when the preset was saved"))
        self.choice.activated.connect(self._chosen)
        self.name = QLineEdit()
        self.name.setPlaceholderText(self.tr("Name of the preset, then Enter"))
        self.name.setAccessibleName(self.tr("Name of the preset"))
        self.name.returnPressed.connect(self._name_given)
        self.name.hide()
        self.save_button = QPushButton(self.tr("Save"))
        self.save_button.setToolTip(self.tr("Keep what is set now under a name"))
        self.save_button.clicked.connect(self._save_clicked)
        self.forget_button = QPushButton(self.tr("Delete"))
        self.forget_button.setToolTip(self.tr("Forget the chosen preset; what is set stays"))
        self.forget_button.clicked.connect(self._forget)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self.choice, 1)
        layout.addWidget(self.name, 1)
        layout.addWidget(self.save_button)
        layout.addWidget(self.forget_button)
        self._list("")

    def presets(self) -> dict[str, Any]:
        kept = self._cockpit.preferences.get(self._memory, {})
        return {name: state for name, state in kept.items() if isinstance(state, dict)}

    def offer(self, shipped: Mapping[str, Shipped]) -> None:
        """List these beside a person's own, which come first and win where a name is the same."""
        if shipped != self._shipped:
            self._shipped = shipped
            self._list(self.choice.currentData() or "")

    def save(self, name: str) -> None:
        """Keep what is set now; a preset of the same name is replaced."""
        self._cockpit.preferences.put(self._memory, {**self.presets(), name: self._state()})
        self._list(name)

    def _save_clicked(self) -> None:
        if self.name.isHidden():
            self.name.setText(self.choice.currentData() or "")
            self.choice.hide()
            self.name.show()
            self.name.setFocus(Qt.FocusReason.OtherFocusReason)
            self.name.selectAll()
        else:
            self._name_given()

    def _name_given(self) -> None:
        name = self.name.text().strip()[:60]
        self.name.hide()
        self.choice.show()
        if name:
            self.save(name)

    def _chosen(self, row: int) -> None:
        name = self.choice.itemData(row)
        if name in self.presets():
            self._put(self.presets()[name])
        elif name in self._shipped:
            self._put(self._shipped[name].state)
        self.forget_button.setEnabled(name in self.presets())

    def _forget(self) -> None:
        name, before = self.choice.currentData(), self.presets()
        if name not in before:
            return
        self._keep({other: state for other, state in before.items() if other != name})
        undo = lambda: self._keep(before)  # noqa: E731
        sentence = self.tr("The preset {name} was deleted").format(name=name)
        self._cockpit.notify(Notice(sentence, action=self.tr("Undo"), act=undo))

    def _keep(self, presets: dict[str, Any]) -> None:
        self._cockpit.preferences.put(self._memory, presets)
        self._list("")

    def _list(self, chosen: str) -> None:
        self.choice.clear()
        self.choice.addItem(self.tr("Preset…"), "")
        for name in sorted(self.presets()):
            self.choice.addItem(name, name)
        for name in sorted(self._shipped.keys() - self.presets().keys()):
            self.choice.addItem(name, name)
            self.choice.setItemData(self.choice.count() - 1, self._shipped[name].evidence, Qt.ItemDataRole.ToolTipRole)
        self.choice.setCurrentIndex(max(0, self.choice.findData(chosen)))
        self.forget_button.setEnabled(self.choice.currentData() in self.presets())
