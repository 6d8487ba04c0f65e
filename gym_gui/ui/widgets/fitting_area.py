"""What is shown as a whole where there is room for it, and scrolled where there is not."""

from __future__ import annotations

from PyQt6.QtCore import QEvent, QObject, QSize, Qt, QTimer
from PyQt6.QtGui import QResizeEvent
from PyQt6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QWidget

_CHANGES = (QEvent.Type.LayoutRequest, QEvent.Type.ShowToParent, QEvent.Type.HideToParent)


class FittingArea(QScrollArea):
    """As high as its content wants, never lower than ``least`` and not higher than :meth:`allow` says. Hidden with its
    content, which is shown and hidden as if there were nothing around it."""

    def __init__(self, content: QWidget, least: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._least = least
        self._most: int | None = None
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        hidden = content.isHidden() and content.testAttribute(Qt.WidgetAttribute.WA_WState_ExplicitShowHide)
        content.installEventFilter(self)
        self.setWidget(content)  # which shows it
        content.setVisible(not hidden)
        self._follow(content)
        self._wanted: QWidget | None = None
        self._soon = QTimer(self)  # what was just written has no place before it is laid out
        self._soon.setSingleShot(True)
        self._soon.setInterval(0)
        self._soon.timeout.connect(self._bring)

    def allow(self, height: int) -> None:
        """Leave the rest of the room to what stands beside it, as far as ``least`` lets it."""
        most = max(height, self._least)
        if most != self._most:
            self._most = most
            self.updateGeometry()

    def bring(self, inside: QWidget) -> None:
        """Scroll to a part of the content."""
        self._wanted = inside
        self._soon.start()

    def _bring(self) -> None:
        if self._wanted is not None:
            self.ensureWidgetVisible(self._wanted, 0, 8)

    def sizeHint(self) -> QSize:
        content = self.widget()
        if content is None:
            return super().sizeHint()
        width = self.width() if self.isVisible() else content.sizeHint().width()
        high = content.heightForWidth(width) if content.hasHeightForWidth() else content.sizeHint().height()
        return QSize(content.sizeHint().width(), high if self._most is None else min(high, self._most))

    def minimumSizeHint(self) -> QSize:
        content = self.widget()
        width = content.minimumSizeHint().width() if content is not None else 0
        return QSize(width, min(self._least, self.sizeHint().height()))

    def _follow(self, content: QWidget) -> None:
        """A widget without a parent that is shown becomes a window: it is shown with the parent it gets."""
        if content.isHidden() or self.parentWidget() is not None:
            self.setVisible(not content.isHidden())

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        if event is not None and event.size().width() != event.oldSize().width():
            self.updateGeometry()

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        content = self.widget()
        if event is not None and content is not None and watched is content and event.type() in _CHANGES:
            self._follow(content)
            self.updateGeometry()
        return super().eventFilter(watched, event)
