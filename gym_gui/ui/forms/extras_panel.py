"""The optional sets of a worker as boxes to tick: which are installed, and installing the rest before a run starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from PyQt6 import sip
from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QCheckBox, QGridLayout, QHBoxLayout, QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from gym_gui.services.worker_extras import ExtraSet, ExtrasTool
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.context import Cockpit
from gym_gui.ui.styling import tell
from gym_gui.ui.widgets.elided_label import ElidedLabel

_UNDER_THE_NAME = 25
"""As wide as the box before a name."""


class ExtrasPanel(QWidget):
    """``changed()`` follows every tick, ``installed()`` an installation that went well.

    What is ticked is what the next run needs. What of it is missing is installed by :meth:`install`.
    """

    changed = pyqtSignal()
    installed = pyqtSignal()

    def __init__(self, cockpit: Cockpit, worker_type: str, queries: WorkerQueries) -> None:
        super().__init__()
        self._cockpit, self._worker_type, self._queries = cockpit, worker_type, queries
        self._sets: dict[str, ExtraSet] = {}
        self._wanted: list[str] = []
        """What is ticked, also before the worker has named its sets."""
        self._tool: ExtrasTool | None = None
        self.boxes: dict[str, QCheckBox] = {}
        self.states: dict[str, QLabel] = {}
        self.told = QLabel()
        self.told.setWordWrap(True)
        self.told.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.again = QPushButton(self.tr("Try again"))
        self.again.setToolTip(self.tr("Ask the worker for its extras once more"))
        self.again.clicked.connect(self.ask)
        self.again.hide()
        self.bar = QProgressBar()
        self.bar.setRange(0, 0)  # how long it takes, nobody knows
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(6)
        self.bar.setAccessibleName(self.tr("Installing extras"))
        self.cancel_button = QPushButton(self.tr("Cancel"))
        self.cancel_button.setToolTip(self.tr("Stop installing; the environment stays as it was"))
        self.cancel_button.clicked.connect(self.cancel)
        work = QHBoxLayout()
        work.addWidget(self.bar, 1)
        work.addWidget(self.cancel_button)
        self._grid = QGridLayout()
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(0, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addLayout(self._grid)
        layout.addWidget(self.told)
        layout.addWidget(self.again, alignment=Qt.AlignmentFlag.AlignLeft)
        layout.addLayout(work)
        self._show_work(False)
        self._tell(self.tr("Asking the worker which extras there are…"), "muted")

    # ---- which there are -----------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Ask the worker which sets there are."""
        self.again.hide()

        self._cockpit.bridge.in_background(self._new_tool().sets, self.offer, self._not_told, owner=self)

    def _new_tool(self) -> ExtrasTool:
        return ExtrasTool(partial(self._queries.manifest, self._worker_type), self._queries.paths)

    def offer(self, sets: Sequence[ExtraSet]) -> None:
        """Show these; what was ticked stays so."""
        self._sets = {one.name: one for one in sets}
        for row, one in enumerate(sets):
            if one.name not in self.boxes:
                self._add(row, one)
            self.boxes[one.name].setChecked(one.name in self._wanted)
            self._show_state(one)
        self._tell("" if sets else self.tr("This worker has no extras."), "muted")
        self.changed.emit()

    def _not_told(self, sentence: str) -> None:
        self._tell(sentence, "warning")
        self.again.show()

    def _add(self, row: int, one: ExtraSet) -> None:
        box, about, state = QCheckBox(one.name), ElidedLabel(one.summary), QLabel()
        box.setToolTip(self.tr("{about}. Ticked: the next run needs it.").format(about=one.summary))
        box.setAccessibleDescription(one.summary)
        about.setProperty("role", "muted")
        about.setToolTip(one.summary)
        about.setContentsMargins(_UNDER_THE_NAME, 0, 0, 4)
        box.toggled.connect(partial(self._ticked, one.name))
        # Below the name, not beside it: a narrow form would leave three letters of it.
        self._grid.addWidget(box, 2 * row, 0)
        self._grid.addWidget(state, 2 * row, 1, alignment=Qt.AlignmentFlag.AlignRight)
        self._grid.addWidget(about, 2 * row + 1, 0, 1, 2)
        self.boxes[one.name], self.states[one.name] = box, state

    def _show_state(self, one: ExtraSet) -> None:
        if one.installed:
            tell(self.states[one.name], self.tr("installed"), "good")
            return
        size = self.tr("missing · {size} MB").format(size=f"{one.megabytes:,}") if one.megabytes else self.tr("missing")
        tell(self.states[one.name], size, "muted")

    def _ticked(self, name: str, on: bool) -> None:
        self._wanted = [one for one in self._wanted if one != name] + ([name] if on else [])
        self.changed.emit()

    # ---- what is wanted ------------------------------------------------------------------------------------------

    def chosen(self) -> list[str]:
        """What is ticked, in the order of the list."""
        return [name for name in self._sets if name in self._wanted] or list(self._wanted)

    def put(self, names: Iterable[object]) -> None:
        """Tick these and nothing else; unknown names are kept until the worker has named its sets."""
        self._wanted = [name for name in names if isinstance(name, str)]
        for name, box in self.boxes.items():
            box.setChecked(name in self._wanted)

    def tick(self, name: str) -> None:
        self.put([*self._wanted, name])
        self.changed.emit()

    def missing(self) -> list[str]:
        """What is ticked and not installed."""
        return [name for name in self.chosen() if name in self._sets and not self._sets[name].installed]

    # ---- installing ----------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        return self._tool is not None

    def install(self, done: Callable[[], None], failed: Callable[[str], None]) -> None:
        """Install what is ticked and missing; progress stands in the panel, and so does what went wrong."""
        names, tool = self.missing(), self._new_tool()
        self._tool = tool
        self._show_work(True)
        self._tell(self.tr("Installing {sets}…").format(sets=", ".join(names)), "muted")
        post = self._cockpit.bridge.post

        def over(sentence: str, then: Callable[[], None]) -> None:
            self._tool = None
            self._show_work(False)
            self._tell(sentence, "error" if sentence else "muted")
            then()

        self._cockpit.bridge.in_background(
            lambda: tool.install(names, lambda line: post(partial(self._progress, tool, line))),
            lambda _: over("", lambda: self._went_well(done)),
            lambda sentence: over(sentence, lambda: failed(sentence)),
            owner=self,
        )

    def cancel(self) -> None:
        """Stop what is being installed; an environment that is being changed is made whole first."""
        if self._tool is not None:
            self._tool.stop()
            self._tell(self.tr("Stopping…"), "muted")

    def _progress(self, tool: ExtrasTool, line: str) -> None:
        if not sip.isdeleted(self) and self._tool is tool and not tool.stopped:
            self._tell(line, "muted")

    def _went_well(self, done: Callable[[], None]) -> None:
        self.ask()
        self.installed.emit()
        done()

    def _show_work(self, under_way: bool) -> None:
        for widget in (self.bar, self.cancel_button):
            widget.setVisible(under_way)

    def _tell(self, sentence: str, role: str) -> None:
        tell(self.told, sentence, role)
