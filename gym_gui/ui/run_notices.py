"""A notice on the desktop when a run ends or fails, for those who asked for it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from html import escape

from PyQt6.QtCore import QObject, QProcess
from PyQt6.QtWidgets import QApplication, QStyle, QSystemTrayIcon, QWidget

from gym_gui.services.run_words import is_over, quantity, state_word
from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from mosaic_protocol.headline import MEAN_RETURN
from mosaic_protocol.proto import trainer_pb2 as pb

PREFERENCE = "notices.ended"
_COMMAND = "notify-ended"
_MOST_NAMED = 3
_SECONDS = 10


class RunNotices(QObject):
    """Off until somebody turns it on. Nothing is said of runs that were over when the cockpit opened, nor of several at
    once one by one."""

    def __init__(self, cockpit: Cockpit, window: QWidget) -> None:
        super().__init__(window)
        self._cockpit, self._window = cockpit, window
        self._going: set[str] = set()
        """Runs that were not over when they were last heard of."""
        self._tray: QSystemTrayIcon | None = None
        help_text = self.tr("A notice on the desktop when a run ends or fails, while you look at something else")
        command = Command(
            _COMMAND, self.tr("Tell me when a run ends"), "View/Runs", "", help_text, "notification desktop alert done"
        )
        self._wanted = cockpit.commands.add(command, self._keep, checkable=True)
        self._wanted.setChecked(cockpit.preferences.get(PREFERENCE, False))
        cockpit.runs.changed.connect(self._runs_changed)

    def _keep(self) -> None:
        self._cockpit.preferences.put(PREFERENCE, self._wanted.isChecked())

    def _runs_changed(self, run_ids: Sequence[str]) -> None:
        ended = []
        for run_id in run_ids:
            run = self._cockpit.runs.get(run_id)
            if run is None or is_over(run):
                if run is not None and run_id in self._going:
                    ended.append(run)
                self._going.discard(run_id)
            else:
                self._going.add(run_id)
        if ended and self._wanted.isChecked() and not self._window.isActiveWindow():
            self._tell(ended)

    def _tell(self, ended: Sequence[pb.Run]) -> None:
        if len(ended) > _MOST_NAMED:
            names = ", ".join(self._cockpit.runs.label(run) for run in ended[:_MOST_NAMED])
            self.show(self.tr("{count} runs ended").format(count=len(ended)), f"{names}, …")
            return
        for run in ended:
            title = self.tr("{name}: {state}").format(name=self._cockpit.runs.label(run), state=state_word(run))
            mean = run.headline.get(MEAN_RETURN)
            reached = self.tr("mean return {value}").format(value=quantity(mean)) if mean is not None else ""
            self.show(title, "  ·  ".join(part for part in (reached, run.reason) if part))

    def show(self, title: str, text: str) -> None:
        """By the desktop's own program, else by the system tray, else by asking for attention in the task bar."""
        program = shutil.which("notify-send")
        if program is not None:
            # Names of runs are the text of others: neither an option nor markup.
            arguments = ["--app-name=MOSAIC", f"--expire-time={1000 * _SECONDS}", "--", title, escape(text)]
            QProcess.startDetached(program, arguments)
        elif QSystemTrayIcon.isSystemTrayAvailable():
            self._tray_icon().showMessage(title, text, msecs=1000 * _SECONDS)
        else:
            QApplication.alert(self._window)

    def _tray_icon(self) -> QSystemTrayIcon:
        if self._tray is None:
            style = self._window.style()
            assert style is not None
            sign = style.standardIcon(QStyle.StandardPixmap.SP_MessageBoxInformation)
            self._tray = QSystemTrayIcon(sign, self)
            self._tray.activated.connect(lambda _: self._window.activateWindow())
        self._tray.show()
        return self._tray
