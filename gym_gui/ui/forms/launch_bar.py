"""The foot of a form: launch, dry run, and in plain sight why launching is not possible."""

from __future__ import annotations

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from gym_gui.ui.icons import icon
from gym_gui.ui.styling import tell
from gym_gui.ui.theme import Theme, Themes
from gym_gui.ui.widgets.steady_button import SteadyButton


class LaunchBar(QFrame):
    """``launch()`` and ``dry_run()`` follow the buttons."""

    launch = pyqtSignal()
    dry_run = pyqtSignal()

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._why_not = ""
        self._action = self.tr("Launch")
        self.estimate = QLabel()
        self.estimate.setProperty("role", "muted")
        self.estimate.setWordWrap(True)
        self.caution = QLabel()
        self.caution.setWordWrap(True)
        self.caution.setProperty("role", "warning")
        self.caution.setToolTip(self.tr("A hint: nothing keeps you from launching the run as it is"))
        self.caution.hide()
        self.reason = QLabel()
        self.reason.setWordWrap(True)
        self.reason.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.launch_button = SteadyButton(self.tr("Launch"))
        self.launch_button.setProperty("kind", "primary")
        self.launch_button.setAccessibleName(self.tr("Launch the run"))
        self.launch_button.clicked.connect(self.launch)
        self.dry_run_button = SteadyButton(self.tr("Dry run"))
        self.dry_run_button.setToolTip(
            self.tr("Let the worker check everything without starting anything; its answer goes to the dry-run results")
        )
        self.dry_run_button.clicked.connect(self.dry_run)
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        buttons.addWidget(self.launch_button, 2)
        buttons.addWidget(self.dry_run_button, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 6, 12, 8)
        layout.setSpacing(4)
        layout.addWidget(self.estimate)
        layout.addWidget(self.caution)
        layout.addWidget(self.reason)
        layout.addLayout(buttons)
        themes.changed.connect(self._dress)
        self._dress(themes.theme)

    def set_action(self, title: str, spoken: str) -> None:
        """What Launch does now, while nothing is under way; ``spoken`` is for those who hear it."""
        if title != self._action:
            before, self._action = self._action, title
            self.launch_button.setAccessibleName(spoken)
            if self.launch_button.text() == before:
                self.launch_button.setText(title)

    def set_reason(self, sentence: str, role: str = "warning") -> None:
        """Why nothing can be launched now; "" when it can."""
        self._why_not = sentence
        self.launch_button.set_usable(not sentence)
        self.launch_button.setToolTip(
            sentence or self.tr("Check the settings, then submit the run; it starts as soon as there is room for it")
        )
        self.say(sentence, role)

    def set_busy(self, doing: str) -> None:
        """What is under way, as the Launch button says it; "" when nothing is."""
        self.launch_button.setText(doing or self._action)
        self.dry_run_button.set_usable(not doing)

    def say(self, sentence: str, role: str) -> None:
        """Put a sentence over the buttons until the next change; role: muted, good, warning or error."""
        tell(self.reason, sentence, role)

    @property
    def why_not(self) -> str:
        return self._why_not

    def set_estimate(self, sentence: str, basis: str = "", caution: str = "") -> None:
        """What a run would take, what that rests on, and a warning where it is days."""
        self.estimate.setToolTip(basis or self.tr("From the speed and the size of earlier runs of this script here"))
        for label, text in ((self.estimate, sentence), (self.caution, caution)):
            if label.text() != text:
                label.setText(text)
            label.setVisible(bool(text))

    def _dress(self, theme: Theme) -> None:
        self.launch_button.setIcon(icon("run", theme.colour("on_fill")))
