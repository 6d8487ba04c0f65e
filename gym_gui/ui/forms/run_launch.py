"""From the press of Launch to the run that the daemon accepted: extras, the worker's check, consent, submission.

Each step takes time and goes through the bridge; any of them may end the launch with a sentence, which the form shows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from PyQt6.QtCore import QObject, pyqtSignal
from PyQt6.QtWidgets import QApplication
from ulid import ULID

from gym_gui.logging_config.log_constants import LOG_UI_MAINWINDOW_INVALID_CONFIG
from gym_gui.logging_config.structured import log_event
from gym_gui.services.run_request import RunRequest
from gym_gui.services.script_consent import ForeignScript, ScriptConsents, foreign_script
from gym_gui.services.sweeps.model import Sweep, SweepSpec
from gym_gui.services.trainer.client import TrainerClient
from gym_gui.ui.forms.extras_panel import ExtrasPanel
from gym_gui.ui.widgets.snackbar import Notice
from gym_gui.validations.dry_run import DryRun
from mosaic_protocol.proto import trainer_pb2 as pb

if TYPE_CHECKING:
    from gym_gui.ui.forms.train_form import TrainForm

_logger = logging.getLogger(__name__)
Essence = tuple[RunRequest, SweepSpec | None]
"""What stands in a form, and the sweep that is made of it if one is."""


@dataclass(frozen=True)
class _Wish:
    """One wish to launch. Asked for again, because the answer was lost, it is the same run: it has the same id."""

    essence: Essence
    config: dict[str, Any]
    request_id: str
    name_is_default: bool

    @property
    def sweep(self) -> SweepSpec | None:
        return self.essence[1]


class RunLaunch(QObject):
    """The launches and dry runs of one form, one at a time. ``accepted(str)`` brings a run's id,
    ``sweep_accepted(str)`` a sweep's."""

    accepted = pyqtSignal(str)
    sweep_accepted = pyqtSignal(str)

    def __init__(self, form: TrainForm) -> None:
        super().__init__(form)
        self._form, self._cockpit = form, form.cockpit
        self._wish: _Wish | None = None
        self._passed: Essence | None = None
        """What the worker found nothing wrong with."""
        self._answer: Mapping[str, Any] = {}
        """What the worker said of it."""
        self._rests_until = 0.0

    @property
    def is_resting(self) -> bool:
        """Whether a press now is too close to the last launch to be meant for another run."""
        return time.monotonic() < self._rests_until

    # ---- launching -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Launch what stands in the form."""
        wish = self._wish_for_now()
        extras = self._form.extras
        if extras is not None and extras.missing():
            self._install_extras(extras, wish)
        else:
            self._check_and_submit(wish)

    def _wish_for_now(self) -> _Wish:
        """The wish that was not answered yet, if it is for the same; else a new one."""
        essence = self._essence()
        if self._wish is None or self._wish.essence != essence:
            self._wish = _Wish(essence, self._form.request().config(), str(ULID()), not self._form.has_own_name)
        return self._wish

    def _essence(self) -> Essence:
        return self._form.essence(), self._form.sweep_spec()

    def _install_extras(self, extras: ExtrasPanel, wish: _Wish) -> None:
        doing = self.tr("Installing {sets} before the run starts…").format(sets=", ".join(extras.missing()))
        self._form.begin_work(self.tr("Installing…"), doing)
        self._form.show_extras()
        extras.install(lambda: self._check_and_submit(wish), self._not_installed)

    def _not_installed(self, sentence: str) -> None:
        self._form.end_work()
        self._form.notes_panel.note(self.tr("not submitted, extras are missing: {why}").format(why=sentence))
        self._form.show_extras()
        self._form.tell_outcome(sentence, "error")

    def _check_and_submit(self, wish: _Wish) -> None:
        if wish.essence == self._passed:
            self._submit_with_consent(wish)
            return
        self._form.begin_work(self.tr("Checking…"), self.tr("Asking the worker whether it can run this…"))
        self._check(wish.config, wish.sweep, lambda found: self._checked_for(wish, found))

    def _check(self, config: dict[str, Any], sweep: SweepSpec | None, done: Callable[[DryRun], None]) -> None:
        failed = lambda sentence: done(DryRun(False, sentence, asked=False))  # noqa: E731
        check = lambda: self._form.check_all(config, sweep)  # noqa: E731
        self._cockpit.bridge.in_background(check, done, failed, owner=self._form)

    def _checked_for(self, wish: _Wish, found: DryRun) -> None:
        if found.asked and not found.ok:
            self._wish = None  # it was never sent: the next one may need another name
            self._refused(found.text)
            return
        if found.ok:
            self._passed, self._answer = wish.essence, found.told
        else:
            self._answer = {}
            self._form.notes_panel.note(self.tr("submitted unchecked: {why}").format(why=found.text))
        self._submit_with_consent(wish)

    def _submit_with_consent(self, wish: _Wish) -> None:
        """A script that is not the worker's own runs only when a person saw its command and allowed it."""
        entry, queries, answer = self._form.entry, self._form.queries, self._answer
        if not entry.capabilities.foreign_scripts:
            self._submit(wish)
            return
        self._form.begin_work(self.tr("Checking…"), self.tr("Looking whether the script is known here…"))

        def look() -> ForeignScript | None:
            settings = wish.config["metadata"]["worker"]["config"]
            found = foreign_script(answer, settings, queries.manifest(entry.type), queries.paths)
            return None if found is None or ScriptConsents(queries.paths).allows(found) else found

        def go_on(script: ForeignScript | None) -> None:
            if script is None:
                self._submit(wish)
            else:
                self._ask_consent(wish, script)

        self._cockpit.bridge.in_background(look, go_on, self._refused, owner=self._form)

    def _ask_consent(self, wish: _Wish, script: ForeignScript) -> None:
        self._form.begin_work(self.tr("Waiting…"), self.tr("Nothing starts before you answer."))
        keep = lambda: ScriptConsents(self._form.queries.paths).allow(script)  # noqa: E731
        allowed = lambda: self._cockpit.bridge.in_background(  # noqa: E731
            keep, lambda _: self._submit(wish), self._refused, owner=self._form
        )
        self._form.consent.ask(script, allowed, self._not_allowed)

    def _not_allowed(self) -> None:
        self._form.end_work()
        self._form.tell_outcome(self.tr("Nothing was started: the script was not allowed to run."), "muted")

    def _submit(self, wish: _Wish) -> None:
        if wish.sweep is not None:
            self._submit_sweep(wish, wish.sweep)
            return
        self._form.begin_work(self.tr("Submitting…"), self.tr("Handing the run to the trainer daemon…"))
        more = {"name_is_default": wish.name_is_default}
        submit = lambda client: client.submit(self._form.place(wish.config), wish.request_id, **more).run  # noqa: E731
        self._cockpit.bridge.call(submit, self._accepted, self._refused, owner=self._form)

    def _submit_sweep(self, wish: _Wish, sweep: SweepSpec) -> None:
        self._form.begin_work(self.tr("Submitting…"), self.tr("Handing the sweep to the trainer daemon…"))
        request = wish.essence[0]
        name = request.run_name or _sweep_name(sweep)

        def submit(client: TrainerClient) -> Sweep:
            spec = replace(sweep, config=self._form.place(dict(sweep.config)))
            return client.submit_sweep(name, spec, wish.request_id, name_is_default=wish.name_is_default)

        self._cockpit.bridge.call(submit, self._sweep_accepted, self._refused, owner=self._form)

    def _sweep_accepted(self, sweep: Sweep) -> None:
        self._wish = None
        self._form.end_work()
        self._form.notes_panel.note(self.tr("the sweep {name} was accepted").format(name=sweep.name))
        self._cockpit.notify(Notice(self.tr("The sweep {name} was accepted").format(name=sweep.name), "good"))
        self._rests_until = time.monotonic() + QApplication.doubleClickInterval() / 1000
        self.sweep_accepted.emit(sweep.sweep_id)

    def _accepted(self, run: pb.Run) -> None:
        self._wish = None
        self._cockpit.runs.take([run])
        self._form.renew_name()
        self._form.end_work()
        name = self._cockpit.runs.label(run)
        self._form.notes_panel.note(self.tr("submitted as {name} ({id})").format(name=run.name, id=run.run_id))
        self._cockpit.selection.show([run.run_id])
        self._cockpit.notify(Notice(self.tr("{name} was submitted").format(name=name), "good"))
        # From now on, and not from before: what was pressed while all this was shown is still to be handled.
        self._rests_until = time.monotonic() + QApplication.doubleClickInterval() / 1000
        self.accepted.emit(run.run_id)

    def _refused(self, sentence: str) -> None:
        log_event(_logger, LOG_UI_MAINWINDOW_INVALID_CONFIG, worker=self._form.entry.type, reason=sentence)
        self._form.end_work()
        self._form.notes_panel.note(self.tr("not submitted: {why}").format(why=sentence))
        self._form.tell_refusal(sentence)

    # ---- dry runs ------------------------------------------------------------------------------------------------

    def dry_run(self) -> None:
        """Have the worker check what stands in the form; the answer goes to the dry-run results."""
        essence = self._essence()
        self._form.begin_work(self.tr("Dry run…"), self.tr("Dry run: asking the worker…"))
        self._check(self._form.request().config(), essence[1], lambda found: self._checked(essence, found))

    def _checked(self, essence: Essence, found: DryRun) -> None:
        self._form.end_work()
        verdict = self.tr("dry run passed") if found.ok else self.tr("dry run refused")
        self._form.notes_panel.note(f"{verdict}: {found.text}")
        if found.ok:
            self._passed, self._answer = essence, found.told
            self._form.tell_outcome(self.tr("Dry run passed; see its results."), "good")
            self._form.show_notes()
        else:
            self._form.tell_refusal(found.text)


def _sweep_name(sweep: SweepSpec) -> str:
    """As ``mosaic sweep`` calls one that nobody named."""
    settings = sweep.config["metadata"]["worker"]["config"]
    source = str(settings.get("env_id") or settings.get("dataset") or "sweep").lower()
    return f"{settings.get('algo') or sweep.config['metadata']['worker']['type']}-{source}".replace("/", "-")
