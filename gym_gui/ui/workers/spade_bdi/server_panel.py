"""Which XMPP server a run uses, and whether it can be used."""

from __future__ import annotations

from typing import Any

from PyQt6.QtCore import QTimer, pyqtSignal
from PyQt6.QtGui import QShowEvent
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.services.worker_tools import ToolRefusedError
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.own_files.file_panel import dry_config
from gym_gui.ui.styling import tell
from gym_gui.ui.workers.catalog import WorkerEntry
from mosaic_protocol.plain_text import one_line

PREFIX = "xmpp"
KIND, OWN = "xmpp", "own"
_OF_ONES_OWN = ("xmpp_jid", "xmpp_host", "xmpp_ca_file")
_ASK_MILLISECONDS = 700


class ServerPanel(QWidget):
    """``changed()`` follows every edit. The worker is asked when the panel is first seen, and after a choice."""

    changed = pyqtSignal()

    def __init__(self, cockpit: Cockpit, entry: WorkerEntry, queries: WorkerQueries) -> None:
        super().__init__()
        self._cockpit, self._entry, self._queries = cockpit, entry, queries
        self.group = FieldGroup(cockpit.themes)
        self.group.changed.connect(self._edited)
        self.readiness = QLabel()
        self.readiness.setWordWrap(True)
        self.readiness.setAccessibleName(self.tr("Whether the server can be used"))
        self.password = QLabel(
            self.tr("The password comes from MOSAIC_XMPP_PASSWORD in the daemon's environment, or from the keyring.")
        )
        self.password.setProperty("role", "muted")
        self.password.setWordWrap(True)
        self.again = QPushButton(self.tr("Look again"))
        self.again.setToolTip(self.tr("Ask the worker once more whether this server can be used; nothing is started"))
        self.again.clicked.connect(self.ask)
        self._asked: dict[str, Any] | None = None
        """What was asked about last."""
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self.readiness, 1)
        row.addWidget(self.again)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.group)
        layout.addWidget(self.password)
        layout.addLayout(row)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_ASK_MILLISECONDS)
        self._timer.timeout.connect(self.ask)
        self._arrange()

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self.arrange()

    def arrange(self) -> None:
        """The fields are others, or have other entries."""
        self._arrange()
        if self.isVisible() and KIND in self.group and self._params() != self._asked:
            self._timer.start()

    def _edited(self) -> None:
        self.arrange()
        self.changed.emit()

    def _arrange(self) -> None:
        is_own = KIND in self.group and self.group[KIND].entry == OWN
        for name in _OF_ONES_OWN:
            if name in self.group:
                self.group[name].setVisible(is_own)
        self.password.setVisible(is_own)

    def _params(self) -> dict[str, Any]:
        return {name: value for name, value in self.group.changed_values().items() if value is not None}

    def ask(self) -> None:
        """Have the worker say which server it would use; an own one is logged in to."""
        self._timer.stop()
        if KIND not in self.group or not self._entry.ready:
            return
        params = self._asked = self._params()
        tell(self.readiness, self.tr("Looking at the server…"), "muted")
        config = dry_config(self._entry, params)

        def look() -> tuple[str, str]:
            try:
                told = self._queries.dry_run(self._entry.type, config) or {}
            except ToolRefusedError as error:
                return one_line(str(error)), "error"
            return one_line(str(told.get("xmpp") or "")), "good"

        def done(answer: tuple[str, str]) -> None:
            if params == self._asked:
                tell(self.readiness, *answer)

        failed = lambda sentence: tell(self.readiness, sentence, "warning")  # noqa: E731
        self._cockpit.bridge.in_background(look, done, failed, owner=self)
