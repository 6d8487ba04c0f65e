"""What the curves are drawn over: steps, times, or a metric that only grows."""

from __future__ import annotations

from collections.abc import Iterable

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QComboBox, QWidget

from gym_gui.ui.plots.run_metrics import CLOCK, CPU, STEP, TIME
from gym_gui.ui.plots.tags import title_of
from gym_gui.ui.widgets.calm import CalmCombo

_LETTERS = 8
_LONGEST_TAG = 1000


class AxisChoice(CalmCombo):
    """``chosen(str)`` brings the name of the new choice, as :mod:`gym_gui.ui.plots.run_metrics` has it."""

    chosen = pyqtSignal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        tr = self.tr
        for name, title, text in (
            (STEP, tr("Step"), tr("Draw the curves over the steps of the environment")),
            (TIME, tr("Time"), tr("Draw the curves over the time since the run's first number")),
            (CLOCK, tr("Clock"), tr("Draw the curves over the time of day at which each number came")),
            (CPU, tr("CPU time"), tr("Draw the curves over the CPU time that the training had used")),
        ):
            self._add(name, title, text)
        self._fixed = self.count()
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(_LETTERS)
        self.setAccessibleName(tr("Horizontal axis"))
        self.setToolTip(tr("What the curves are drawn over"))
        self.currentIndexChanged.connect(lambda _: self.chosen.emit(self.choice))

    def _add(self, name: str, title: str, text: str) -> None:
        self.addItem(title, name)
        self.setItemData(self.count() - 1, text, Qt.ItemDataRole.ToolTipRole)

    @property
    def choice(self) -> str:
        return str(self.currentData())

    def choose(self, name: str) -> None:
        """A metric is offered from then on, also while no run has it: it was chosen for others."""
        if self.findData(name) < 0 and "/" in name and len(name) <= _LONGEST_TAG:
            self._offer(name)
        self.setCurrentIndex(max(0, self.findData(name)))

    def offer(self, tags: Iterable[str]) -> None:
        """These metrics, and the one that is chosen."""
        wanted = sorted({*tags, *([self.choice] if self.currentIndex() >= self._fixed else [])})
        if wanted == [self.itemData(number) for number in range(self._fixed, self.count())]:
            return
        choice, blocked = self.choice, self.blockSignals(True)
        while self.count() > self._fixed:
            self.removeItem(self.count() - 1)
        for tag in wanted:
            self._offer(tag)
        self.setCurrentIndex(self.findData(choice))
        self.blockSignals(blocked)

    def _offer(self, tag: str) -> None:
        self._add(tag, title_of(tag), self.tr("Draw the curves over {tag}").format(tag=tag))
