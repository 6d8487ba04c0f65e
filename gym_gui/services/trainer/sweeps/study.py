"""The Optuna study of a sweep: what the samplers know, in a journal below the sweep's folder.

The registry's rows are the truth, the study follows them: :meth:`SweepStudy.reconcile` brings a study that a killed
daemon left behind in line with the rows. Every trial of the study carries the number of its row; one without was asked
for and never stored, and is the answer to the next question.

Belongs to one thread, which is not the event loop's: a proposal may take a fifth of a second, importing Optuna more.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gym_gui.services.sweeps.model import Sweep, Trial, TrialState, turns_told
from gym_gui.services.sweeps.space import Dimension, Value, grid_point, grid_points

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

_ROW = "mosaic_trial"
_TURNS = "mosaic_turns"
"""Of a member of a population: at which step it went on from which trial, and with which settings from there on."""
_NO_CMAES = "the sampler cmaes needs the package cmaes: install it with `pip install cmaes==0.13.1`"


class ExhaustedError(Exception):
    """The sampler has no more proposals; ``str()`` says why."""


def missing_for(sampler: str) -> str:
    """What a sampler lacks here, "" for nothing."""
    from importlib.util import find_spec

    return _NO_CMAES if sampler == "cmaes" and find_spec("cmaes") is None else ""


class SweepStudy:
    """One writer: nobody else opens the journal for writing, so no lock of Optuna's is needed, and none is left behind
    by a daemon that is killed."""

    def __init__(self, file: Path, sweep: Sweep) -> None:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        file.parent.mkdir(parents=True, exist_ok=True)
        _cut_torn_end(file)
        storage = JournalStorage(JournalFileBackend(str(file), lock_obj=cast(Any, _OnlyWriter())))
        self._sweep_id, self._spec = sweep.sweep_id, sweep.spec
        self._distributions = {name: _distribution(one) for name, one in sweep.spec.space.items()}
        self._study: Study = optuna.create_study(
            storage=storage, study_name=sweep.name, direction=sweep.spec.direction, load_if_exists=True
        )

    def ask(self, sweep: Sweep) -> dict[str, Value]:
        """The settings of the next trial. The sampler is made from the sweep's seed and the trial's number, and knows
        what the study knows: asked again after a crash it answers the same. Raises :class:`ExhaustedError`."""
        number = len(sweep.trials)
        known = self._entry(number) or self._unnumbered()
        if known is not None:
            self._number(known, number)
            return _plain(known.params)
        if self._spec.sampler == "grid":
            params = self._grid_point(number)
            self._add(number, params)
            return params
        self._study.sampler = self._sampler(number)
        trial = self._study.ask(self._distributions)
        trial.set_user_attr(_ROW, number)
        return _plain(trial.params)

    def tell(self, trial: Trial) -> None:
        """How a trial ended; may be said twice. One that was pruned and then promoted is told once more when it ends,
        also when it is pruned again at a later rung: a trial that is over cannot be changed in Optuna, so it has
        another entry under the same number."""
        from optuna.trial import TrialState as State

        entry = self._entry(trial.number)
        state = {TrialState.COMPLETE: State.COMPLETE, TrialState.PRUNED: State.PRUNED}.get(trial.state, State.FAIL)
        if entry is not None and entry.state is state and _rungs_of(trial).keys() <= entry.intermediate_values.keys():
            return
        if entry is None or entry.state.is_finished():
            self._add(trial.number, trial.first_params, state, trial)
            return
        if trial.turns:
            self._study._storage.set_trial_user_attr(entry._trial_id, _TURNS, turns_told(trial))
        for step, value in _rungs_of(trial).items():
            if step not in entry.intermediate_values:
                self._study._storage.set_trial_intermediate_value(entry._trial_id, step, value)
        self._study.tell(entry.number, trial.value if state is State.COMPLETE else None, state, skip_if_finished=True)

    def reconcile(self, sweep: Sweep) -> None:
        """Add what the study lacks of the rows: its file may be gone, or cut. Ends that it has heard of before are in
        it again; those that it has not are told as usual."""
        known = {entry.user_attrs.get(_ROW) for entry in self._entries()}
        for trial in sweep.trials:
            if trial.number in known:
                continue
            unnumbered = self._unnumbered()
            if unnumbered is not None and _plain(unnumbered.params) == trial.first_params:
                self._number(unnumbered, trial.number)
            elif not trial.told:
                self._add(trial.number, trial.first_params)
            if trial.told:
                self.tell(trial)

    # ---- entries -------------------------------------------------------------------------------------------------

    def _entries(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def _entry(self, number: int) -> FrozenTrial | None:
        """The newest entry of a row."""
        found = (entry for entry in reversed(self._entries()) if entry.user_attrs.get(_ROW) == number)
        return next(found, None)

    def _unnumbered(self) -> FrozenTrial | None:
        """A proposal that no row was stored for; one that lacks settings was cut short, and is given up."""
        from optuna.trial import TrialState as State

        for entry in self._entries():
            if entry.state is State.RUNNING and _ROW not in entry.user_attrs:
                if entry.params.keys() == self._distributions.keys():
                    return entry
                self._study._storage.set_trial_user_attr(entry._trial_id, _ROW, -1)
                self._study.tell(entry.number, state=State.FAIL)
        return None

    def _number(self, entry: FrozenTrial, number: int) -> None:
        if entry.user_attrs.get(_ROW) != number:
            self._study._storage.set_trial_user_attr(entry._trial_id, _ROW, number)

    def _add(self, number: int, params: dict[str, Value], state: Any = None, told: Trial | None = None) -> None:
        from optuna.trial import TrialState as State
        from optuna.trial import create_trial

        rungs = _rungs_of(told) if told is not None else {}
        entry = create_trial(
            state=state or State.RUNNING,
            value=_value(told, rungs) if told is not None and state in (State.COMPLETE, State.PRUNED) else None,
            params=dict(params),
            distributions=self._distributions,
            user_attrs={_ROW: number, **({_TURNS: turns_told(told)} if told is not None and told.turns else {})},
            intermediate_values=rungs,
        )
        self._study.add_trial(entry)

    # ---- samplers ------------------------------------------------------------------------------------------------

    def _grid_point(self, number: int) -> dict[str, Value]:
        """Points in an order drawn from the seed: a sweep that is stopped early has looked everywhere."""
        count = grid_points(self._spec.space)
        if number >= count:
            raise ExhaustedError(f"all {count:,} points of the grid were tried")
        order = random.Random(self._spec.sampler_seed).sample(range(count), count)
        return grid_point(self._spec.space, order[number])

    def _sampler(self, number: int) -> BaseSampler:
        import warnings

        from optuna.exceptions import ExperimentalWarning
        from optuna.samplers import CmaEsSampler, RandomSampler, TPESampler

        seed = random.Random(f"{self._spec.sampler_seed}/{number}").randrange(2**31)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            if self._spec.sampler == "random":
                return RandomSampler(seed=seed)
            if self._spec.sampler == "cmaes":
                return CmaEsSampler(seed=seed, warn_independent_sampling=False)
            # A proposal for one slot counts what runs in the others as bad, so that it does not repeat them.
            return TPESampler(seed=seed, multivariate=True, constant_liar=True)


def opened_study(file: Path, sweep: Sweep) -> SweepStudy:
    """The study of a sweep, in line with its rows. A file that cannot be read is kept aside, and the study is written
    again from the rows. Raises OSError."""
    try:
        study = SweepStudy(file, sweep)
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError):
        file.replace(file.with_suffix(f".damaged-{time.time_ns()}"))
        study = SweepStudy(file, sweep)
    study.reconcile(sweep)
    return study


def _distribution(one: Dimension) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if one.kind == "choice":
        return CategoricalDistribution(one.choices)
    if one.kind == "int":
        return IntDistribution(int(one.low), int(one.high), log=one.log, step=int(one.step or 1))
    return FloatDistribution(one.low, one.high, log=one.log, step=one.step)


def _rungs_of(trial: Trial) -> dict[int, float]:
    """What a trial was worth at the rungs where it had a number."""
    return {step: value for step, value in trial.rungs if value is not None}


def _value(told: Trial, rungs: dict[int, float]) -> float | None:
    """Of a pruned trial that at its last rung, as Optuna itself has it."""
    return rungs[max(rungs)] if told.state is TrialState.PRUNED and rungs else told.value


def _plain(params: dict[str, Any]) -> dict[str, Value]:
    """Python's own numbers instead of NumPy's."""
    return {name: value.item() if hasattr(value, "item") else value for name, value in params.items()}


class _OnlyWriter:
    """Optuna's lock is a file, which a daemon that is killed would leave behind for half a minute."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        """Nothing was locked."""


def _cut_torn_end(file: Path) -> None:
    """A writer that was killed may have left half a line, and the next line would stand behind it."""
    if not file.exists():
        return
    with file.open("r+b") as journal:
        size = journal.seek(0, 2)
        while size > 0:
            begin = max(0, size - 65536)
            journal.seek(begin)
            block = journal.read(size - begin)
            end = block.rfind(b"\n")
            if end >= 0:
                size = begin + end + 1
                break
            size = begin
        journal.truncate(size)
