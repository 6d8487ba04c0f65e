"""Keeps the sweeps of a daemon going: what happens to their runs becomes events, decisions are stored, then made true.

Each sweep that is not over has a task. It looks at the sweep's runs, applies what happened
(:mod:`gym_gui.services.trainer.sweeps.decisions`), and follows the instructions that are outstanding. Nothing here
remembers anything that the registry does not know, so a daemon that is killed at any instant is continued by the next:
a run is submitted under a request id that names sweep, trial, seed and number of the run, and cannot be doubled.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace
from ulid import ULID

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_bug, log_event
from gym_gui.services.continuation import CannotContinueError, continued
from gym_gui.services.run_labels import config_of
from gym_gui.services.sweeps.model import (
    SeedPhase,
    Sweep,
    SweepSpec,
    Trial,
    TrialState,
    config_of_trial,
    decode_spec,
    lineage,
)
from gym_gui.services.sweeps.spec_check import MOST_TRIALS, why_refused, why_unable
from gym_gui.services.trainer.errors import (
    RefusedError,
    UnknownRunError,
    WorldError,
    WrongStateError,
)
from gym_gui.services.trainer.execution.roster import WorkerRoster
from gym_gui.services.trainer.rpc.presentation import run_message
from gym_gui.services.trainer.runs.background import BackgroundWork
from gym_gui.services.trainer.runs.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.sweeps import decisions as dc
from gym_gui.services.trainer.sweeps import events as ev
from gym_gui.services.trainer.sweeps import instructions as todo
from gym_gui.services.trainer.sweeps import readings
from gym_gui.services.trainer.sweeps.evaluators import Evaluators
from gym_gui.services.trainer.sweeps.study import ExhaustedError, SweepStudy, missing_for, opened_study
from gym_gui.services.trainer.validation.train_config import validate_train_run_config
from mosaic_protocol.process_identity import boot_id
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.run_config import RunConfigError
from mosaic_protocol.states import Desired, Outcome

logger = logging.getLogger(__name__)
T = TypeVar("T")

_LOOK_SECONDS = 0.2
"""Between two looks at live runs: what a pruned trial trains beyond its rung."""
_AGAIN_SECONDS = 5.0
_LONGEST_NAME = 100


@dataclass
class _Kept:
    """A sweep that is not over. ``lock`` is held over every decision and what follows from it."""

    sweep: Sweep
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    poked: asyncio.Event = field(default_factory=asyncio.Event)
    study: SweepStudy | None = None
    done: Sweep | None = None
    """The sweep as it was when everything outstanding had been done: while it is the same nothing is."""
    _live: tuple[Sweep | None, list[tuple[int, int]]] = (None, [])

    def poke(self) -> None:
        """Have it looked at now. Not a bound method of the event, which is another one with each look."""
        self.poked.set()

    def key(self, number: int, index: int) -> tuple[str, int, int]:
        return self.sweep.sweep_id, number, index

    def live(self) -> list[tuple[int, int]]:
        """(trial, index of the seed) of every run and every evaluation that is not over. Looked for when the sweep
        changed: it may have ten thousand trials, and is looked at five times a second."""
        if self._live[0] is not self.sweep:
            found = [
                (trial.number, index)
                for trial in self.sweep.trials
                for index, seed in enumerate(trial.seeds)
                if seed.phase in (SeedPhase.RUNNING, SeedPhase.EVALUATING)
            ]
            self._live = self.sweep, found
        return self._live[1]


class SweepKeeper:
    """Belongs to the daemon's event loop. :meth:`open` after recovery, :meth:`close` before the orchestrator's."""

    def __init__(self, orchestrator: TrainerOrchestrator, roster: WorkerRoster) -> None:
        self._orchestrator, self._roster = orchestrator, roster
        self._rows = orchestrator.registry.sweeps
        self._store = orchestrator.hub.store
        self._kept: dict[str, _Kept] = {}
        self._work = BackgroundWork()
        self._searching = ThreadPoolExecutor(1, "sweeps")
        """Optuna's only thread: it is imported there, and proposals never hold up the loop."""
        self._evaluators = Evaluators(orchestrator.paths)

    def open(self) -> None:
        """Take up every sweep that is not over."""
        for sweep in self._rows.unfinished():
            self._keep(sweep)

    async def close(self) -> None:
        """Stop deciding; runs go on. Waits for what a study is being asked, so that its journal has no half line."""
        await self._work.close()
        await self._evaluators.close()
        await asyncio.to_thread(self._searching.shutdown, cancel_futures=True)

    # ---- requests ------------------------------------------------------------------------------------------------

    async def submit(self, name: str, spec_json: str, request_id: str, *, name_is_default: bool) -> Sweep:
        """Accept a sweep: checked, durable. Raises :class:`RefusedError` with a sentence."""
        spec = await self._checked(name, spec_json)
        return await self._work.to_the_end(self._accept(name, spec, request_id, name_is_default))

    async def _accept(self, name: str, spec: SweepSpec, request_id: str, name_is_default: bool) -> Sweep:
        sweep = Sweep(str(ULID()), name, spec, created_at=time.time(), budget=spec.trials)
        stored = await asyncio.wrap_future(
            self._rows.insert(sweep, request_id or sweep.sweep_id, name_is_default=name_is_default)
        )
        if stored.sweep_id == sweep.sweep_id:
            log_event(logger, codes.LOG_SWEEP_ACCEPTED, sweep_id=stored.sweep_id, name=stored.name)
            self._keep(stored)
        return self.current(stored.sweep_id)

    def current(self, reference: str) -> Sweep:
        """The sweep that a person means, as it is now; with its trials only while it is not over."""
        found = self._rows.find(reference)
        kept = self._kept.get(found.sweep_id)
        return kept.sweep if kept is not None else found

    async def pause(self, reference: str) -> Sweep:
        return await self._ask(reference, ev.PauseAsked())

    async def stop(self, reference: str) -> Sweep:
        return await self._ask(reference, ev.StopAsked())

    async def resume(self, reference: str, more: int, percent: int) -> Sweep:
        sweep = self.current(reference)
        added = more + -(-sweep.budget * percent // 100)
        if sweep.budget + added > MOST_TRIALS:
            raise RefusedError(f"a sweep has at most {MOST_TRIALS:,} trials")
        return await self._ask(reference, ev.ResumeAsked(added))

    async def _ask(self, reference: str, event: ev.Event) -> Sweep:
        """To the end also when the client hangs up: what is stored and what is remembered must not differ."""
        return await self._work.to_the_end(self._asked(reference, event))

    async def _asked(self, reference: str, event: ev.Event) -> Sweep:
        found = self._rows.find(reference)
        kept = self._kept.get(found.sweep_id)
        if kept is None:  # it is over: only a decision that takes it up again changes it
            kept = _Kept(await asyncio.to_thread(self._rows.whole, found))
        async with kept.lock:
            await self._apply(kept, event)
        if not kept.sweep.is_over and found.sweep_id not in self._kept:
            self._keep(kept.sweep)
        elif found.sweep_id in self._kept:
            self._kept[found.sweep_id].poked.set()
        return kept.sweep

    async def _checked(self, name: str, spec_json: str) -> SweepSpec:
        if not name or len(name) > _LONGEST_NAME or not name.isprintable() or name != name.strip():
            raise RefusedError(f"a sweep's name is one line of at most {_LONGEST_NAME} printable characters")
        try:
            spec = decode_spec(spec_json)
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
            raise RefusedError(f"this is no sweep: {error}") from None
        if sentence := why_refused(spec) or missing_for(spec.sampler):
            raise RefusedError(sentence)
        workers = await self._roster.manifests()
        try:
            await asyncio.to_thread(validate_train_run_config, spec.config, known_workers=workers)
        except RunConfigError as error:
            raise RefusedError("; ".join(str(error).splitlines())) from error
        if sentence := why_unable(spec, workers[spec.config["metadata"]["worker"]["type"]]):
            raise RefusedError(sentence)
        return spec

    # ---- keeping -------------------------------------------------------------------------------------------------

    def _keep(self, sweep: Sweep) -> None:
        kept = self._kept[sweep.sweep_id] = _Kept(sweep)
        self._work.spawn(self._tend(kept))

    async def _tend(self, kept: _Kept) -> None:
        """Until the sweep is over. What goes wrong is logged and tried again: giving up would leave the sweep's runs to
        nobody."""
        while not kept.sweep.is_over:
            change, kept.poked = self._orchestrator.change, asyncio.Event()
            pause = _LOOK_SECONDS
            try:
                async with kept.lock:
                    await self._look(kept)
                    busy = await self._act(kept)
                if busy:
                    continue
            except WorldError as error:
                log_event(logger, codes.LOG_SWEEP_WAITS, sweep_id=kept.sweep.sweep_id, reason=str(error))
                pause = _AGAIN_SECONDS
            except Exception as error:  # noqa: BLE001 - see above
                log_bug(error)
                pause = _AGAIN_SECONDS
            await _first_of(pause, change, kept.poked)
        self._kept.pop(kept.sweep.sweep_id, None)
        log_event(logger, codes.LOG_SWEEP_ENDED, sweep_id=kept.sweep.sweep_id, state=kept.sweep.state)

    async def _apply(self, kept: _Kept, event: ev.Event) -> None:
        """Decide, commit; acting is for :meth:`_act`, which looks at what is stored."""
        decision = dc.decide(kept.sweep, event)
        sweep = decision.sweep
        if sweep is kept.sweep:
            return
        if sweep.is_over and not kept.sweep.is_over:
            sweep = replace(sweep, ended_at=time.time())
        await asyncio.wrap_future(self._rows.save(sweep, decision.changed))
        kept.sweep = sweep

    # ---- looking -------------------------------------------------------------------------------------------------

    async def _look(self, kept: _Kept) -> None:
        for number, index in kept.live():
            await self._look_at(kept, kept.sweep.trials[number], index)

    async def _look_at(self, kept: _Kept, trial: Trial, index: int) -> None:
        seed = trial.seeds[index]
        if seed.phase is SeedPhase.EVALUATING:
            await self._look_at_evaluation(kept, trial.number, index)
            return
        try:
            run = self._orchestrator.current(seed.runs[-1])
        except UnknownRunError:
            await self._apply(kept, ev.RunEnded(trial.number, index, Outcome.CANCELED, "it was deleted"))
            return
        if index == 0 and trial.state is TrialState.RUNNING:
            await self._look_at_rungs(kept, trial, run)
        if run.is_over:
            await self._apply(kept, await self._end_of(kept, trial.number, index, run))

    async def _look_at_evaluation(self, kept: _Kept, number: int, index: int) -> None:
        """What was measured is forgotten after it is stored: where that fails it is looked at again."""
        key = kept.key(number, index)
        try:
            event = self._evaluators.result(key)
        except OSError as error:  # not the checkpoint's fault: it is played again when there is room for the result
            self._evaluators.forget(key)
            kept.done = None
            raise WorldError(f"an evaluation cannot be kept: {error.strerror or error}") from error
        if event is not None:
            await self._apply(kept, event)
            self._evaluators.forget(key)

    async def _look_at_rungs(self, kept: _Kept, trial: Trial, run: RunRecord) -> None:
        spec, number = kept.sweep.spec, trial.number
        for step in spec.rungs:
            if step <= trial.last_rung:
                continue
            judged = kept.sweep.trials[number]
            if judged.state is not TrialState.RUNNING or (spec.is_population and judged.waits_for_turn):
                return
            if run.is_over or not await self._has_passed(spec, run, step):
                return
            value = None
            if not spec.evaluate:
                value = await self._read(readings.value_at, self._store, spec, lineage(kept.sweep, number), step)
            await self._apply(kept, ev.RungReached(number, step, value))

    async def _has_passed(self, spec: SweepSpec, run: RunRecord, step: int) -> bool:
        """Whether all that a run logged up to a step is stored. Headline numbers are a small read, which the loop makes
        itself; a run without any is asked for its metric once a step says that it is that far."""
        newest = self._store.newest_step(run.run_id)
        if newest or run.run_id not in self._orchestrator.tracked:
            return newest >= step
        if self._orchestrator.tracked[run.run_id].step < step:
            return False
        return await self._read(readings.logs_beyond, self._store, spec, run.run_id, step)

    async def _end_of(self, kept: _Kept, number: int, index: int, run: RunRecord) -> ev.RunEnded:
        outcome, spec = run.outcome or Outcome.LOST, kept.sweep.spec
        value, logged = None, tuple[str, ...]()
        if outcome is Outcome.COMPLETED and not spec.evaluate:
            value = await self._read(readings.value_at, self._store, spec, lineage(kept.sweep, number, index))
            if value is None:
                logged = tuple(await self._read(self._store.tags, run.run_id))
        begun = _begun_at(run)
        seconds = run.active.total(time.monotonic(), boot_id())
        steps = max(0, run.last_step - begun)
        return ev.RunEnded(number, index, outcome, run.reason, value, steps, seconds, logged)

    async def _read(self, query: Callable[..., T], *arguments: Any) -> T:
        return await self._orchestrator.hub.read(query, *arguments)

    # ---- acting --------------------------------------------------------------------------------------------------

    async def _act(self, kept: _Kept) -> bool:
        """Follow what is outstanding; True when something new may be outstanding now."""
        before = kept.sweep
        if before is kept.done:
            return False
        for instruction in list(todo.outstanding(before)):
            await self._follow(kept, instruction)
        kept.done = before
        return kept.sweep is not before

    async def _follow(self, kept: _Kept, instruction: todo.Instruction) -> None:
        match instruction:
            case todo.Ask():
                await self._ask_study(kept)
            case todo.Start(number, index):
                await self._start(kept, number, index)
            case todo.Find(number, index):
                run_id = self._orchestrator.registry.accepted(_request_id(kept.sweep, number, index))
                found = ev.Submitted(number, index, run_id) if run_id else ev.Withdrawn(number, index)
                await self._apply(kept, found)
            case todo.Cancel(run_id, reason):
                await self._cancel(run_id, reason)
            case todo.Evaluate(number, index):
                self._evaluate(kept, number, index)
            case todo.Halt(number, index):
                await self._evaluators.halt(kept.key(number, index))
                await self._apply(kept, ev.EvaluationHalted(number, index))
            case todo.Hold(number, index, held):
                await self._hold(kept, number, index, held=held)
            case todo.Tell(number):
                study = await self._study(kept)
                await self._search(study.tell, kept.sweep.trials[number])
                await self._apply(kept, ev.Told(number))

    async def _ask_study(self, kept: _Kept) -> None:
        study = await self._study(kept)
        try:
            params = await self._search(study.ask, kept.sweep)
        except ExhaustedError as error:
            await self._apply(kept, ev.NothingLeft(str(error)))
        except (ValueError, TypeError, KeyError, ArithmeticError) as error:  # of Optuna: asked again it fails again
            log_bug(error)
            sentence = f"the sampler failed ({type(error).__name__}: {error}): the daemon's log tells more"
            await self._apply(kept, ev.NothingLeft(sentence))
        else:
            await self._apply(kept, ev.Asked(params))

    async def _study(self, kept: _Kept) -> SweepStudy:
        if kept.study is None:
            file = self.study_file(kept.sweep)
            kept.study = await self._search(opened_study, file, kept.sweep)
        return kept.study

    def study_file(self, sweep: Sweep) -> Path:
        return self._orchestrator.paths.sweep_study(sweep.sweep_id)

    async def _search(self, work: Callable[..., T], *arguments: Any) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._searching, work, *arguments)
        except OSError as error:
            raise WorldError(f"the study cannot be written: {error.strerror or error}") from error

    async def _start(self, kept: _Kept, number: int, index: int) -> None:
        try:
            config = await asyncio.to_thread(self._config, kept.sweep, number, index)
            text = msgspec.json.encode(config).decode()
            workers = await self._roster.manifests()
            request = _request_id(kept.sweep, number, index)
            run, _ = await self._orchestrator.submit(text, request, workers, name_is_default=True)
        except (RefusedError, RunConfigError) as error:
            sentence = "; ".join(str(error).splitlines())
            await self._apply(kept, ev.SubmissionRefused(number, index, sentence))
        else:
            await self._apply(kept, ev.Submitted(number, index, run.run_id))

    def _config(self, sweep: Sweep, number: int, index: int) -> dict[str, Any]:
        """Of the run that goes on from what its seed knows, or of the first. Reads files."""
        trial = sweep.trials[number]
        seed = trial.seeds[index]
        name, group = f"{sweep.name}-t{number}-s{seed.seed}", f"{sweep.name}-t{number}"
        params = {**sweep.spec.fixed, **trial.params}
        fresh = config_of_trial(sweep.spec, params, seed.seed, name=name, group=group)
        fresh["metadata"]["sweep"] = sweep.name
        config = newest_continuation(lineage(sweep, number, index), self._message)
        if config is None:
            return fresh
        if sweep.spec.is_population:  # the run that it goes on from may be another member's
            config["metadata"]["group"] = group
            settings, own = config["metadata"]["worker"]["config"], fresh["metadata"]["worker"]["config"]
            settings.update(params=own["params"], seed=own["seed"])
        return {**config, "run_name": name}

    def _message(self, run_id: str) -> pb.Run:
        return run_message(self._orchestrator.current(run_id), self._orchestrator)

    def _evaluate(self, kept: _Kept, number: int, index: int) -> None:
        """Of a seed that reached the end, its last run is what counts; at a rung a run may have crashed."""
        runs = lineage(kept.sweep, number, index)
        if kept.sweep.trials[number].seeds[index].trained:
            runs = runs[-1:]
        self._evaluators.begin(kept.key(number, index), kept.sweep.spec, runs, kept.poke)

    async def _cancel(self, run_id: str, reason: str) -> None:
        """A level: one that is being stopped, or over, is left alone."""
        try:
            run = self._orchestrator.current(run_id)
            if not run.is_over and run.desired is not Desired.STOP:
                await self._orchestrator.cancel(run_id, reason)
        except (UnknownRunError, WrongStateError):
            pass

    async def _hold(self, kept: _Kept, number: int, index: int, *, held: bool) -> None:
        run_id = kept.sweep.trials[number].seeds[index].runs[-1]
        try:
            run = self._orchestrator.current(run_id)
            if held and run.desired is Desired.RUN and not run.is_over:
                await self._orchestrator.pause(run_id)
            elif not held and run.desired is Desired.PAUSE and not run.is_over:
                await self._orchestrator.resume(run_id)
        except WrongStateError as error:  # what cannot pause goes on to its end, and nothing follows it
            log_event(logger, codes.LOG_SWEEP_WAITS, sweep_id=kept.sweep.sweep_id, reason=str(error))
        except UnknownRunError:
            return
        await self._apply(kept, ev.HoldChanged(number, index, held))


def newest_continuation(runs: Sequence[str], message_of: Callable[[str], pb.Run]) -> dict[str, Any] | None:
    """The config that goes on from the newest of these runs that left a checkpoint, oldest first: one that crashed at
    once has none, and the run before it has. Reads files."""
    for run_id in reversed(runs):
        try:
            return continued(message_of(run_id))
        except (CannotContinueError, UnknownRunError):
            continue
    return None


def _begun_at(run: RunRecord) -> int:
    """The step of the checkpoint that a run goes on from, which the name of that ends with; 0 without one."""
    parent = config_of(run.config_json).get("metadata", {}).get("parent") or {}
    found = re.search(r"(\d+)$", str(parent.get("checkpoint", "")))
    return int(found[1]) if found else 0


def _request_id(sweep: Sweep, number: int, index: int) -> str:
    seed = sweep.trials[number].seeds[index]
    return f"sweep-{sweep.sweep_id}-{number}-{index}-{len(seed.runs)}"


async def _first_of(seconds: float, *events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()
