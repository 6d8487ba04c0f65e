"""The pre-flight checklist: what works, what does not, and a button or a command to fix it."""

from __future__ import annotations

import shlex

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QShowEvent
from PyQt6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.doctor import Check, run_checks
from gym_gui.services.run_words import counted
from gym_gui.services.trainer.bundles.manager import BundleManager, requirement_dirs
from gym_gui.ui.clipboard import copy_text
from gym_gui.ui.context import Cockpit
from gym_gui.ui.icons import icon
from gym_gui.ui.widgets.fix_runner import FixRunner
from gym_gui.ui.widgets.snackbar import Notice
from gym_gui.ui.widgets.steady_button import SteadyButton
from mosaic_protocol.worker_manifest import discover

_COLOURS = {"ok": "good", "warn": "warning", "fail": "bad"}
_ICONS = {"ok": "good", "warn": "warning", "fail": "bad"}
_MOST_LINES = 2000


class DoctorPanel(QWidget):
    """Checks when it is first shown and whenever asked; checking changes nothing."""

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__()
        self.setMinimumWidth(300)
        self._cockpit = cockpit
        self.checks: list[Check] = []
        self._asked = False
        self._newest = 0
        """How often it looked: one that began earlier may end later, and knows less."""
        self.runner = FixRunner(str(cockpit.bridge.paths.root), self)
        self.runner.said.connect(self._show_line)
        self.runner.finished.connect(self._fixed)
        self._again = SteadyButton(self.tr("Check again"))
        self._again.setToolTip(self.tr("Look at this machine once more; nothing is changed"))
        self._again.clicked.connect(lambda: self.check() if self._again.usable else None)
        self._summary = QLabel()
        self._summary.setProperty("role", "muted")
        head = QHBoxLayout()
        head.addWidget(self._summary, 1)
        head.addWidget(self._again)
        self._rows = QVBoxLayout()
        self._rows.setContentsMargins(0, 0, 8, 0)
        self._rows.addStretch(1)
        inside = QWidget()
        inside.setLayout(self._rows)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(inside)
        self._output = QPlainTextEdit()
        self._output.setReadOnly(True)
        self._output.setMaximumBlockCount(_MOST_LINES)
        self._output.setAccessibleName(self.tr("What the installation says"))
        self._cancel = QPushButton(self.tr("Cancel the installation"))
        self._cancel.setProperty("kind", "danger")
        self._cancel.setToolTip(self.tr("Stop installing; the environment stays as it was"))
        self._cancel.clicked.connect(self.runner.cancel)
        self._output.hide()
        self._cancel.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 8, 6, 8)
        layout.addLayout(head)
        layout.addWidget(scroll, 1)
        layout.addWidget(self._output)
        layout.addWidget(self._cancel, 0, Qt.AlignmentFlag.AlignRight)
        cockpit.themes.changed.connect(lambda _: self._fill())
        cockpit.bridge.connection_changed.connect(lambda _: self._connection_changed())

    def _connection_changed(self) -> None:
        """What was found out about the daemon before is not true any more."""
        self._asked = False
        if self.isVisible():
            self.check()

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        if not self._asked:
            self.check()

    def check(self) -> None:
        """Look again, beside the GUI."""
        self._asked = True
        self._newest += 1
        number = self._newest
        self._again.set_usable(False)
        self._summary.setText(self.tr("checking…"))
        take = lambda checks: self._take(checks) if number == self._newest else None  # noqa: E731
        failed = lambda sentence: self._failed(sentence) if number == self._newest else None  # noqa: E731
        self._cockpit.bridge.in_background(self._examine, take, failed, owner=self)

    def close_panel(self) -> None:
        self.runner.stop()

    def _examine(self) -> list[Check]:
        paths = self._cockpit.bridge.paths
        bundles = BundleManager(paths, requirement_dirs(discover().workers.values()))
        state = self._cockpit.bridge.connection
        return run_checks(paths, bundles, lambda: state.sentence if state.connected else OSError(state.sentence))

    def _take(self, checks: list[Check]) -> None:
        self.checks = checks
        self._again.set_usable(True)
        self._fill()

    def _failed(self, sentence: str) -> None:
        self._again.set_usable(True)
        self._summary.setText(sentence)

    def _fill(self) -> None:
        while self._rows.count() > 1:
            item = self._rows.takeAt(0)
            widget = item.widget() if item is not None else None
            if widget is not None:
                widget.deleteLater()
        order = {"fail": 0, "warn": 1, "ok": 2}
        for number, check in enumerate(sorted(self.checks, key=lambda one: order[one.status])):
            self._rows.insertWidget(number, self._row(check))
        wrong = sum(check.status == "fail" for check in self.checks)
        open_ones = sum(check.status == "warn" for check in self.checks)
        if not self.checks:
            return
        self._summary.setText(summary(wrong, open_ones))

    def _row(self, check: Check) -> QWidget:
        row = QFrame()
        row.setProperty("role", "card")
        row.setObjectName(f"check-{check.id}")
        layout = QGridLayout(row)
        mark = QLabel()
        mark.setPixmap(
            icon(_ICONS[check.status], self._cockpit.themes.theme.colour(_COLOURS[check.status])).pixmap(20, 20)
        )
        mark.setToolTip(check.status)
        title = QLabel(check.title)
        title.setProperty("role", "title")
        title.setWordWrap(True)
        detail = QLabel(check.detail)
        detail.setWordWrap(True)
        detail.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        detail.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        layout.addWidget(mark, 0, 0)
        layout.addWidget(title, 0, 1)
        layout.addWidget(detail, 1, 1)
        layout.setColumnStretch(1, 1)
        if check.fix:
            layout.addWidget(self._fix_button(check), 2, 1, Qt.AlignmentFlag.AlignLeft)
        return row

    def _fix_button(self, check: Check) -> QPushButton:
        words = shlex.split(check.fix)
        if words[:2] == ["mosaic", "bundles"]:
            button = QPushButton(self.tr("Install"))
            button.setToolTip(check.fix)
            button.setEnabled(not self.runner.busy)
            button.clicked.connect(lambda: self._install(words[1:]))
        else:
            button = QPushButton(self.tr("Copy the fix"))
            button.setToolTip(check.fix)
            button.clicked.connect(lambda: self._copy(check.fix))
        button.setObjectName(f"fix-{check.id}")
        return button

    def _copy(self, command: str) -> None:
        if copy_text(command):
            self._cockpit.notify(Notice(self.tr("Copied: {command}").format(command=command)))

    def _install(self, words: list[str]) -> None:
        self._output.clear()
        self._output.show()
        self._cancel.show()
        self.runner.run(words)
        self._fill()

    def _show_line(self, line: str) -> None:
        self._output.appendPlainText(line)

    def _fixed(self, good: bool, sentence: str) -> None:
        self._cancel.hide()
        self._cockpit.notify(Notice(self.tr("Installation: {how}").format(how=sentence), "good" if good else "error"))
        self.check()


def summary(errors: int, warnings: int) -> str:
    """``1 problem to fix, 4 warnings``; of what there is none, nothing is said."""
    parts = [f"{counted(errors, 'problem')} to fix"] if errors else []
    if warnings:
        parts.append(counted(warnings, "warning"))
    return ", ".join(parts) or "Everything works."
