"""What every form for a new run has: its content, a foot to launch from, and a memory that outlives the daemon, the
theme and the application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from PyQt6.QtCore import QPoint, Qt, QTimer, pyqtSignal
from PyQt6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from gym_gui.services.run_request import COPY, RunRequest, derived_name, fresh_name
from gym_gui.services.session_controller import SessionController
from gym_gui.services.start_point import placed
from gym_gui.services.sweeps.model import SweepSpec
from gym_gui.services.sweeps.wish import outermost
from gym_gui.services.waiting_line import ANY_HOST
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.services.worker_tools import ToolError
from gym_gui.ui.bridge import ConnectionState
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.consent_panel import ConsentPanel
from gym_gui.ui.forms.expected_run import ExpectedRun
from gym_gui.ui.forms.extras_panel import ExtrasPanel
from gym_gui.ui.forms.field_editor import FieldEditor
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.launch_bar import LaunchBar
from gym_gui.ui.forms.layouts import Section
from gym_gui.ui.forms.run_fields import HERE, gpus_at
from gym_gui.ui.forms.run_launch import RunLaunch
from gym_gui.ui.forms.settings_of import mapping
from gym_gui.ui.forms.sweep_panel import SweepPanel
from gym_gui.ui.forms.text_panels import NotesPanel
from gym_gui.ui.workers.catalog import WorkerEntry
from gym_gui.validations.config_problems import config_problems, refusal_by_field, told
from gym_gui.validations.dry_run import DryRun
from mosaic_protocol.proto import trainer_pb2 as pb

ESTIMATE_MILLISECONDS = 1000
_SWEEP = "sweep"


class TrainForm(QWidget):
    """A form for one worker. ``submitted(str)`` brings the id of a run that was accepted, ``sweep_submitted(str)`` that
    of a sweep.

    A subclass makes the content, reads it (:meth:`request`), remembers it (:meth:`state`, :meth:`restore`) and calls
    :meth:`refresh` after every edit. Everything happens in the GUI's thread; what takes time goes through the bridge.
    """

    submitted = pyqtSignal(str)
    sweep_submitted = pyqtSignal(str)

    def __init__(self, cockpit: Cockpit, entry: WorkerEntry, queries: WorkerQueries) -> None:
        super().__init__()
        self.cockpit, self.entry, self.queries = cockpit, entry, queries
        self._controller = SessionController(queries)
        self.notes_panel = NotesPanel()
        self.extras = ExtrasPanel(cockpit, entry.type, queries) if entry.has_extras else None
        """The worker's optional sets, for the subclass to place; None where it has none."""
        self.sweep = SweepPanel(cockpit.themes)
        """Makes a sweep of the run, for the subclass to place."""
        self.sweep.changed.connect(self.refresh)
        self.consent = ConsentPanel()
        self.consent.asking.connect(self._show_consent)
        self.gpus: int | None = None
        """How many there are where the run would go, None until the daemon has said so."""
        self._health: pb.Health | None = None
        self.cpus = 0
        """How many its runs share, 0 until it has said so."""
        self.bar = LaunchBar(cockpit.themes)
        self.bar.launch.connect(self.launch)
        self.bar.dry_run.connect(self.dry_run)
        self.area = QScrollArea()
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.area, 1)
        layout.addWidget(self.consent)
        layout.addWidget(self.bar)
        self._busy = ""
        self._expected = ExpectedRun(self, cockpit)
        self._launch = RunLaunch(self)
        self._launch.accepted.connect(self.submitted)
        self._launch.sweep_accepted.connect(self.sweep_submitted)
        self._outcome: tuple[RunRequest, str, str] | None = None
        """What came of the last dry run or submission of a request; shown until another one stands in the form."""
        self._shown: RunRequest | None = None
        self._quiet = True
        """While the form fills itself, edits are not taken for a person's."""
        cockpit.bridge.connection_changed.connect(self._connection_changed)
        cockpit.bridge.health_changed.connect(self._health_changed)
        if self.extras is not None:
            self.extras.changed.connect(self.refresh)
        self._speeds_changed = QTimer(self)
        self._speeds_changed.setSingleShot(True)
        self._speeds_changed.setInterval(ESTIMATE_MILLISECONDS)
        self._speeds_changed.timeout.connect(self._catch_up)
        cockpit.runs.changed.connect(self._runs_changed)

    # ---- for subclasses ------------------------------------------------------------------------------------------

    def begin(self, content: QWidget) -> None:
        """Take the finished content, and fill it with what was remembered. To be called last in ``__init__``."""
        self.area.setWidget(content)
        self._quiet = False
        self.put_state(self.cockpit.preferences.get(self.memory_key, {}))
        if self.extras is not None:
            self.extras.ask()

    def request(self) -> RunRequest:
        """What would be submitted as the form stands."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Everything that was typed, as plain JSON."""
        raise NotImplementedError

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state` returned; what is missing or damaged stands at its default."""
        raise NotImplementedError

    def fill(self, config: Mapping[str, Any]) -> None:
        """Take the settings of a run config, so that it can be run again as it is or changed."""
        raise NotImplementedError

    def field_problems(self) -> dict[str, str]:
        """What is wrong, by field."""
        return {}

    def searchable(self) -> list[FieldGroup]:
        """The groups whose fields a sweep may search."""
        return []

    def script_words(self) -> list[str]:
        """The words of a ``mosaic`` command that choose what trains."""
        algo = self.request().settings.get("algo")
        return [*([str(algo)] if algo else []), "--worker", self.entry.type]

    def editor_of(self, field: str) -> FieldEditor | None:
        """The editor under which a problem with a field is shown."""
        return None

    def waiting(self) -> str:
        """What the form is waiting for before anything can be launched; "" for nothing."""
        return ""

    def show_request(self, request: RunRequest, problems: Mapping[str, str]) -> None:
        """Called after every edit: previews and the like."""

    def set_checkpoint(self, path: str, kind: str, algo: str = "", env_id: str = "") -> None:
        """Begin from a checkpoint; kind: ``warm_start`` or ``resume``. With its algorithm and environment, if given.

        Called for a worker that declares the capability.
        """
        raise NotImplementedError

    def gpus_changed(self) -> None:
        """Called when the number of the daemon's GPUs is known or changes."""

    def bring_into_sight(self, widget: QWidget) -> None:
        """Scroll to a part of the form, its beginning first where it is taller than the form."""
        self.area.ensureWidgetVisible(widget, 0, 0)
        content = self.area.widget()
        bar = self.area.verticalScrollBar()
        if content is not None and bar is not None:
            bar.setValue(min(bar.value(), widget.mapTo(content, QPoint(0, 0)).y()))

    def show_extras(self) -> None:
        """Bring the extras into sight, where a form has room to do so."""

    def extra_sets(self) -> dict[str, list[str]]:
        """The sets of extras that the run needs, as its settings name them; the worker refuses a run without them."""
        chosen = self.extras.chosen() if self.extras is not None else []
        return {"requirements": chosen} if chosen else {}

    def place(self, config: dict[str, Any]) -> dict[str, Any]:
        """The last touch on a config, in a thread, before it is submitted. May raise; its text is shown."""
        try:
            manifest = self.queries.manifest(self.entry.type)
        except ToolError:  # the daemon has the worker and this program does not: the daemon judges what it gets
            return config
        return placed(config, manifest, self.queries.paths)

    def check(self, config: Mapping[str, Any]) -> DryRun:
        """Everything that is looked at before a run starts, in a thread."""
        found = self._controller.prepare_training(self.entry.type, "agent", config)
        return DryRun(found.ok, found.text, found.asked, found.told)

    def titles(self) -> dict[str, str]:
        """What fields are called, for sentences about them."""
        return {}

    def name_for(self, typed: object, usual: str) -> str:
        """What the run will be called: as typed, or as usual, with a number where runs have that name already."""
        return str(typed or "") or fresh_name(usual, self.cockpit.runs.has_name)

    @property
    def has_own_name(self) -> bool:
        """Whether somebody typed what the run is to be called."""
        editor = self.editor_of("run_name")
        return editor is not None and bool(str(editor.entry))

    # ---- memory --------------------------------------------------------------------------------------------------

    @property
    def memory_key(self) -> str:
        return f"train.form.{self.entry.type}"

    def put_state(self, state: Mapping[str, Any]) -> None:
        """Replace everything in the form, for presets and restored sessions."""
        self._quiet = True
        try:
            self.restore(state)
            self.sweep.put(mapping(state.get(_SWEEP)))
        finally:
            self._quiet = False
        self.refresh()

    def put_settings(self, settings: Mapping[str, Any]) -> None:
        """Take these settings of the worker's from the beginning of a run; seed, resources and notes stay."""
        config = self.request().config()
        worker = config["metadata"]["worker"]
        worker.pop("bundle", None)
        worker["config"] = {"seed": worker["config"].get("seed", 1), **settings}
        if not self.has_own_name:
            config["run_name"] = ""
        self._quiet = True
        try:
            self.fill(config)
        finally:
            self._quiet = False
        self.refresh()

    def fill_quietly(self, config: Mapping[str, Any]) -> None:
        """:meth:`fill` with a single refresh at its end."""
        self._quiet = True
        try:
            self.fill(config)
            self._name_copy()
        finally:
            self._quiet = False
        self.refresh()

    # ---- what stands in it ---------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Remember, check and show what stands in the form."""
        if self._quiet:
            return
        self._look_at_place()
        self.sweep.attend(self.searchable())
        self.cockpit.preferences.put(self.memory_key, {**self.state(), _SWEEP: self.sweep.state()})
        request = self.request()
        problems = self.problems(request)
        self.show_request(request, problems)
        self.sweep.show_request(self.script_words() if self.sweep.is_on else [], request, problems)
        if self.sweep.is_on:
            self.bar.set_action(self.tr("Start sweep"), self.tr("Start the sweep"))
        else:
            self.bar.set_action(self.tr("Launch"), self.tr("Launch the run"))
        self._expected.show(request, self.steps_wanted(), again=False)
        self._shown = request
        self.bar.set_reason(self._why_not(problems), "muted" if self._busy else "warning")
        if self._outcome is not None and self._outcome[0] == request and not self.bar.why_not:
            self.bar.say(*self._outcome[1:])

    def problems(self, request: RunRequest) -> dict[str, str]:
        """Everything that is wrong, by field; a field's own complaint comes before the config's."""
        searched = self.sweep.ranges()
        found = {name: sentence for name, sentence in self.field_problems().items() if name not in searched}
        found |= self.sweep.problems(request, self.steps_wanted() or 0)
        return found or config_problems(request.config())

    def search_settings(self) -> None:
        """Make a sweep of the run, and bring what that needs into sight."""
        around: QWidget | None = self.sweep
        while around is not None and not isinstance(around, Section):
            around = around.parentWidget()
        if around is None:  # this form has no place for it
            return
        around.set_open(True)
        self.sweep.switch.setChecked(True)
        QTimer.singleShot(0, self._show_sweep)  # once it has its place

    def _show_sweep(self) -> None:
        self.area.ensureWidgetVisible(self.sweep)
        self.area.ensureWidgetVisible(self.sweep.switch)
        self.sweep.switch.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def sweep_spec(self) -> SweepSpec | None:
        """The sweep that stands in the form; None for a plain run."""
        return self.sweep.spec(self.request(), self.steps_wanted() or 0)

    def check_all(self, config: Mapping[str, Any], spec: SweepSpec | None) -> DryRun:
        """:meth:`check` for a run, or for the outermost settings of a sweep; in a thread."""
        if spec is None:
            return self.check(config)
        found = DryRun(False, "", asked=False)
        for word, outer in outermost(spec):
            found = self.check(outer)
            if found.asked and not found.ok:
                sentence = f"The {word} value of every searched setting makes no run: {found.text}"
                return DryRun(False, sentence, asked=True, told=found.told)
        return found

    def _why_not(self, problems: Mapping[str, str]) -> str:
        if self._busy:
            return self._busy
        if problems:
            return told(problems, self.titles())
        if not self.entry.ready:
            return self.entry.reason
        if self.entry.away:
            return self.entry.away
        if not self.cockpit.bridge.connection.connected:
            return self.tr("The trainer daemon is away; launching is possible again when it is back.")
        return self._without_gpu() or self.waiting()

    def _without_gpu(self) -> str:
        """Why a worker that cannot do without a GPU cannot run here, "" when it can."""
        if not self.entry.capabilities.gpu_required or not self.no_gpu:
            return ""
        return self.no_gpu if self.gpus is None else self._no_gpu_for_worker()

    def _no_gpu_for_worker(self) -> str:
        if self._host == HERE:
            return self.tr("{worker} needs a GPU, and the daemon has none.").format(worker=self.entry.name)
        return self.tr("{worker} needs a GPU. {why}").format(worker=self.entry.name, why=self.no_gpu)

    def _health_changed(self, health: pb.Health) -> None:
        self.cpus, self._health = health.capacity.cpus, health
        if (editor := self.editor_of("host")) is not None:
            editor.offer([host.name for host in health.hosts])
        if self._look_at_place():
            self.refresh()

    def _look_at_place(self) -> bool:
        """Whether there are more or fewer GPUs where the run would go than there were."""
        if self._health is None:
            return False
        gpus = gpus_at(self._health, self._host)
        if gpus == self.gpus:
            return False
        self.gpus = gpus
        self.gpus_changed()
        return True

    @property
    def _host(self) -> str:
        editor = self.editor_of("host")
        return str(editor.value() or HERE) if editor is not None else HERE

    @property
    def no_gpu(self) -> str:
        """Why no GPU can be asked for where the run would go, "" where one can."""
        if self.gpus is None:
            return self.tr("Not known yet: the daemon has not said whether there is a GPU.")
        if self.gpus:
            return ""
        if self._host == HERE:
            return self.tr("No GPU was found on this machine.")
        if self._host == ANY_HOST:
            return self.tr("No GPU was found on any host.")
        return self.tr("No GPU was found on {host}.").format(host=self._host)

    def _connection_changed(self, state: ConnectionState) -> None:
        self.refresh()

    def _runs_changed(self, *_: object) -> None:
        """Runs change many times a second while they train; a guess need not follow each of them."""
        if self.isVisible() and not self._speeds_changed.isActive():
            self._speeds_changed.start()

    def _catch_up(self) -> None:
        """Follow the runs: how fast they are, and which names are taken."""
        if self.request() != self._shown:
            self.refresh()
        else:
            self._expected.show(self.request(), self.steps_wanted(), again=True)

    def steps_wanted(self) -> int | None:
        steps = self.request().settings.get("total_timesteps")
        return steps if isinstance(steps, int) and not isinstance(steps, bool) else None

    # ---- doing ---------------------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Launch what stands in the form, or say why that is not possible; a refusal is said beside its field.

        While a launch is under way, and for a moment after it, another press does nothing: it was meant for the same
        run.
        """
        if self.is_resting:
            return
        if self.bar.why_not:
            self.bar.say(self.bar.why_not, "warning")
        else:
            self._launch.start()

    @property
    def is_resting(self) -> bool:
        """Whether a press now is too close to the last launch to be meant for another run."""
        return self._launch.is_resting

    def dry_run(self) -> None:
        """Have the worker check what stands in the form; the answer goes to the dry-run results."""
        if self._busy:
            return
        problems = self.problems(self.request())
        if problems:
            self.bar.say(told(problems, self.titles()), "warning")
        else:
            self._launch.dry_run()

    def essence(self) -> RunRequest:
        """What stands in the form, apart from a name that nobody typed: that one changes when others appear."""
        editor = self.editor_of("run_name")
        return replace(self.request(), run_name=str(editor.entry) if editor is not None else "")

    def _show_consent(self, asking: bool) -> None:
        """The question takes the place of the fields: a small window has no room for both."""
        self.area.setVisible(not asking)

    def tell_refusal(self, sentence: str) -> None:
        """Say why nothing was started, beside the field that it is about."""
        for field, reason in refusal_by_field(sentence).items():
            editor = self.editor_of(field) if field else None
            if editor is not None:
                editor.tell(reason)
        self.tell_outcome(sentence, "error")

    def show_notes(self) -> None:
        """Bring the dry-run results into sight, where a form has room to do so."""

    def _name_copy(self) -> None:
        """The form repeats a run: a name that was chosen for that one says so, and is no other run's."""
        editor = self.editor_of("run_name")
        if editor is not None and self.cockpit.runs.has_name(str(editor.entry)):
            editor.put(derived_name(str(editor.entry), COPY, self.cockpit.runs.has_name))

    def renew_name(self) -> None:
        """A name that a run has now is not offered for the next one."""
        editor = self.editor_of("run_name")
        if editor is not None and str(editor.entry):
            editor.put(fresh_name(str(editor.entry), self.cockpit.runs.has_name))

    def tell_outcome(self, sentence: str, role: str) -> None:
        """Say what came of a launch or a dry run, until something else stands in the form."""
        self._outcome = (self.request(), sentence, role)
        self.bar.say(sentence, role)

    def begin_work(self, doing: str, sentence: str) -> None:
        """Allow no launch while something takes time; ``doing`` stands on the button."""
        self._busy, self._outcome = sentence, None
        self.bar.set_busy(doing)
        self.refresh()

    def end_work(self) -> None:
        self._busy = ""
        self.bar.set_busy("")
        self.refresh()

    # ---- end -----------------------------------------------------------------------------------------------------

    def close_panel(self) -> None:
        """End what is under way: nobody waits for it any more."""
        if self.extras is not None:
            self.extras.cancel()
