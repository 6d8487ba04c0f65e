"""Asks for a host: what ``mosaic hosts add`` takes, with what is wrong said where it stands."""

from __future__ import annotations

from PyQt6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QVBoxLayout, QWidget

from gym_gui.services.hosts.book import DEFAULT_FOLDER, Host, checked
from gym_gui.services.trainer.errors import RefusedError
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.field_spec import FieldSpec
from gym_gui.ui.forms.run_fields import split_tags
from gym_gui.ui.hosts.desk import HostDesk
from gym_gui.ui.styling import tell
from gym_gui.ui.theme import Themes

_WIDTH = 520


class AddHostDialog(QDialog):
    """Closes when the host is in the list; until then what was typed stays."""

    def __init__(self, desk: HostDesk, themes: Themes, parent: QWidget) -> None:
        super().__init__(parent)
        self._desk = desk
        self._is_asked = False
        self.setWindowTitle(self.tr("Add a host"))
        why = QLabel(
            self.tr(
                "A machine that ssh reaches without a question. MOSAIC sends its own code there, and runs go there "
                "when a form or --host says so. Nothing listens on a port."
            )
        )
        why.setWordWrap(True)
        why.setProperty("role", "muted")
        self.fields = FieldGroup(themes, self._specs())
        self.problem = QLabel()
        self.problem.setWordWrap(True)
        self.problem.hide()
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.add_button = buttons.addButton(self.tr("Add and check"), QDialogButtonBox.ButtonRole.AcceptRole)
        assert self.add_button is not None
        self.add_button.setProperty("kind", "primary")
        self.add_button.setDefault(True)
        self.add_button.setToolTip(self.tr("Put the host into the list, and look whether runs can go there"))
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 18, 20, 16)
        layout.setSpacing(12)
        for widget in (why, self.fields, self.problem, buttons):
            layout.addWidget(widget)
        self.fields.changed.connect(self._edited)
        self.fields["name"].editor.setFocus()
        self._fit()

    def _fit(self) -> None:
        """As high as the sentences need: a dialog does not grow by itself when one appears."""
        for part in (self.fields.layout(), self.layout()):
            assert part is not None
            part.activate()
        layout = self.layout()
        assert layout is not None
        self.setFixedSize(_WIDTH, layout.totalHeightForWidth(_WIDTH))

    def _edited(self) -> None:
        tell(self.problem, "", "error")
        self._fit()

    def _specs(self) -> list[FieldSpec]:
        tr = self.tr
        return [
            FieldSpec("name", tr("Name"), help=tr("How you will call it"), placeholder="node1", required=True),
            FieldSpec(
                "ssh",
                tr("Destination"),
                help=tr("What ssh calls it"),
                placeholder="alice@node1.example.org",
                required=True,
            ),
            FieldSpec(
                "python",
                tr("Python there"),
                help=tr("An interpreter there that has all that workers need; empty: the one that is built there"),
                placeholder="/opt/mosaic/bin/python",
            ),
            FieldSpec("folder", tr("Folder there"), help=tr("Where MOSAIC's files go"), default=DEFAULT_FOLDER),
            FieldSpec("cpus", tr("CPUs"), "int", None, tr("How many runs may have; empty: all"), least=0),
            FieldSpec("labels", tr("Labels"), help=tr("What runs may ask for"), placeholder=tr("fast, lab")),
            FieldSpec("memory_mb", tr("Memory"), "int", None, tr("What runs may have; empty: all"), unit="MB", least=0),
        ]

    def host(self) -> Host:
        """As it stands in the fields. Raises :class:`RefusedError`."""
        given = self.fields.values()
        name, ssh, python = (str(given[field] or "") for field in ("name", "ssh", "python"))
        folder = str(given["folder"] or DEFAULT_FOLDER)
        labels = split_tags(str(given["labels"] or ""))
        bounds = given["cpus"] or 0, given["memory_mb"] or 0
        return checked(Host(name, ssh, folder, python, *bounds, labels=labels))

    def accept(self) -> None:
        if self._is_asked:
            return
        problems = self.fields.problems()
        for name, sentence in problems.items():
            self.fields[name].tell(f"{self.fields[name].spec.title} {sentence}")
        if problems:
            self._fit()
            self.fields[next(iter(problems))].editor.setFocus()
            return
        try:
            host = self.host()
        except RefusedError as error:
            self._refuse(str(error))
            return
        self._is_asked = True
        self._desk.add(host, super().accept, self._refuse)

    def _refuse(self, sentence: str) -> None:
        self._is_asked = False
        tell(self.problem, f"{sentence[0].upper()}{sentence[1:]}.", "error")
        self._fit()
