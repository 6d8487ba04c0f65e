"""The right side: the tabs of the run that is looked at. The presenter of its worker decides which ones there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

from PyQt6.QtCore import Qt, QTimer
from PyQt6.QtWidgets import QDockWidget, QLabel, QStackedLayout, QTabWidget, QVBoxLayout, QWidget

from gym_gui.services.run_labels import config_of, flat_settings
from gym_gui.services.run_overview import settings_of
from gym_gui.services.run_words import is_over
from gym_gui.services.trainer.client import TrainerClient
from gym_gui.ui.commands import Found
from gym_gui.ui.context import Cockpit
from mosaic_protocol.proto import trainer_pb2 as pb


class Tab(Protocol):
    """What a presenter offers for a run."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def make(self) -> Callable[[Cockpit, str], QWidget]: ...
    @property
    def applies(self) -> Callable[[TrainerClient, str], bool] | None: ...


TabsFor = Callable[[pb.Run], Sequence[Tab]]
_ASK_MILLISECONDS = 2000
"""How often a run that goes on is asked whether it has what a tab shows."""


class RunTabs(QWidget):
    """Tabs are made when they are first looked at, and gone when another run is. The tab in front stays in front."""

    def __init__(self, cockpit: Cockpit, tabs_for: TabsFor) -> None:
        super().__init__()
        self.setMinimumWidth(320)
        self._cockpit, self._tabs_for = cockpit, tabs_for
        self._run_id: str | None = None
        self._specs: list[Tab] = []
        """The tabs that are there, in their order."""
        self._candidates: list[Tab] = []
        self._doubtful: list[Tab] = []
        """Candidates that do not apply, as far as it is known."""
        self._asking = QTimer(self)
        self._asking.setSingleShot(True)
        self._asking.setInterval(_ASK_MILLISECONDS)
        self._asking.timeout.connect(self._ask_doubtful)
        self._settings: dict[str, str] = {}
        """Those that the script has by default among them, as far as they were read."""
        self._settings_read_in = ""
        self._wanted = cockpit.preferences.get("run-tabs.front", "")
        self._title = QLabel()
        self._title.setProperty("role", "title")
        self._title.setContentsMargins(12, 8, 12, 0)
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.setMovable(False)
        self.tabs.currentChanged.connect(self._look_at)
        self._empty = QLabel(self.tr("Choose a run in Runs to see what is known of it."))
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setWordWrap(True)
        self._empty.setProperty("role", "muted")
        page = QWidget()
        inside = QVBoxLayout(page)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.addWidget(self._title)
        inside.addWidget(self.tabs, 1)
        self._pages = QStackedLayout(self)
        self._pages.addWidget(self._empty)
        self._pages.addWidget(page)
        cockpit.selection.changed.connect(lambda _: self._follow())
        cockpit.runs.changed.connect(self._runs_changed)
        cockpit.commands.finders += (self.found_tabs, self.found_settings)

    def show_tab(self, name: str) -> None:
        """Bring a tab to the front by its name; one that the run has not is left alone."""
        for number, spec in enumerate(self._specs):
            if spec.name == name:
                self.tabs.setCurrentIndex(number)

    @property
    def front(self) -> QWidget | None:
        """What the tab in front shows."""
        holder = self.tabs.currentWidget()
        layout = holder.layout() if holder is not None else None
        item = layout.itemAt(0) if layout is not None else None
        return item.widget() if item is not None else None

    def found_tabs(self, query: str) -> Iterator[Found]:
        """Tabs of the run that is looked at, for the palette."""
        run = self._cockpit.runs.get(self._run_id) if self._run_id is not None else None
        if run is None:
            return
        words = set(query.lower().split()) - {"run", "tab"}  # which all of them are
        for spec in self._specs if words else ():
            name = spec.title.replace("&&", "&")
            if all(word in f"{name} {spec.name}".lower() for word in words):
                title = self.tr("Run › {tab}").format(tab=name)
                tip = self.tr("Show what {tab} has of this run").format(tab=name)
                yield Found(title, self._cockpit.runs.label(run), tip, partial(self._show_from_afar, spec.name))

    def _show_from_afar(self, name: str) -> None:
        self.show_tab(name)
        self.bring_forward()

    def found_settings(self, query: str) -> Iterator[Found]:
        """Settings of the run that is looked at, for the palette; each is shown among everything known of the run."""
        run = self._cockpit.runs.get(self._run_id) if self._run_id is not None else None
        if run is None:
            return
        words = query.lower().replace("_", " ").split()
        for name, value in {**self._settings, **flat_settings(config_of(run.config_json))}.items():
            if all(word in name.replace("_", " ").lower() for word in words):
                title = self.tr("Setting › {name} = {value}").format(name=name, value=value)
                yield Found(title, self._cockpit.runs.label(run), title, partial(self._show_setting, name))

    def _show_setting(self, name: str) -> None:
        self._show_from_afar("overview")
        search = getattr(self.front, "search", None)
        if search is not None:
            search.setText(name)

    def bring_forward(self) -> None:
        """Before the panels that share its place; the keyboard stays where it is."""
        dock = self.parentWidget()
        if isinstance(dock, QDockWidget):
            dock.show()
            dock.raise_()

    def close_panel(self) -> None:
        self._clear()

    def _runs_changed(self, run_ids: list[str]) -> None:
        if self._cockpit.selection.current in run_ids:
            self._follow()

    def _follow(self) -> None:
        current = self._cockpit.selection.current
        run = self._cockpit.runs.get(current) if current else None
        if run is None:
            self._clear()
            self._pages.setCurrentIndex(0)
            return
        self._title.setText(self._cockpit.runs.label(run))
        if run.run_id != self._run_id:
            self._show_run(run)
            self._ask_doubtful()
        elif self._doubtful and is_over(run) and self._asking.isActive():
            self._asking.stop()
            self._ask_doubtful()
        self._read_settings(run)

    def _read_settings(self, run: pb.Run) -> None:
        """Once in each state of a run: a script says what it has by default when it starts."""
        if self._settings_read_in == run.state:
            return
        self._settings_read_in = run.state
        take = partial(self._take_settings, run.run_id)
        self._cockpit.bridge.in_background(partial(settings_of, run), take, owner=self)

    def _take_settings(self, run_id: str, settings: dict[str, str]) -> None:
        if run_id == self._run_id:
            self._settings = settings

    def _show_run(self, run: pb.Run) -> None:
        self._clear()
        self._run_id = run.run_id
        self._candidates = list(self._tabs_for(run))
        self._specs = [spec for spec in self._candidates if spec.applies is None]
        self._doubtful = [spec for spec in self._candidates if spec.applies is not None]
        self.tabs.blockSignals(True)
        for spec in self._specs:
            self.tabs.addTab(_holder(), spec.title)
        names = [spec.name for spec in self._specs]
        self.tabs.setCurrentIndex(names.index(self._wanted) if self._wanted in names else 0)
        self.tabs.blockSignals(False)
        self._pages.setCurrentIndex(1)
        self._make(self.tabs.currentIndex())

    def _ask_doubtful(self) -> None:
        """Whether tabs that did not apply do now. A run that goes on is asked about again, one that is over once."""
        run = self._cockpit.runs.get(self._run_id) if self._run_id is not None else None
        if run is None:
            return
        for spec in self._doubtful:
            assert spec.applies is not None
            ask = partial(_asked, spec.applies, run.run_id)
            answered, again = partial(self._answered, run.run_id, spec), lambda _: self._asking.start()
            self._cockpit.bridge.call(ask, answered, again, owner=self)
        if self._doubtful and not is_over(run):
            self._asking.start()

    def _answered(self, run_id: str, spec: Tab, applies: bool) -> None:
        if run_id != self._run_id or not applies or spec not in self._doubtful:
            return
        self._doubtful.remove(spec)
        place = sum(self._candidates.index(one) < self._candidates.index(spec) for one in self._specs)
        self._specs.insert(place, spec)
        self.tabs.blockSignals(True)
        self.tabs.insertTab(place, _holder(), spec.title)
        self.tabs.blockSignals(False)
        if spec.name == self._wanted:
            self.tabs.setCurrentIndex(place)
        self._make(self.tabs.currentIndex())

    def _look_at(self, number: int) -> None:
        if 0 <= number < len(self._specs):
            self._wanted = self._specs[number].name
            self._cockpit.preferences.put("run-tabs.front", self._wanted)
            self._make(number)

    def _make(self, number: int) -> None:
        holder = self.tabs.widget(number)
        layout = holder.layout() if holder is not None else None
        if layout is not None and layout.count() == 0 and self._run_id is not None:
            layout.addWidget(self._specs[number].make(self._cockpit, self._run_id))

    def _clear(self) -> None:
        self._run_id, self._specs, self._candidates = None, [], []
        self._settings, self._settings_read_in = {}, ""
        self._doubtful = []
        self._asking.stop()
        self.tabs.blockSignals(True)
        while self.tabs.count():
            holder = self.tabs.widget(0)
            self.tabs.removeTab(0)
            if holder is not None:
                _close(holder)
                holder.deleteLater()
        self.tabs.blockSignals(False)


def _holder() -> QWidget:
    holder = QWidget()
    QVBoxLayout(holder).setContentsMargins(0, 0, 0, 0)
    return holder


def _asked(applies: Callable[[TrainerClient, str], bool], run_id: str, client: TrainerClient) -> bool:
    return applies(client, run_id)


def _close(holder: QWidget) -> None:
    """Notify what is inside that it is not shown any more: a tab with a server or a stream has ``close_tab``."""
    layout = holder.layout()
    item = layout.itemAt(0) if layout is not None else None
    inside = item.widget() if item is not None else None
    close = getattr(inside, "close_tab", None)
    if close is not None:
        close()
