"""Cards that show parts of a mind, wherever it comes from."""

from __future__ import annotations

from PyQt6.QtCore import QRectF, QSize, Qt
from PyQt6.QtGui import QFont, QPainter, QPaintEvent
from PyQt6.QtWidgets import QCheckBox, QFrame, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from gym_gui.ui.mind.belief_table import BeliefTable, BeliefView
from gym_gui.ui.mind.beliefs import belief_rows, summary
from gym_gui.ui.mind.entries import (
    Entry,
    considered_entries,
    intention_entries,
    message_entries,
    share_words,
    why_title,
)
from gym_gui.ui.mind.entry_list import EntryList
from gym_gui.ui.styling import tell
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.elided_label import ElidedLabel
from mosaic_protocol.mind import Mind


class Card(QFrame):
    """A title, room for a few words at its right end, and what is below. Cards that are made ``whole`` are as high as
    their content, for a column that scrolls."""

    def __init__(self, title: str, parent: QWidget | None = None, *, label: type[QLabel] = QLabel) -> None:
        super().__init__(parent)
        self.setProperty("role", "card")
        self.title = label(title)
        bold = QFont(self.title.font())
        bold.setWeight(QFont.Weight.DemiBold)
        self.title.setFont(bold)
        self.head = QHBoxLayout()
        self.head.setContentsMargins(11, 0, 11, 0)
        self.head.setSpacing(8)
        self.head.addWidget(self.title)
        self.head.addStretch(1)
        self.nothing = QLabel()
        self.nothing.setProperty("role", "muted")
        self.nothing.setWordWrap(True)
        self.nothing.setContentsMargins(11, 0, 11, 2)
        self.nothing.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.nothing.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
        self.body = QVBoxLayout(self)
        self.body.setContentsMargins(1, 8, 1, 6)
        self.body.setSpacing(4)
        self.body.addLayout(self.head)
        self.body.addWidget(self.nothing)

    def say_nothing(self, sentence: str) -> None:
        """What stands there when there is nothing to show; "" when there is."""
        self.nothing.setText(sentence)
        self.nothing.setVisible(bool(sentence))


class BeliefCard(Card):
    def __init__(self, themes: Themes, parent: QWidget | None = None, *, whole: bool = False) -> None:
        super().__init__("", parent)
        self.title.setText(self.tr("Beliefs"))
        self._whole, self._mind = whole, Mind()
        self.held, self.new, self.dropped = QLabel(), QLabel(), QLabel()
        self.new.setToolTip(self.tr("Beliefs that are new"))
        self.dropped.setToolTip(self.tr("Beliefs that were dropped"))
        for label in (self.held, self.new, self.dropped):
            self.head.addWidget(label)
        self.only_changes = QCheckBox(self.tr("only changes"))
        self.only_changes.setToolTip(self.tr("Show only beliefs that are new or were dropped"))
        self.only_changes.toggled.connect(lambda _: self._tell())
        self.head.addWidget(self.only_changes)
        self.table = BeliefTable(themes, self)
        self.view = BeliefView(self.table)
        self.body.addWidget(self.view, 1)

    def show_mind(self, mind: Mind) -> None:
        self._mind = mind
        self._tell()

    def _tell(self) -> None:
        held, new, dropped = summary(self._mind)
        tell(self.held, self.tr("{count} held").format(count=f"{held:,}"), "muted")
        tell(self.new, f"+{new}" if new else "", "good")
        tell(self.dropped, f"−{dropped}" if dropped else "", "error")
        self.table.show_rows(belief_rows(self._mind, only_changes=self.only_changes.isChecked()))
        empty = (
            self.tr("Nothing changed.") if held and self.only_changes.isChecked() else self.tr("It believes nothing.")
        )
        self.say_nothing("" if self.table.rows else empty)
        self.view.setVisible(bool(self.table.rows))
        if self._whole:
            self.view.setFixedHeight(self.view.content_height())


class _EntryCard(Card):
    label: type[QLabel] = QLabel

    def __init__(self, themes: Themes, *, whole: bool = False) -> None:
        super().__init__("", label=self.label)
        self._empty = ""
        self.aside = ElidedLabel()
        self.aside.setProperty("role", "muted")
        self.aside.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.head.addWidget(self.aside)
        self.list = EntryList(themes, whole=whole)
        self.body.addWidget(self.list, 1)

    def _introduce(self, title: str, name: str, empty: str) -> None:
        self.title.setText(title)
        self.list.setAccessibleName(name)
        self._empty = empty

    def _show(self, entries: list[Entry]) -> None:
        self.list.show_entries(entries)
        self.say_nothing("" if entries else self._empty)
        self.list.setVisible(bool(entries))


class WhyCard(_EntryCard):
    label = ElidedLabel  # plans have names of any length

    def __init__(self, themes: Themes, *, whole: bool = False) -> None:
        super().__init__(themes, whole=whole)
        name, empty = self.tr("Plans that were considered"), self.tr("No plan was chosen yet.")
        self._introduce(why_title(Mind()), name, empty)

    def show_mind(self, mind: Mind) -> None:
        self.title.setText(why_title(mind))
        self._show(considered_entries(mind.considered))


class IntentionCard(_EntryCard):
    def __init__(self, themes: Themes, *, whole: bool = False) -> None:
        super().__init__(themes, whole=whole)
        name = self.tr("Intentions, what runs next on top")
        self._introduce(self.tr("Intentions"), name, self.tr("It pursues nothing now."))
        self.aside.setText(self.tr("top runs next"))

    def show_mind(self, mind: Mind) -> None:
        self._show(intention_entries(mind.intentions))


class MessageCard(_EntryCard):
    def __init__(self, themes: Themes, *, whole: bool = False) -> None:
        super().__init__(themes, whole=whole)
        name = self.tr("Messages, the newest on top")
        self._introduce(self.tr("Messages"), name, self.tr("No message was sent or received."))

    def show_mind(self, mind: Mind) -> None:
        received = sum(one.way == "in" for one in mind.messages)
        counts = self.tr("{received} received, {sent} sent")
        self.aside.setText(
            counts.format(received=received, sent=len(mind.messages) - received) if mind.messages else ""
        )
        self._show(message_entries(mind.messages))


class ConfidenceBar(QWidget):
    """How far what the agent learned can be relied on."""

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.confidence = 0.0
        self.says_its_name = False
        """Whether it has its name beside it, where there is no room for a heading."""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("Confidence"))
        self.setToolTip(self.tr("Confidence, from 0 to 1: how far what the agent learned can be relied on"))
        themes.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        return QSize(140, 20)

    def show_confidence(self, confidence: float) -> None:
        if confidence != self.confidence:
            self.confidence = confidence
            self.setAccessibleDescription(share_words(confidence))
            self.update()

    def say_its_name(self, wanted: bool) -> None:
        self.says_its_name = wanted
        self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        painter, theme = QPainter(self), self._themes.theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        text = share_words(self.confidence)
        metrics, left = painter.fontMetrics(), 0
        if self.says_its_name:
            name = self.tr("confidence")
            left = metrics.horizontalAdvance(name) + 8
            painter.setPen(theme.colour("muted"))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, name)
        wide = left + metrics.horizontalAdvance("0.00") + 8
        groove = QRectF(left, self.height() / 2 - 4, max(20, self.width() - wide), 8)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.colour("raised"))
        painter.drawRoundedRect(groove, 3, 3)
        share = min(1.0, max(0.0, self.confidence))
        if share > 0:
            painter.setBrush(theme.colour("accent"))
            painter.drawRoundedRect(QRectF(left, groove.top(), max(4.0, groove.width() * share), 8), 3, 3)
        painter.setPen(theme.colour("text"))
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)
