"""The stage while no run is selected: where one comes from."""

from __future__ import annotations

from PyQt6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt
from PyQt6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from gym_gui.ui.context import Cockpit
from gym_gui.ui.icons import icon
from gym_gui.ui.theme import Theme
from gym_gui.ui.widgets.action_buttons import ActionButtons

_NEXT_STEPS = ("do-train", "do-use", "show-runs")
_ICON = 56
_LOW = 340


class EmptyStage(QWidget):
    """Says the next step, and has the buttons for it."""

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__()
        self._cockpit = cockpit
        self._picture = QLabel()
        self.title = QLabel()
        self.title.setProperty("role", "huge")
        self.text = QLabel()
        self.text.setProperty("role", "muted")
        self.text.setWordWrap(True)
        self.newest = QPushButton(self.tr("Look at the newest run"))
        self.newest.setProperty("kind", "primary")
        self.newest.setToolTip(self.tr("Select the run that was submitted last; nothing happens to it"))
        self.newest.clicked.connect(self._select_newest)
        self.next_actions = ActionButtons(cockpit.commands, _NEXT_STEPS)
        self._card: QWidget | None = None
        self.content = QWidget()
        self.content.installEventFilter(self)
        keep = self.content.sizePolicy()
        keep.setRetainSizeWhenHidden(True)
        self.content.setSizePolicy(keep)
        around = QVBoxLayout(self)
        around.setContentsMargins(20, 8, 20, 8)
        around.addStretch(2)
        around.addWidget(self.content)
        around.addStretch(3)
        layout = QVBoxLayout(self.content)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(12)
        for label in (self._picture, self.title, self.text):
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
            layout.addWidget(label)
        layout.addSpacing(6)
        # One below the other: side by side they would take width from the docks.
        for widget in (self.newest, self.next_actions):
            layout.addWidget(widget, 0, Qt.AlignmentFlag.AlignHCenter)
        self._dress(cockpit.themes.theme)
        cockpit.themes.changed.connect(self._dress)
        cockpit.bridge.connection_changed.connect(lambda _: self.tell())
        self.tell()

    def fit(self, room: QSize) -> None:
        """Where it is low, the picture gives way to the buttons."""
        self._picture.setVisible(room.height() >= _LOW)

    def make_way(self, card: QWidget) -> None:
        """A card over it says the same; where both do not fit, half-covered words and buttons are worse than none."""
        self._card = card
        here = QRect(self.content.mapTo(self.window(), QPoint(0, 0)), self.content.size())
        there = QRect(card.mapTo(card.window(), QPoint(0, 0)), card.size())
        self.content.setVisible(card.isHidden() or not here.intersects(there))

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if event is not None and event.type() in (QEvent.Type.Resize, QEvent.Type.Move) and self._card is not None:
            self.make_way(self._card)
        return super().eventFilter(watched, event)

    def tell(self) -> None:
        """Say what fits what there is now."""
        runs = len(self._cockpit.runs)
        self.newest.setVisible(runs > 0)
        if runs:
            self.title.setText(self.tr("No run selected"))
            self.text.setText(
                self.tr("Select a run in the table to see how it does. Select several to compare their curves.")
            )
        elif not self._cockpit.bridge.connection.connected:
            self.title.setText(self.tr("Waiting for the trainer daemon"))
            self.text.setText(self._cockpit.bridge.connection.sentence)
        else:
            self.title.setText(self.tr("Train your first agent"))
            self.text.setText(
                self.tr("Choose a worker on the left, an algorithm and an environment, and launch. The curve of the")
                + " "
                + self.tr("run appears here; closing the cockpit does not stop it.")
            )

    def _select_newest(self) -> None:
        newest = max(self._cockpit.runs, key=lambda run: run.created_at, default=None)
        if newest is not None:
            self._cockpit.selection.select([newest.run_id])

    def _dress(self, theme: Theme) -> None:
        self._picture.setPixmap(icon("metrics", theme.colour("strong_border")).pixmap(_ICON, _ICON))
