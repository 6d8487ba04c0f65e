"""A window on the daemon of another machine: what it says where files are needed that are over there, and how one is
opened. Each server has a window and a process of its own."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable

from PyQt6.QtCore import QProcess, Qt
from PyQt6.QtWidgets import QComboBox, QDialog, QDialogButtonBox, QLabel, QVBoxLayout, QWidget

from gym_gui.services.remote.server import Server, Servers
from gym_gui.ui.clipboard import copy_text
from gym_gui.ui.context import Cockpit
from gym_gui.ui.styling import set_style_property
from gym_gui.ui.widgets.empty_page import EmptyPage
from mosaic_protocol.paths import default_root
from mosaic_protocol.ssh_command import SshError

_DIALOG_WIDTH = 480


class ElsewherePage(EmptyPage):
    """Stands where a screen reads files: they are on the server, and a command shows them. ``why`` is a sentence, with
    ``{server}`` in it."""

    def __init__(self, server: str, why: str, command: str, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self.command = f"mosaic --on {shlex.quote(server)} {command}"
        title = self.tr("On {server}").format(server=server)
        text = f"{why.format(server=server)} {self.tr('In a terminal of this machine:')}\n\n{self.command}"
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.tell(title, text, self.tr("Copy the command"))
        self.acted.connect(lambda: copy_text(self.command))


def elsewhere_page(why: str, command: str) -> Callable[[Cockpit], QWidget]:
    """Makes such a page for a part of the window."""
    return lambda cockpit: ElsewherePage(cockpit.bridge.server, why, command)


def open_window_on(server: Server) -> bool:
    """Open another cockpit, in a process that does not depend on this one; False when that failed."""
    return bool(QProcess.startDetached(sys.executable, ["-m", "gym_gui.ui", "--on", str(server)])[0])


class ConnectDialog(QDialog):
    """Asks for a server, and offers those that were reached before. ``open_on`` opens a window on one."""

    def __init__(self, parent: QWidget, open_on: Callable[[Server], bool] = open_window_on) -> None:
        super().__init__(parent)
        self._open_on = open_on
        self.setWindowTitle(self.tr("Connect to a server"))
        self.name = QComboBox()
        self.name.setEditable(True)
        self.name.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.name.setCompleter(None)  # it would take the Return that is meant for the dialog
        self.name.addItems([str(server) for server in Servers(default_root()).all()])
        line = self.name.lineEdit()
        assert line is not None
        line.setPlaceholderText(self.tr("me@server"))
        line.setAccessibleName(self.tr("Server"))
        line.selectAll()
        line.returnPressed.connect(self.accept)  # a combo box keeps it from the dialog
        self.name.setToolTip(
            self.tr("USER@HOST or a name from ~/.ssh/config; :/path/to/checkout where it is not found")
        )
        why = self.tr(
            "Opens a window on the daemon over there, through SSH with your keys. It is started when none runs, and "
            "nothing is opened on the server."
        )
        told = QLabel(why)
        told.setWordWrap(True)
        told.setProperty("role", "muted")
        self.problem = QLabel()
        self.problem.setWordWrap(True)
        set_style_property(self.problem, "role", "error")
        self.problem.hide()
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.connect_button = buttons.addButton(self.tr("Connect"), QDialogButtonBox.ButtonRole.AcceptRole)
        assert self.connect_button is not None
        self.connect_button.setProperty("kind", "primary")
        self.connect_button.setDefault(True)
        self.connect_button.setToolTip(self.tr("Open a window on this server"))
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 18, 20, 16)
        layout.setSpacing(12)
        for widget in (told, self.name, self.problem, buttons):
            layout.addWidget(widget)
        self.name.editTextChanged.connect(self._forget_problem)
        self._fit()

    def _fit(self) -> None:
        """As high as the sentences need: a dialog does not grow by itself when one appears."""
        layout = self.layout()
        assert layout is not None
        layout.activate()
        self.setFixedSize(_DIALOG_WIDTH, layout.totalHeightForWidth(_DIALOG_WIDTH))

    def accept(self) -> None:
        """Open the window, unless the name is none. Once, however often it is asked for."""
        if self.result():
            return
        try:
            server = Servers(default_root()).completed(Server.parse(self.name.currentText()))
        except SshError as error:
            self._refuse(str(error))
            return
        if not self._open_on(server):
            self._refuse(self.tr("the window could not be opened: python cannot be started"))
            return
        super().accept()

    def _forget_problem(self) -> None:
        if self.problem.isVisible():
            self.problem.hide()
            self._fit()

    def _refuse(self, sentence: str) -> None:
        self.problem.setText(f"{sentence[0].upper()}{sentence[1:]}.")
        self.problem.show()
        self._fit()
