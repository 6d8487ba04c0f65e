"""The rules of a campaign, checked when all is over: what was acknowledged is there, once, and what it says of itself
agrees with what was done to it. The rules of the event log alone are those of every test with a daemon
(:mod:`gym_gui.tests.support.history`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.storage.run_query import Query
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.tests.support.history import stories, violations
from mosaic_protocol.states import Outcome, RunState
from tools.nemesis.history import SETTLING, History
from tools.nemesis.ledger import Ledger, Submission
from tools.nemesis.plans import ENDLESS, TOY_BREAKS, Plan


def check(registry: RunRegistry, ledger: Ledger, *, cpus: int) -> list[str]:
    """A sentence for each broken rule, those that were seen broken on the way among them. The daemon has left."""
    history = ledger.history
    runs = {run.run_id: run for run in stored_runs(registry)}
    found = [*history.seen_broken, *_existence(runs, ledger), *violations(registry, cpus=cpus)]
    for one in ledger.acknowledged():
        if (run := runs.get(one.run_id)) is not None:
            found += _ending(run, one.plan, history)
            found += _forgotten(run, history)
            found += _trash(run, one)
    return [*found, *_pauses(registry, history)]


def stored_runs(registry: RunRegistry) -> Iterator[RunRecord]:
    """Every run of a registry, the trash as well."""
    token = ""
    while True:
        page = registry.page(Query(include_deleted=True), 500, token)
        yield from page.runs
        token = page.next_token
        if not token:
            return


def _existence(runs: dict[str, RunRecord], ledger: Ledger) -> Iterator[str]:
    """An acknowledged run exists once unless it was purged; one without an answer at most once; no other exists."""
    named = Counter(run.name for run in runs.values())
    for one in ledger.submissions:
        count = named.pop(one.plan.name, 0)
        if count > 1:
            yield f"{one.plan.name} was submitted once and exists {count} times"
        if one.run_id and not one.purging and one.run_id not in runs:
            yield f"{one.run_id} ({one.plan.name}) was acknowledged and is lost"
        if one.purged and one.run_id in runs:
            yield f"{one.run_id} ({one.plan.name}) was removed for good and is still there"
    for name in named:
        yield f"nobody submitted {name}"


def _trash(run: RunRecord, one: Submission) -> Iterator[str]:
    if one.in_trash is not None and not one.purging and one.in_trash != (run.deleted_at > 0):
        places = {True: "in the trash", False: "out of the trash"}
        yield f"{run.run_id} belongs {places[one.in_trash]} and is {places[run.deleted_at > 0]}"


def _forgotten(run: RunRecord, history: History) -> Iterator[str]:
    """A cancel that was answered is not asked for a second time when every fault is undone."""
    cancels = history.of("cancel", run=run.run_id)
    answered = [one for one in cancels if one.client != SETTLING and one.result == "ok"]
    if answered and any(one.client == SETTLING for one in cancels):
        yield f"{run.run_id}: the cancel of {answered[0].began:.1f} s was answered and then forgotten"


def _pauses(registry: RunRegistry, history: History) -> Iterator[str]:
    """No run is paused unless a client asked for it."""
    asked = {one.run for one in history.of("pause")}
    for run_id, story in stories(registry.history()).items():
        if run_id not in asked and any(row.transition.target is RunState.PAUSE for row in story):
            yield f"{run_id} was paused and nobody asked for it"


# ---- outcomes and their sentences --------------------------------------------------------------------------------


def _ending(run: RunRecord, plan: Plan, history: History) -> Iterator[str]:
    if run.state is not RunState.TERM or run.outcome is None:
        yield f"{run.run_id} ({plan.name}) is not over: {run.state}"
    elif not _RULES[run.outcome](run, plan, history):
        done = [f"{blow.fault} at {blow.at:.1f} s" for blow in history.blows if blow.run == run.run_id]
        done += [f"{one.action} at {one.began:.1f} s ({one.result})" for one in history.of("cancel", run=run.run_id)]
        yield (
            f"{run.run_id} ({plan.name}, {plan.kind}) is {run.outcome} at step {run.last_step}, {run.reason!r}, "
            f"but was to be {plan.ends or 'stopped'}; done to it: {', '.join(done) or 'nothing'}"
        )


def _completed(run: RunRecord, plan: Plan, history: History) -> bool:
    """It made all its steps, and says so."""
    numbers = [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", run.reason)]
    return plan.ends == "completed" and plan.total < ENDLESS and run.last_step == plan.total and plan.total in numbers


def _canceled(run: RunRecord, plan: Plan, history: History) -> bool:
    """Somebody asked for it, and the sentence has the reason that was given."""
    reasons = [one.detail["reason"] for one in history.of("cancel", run=run.run_id)]
    return run.reason.startswith("canceled") and any(reason in run.reason for reason in reasons)


def _timed_out(run: RunRecord, plan: Plan, history: History) -> bool:
    return plan.ends == "timed_out" and "reached its limit" in run.reason


def _failed(run: RunRecord, plan: Plan, history: History) -> bool:
    """By itself as planned, or by a blow aimed at it, and the sentence says which."""
    said = run.reason
    return (
        (plan.ends == "failed" and TOY_BREAKS in said)
        or (_was(run, history, "kill") and "killed by signal 9" in said)
        or (_was(run, history, "freeze") and ("stopped answering" in said or "did not register" in said))
    )


def _lost(run: RunRecord, plan: Plan, history: History) -> bool:
    return _was(run, history, "kill") and "no last word" in run.reason


def _was(run: RunRecord, history: History, verb: str) -> bool:
    return any(blow.run == run.run_id and blow.fault.startswith(verb) for blow in history.blows)


_RULES = {
    Outcome.COMPLETED: _completed,
    Outcome.CANCELED: _canceled,
    Outcome.TIMED_OUT: _timed_out,
    Outcome.FAILED: _failed,
    Outcome.LOST: _lost,
}
