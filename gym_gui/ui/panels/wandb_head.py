"""The upper part of the W&B tab: how the run stands, its link, its upload, and the key."""

from __future__ import annotations

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QResizeEvent
from PyQt6.QtWidgets import QBoxLayout, QHBoxLayout, QLabel, QLineEdit, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from gym_gui.services.run_words import ago
from gym_gui.services.wandb.run_side import WandbSide, sync_command, upload_sentence
from gym_gui.ui.widgets.banner import Banner
from gym_gui.ui.widgets.key_prompt import KeyPrompt

_ONE_ROW_WIDTH = 560


class WandbHead(QWidget):
    """Says and offers; the tab acts. Signals: ``open_wanted``, ``sync_wanted``, ``stop_wanted``, ``copy_wanted(str)``,
    ``key_wanted``."""

    open_wanted = pyqtSignal()
    sync_wanted = pyqtSignal()
    stop_wanted = pyqtSignal()
    copy_wanted = pyqtSignal(str)
    key_wanted = pyqtSignal()

    def __init__(self) -> None:
        super().__init__()
        self._is_uploading = False
        self._rows = QBoxLayout(QBoxLayout.Direction.TopToBottom)
        """The buttons and the command: side by side where there is room."""
        self.state = _text("title")
        self.sentence = _text("muted")
        self.progress = _text("muted")
        self.progress.hide()
        self.hints = Banner("warning")
        self.prompt = KeyPrompt()
        self._make_buttons()
        self.command = QLineEdit()
        self.command.setReadOnly(True)
        self.command.setAccessibleName(self.tr("The command that uploads the run"))
        self.command.setToolTip(self.tr("Uploads the run from a terminal where wandb is installed and has a key"))
        self._lay_out()

    def _make_buttons(self) -> None:
        self.open = _button(self.tr("Open page"), self.tr("Open the run's page at W&B in the web browser"))
        self.open.clicked.connect(self.open_wanted)
        self.sync = _button("", "")
        self.sync.setProperty("kind", "primary")
        self.sync.clicked.connect(self._sync_clicked)
        self.key = _button(self.tr("Key…"), self.tr("Type the key for W&B; it is never written into a file"))
        self.key.clicked.connect(self.key_wanted)
        self.copy = _button(self.tr("Copy"), self.tr("Copy the command, to upload the run from a terminal"))
        self.copy.clicked.connect(lambda: self.copy_wanted.emit(self.command.text()))

    def _lay_out(self) -> None:
        buttons, commands = QHBoxLayout(), QHBoxLayout()
        for widget in (self.sync, self.open, self.key):
            buttons.addWidget(widget)
        commands.addWidget(self.command, 1)
        commands.addWidget(self.copy)
        buttons.addStretch(1)
        self._rows.setSpacing(6)
        self._rows.addLayout(buttons)
        self._rows.addLayout(commands, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self.state)
        layout.addWidget(self.sentence)
        layout.addLayout(self._rows)
        layout.addWidget(self.progress)
        layout.addWidget(self.prompt)
        layout.addWidget(self.hints)

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        is_wide = self.width() >= _ONE_ROW_WIDTH
        self._rows.setDirection(QBoxLayout.Direction.LeftToRight if is_wide else QBoxLayout.Direction.TopToBottom)

    def show_side(self, side: WandbSide, name: str, hints: list[str]) -> None:
        """How the run stands; ``name`` is project and name at W&B."""
        words = {"online": self.tr("Online"), "offline": self.tr("Offline")}
        self.state.setText(" · ".join(filter(None, (words.get(side.mode, ""), name))))
        sentence = upload_sentence(side)
        if side.last_sync is not None:
            sentence += self.tr(" Last sync {ago}.").format(ago=ago(side.last_sync))
        self.sentence.setText("\n".join(filter(None, (sentence, side.url))))
        command = sync_command(side) if side.is_over or side.mode == "offline" else ""
        if self.command.text() != command:
            self.command.setText(command)
            self.command.setCursorPosition(0)
        for widget in (self.command, self.copy):
            widget.setVisible(bool(command))
        self.open.setVisible(bool(side.url))
        self._offer_sync(bool(side.to_upload), side.is_over)
        self.hints.say(" ".join(hints))

    def _offer_sync(self, wanted: bool, is_over: bool) -> None:
        self.sync.setVisible(wanted or self._is_uploading)
        self.sync.setEnabled(is_over or self._is_uploading)
        if self._is_uploading:
            self.sync.setText(self.tr("Stop"))
            self.sync.setToolTip(self.tr("End the upload; what is missing can be sent later, the run is not affected"))
        else:
            self.sync.setText(self.tr("Sync"))
            late = self.tr("Upload the run to W&B when it is over")
            self.sync.setToolTip(self.tr("Upload the run to W&B now") if is_over else late)

    def say(self, line: str) -> None:
        """What the upload, or the keeping of a key, says."""
        self.progress.setText(line)
        self.progress.setVisible(bool(line))

    def set_uploading(self, uploading: bool) -> None:
        self._is_uploading = uploading
        self._offer_sync(self.sync.isVisibleTo(self), True)

    def _sync_clicked(self) -> None:
        (self.stop_wanted if self._is_uploading else self.sync_wanted).emit()


def _text(role: str) -> QLabel:
    label = QLabel()
    label.setProperty("role", role)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)  # what a script calls its run is no markup
    label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
    label.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    return label


def _button(text: str, tooltip: str) -> QPushButton:
    button = QPushButton(text)
    button.setToolTip(tooltip)
    return button
