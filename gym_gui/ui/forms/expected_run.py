"""What the run in a form would take: a guess at once from what is in memory, the whole of it a moment later."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gym_gui.services.run_estimate import Estimate, caution, estimate
from gym_gui.services.run_outlook import Outlook, begun_at, outlook
from gym_gui.services.sweeps.cost import SweepCost, cost
from gym_gui.ui.context import Cockpit

if TYPE_CHECKING:
    from gym_gui.services.run_request import RunRequest
    from gym_gui.ui.forms.train_form import TrainForm


class ExpectedRun:
    """Belongs to a form and writes into its launch bar. Manifests and folders are looked at in a thread, for one
    request at a time: while somebody types only the last one is looked at. Lives in the GUI's thread."""

    def __init__(self, form: TrainForm, cockpit: Cockpit) -> None:
        self._form, self._cockpit = form, cockpit
        self._known: tuple[str, Outlook] = ("", Outlook())
        self._asked = ""
        """What a thread looks at now, "" for nothing."""

    def show(self, request: RunRequest, steps: int | None, *, again: bool) -> None:
        """``again``: runs have changed, so that what was found may not hold any more."""
        if not steps or self._form.entry.capabilities.interactive:
            self._form.bar.set_estimate("")
            return
        key = _key(request, steps)
        if self._known[0] != key:
            self._tell(request, self._guess(request, steps))
        else:
            self._tell(request, self._known[1])
        if not self._asked and (again or self._known[0] != key):
            self._ask(request, steps, key)

    def _guess(self, request: RunRequest, steps: int) -> Outlook:
        left = max(1, steps - begun_at(request.settings))
        found = estimate(self._cockpit.runs, request.settings, left, request.worker_type)
        return Outlook(found, caution(found, left, gpus=request.gpus, free_gpus=self._form.gpus or 0))

    def _ask(self, request: RunRequest, steps: int, key: str) -> None:
        runs, cards = list(self._cockpit.runs), self._form.gpus or 0
        self._asked = key
        self._cockpit.bridge.in_background(
            lambda: outlook(runs, request.settings, request.worker_type, steps, gpus=request.gpus, free_gpus=cards),
            lambda found: self._take(key, found),
            lambda _: self._take(key, None),
            owner=self._form,
        )

    def _take(self, key: str, found: Outlook | None) -> None:
        """What was found, unless something else stands in the form by now: then that is looked at."""
        self._asked = ""
        if found is not None:
            self._known = (key, found)
            request, steps = self._form.request(), self._form.steps_wanted()
            self.show(request, steps, again=False)

    def _tell(self, request: RunRequest, expected: Outlook) -> None:
        warned = "" if expected.caution is None else expected.caution.in_a_form()
        if expected.found is not None and (whole := self._of_all(request, expected.found)) is not None:
            self._form.bar.set_estimate(
                _begun(whole.brief()), _begun(whole.sentence()), warned or _begun(whole.warning)
            )
            return
        if expected.found is not None:
            brief, basis = self._of_one(expected.found.brief()), self._of_one(expected.found.sentence())
            self._form.bar.set_estimate(brief, basis, warned)
            return
        algo = str(request.settings.get("algo") or "")
        unknown = self._form.tr("No estimate yet: this {algo} script has not run here before").format(algo=algo)
        self._form.bar.set_estimate(unknown if algo else "", caution=warned)

    def _of_all(self, request: RunRequest, of_one: Estimate) -> SweepCost | None:
        """Of a sweep; None for a plain run, and while something is wrong with the sweep."""
        spec = self._form.sweep_spec() if self._form.sweep.is_on else None
        return None if spec is None else cost(spec, of_one, self._form.cpus // max(1, request.cpus))

    def _of_one(self, sentence: str) -> str:
        """A sweep that has many runs may not be whole yet, and this is about one."""
        said = self._form.tr("each run {estimate}") if self._form.sweep.is_on else "{estimate}"
        return _begun(said.format(estimate=sentence))


def _begun(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"


def _key(request: RunRequest, steps: int) -> str:
    return json.dumps([request.worker_type, request.settings, request.gpus, steps], sort_keys=True, default=str)
