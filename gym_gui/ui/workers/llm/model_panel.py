"""Which model plays: the small one of this machine, or one at a server."""

from __future__ import annotations

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QLabel, QVBoxLayout, QWidget

from gym_gui.ui.forms.choice_row import ChoiceRow
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.field_spec import FieldSpec
from gym_gui.ui.styling import tell
from gym_gui.ui.theme import Themes

LOCAL, SERVER = "local", "server"
FIELDS = ("model", "base_url", "key_env", "timeout", "attempts")
_OF_A_SERVER = ("model", "base_url", "key_env")


class ModelPanel(QWidget):
    """``changed()`` follows every edit. The choice stands for the fields: ``local`` without an address is the small
    model, anything else is at a server."""

    changed = pyqtSignal()

    def __init__(self, themes: Themes) -> None:
        super().__init__()
        tr = self.tr
        self.where = ChoiceRow(
            tr("Model runs"),
            [
                (LOCAL, tr("here"), tr("SmolLM2-135M: offline, free, always valid actions; it plays poorly")),
                (SERVER, tr("at a server"), tr("Any that speaks OpenAI's chat API: llama.cpp, vLLM, a provider")),
            ],
        )
        self.where.chosen.connect(self._chosen)
        self.group = FieldGroup(themes)
        self.group.changed.connect(self._edited)
        self.said, self.key = QLabel(), QLabel()
        for label in (self.said, self.key):
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            label.hide()
        self.said.setAccessibleName(tr("Whether the model can be asked"))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        for widget in (self.where, self.group, self.said, self.key):
            layout.addWidget(widget)

    def set_fields(self, fields: list[FieldSpec]) -> None:
        self.group.set_fields(fields)
        self._follow()

    @property
    def is_local(self) -> bool:
        return self.where.choice == LOCAL

    def problems(self) -> dict[str, str]:
        if self.is_local or "model" not in self.group:
            return {}
        named = str(self.group["model"].entry).strip()
        return {} if named and named != LOCAL else {"model": self.tr("must be named as its server knows it")}

    def tell(self, sentence: str, role: str) -> None:
        """Whether the model can be asked."""
        tell(self.said, sentence, role)

    def tell_key(self, found: bool | None) -> None:
        """Whether a key was found; None where that does not matter."""
        if found is None or self.is_local:
            tell(self.key, "", "muted")
            return
        name = str(self.group["key_env"].entry) if "key_env" in self.group else ""
        text = self.tr("A key was found; it is never part of the run.")
        if not found:
            text = self.tr(
                "No key was found in {name} nor in the keyring: put it into the environment of the daemon, unless the "
                "server needs none."
            ).format(name=name)
        tell(self.key, text, "muted")

    def _chosen(self, where: str) -> None:
        """By a person, or because the fields say so."""
        if "model" in self.group:
            model, address = self.group["model"], self.group["base_url"]
            if where == LOCAL:
                address.put("")
                model.put(LOCAL)
            elif model.entry == LOCAL and not address.entry:
                model.put("")
        self._arrange()
        self.changed.emit()

    def _edited(self) -> None:
        self._follow()
        self.changed.emit()

    def _follow(self) -> None:
        """Fields that were filled from a preset or another run decide; an empty name is one that is yet to be typed."""
        if "model" in self.group:
            name, address = str(self.group["model"].entry).strip(), str(self.group["base_url"].entry).strip()
            is_local = name == LOCAL and not address
            self.where.combo.blockSignals(True)
            self.where.choose(LOCAL if is_local else SERVER)
            self.where.combo.blockSignals(False)
        self._arrange()

    def _arrange(self) -> None:
        for name in _OF_A_SERVER:
            if name in self.group:
                self.group[name].setVisible(not self.is_local)
