"""One checkpoint as a card: what it is, how well it did, whether it can be trusted, and what to do with it."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QKeyEvent, QMouseEvent
from PyQt6.QtWidgets import QFrame, QGridLayout, QLabel, QWidget

from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.run_words import ago
from gym_gui.ui.styling import set_style_property
from gym_gui.ui.theme import Theme
from gym_gui.ui.widgets.sparkline import Sparkline
from mosaic_protocol.headline import RECENT_EPISODES

CARD_WIDTH = 272


class CheckpointCard(QFrame):
    """``chosen(CheckpointEntry)`` when it is clicked, or Enter is pressed on it."""

    chosen = pyqtSignal(object)

    def __init__(
        self, entry: CheckpointEntry, curve: Sequence[Sequence[float]], theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.entry = entry
        self.setProperty("role", "card")
        self.setMinimumWidth(CARD_WIDTH)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAccessibleName(f"{entry.algo} {entry.env_id} {entry.id}")
        self.setToolTip(str(entry.path))
        title = QLabel()
        title.setProperty("role", "title")
        title.ensurePolished()
        title.setText(self._fitted(title, entry.algo or self.tr("checkpoint")))
        score = QLabel(score_text(entry))
        score.setProperty("role", "huge" if "mean_return" in entry.metrics else "muted")
        name = QLabel()
        name.setProperty("role", "muted")
        name.setText(self._fitted(name, entry.run_name or entry.run_id))
        score.setToolTip(self.tr("{what} when it was written").format(what=score_words(entry)))
        self._facts = QLabel(facts_text(entry))
        self._facts.setProperty("role", "muted")
        marks = QLabel(marks_text(entry))
        marks.setProperty("role", "error" if entry.integrity.state == "damaged" else "good")
        layout = QGridLayout(self)
        layout.setContentsMargins(12, 10, 12, 10)
        layout.setVerticalSpacing(2)
        layout.addWidget(title, 0, 0, 1, 2)
        layout.addWidget(name, 1, 0, 1, 2)
        layout.addWidget(score, 2, 0)
        layout.addWidget(Sparkline(curve, theme.colour("accent")), 2, 1)
        layout.addWidget(self._facts, 3, 0, 1, 2)
        layout.addWidget(marks, 4, 0, 1, 2)
        layout.setColumnStretch(1, 1)

    def _fitted(self, label: QLabel, text: str) -> str:
        """The text, cut in the middle where it is too long for a card; the tooltip has all of it."""
        label.setToolTip(text)
        return label.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, CARD_WIDTH - 28)

    def tell_age(self) -> None:
        self._facts.setText(facts_text(self.entry))

    def set_selected(self, selected: bool) -> None:
        set_style_property(self, "selected", "true" if selected else "false")

    def mousePressEvent(self, event: QMouseEvent | None) -> None:
        super().mousePressEvent(event)
        self.chosen.emit(self.entry)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is not None and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.chosen.emit(self.entry)
        else:
            super().keyPressEvent(event)


def score_text(entry: CheckpointEntry) -> str:
    mean = entry.metrics.get("mean_return")
    return f"{mean:,.4g}" if isinstance(mean, int | float) else "–"


def score_words(entry: CheckpointEntry) -> str:
    """What :func:`score_text` is: "mean return of the last 100 episodes"."""
    episodes = entry.metrics.get("episodes")
    count = f" {min(episodes, RECENT_EPISODES)}" if isinstance(episodes, int) and episodes > 1 else ""
    return f"mean return of the last{count} episodes"


def facts_text(entry: CheckpointEntry) -> str:
    parts = [f"step {entry.step:,}", size_text(entry.size)]
    if entry.created_at:
        parts.append(ago(entry.created_at))
    return "  ·  ".join(parts)


def marks_text(entry: CheckpointEntry) -> str:
    if entry.integrity.state == "damaged":
        return "damaged"
    words = [word for word, there in (("best", entry.is_best), ("last", entry.is_last)) if there]
    return " · ".join(words + (["imported"] if entry.origin == "imported" else []))


def size_text(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
