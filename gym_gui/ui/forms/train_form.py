"""What every form for a new run has: its content, a foot to launch from, and a memory that outlives the daemon, the
theme and the application."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from PyQt6.QtCore import Qt, QTimer, pyqtSignal
from PyQt6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from gym_gui.logging_config.log_constants import LOG_UI_MAINWINDOW_INVALID_CONFIG
from gym_gui.logging_config.structured import log_event
from gym_gui.services.run_request import RunRequest
from gym_gui.services.trainer.client import TrainerClient
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.bridge import ConnectionState
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.estimate import estimate
from gym_gui.ui.forms.field_editor import FieldEditor
from gym_gui.ui.forms.launch_bar import LaunchBar
from gym_gui.ui.forms.text_panels import NotesPanel
from gym_gui.ui.widgets.snackbar import Notice
from gym_gui.ui.workers.catalog import WorkerEntry
from gym_gui.validations.config_problems import config_problems, refusal_by_field, told
from gym_gui.validations.dry_run import DryRun, dry_run
from mosaic_protocol.proto import trainer_pb2 as pb

ESTIMATE_MILLISECONDS = 1000
_logger = logging.getLogger(__name__)


class TrainForm(QWidget):
    """A form for one worker. ``submitted(str)`` brings the id of a run that was accepted.

    A subclass makes the content, reads it (:meth:`request`), remembers it (:meth:`state`, :meth:`restore`) and calls
    :meth:`refresh` after every edit. Everything happens in the GUI's thread; what takes time goes through the bridge.
    """

    submitted = pyqtSignal(str)

    def __init__(self, cockpit: Cockpit, entry: WorkerEntry, queries: WorkerQueries) -> None:
        super().__init__()
        self.cockpit, self.entry, self.queries = cockpit, entry, queries
        self.notes_panel = NotesPanel()
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
        layout.addWidget(self.bar)
        self._busy = ""
        self._outcome: tuple[RunRequest, str, str] | None = None
        """What came of the last dry run or submission of a request; told until another one stands in the form."""
        self._quiet = True
        """While the form fills itself, edits are not taken for a person's."""
        cockpit.bridge.connection_changed.connect(self._connection_changed)
        self._speeds_changed = QTimer(self)
        self._speeds_changed.setSingleShot(True)
        self._speeds_changed.setInterval(ESTIMATE_MILLISECONDS)
        self._speeds_changed.timeout.connect(self._show_estimate)
        cockpit.runs.changed.connect(self._runs_changed)

    # ---- for subclasses ------------------------------------------------------------------------------------------

    def begin(self, content: QWidget) -> None:
        """Take the finished content, and fill it with what was remembered. To be called last in ``__init__``."""
        self.area.setWidget(content)
        self._quiet = False
        self.put_state(self.cockpit.preferences.get(self.memory_key, {}))

    def request(self) -> RunRequest:
        """What would be submitted as the form stands."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Everything that was typed, as plain JSON."""
        raise NotImplementedError

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state` told; what is missing or damaged stands at its default."""
        raise NotImplementedError

    def fill(self, config: Mapping[str, Any]) -> None:
        """Take the settings of a run config, so that it can be run again as it is or changed."""
        raise NotImplementedError

    def field_problems(self) -> dict[str, str]:
        """What is wrong, by field."""
        return {}

    def editor_of(self, field: str) -> FieldEditor | None:
        """The editor under which a problem with a field is shown."""
        return None

    def waiting(self) -> str:
        """What the form is waiting for before anything can be launched; "" for nothing."""
        return ""

    def show_request(self, request: RunRequest, problems: Mapping[str, str]) -> None:
        """Called after every edit: previews and the like."""

    def place(self, config: dict[str, Any]) -> dict[str, Any]:
        """The last touch on a config, in a thread, before it is submitted. May raise; its text is shown."""
        return config

    def check(self, config: Mapping[str, Any]) -> DryRun:
        """The dry run, in a thread."""
        return dry_run(self.queries, self.entry.type, config)

    def titles(self) -> dict[str, str]:
        """What fields are called, for sentences about them."""
        return {}

    # ---- memory --------------------------------------------------------------------------------------------------

    @property
    def memory_key(self) -> str:
        return f"train.form.{self.entry.type}"

    def put_state(self, state: Mapping[str, Any]) -> None:
        """Replace everything in the form, for presets and restored sessions."""
        self._quiet = True
        try:
            self.restore(state)
        finally:
            self._quiet = False
        self.refresh()

    def fill_quietly(self, config: Mapping[str, Any]) -> None:
        """:meth:`fill`, told of once at the end."""
        self._quiet = True
        try:
            self.fill(config)
        finally:
            self._quiet = False
        self.refresh()

    # ---- what stands in it ---------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Remember, check and show what stands in the form."""
        if self._quiet:
            return
        self.cockpit.preferences.put(self.memory_key, self.state())
        request = self.request()
        problems = self.problems(request)
        self.show_request(request, problems)
        self._show_estimate()
        self.bar.set_reason(self._why_not(problems))
        if self._outcome is not None and self._outcome[0] == request and not self.bar.why_not:
            self.bar.say(*self._outcome[1:])

    def problems(self, request: RunRequest) -> dict[str, str]:
        """Everything that is wrong, by field; a field's own complaint comes before the config's."""
        found = self.field_problems()
        return found or config_problems(request.config())

    def _why_not(self, problems: Mapping[str, str]) -> str:
        if self._busy:
            return self._busy
        if problems:
            return told(problems, self.titles())
        if not self.entry.ready:
            return self.entry.reason
        if not self.cockpit.bridge.connection.connected:
            return self.tr("The trainer daemon is away; launching is possible again when it is back.")
        return self.waiting()

    def _connection_changed(self, state: ConnectionState) -> None:
        self.refresh()

    def _runs_changed(self, *_: object) -> None:
        """Runs change many times a second while they train; a guess need not follow each of them."""
        if self.isVisible() and not self._speeds_changed.isActive():
            self._speeds_changed.start()

    def _show_estimate(self) -> None:
        settings = self.request().settings
        algo, env_id = str(settings.get("algo") or ""), str(settings.get("env_id") or "")
        steps = self.steps_wanted()
        found = estimate(self.cockpit.runs, algo, env_id, steps)
        if found is not None:
            self.bar.set_estimate(found.sentence())
        else:
            known = bool(steps and algo)
            unknown = self.tr("No estimate yet: {algo} has not run here before").format(algo=algo) if known else ""
            self.bar.set_estimate(unknown)

    def steps_wanted(self) -> int | None:
        steps = self.request().settings.get("total_timesteps")
        return steps if isinstance(steps, int) and not isinstance(steps, bool) else None

    # ---- doing ---------------------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Submit what stands in the form, unless something stands against it."""
        if self.bar.why_not:
            self.bar.say(self.bar.why_not, "warning")
            return
        config = self.request().config()
        self._begin_work(self.tr("Submitting…"))
        submit = lambda client: self._submit(client, config)  # noqa: E731
        self.cockpit.bridge.call(submit, self._accepted, self._refused, owner=self)

    def _submit(self, client: TrainerClient, config: dict[str, Any]) -> pb.Run:
        return client.submit(self.place(config)).run

    def _accepted(self, run: pb.Run) -> None:
        self._end_work()
        self.notes_panel.note(self.tr("submitted as {name} ({id})").format(name=run.name, id=run.run_id))
        self.cockpit.runs.take([run])
        self.cockpit.selection.select([run.run_id])
        self.cockpit.notify(Notice(self.tr("{name} was submitted").format(name=run.name), "good"))
        self.submitted.emit(run.run_id)

    def _refused(self, sentence: str) -> None:
        log_event(_logger, LOG_UI_MAINWINDOW_INVALID_CONFIG, worker=self.entry.type, reason=sentence)
        self._end_work()
        self.notes_panel.note(self.tr("not submitted: {why}").format(why=sentence))
        self._tell_fields(refusal_by_field(sentence))
        self._tell_outcome(sentence, "error")

    def dry_run(self) -> None:
        """Have the worker check what stands in the form; the answer goes to the notes."""
        problems = self.problems(self.request())
        if problems:
            self.bar.say(told(problems, self.titles()), "warning")
            return
        config = self.request().config()
        self._begin_work(self.tr("Dry run: asking the worker…"))
        self.bar.dry_run_button.setEnabled(False)
        self.cockpit.bridge.in_background(
            lambda: self.check(config),
            self._checked,
            lambda sentence: self._checked(DryRun(False, sentence)),
            owner=self,
        )

    def _checked(self, found: DryRun) -> None:
        self._end_work()
        self.bar.dry_run_button.setEnabled(True)
        self.notes_panel.note(f"{self.tr('dry run passed') if found.ok else self.tr('dry run refused')}: {found.text}")
        if found.ok:
            self._tell_outcome(self.tr("Dry run passed; see the notes."), "good")
        else:
            self._tell_fields(refusal_by_field(found.text))
            self._tell_outcome(found.text, "error")

    def _tell_fields(self, problems: Mapping[str, str]) -> None:
        for field, sentence in problems.items():
            editor = self.editor_of(field) if field else None
            if editor is not None:
                editor.tell(sentence)

    def _tell_outcome(self, sentence: str, role: str) -> None:
        self._outcome = (self.request(), sentence, role)
        self.bar.say(sentence, role)

    def _begin_work(self, sentence: str) -> None:
        self._busy, self._outcome = sentence, None
        self.refresh()

    def _end_work(self) -> None:
        self._busy = ""
        self.refresh()
