"""Telling a running agent something: a belief, or a goal to pursue. What comes of it is said below."""

from __future__ import annotations

from PyQt6.QtCore import QEvent, QObject, QTimer
from PyQt6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QLineEdit, QPushButton, QVBoxLayout, QWidget

from gym_gui.ui.mind.mind_feed import MindFeed
from gym_gui.ui.styling import tell
from gym_gui.ui.widgets.calm import CalmCombo
from mosaic_protocol.live.messages import LONGEST_TOLD, TellKind
from mosaic_protocol.plain_text import one_line

_SAID_MILLISECONDS = 6000
_PATIENCE_MILLISECONDS = 5000


class TellRow(QWidget):
    """Enter tells it; what was refused stays in the field."""

    def __init__(self, feed: MindFeed, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        tr = self.tr
        self.kind = CalmCombo()
        self.kind.addItem(tr("Belief"), "belief")
        self.kind.addItem(tr("Goal"), "goal")
        self.kind.setAccessibleName(tr("What is told"))
        self.kind.setToolTip(tr("A belief is something that is so; a goal is something to do"))
        self.field = QLineEdit()
        self.field.setMaxLength(LONGEST_TOLD)
        self.field.setAccessibleName(tr("Tell the agent something"))
        self.field.setToolTip(
            tr("As AgentSpeak writes it: slippery, hole(5), rest(5). It is recorded, as said by you.")
        )
        self.to = CalmCombo()
        self.to.setAccessibleName(tr("Which agent is told"))
        self.to.setToolTip(tr("Which agent is told"))
        self.to.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.button = QPushButton(tr("Tell"))
        self.button.setToolTip(tr("Tell it to the running agent; the plan that reacts to it runs at its next turn"))
        self.said = QLabel()
        self.said.setWordWrap(True)
        self.said.hide()
        row = QHBoxLayout()
        row.setSpacing(6)
        row.addWidget(self.kind)
        row.addWidget(self.field, 1)
        row.addWidget(self.to)
        row.addWidget(self.button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(row)
        layout.addWidget(self.said)
        self._forgetting = QTimer(self)
        self._forgetting.setSingleShot(True)
        self._forgetting.setInterval(_SAID_MILLISECONDS)
        self._forgetting.timeout.connect(lambda: self._say("", "muted"))
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.setInterval(_PATIENCE_MILLISECONDS)
        self._patience.timeout.connect(self._say_unheard)
        self.kind.currentIndexChanged.connect(lambda _: self._arrange())
        self.field.textEdited.connect(lambda _: self._edited())
        self.field.returnPressed.connect(self.tell)
        self.button.clicked.connect(self.tell)
        feed.refused.connect(self._refused)
        feed.heard.connect(self._heard)
        feed.changed.connect(self._arrange)
        self.field.installEventFilter(self)
        self._arrange()

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if watched is self.field and event is not None and event.type() == QEvent.Type.FocusIn:
            self._arrange()
        return super().eventFilter(watched, event)

    def tell(self) -> None:
        text = self.field.text().strip()
        if not text or not self.button.isEnabled():
            return
        kind: TellKind = "goal" if self.kind.currentData() == "goal" else "belief"
        self._forgetting.stop()
        self._say(self.tr("Telling…"), "muted")
        self._patience.start()
        self._feed.tell(text, kind, str(self.to.currentData() or ""))

    # ---- what comes of it ----------------------------------------------------------------------------------------

    def _refused(self, sentence: str) -> None:
        if self._patience.isActive() or not self._feed.is_live:
            self._patience.stop()
            self._forgetting.stop()
            self._say(one_line(sentence.partition("\n")[0]), "error")  # the lines below repeat the field, with a caret

    def _heard(self) -> None:
        if not self._patience.isActive() and not self.said.text():
            return
        self._patience.stop()
        told = self.tr("Heard: {text}").format(text=one_line(self.field.text()))
        self.field.clear()
        self._say(told, "good")
        self._forgetting.start()
        self._arrange()

    def _say_unheard(self) -> None:
        if self._feed.waits_for_answer:
            self._say(self.tr("Sent. The agent has not reacted yet: it listens between two episodes."), "warning")

    def _say(self, sentence: str, role: str) -> None:
        tell(self.said, sentence, role)

    def _edited(self) -> None:
        if not self._patience.isActive():
            self._say("", "muted")
        self._arrange()

    def _arrange(self) -> None:
        names = self._feed.names
        known = [self.to.itemData(number) for number in range(1, self.to.count())]
        if names != known:
            self.to.clear()
            self.to.addItem(self.tr("all"), "")
            for name in names:
                self.to.addItem(one_line(name), name)
        self.to.setVisible(len(names) > 1)
        goal = self.kind.currentData() == "goal"
        self.field.setPlaceholderText(self.tr("e.g. rest(5)") if goal else self.tr("e.g. slippery"))
        usable = self._feed.is_live
        self.field.setEnabled(usable)
        self.kind.setEnabled(usable)
        self.button.setEnabled(usable and bool(self.field.text().strip()))
