"""The left side: who acts (Human, Hybrid, Agent), with which worker, and the form for a run or for what was trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from PyQt6.QtCore import Qt, QTimer, pyqtSignal
from PyQt6.QtGui import QResizeEvent
from PyQt6.QtWidgets import QDockWidget, QHBoxLayout, QLabel, QStackedWidget, QToolButton, QVBoxLayout, QWidget

from gym_gui.services.external_services import ServiceState, look_for
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.bridge import ConnectionState
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.train_form import TrainForm
from gym_gui.ui.icons import icon
from gym_gui.ui.panels.train_commands import add_train_commands
from gym_gui.ui.play.play_panel import PlayPanel
from gym_gui.ui.presenters.workers.registry import PresenterRegistry, default_presenters
from gym_gui.ui.styling import tell
from gym_gui.ui.tab_order import stops
from gym_gui.ui.theme import Theme
from gym_gui.ui.widgets.empty_page import EmptyPage
from gym_gui.ui.widgets.preset_bar import PresetBar, Shipped
from gym_gui.ui.widgets.segments import Segments
from gym_gui.ui.widgets.snackbar import Notice
from gym_gui.ui.widgets.worker_list import WorkerList
from gym_gui.ui.workers.catalog import Catalog, WorkerEntry
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.worker_manifest import discover
from mosaic_protocol.worker_presets import presets_of

if TYPE_CHECKING:
    from gym_gui.services.checkpoints.entry import CheckpointEntry

RETRY_MILLISECONDS = 3000
SERVICES_MILLISECONDS = 10_000
_LOW = 600
"""Below this height the rows of the form need the room of the workers."""


class TrainDock(QWidget):
    """``catalog_changed(Catalog)`` when the daemon has named its workers. ``sweep_submitted(str)``: the id of a sweep.

    Training widgets are not shown, and not made, until a person asks for them: by Agent mode, by *Train new*, by a
    worker, or by a command that is about a form. The widget for trained policies is another's: :meth:`set_use_trained`.
    """

    catalog_changed = pyqtSignal(object)
    sweep_submitted = pyqtSignal(str)

    def __init__(self, cockpit: Cockpit, presenters: PresenterRegistry | None = None) -> None:
        super().__init__()
        self.setMinimumWidth(330)
        self._cockpit = cockpit
        self.presenters = presenters or default_presenters()
        self.queries = WorkerQueries(cockpit.bridge.paths)
        self.catalog = Catalog()
        self.forms: dict[str, TrainForm] = {}
        self._asked = any(cockpit.preferences.get(f"train.{name}") for name in ("asked", "mode", "what", "worker"))
        """Whether a person ever asked for the training widgets."""
        self.mode = self._make_mode()
        self.workers = WorkerList(cockpit.themes)
        self.what = self._make_what()
        self.train_presets = PresetBar(cockpit, "train", self._train_state, self._put_train_state)
        self.use_presets = PresetBar(cockpit, "use", self._use_state, self._put_use_state)
        self.presets_button = self._make_presets_button()
        self.told = QLabel()
        self.told.setWordWrap(True)
        self.told.setProperty("role", "muted")
        self.told.setContentsMargins(12, 0, 12, 0)
        self.empty = EmptyPage()
        self.empty.acted.connect(self._set_up)
        self.trained: QWidget = EmptyPage(
            self.tr("No trained policies here"), self.tr("Train a new agent first; its checkpoints are listed here.")
        )
        self.pages = QStackedWidget()
        self.pages.addWidget(self.empty)
        self.pages.addWidget(self.trained)
        self.play: PlayPanel | None = None
        self._lay_out()
        self._dress(cockpit.themes.theme)
        self._retry = QTimer(self)
        self._retry.setSingleShot(True)
        self._retry.setInterval(RETRY_MILLISECONDS)
        self._retry.timeout.connect(self.ask_workers)
        self._services = QTimer(self)
        self._services.setInterval(SERVICES_MILLISECONDS)
        self._services.timeout.connect(self._look_for_services)
        add_train_commands(cockpit, self)
        self._connect()
        self._arrange()

    # ---- making --------------------------------------------------------------------------------------------------

    def _make_mode(self) -> Segments:
        tr = self.tr
        mode = Segments(
            [
                ("human", tr("Human"), tr("You act yourself; nothing is trained")),
                ("hybrid", tr("Hybrid"), tr("You and a trained policy act in turns")),
                ("agent", tr("Agent"), tr("An agent acts: train a new one, or use a trained one")),
            ]
        )
        mode.setAccessibleName(tr("Who acts"))
        mode.choose(self._cockpit.preferences.get("train.mode", "agent"))
        return mode

    def _make_what(self) -> Segments:
        tr = self.tr
        what = Segments(
            [
                ("train", tr("Train new"), tr("Set up and launch a new run")),
                ("use", tr("Use trained"), tr("Look through checkpoints, evaluate them, go on from them")),
            ]
        )
        what.setAccessibleName(tr("Train a new agent or use a trained one"))
        what.buttons["use"].setObjectName("use-trained")  # by which the tour finds it
        what.choose(self._wish_for(self._cockpit.preferences.get("train.worker", "")))
        return what

    def _wish_for(self, worker_type: str) -> str:
        """What was done last with this agent: ``train`` or ``use``."""
        remembered = self._cockpit.preferences.get
        return str(remembered(f"train.what.{worker_type}", remembered("train.what", "train")))

    def _make_presets_button(self) -> QToolButton:
        button = QToolButton()
        button.setCheckable(True)
        button.setChecked(self._cockpit.preferences.get("train.presets", False))
        button.setToolTip(self.tr("Show or hide the presets: settings that were saved under a name"))
        button.setAccessibleName(self.tr("Presets"))
        button.toggled.connect(self._presets_toggled)
        self._cockpit.themes.changed.connect(self._dress)
        return button

    def _dress(self, theme: Theme) -> None:
        self.presets_button.setIcon(icon("preset", theme.colour("text")))

    def _presets_toggled(self, shown: bool) -> None:
        self._cockpit.preferences.put("train.presets", shown)
        self._arrange(relist=False)

    def _lay_out(self) -> None:
        top = QVBoxLayout()
        top.setContentsMargins(12, 8, 12, 4)
        top.setSpacing(8)
        choice = QHBoxLayout()
        choice.setSpacing(6)
        choice.addWidget(self.what, 1)
        choice.addWidget(self.presets_button)
        top.addWidget(self.mode)
        top.addWidget(self.workers)
        top.addLayout(choice)
        top.addWidget(self.train_presets)
        top.addWidget(self.use_presets)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(top)
        layout.addWidget(self.told)
        layout.addWidget(self.pages, 1)

    def _connect(self) -> None:
        self.mode.chosen.connect(self._mode_chosen)
        self.what.chosen.connect(self._what_chosen)
        self.workers.chosen.connect(self._worker_chosen)
        self.workers.itemClicked.connect(lambda _: self._ask_for_form())
        for button in (self.mode.buttons["agent"], self.what.buttons["train"]):
            button.clicked.connect(lambda _: self._ask_for_form())
        self._cockpit.bridge.connection_changed.connect(self._connection_changed)
        if self._cockpit.bridge.connection.connected:
            self.ask_workers()

    # ---- the catalog ---------------------------------------------------------------------------------------------

    def ask_workers(self) -> None:
        """Ask the daemon which workers there are, and whether each could start now."""
        self._cockpit.bridge.call(lambda client: client.workers(), self._take_workers, self._no_workers, owner=self)

    def _take_workers(self, answer: pb.ListWorkersResponse) -> None:
        self._use_catalog(Catalog.from_daemon(answer, self.presenters.problems))
        self._look_for_services()

    def _use_catalog(self, catalog: Catalog) -> None:
        self.catalog = catalog
        for worker_type, form in self.forms.items():
            entry = catalog.entries.get(worker_type)
            if entry is not None and entry != form.entry:
                form.entry = entry
                form.refresh()
        self._arrange()
        self.catalog_changed.emit(catalog)

    def _look_for_services(self) -> None:
        """Find out whether the services that workers need answer, and again from time to time."""
        wanted = self.catalog.services_wanted()
        if not wanted:
            self._services.stop()
            return
        look = lambda: {worker_type: look_for(services) for worker_type, services in wanted.items()}  # noqa: E731
        self._cockpit.bridge.in_background(look, self._take_services, owner=self)
        self._services.start()

    def _take_services(self, found: Mapping[str, tuple[ServiceState, ...]]) -> None:
        catalog = self.catalog.with_services(found)
        if catalog != self.catalog:
            self._use_catalog(catalog)

    def _no_workers(self, sentence: str) -> None:
        self._tell(sentence, "warning")
        if self._cockpit.bridge.connection.connected:
            self._retry.start()

    def _connection_changed(self, state: ConnectionState) -> None:
        if state.connected:
            self.ask_workers()
        else:
            self._arrange()

    # ---- what is shown -------------------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        self.workers.set_low(self.height() < _LOW)

    def set_use_trained(self, widget: QWidget) -> None:
        """Take the widget for trained policies; presets are kept of one with ``state()`` and ``put_state(dict)``."""
        self.pages.removeWidget(self.trained)
        self.trained.deleteLater()
        self.trained = widget
        self.pages.addWidget(widget)
        self._arrange()

    def set_play(self, panel: PlayPanel) -> None:
        """Take the widget for live sessions, which Human and Hybrid mode show."""
        self.play = panel
        self.pages.addWidget(panel)
        panel.desk.status_changed.connect(self._leave_keyboard)
        self._arrange()

    def _leave_keyboard(self) -> None:
        """While a session is on the stage, a click on a mode leaves the keyboard with it: in Hybrid mode its keys take
        the seat."""
        live = self.play is not None and self.play.desk.status == "live"
        for button in self.mode.buttons.values():
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus if live else Qt.FocusPolicy.StrongFocus)

    def show_page(self, what: str) -> None:
        """Agent mode with ``train`` or ``use`` in front."""
        self.mode.choose("agent")
        self.what.choose(what)
        if what == "train":
            self._ask_for_form()

    def _set_up(self) -> None:
        """The button that was pressed goes; the keyboard is wanted in the form that comes."""
        self.show_page("train")
        self.setFocus()

    def _ask_for_form(self) -> None:
        """A person wants the training widgets; from now on they are there."""
        if not self._asked:
            self._asked = True
            self._cockpit.preferences.put("train.asked", True)
            self._arrange(relist=False)

    def duplicate(self, config: Mapping[str, Any]) -> None:
        """Show a run's config in its worker's form, for "duplicate as new"."""
        worker_type = str(config["metadata"]["worker"]["type"])
        entry = self.catalog.entries.get(worker_type)
        if entry is None:
            self.show_page("train")
            self._warn(self.tr("The worker {type} of that run is not installed").format(type=repr(worker_type)))
            return
        self.show_form(entry).fill_quietly(config)

    def set_checkpoint(self, path: str, kind: str, algo: str = "", env_id: str = "", worker: str = "") -> None:
        """Begin the next run from a checkpoint in the form of its worker; kind: ``warm_start`` or ``resume``.

        Without a worker it is the one that offers the algorithm, else the one that is chosen.
        """
        entries = self.catalog.entries
        offering = next((one.type for one in entries.values() if algo and algo in one.algorithms), self.workers.choice)
        entry = entries.get(worker or offering)
        if entry is None or entry.is_human:
            self._warn(self.tr("The worker {type} of that checkpoint is not installed").format(type=repr(worker)))
        elif not getattr(entry.capabilities, kind):
            self._warn(self.tr("{worker} cannot begin a run from a checkpoint this way").format(worker=entry.name))
        else:
            self.show_form(entry).set_checkpoint(path, kind, algo, env_id)

    def begin_from(self, checkpoint: CheckpointEntry, kind: str) -> None:
        """The same for a checkpoint of the registry, with the worker, algorithm and environment that it fits."""
        self.set_checkpoint(str(checkpoint.path), kind, checkpoint.algo, checkpoint.env_id, checkpoint.worker)

    def show_form(self, entry: WorkerEntry) -> TrainForm:
        """Bring a worker's form into sight. The worker comes first: it brings its own last page with it."""
        self.mode.choose("agent")
        self.workers.choose(entry.type)
        self.show_page("train")
        return self.form_for(entry)

    def _warn(self, sentence: str) -> None:
        self._cockpit.notify(Notice(sentence, "warning"))

    @property
    def form(self) -> TrainForm | None:
        """The form that is shown, None when none is."""
        page = self.pages.currentWidget()
        return page if isinstance(page, TrainForm) else None

    def form_for(self, entry: WorkerEntry) -> TrainForm:
        """The form of a worker, made when it is first wanted."""
        if entry.type not in self.forms:
            form = self.presenters.make_form(self._cockpit, entry, self.queries)
            form.sweep_submitted.connect(self.sweep_submitted)
            self.forms[entry.type] = form
            self.pages.addWidget(form)
        return self.forms[entry.type]

    def _mode_chosen(self, mode: str) -> None:
        self._cockpit.preferences.put("train.mode", mode)
        self._asked = self._asked or mode == "agent"
        self._arrange()

    def _what_chosen(self, what: str) -> None:
        worker_type = self.workers.choice
        self._cockpit.preferences.put(f"train.what.{worker_type}" if worker_type else "train.what", what)
        self._arrange()

    def _worker_chosen(self, worker_type: str) -> None:
        if self.mode.choice == "agent":
            self._cockpit.preferences.put("train.worker", worker_type)
            self._asked = True
            self.what.choose(self._wish_for(worker_type))
        self._arrange(relist=False)

    def _arrange(self, *, relist: bool = True) -> None:
        """Show what belongs to the mode, the worker and the wish."""
        mode, what = self.mode.choice, self.what.choice
        if relist:
            self.workers.show_entries(self.catalog.for_mode(mode), self._usual_worker())
        is_agent = mode == "agent"
        self.setWindowTitle(self.tr("Train") if is_agent else self.tr("Play"))
        dock = self.parentWidget()
        if isinstance(dock, QDockWidget) and dock.widget() is self:  # a replay may have borrowed it
            dock.setWindowTitle(self.windowTitle())
        # Whose checkpoints are looked through is a choice only where there are several workers.
        self.workers.setVisible(is_agent and self.workers.count() > (1 if what == "use" else 0))
        self.what.setVisible(is_agent)
        entry = self.catalog.entries.get(self.workers.choice)
        ready_to_train = self._asked and is_agent and what == "train" and entry is not None and not entry.is_human
        can_use_presets = what == "use" and hasattr(self.trained, "put_state")
        with_presets = self.presets_button.isChecked()
        self.presets_button.setVisible(is_agent and (ready_to_train or can_use_presets))
        self.train_presets.setVisible(with_presets and ready_to_train)
        self.use_presets.setVisible(with_presets and is_agent and can_use_presets)
        if with_presets and ready_to_train and entry is not None:
            self.train_presets.offer(self._shipped_with(entry.type))
        if is_agent and what == "use":
            self._show_trained()
        elif ready_to_train and entry is not None:
            self.pages.setCurrentWidget(self.form_for(entry))
        elif mode != "agent" and self.play is not None:
            self.play.use_mode("hybrid" if mode == "hybrid" else "human", self.catalog.sessions)
            self.pages.setCurrentWidget(self.play)
        else:
            self._show_empty(mode)
        problems = dict.fromkeys([*self.catalog.problems, *self.presenters.problems])
        self._tell("; ".join(problems) if is_agent else "", "warning")

    def _usual_worker(self) -> str:
        """The one that was chosen last, else the first that could start now."""
        agents = self.catalog.for_mode("agent")
        first = next((entry.type for entry in agents if entry.ready), "")
        return str(self._cockpit.preferences.get("train.worker", first) or first)

    def _show_trained(self) -> None:
        use_worker = getattr(self.trained, "use_worker", None)
        if use_worker is not None:
            workers = [entry.type for entry in self.catalog.for_mode("agent")]
            use_worker(self.workers.choice if len(workers) > 1 else "", workers)
        self.pages.setCurrentWidget(self.trained)

    def _show_empty(self, mode: str) -> None:
        tr = self.tr
        if not self._cockpit.bridge.connection.connected:
            text = tr("Workers are listed as soon as the trainer daemon answers. What you typed is kept.")
            self.empty.tell(tr("Waiting for the trainer daemon"), text)
        elif not self.catalog.for_mode("agent"):
            text = tr("Install one, for instance with `make setup`, or name its folder in MOSAIC_WORKER_PATH.")
            self.empty.tell(tr("No worker is installed"), text)
        else:
            text = tr("Choose an algorithm and an environment. Nothing starts before you press Launch.")
            self.empty.tell(tr("Train an agent"), text, tr("Set up a run"))
        self.pages.setCurrentWidget(self.empty)

    def _tell(self, sentence: str, role: str) -> None:
        tell(self.told, sentence, role)

    # ---- presets -------------------------------------------------------------------------------------------------

    def _train_state(self) -> dict[str, Any]:
        form = self.form
        return {"worker": form.entry.type, "form": form.state()} if form is not None else {}

    def _shipped_with(self, worker_type: str) -> dict[str, Shipped]:
        manifest = discover().workers.get(worker_type)
        name = self.tr("{algo} {name} for {env}")
        return {
            name.format(algo=one.algo, name=one.name, env=one.env_id): Shipped(
                {"worker": worker_type, "settings": one.worker_config()}, str(one.evidence)
            )
            for one in (presets_of(manifest)[0] if manifest is not None else ())
        }

    def _put_train_state(self, state: Mapping[str, Any]) -> None:
        entry = self.catalog.entries.get(str(state.get("worker")))
        form_state = state.get("form")
        if entry is not None and isinstance(form_state, dict):
            self.show_form(entry).put_state(form_state)
        elif entry is not None and isinstance(settings := state.get("settings"), dict):
            self.show_form(entry).put_settings(settings)

    def _use_state(self) -> dict[str, Any]:
        read = getattr(self.trained, "state", None)
        return read() if read is not None else {}

    def _put_use_state(self, state: Mapping[str, Any]) -> None:
        put = getattr(self.trained, "put_state", None)
        if put is not None:
            put(dict(state))

    # ---- end -----------------------------------------------------------------------------------------------------

    def close_panel(self) -> None:
        """End what is under way in the background: nobody waits for the answers any more, and the bridge would."""
        self._retry.stop()
        self._services.stop()
        self.queries.stop()
        for form in self.forms.values():
            form.close_panel()
        if self.play is not None:
            self.play.close_panel()
        close = getattr(self.trained, "close_panel", None)
        if close is not None:
            close()

    def setFocus(self, reason: Qt.FocusReason = Qt.FocusReason.OtherFocusReason) -> None:
        """The first field of the form, or where there is none what brings it, or the choice of who acts."""
        if self.play is not None and self.pages.currentWidget() is self.play:
            self.play.setFocus(reason)
            return
        fields = [stop for stop in stops(self.form.area) if not isinstance(stop, QToolButton)] if self.form else []
        shows_empty = self.pages.currentWidget() is self.empty and not self.empty.button.isHidden()
        first = self.empty.button if shows_empty else self.mode.buttons[self.mode.choice]
        (fields[0] if fields else first).setFocus(reason)
