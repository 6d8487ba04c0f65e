"""The picture of an environment: whatever frame is the latest, at a steady pace, in its own proportions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PyQt6 import sip
from PyQt6.QtCore import QElapsedTimer, QRect, QSize, Qt, QTimer
from PyQt6.QtGui import QHideEvent, QImage, QPainter, QPaintEvent, QShowEvent
from PyQt6.QtWidgets import QSizePolicy, QWidget

FRAMES_PER_SECOND = 60
_BARELY_LARGER = 1.25
"""A picture that could be so much larger at most looks better as it is."""

Frame = npt.NDArray[np.uint8]


class FrameView(QWidget):
    """Give it frames as fast as they come with :meth:`show_frame`: those that come between two paints are passed over
    and counted in :attr:`skipped`. Paints nothing while hidden or while nothing new came. After a rest a frame is
    painted at once: it may be the answer to a key.

    ``fills``: whether a picture is made as large as there is room, not only by whole numbers. :attr:`words` stand where
    the picture will be until there is one."""

    def __init__(self, parent: QWidget | None = None, *, fills: bool = False) -> None:
        super().__init__(parent)
        self.paints = 0
        self.skipped = 0
        self._fills = fills
        self.words = ""
        self._frame: Frame | None = None
        self._fresh = False
        """Whether the frame was not painted yet."""
        self._since_paint = QElapsedTimer()
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(self.tr("Environment"))
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(1000 // FRAMES_PER_SECOND)
        self._timer.timeout.connect(self._paint_if_fresh)

    def sizeHint(self) -> QSize:
        return QSize(600, 400)

    def show_frame(self, frame: Frame) -> None:
        """Show an RGB picture (height, width, 3); it must not be changed afterwards. Another shape is an error."""
        if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
            raise ValueError(f"a frame is height x width x 3 bytes, not {frame.shape} of {frame.dtype}")
        self.skipped += self._fresh
        self._frame, self._fresh = np.ascontiguousarray(frame), True
        if not self._since_paint.isValid() or self._since_paint.elapsed() >= self._timer.interval():
            self.update()

    @property
    def has_frame(self) -> bool:
        return self._frame is not None

    def clear(self) -> None:
        self._frame, self._fresh = None, False
        self.update()

    def _paint_if_fresh(self) -> None:
        if self._fresh:
            self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        self._fresh = False
        painter = QPainter(self)
        if self._frame is None:
            painter.fillRect(self.rect(), self.palette().window())
            painter.setPen(self.palette().placeholderText().color())
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, self.words)
            return
        height, width, _ = self._frame.shape
        memory = sip.voidptr(self._frame.ctypes.data)  # the stubs know bytes only, which would be a copy
        image = QImage(memory, width, height, 3 * width, QImage.Format.Format_RGB888)  # type: ignore[call-overload]
        place = self._place(width, height)
        if place != self.rect():
            painter.fillRect(self.rect(), self.palette().window())
        if place.width() % width:
            # Qt scales what a screen has twice as fast as rows of three bytes.
            image = image.convertToFormat(QImage.Format.Format_RGB32)
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.drawImage(place, image)
        self.paints += 1
        self._since_paint.start()

    def _place(self, width: int, height: int) -> QRect:
        """As large as fits; a frame that fits as it is keeps its pixels."""
        scale = min(self.width() / width, self.height() / height)
        if 1 <= scale < (_BARELY_LARGER if self._fills else 2):
            scale = 1.0
        size = QSize(max(1, int(width * scale)), max(1, int(height * scale)))
        left, top = (self.width() - size.width()) // 2, (self.height() - size.height()) // 2
        return QRect(left, top, size.width(), size.height())

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._timer.start()

    def hideEvent(self, event: QHideEvent | None) -> None:
        self._timer.stop()
        super().hideEvent(event)
