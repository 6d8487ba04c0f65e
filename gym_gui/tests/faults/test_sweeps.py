"""Sweeps of a real daemon with real runs: killed, crashed, pruned, paused and stopped, and no trial lost or doubled."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.sweeps.foreign_studies import read_studies
from gym_gui.services.sweeps.model import Sweep, SweepSpec, SweepState, Trial, TrialState, lineage
from gym_gui.services.sweeps.space import Dimension
from gym_gui.services.trainer.client import RequestRefusedError
from gym_gui.services.trainer.sweeps.study import SweepStudy
from gym_gui.tests.support.climbing_worker import climb_config, climbing_worker
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from mosaic_protocol.checkpoint_manifest import list_checkpoints

STEPS = 40
HEIGHT = {"height": Dimension("float", 1.0, 10.0)}


@pytest.fixture
def climbers(make_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> DaemonProcess:
    daemon = make_daemon()
    daemon.env["MOSAIC_WORKER_PATH"] = os.pathsep.join(
        [str(climbing_worker(tmp_path / "workers")), daemon.env["MOSAIC_WORKER_PATH"]]
    )
    return daemon.start()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """A daemon for what leaves nothing behind."""
    folder = tmp_path_factory.mktemp("refusing")
    daemon = DaemonProcess(folder / "home")
    daemon.env["MOSAIC_WORKER_PATH"] = str(climbing_worker(folder / "workers"))
    try:
        yield daemon.start()
    finally:
        daemon.clean_up()


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Where the climbers note each step that they train."""
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


def spec_of(notes: Path, *, params: dict[str, Any] | None = None, **asked: Any) -> SweepSpec:
    config = climb_config(STEPS, notes=str(notes), **(params or {}))
    given = {"space": HEIGHT, "trials": 4, "sampler": "random", "last": 1, "parallel": 2, **asked}
    return SweepSpec(config=config, metric="charts/episodic_return", **given)


def wait_sweep(daemon: DaemonProcess, name: str, what: str, reached: Callable[[Sweep], bool]) -> Sweep:
    def look() -> Sweep | None:
        found = daemon.client.sweep(name)
        return found if reached(found) else None

    try:
        return wait_for(f"sweep {name} to {what}", look, timeout=120)
    except AssertionError as error:
        found = daemon.client.sweep(name)
        raise AssertionError(f"{error}; it is {found.state} {found.reason!r}: {found.trials}") from None


def steps_trained(notes: Path, trial: Trial) -> list[int]:
    file = notes / f"{trial.params['height']!r}-1"
    return [int(line.split()[0]) for line in file.read_text().splitlines()] if file.exists() else []


def steps_by_run(notes: Path) -> dict[str, list[int]]:
    noted = [line.split() for file in notes.iterdir() for line in file.read_text().splitlines()]
    return {run: [int(step) for step, by in noted if by == run] for run in {by for _, by in noted}}


def require_nothing_doubled(daemon: DaemonProcess, sweep: Sweep) -> None:
    """Every run of the sweep belongs to one trial, and the study knows the same trials as the rows."""
    runs = [run for trial in sweep.trials for seed in trial.seeds for run in seed.runs]
    listed = [run.run_id for run in daemon.client.runs(size=1000, where=f"sweep={sweep.name}").runs]
    assert sorted(runs) == sorted(listed)
    (study,) = read_studies(Path(daemon.client.sweep_message(sweep.name).study_file))
    entries = [trial for trial in study.trials if trial.params or trial.state != "fail"]  # others were cut short
    known = {tuple(trial.params.items()) for trial in entries}
    assert known == {tuple(trial.params.items()) for trial in sweep.trials}
    told = Counter((tuple(trial.params.items()), trial.state, trial.values) for trial in entries)
    assert set(told.values()) == {1}, "no end was told twice"
    # Who was pruned and promoted is told again when it ends, completed or pruned at a later rung.
    promoted = sum(trial.promotions > 0 and trial.state is TrialState.COMPLETE for trial in sweep.trials)
    assert promoted <= len(entries) - len(known) <= sum(trial.promotions for trial in sweep.trials)
    assert all(trial.state in ("complete", "pruned", "fail") for trial in study.trials)


def test_a_daemon_that_is_killed_again_and_again_loses_no_trial_and_doubles_none(
    climbers: DaemonProcess, notes: Path, tmp_path: Path
) -> None:
    spec = spec_of(notes, params={"pace": 0.01}, trials=5, pruner="asha", rungs=(10, 20))
    climbers.client.submit_sweep("killed", spec)
    for begun in (1, 3, 4):
        wait_sweep(climbers, "killed", f"begin {begun} trials", lambda one, n=begun: len(one.trials) >= n)
        climbers.kill()
        climbers.start()
    sweep = wait_sweep(climbers, "killed", "end", lambda one: one.is_over)
    assert (sweep.state, [trial.number for trial in sweep.trials]) == (SweepState.COMPLETED, list(range(5)))
    assert {trial.state for trial in sweep.trials} <= {TrialState.COMPLETE, TrialState.PRUNED}
    require_nothing_doubled(climbers, sweep)
    for trial in sweep.trials:
        trained = steps_trained(notes, trial)
        assert trained == list(range(1, len(trained) + 1)), "no step is trained twice, whoever was killed"
    study = SweepStudy(tmp_path / "undisturbed.journal", Sweep("01M7NEJ1327QKYW7010TKCCQM4", "killed", spec))
    asked: list[Trial] = []
    for number in range(5):
        proposal = study.ask(Sweep("01M7NEJ1327QKYW7010TKCCQM4", "killed", spec, trials=tuple(asked)))
        asked.append(Trial(number, proposal, ()))
    assert [trial.params for trial in sweep.trials] == [trial.params for trial in asked], "the questions are the same"


def test_a_population_whose_daemon_is_killed_in_every_phase_repeats_nothing_and_loses_nothing(
    climbers: DaemonProcess, notes: Path
) -> None:
    """Three members at two slots: killed while the first ones train, while the population is judged, and after it.
    Nobody gets past the first rung without a daemon that may stop it there, however long daemons are away."""
    height, gate = {"height": Dimension("float", 1.0, 90.0)}, notes.parent / "gate"
    held = {"pace": 0.01, "gate": str(gate), "gate_at": 20}
    spec = spec_of(notes, params=held, space=height, trials=3, pruner="pbt", rungs=(10, 25), resample=0.0, perturb=1.01)
    climbers.client.submit_sweep("population", spec)
    phases: list[tuple[str, Callable[[Sweep], bool]]] = [
        ("train", lambda one: len(one.trials) >= 2),
        ("come to a rung", lambda one: any(trial.rungs for trial in one.trials)),
        ("be judged", lambda one: any(trial.turns for trial in one.trials)),
    ]
    for what, reached in phases:
        wait_sweep(climbers, "population", what, reached)
        climbers.kill()
        climbers.start()
    gate.touch()
    sweep = wait_sweep(climbers, "population", "end", lambda one: one.is_over)
    assert (sweep.state, [trial.state.value for trial in sweep.trials]) == (SweepState.COMPLETED, ["complete"] * 3)
    assert sum(trial.copies for trial in sweep.trials) >= 1, "the worst of three became a copy"
    listed = {run.run_id: run for run in climbers.client.runs(size=1000, where="sweep=population").runs}
    assert sorted(listed) == sorted(run for trial in sweep.trials for run in trial.seeds[0].runs), "none is doubled"
    trained = steps_by_run(notes)
    for trial in sweep.trials:
        chain = [listed[run_id] for run_id in lineage(sweep, trial.number)]
        assert [run.parent for run in chain] == ["", *(run.run_id for run in chain[:-1])]
        assert chain[-1].last_step == STEPS
        for turn in (one for one in trial.turns if one.source != trial.number):
            assert (
                listed[trial.seeds[0].runs[turn.own_runs]].parent
                == sweep.trials[turn.source].seeds[0].runs[turn.source_runs - 1]
            )
            assert trial.params["height"] != trial.first_params["height"], "and has other settings than it began with"
        steps = [step for run in chain for step in trained.get(run.run_id, ())]
        assert steps == list(range(1, STEPS + 1)), "no step was trained twice, and none left out"
    assert sum(trial.seeds[0].steps for trial in sweep.trials) == sum(map(len, trained.values()))


def test_an_evaluation_ends_with_its_daemon_and_is_made_by_the_next_one(climbers: DaemonProcess, notes: Path) -> None:
    hold, made = notes / "hold", notes / "evaluations"
    hold.touch()
    space = {"height": Dimension("choice", choices=(2.0, 7.0))}
    spec = spec_of(notes, space=space, sampler="grid", trials=2, parallel=1, evaluate=3)
    climbers.client.submit_sweep("evaluated", spec)
    for count, end in enumerate((climbers.kill, climbers.terminate), 1):
        wait_for("an evaluation", lambda n=count: made.exists() and len(made.read_text().splitlines()) >= n)
        end()
        pid = made.read_text().split()[-2]
        wait_for("the evaluation to be gone", lambda p=pid: not Path(f"/proc/{p}").exists())
        climbers.start()
    wait_for("the third evaluation", lambda: len(made.read_text().splitlines()) == 3)
    climbers.client.stop_sweep("evaluated")
    sweep = wait_sweep(climbers, "evaluated", "stop", lambda one: one.is_over)
    assert [seed.phase.value for seed in sweep.trials[0].seeds] == ["unmeasured"]
    assert not any(Path(f"/proc/{line.split()[0]}").exists() for line in made.read_text().splitlines())
    hold.unlink()
    climbers.client.resume_sweep("evaluated")
    sweep = wait_sweep(climbers, "evaluated", "end", lambda one: one.is_over)
    assert {trial.params["height"]: trial.value for trial in sweep.trials} == {2.0: 2.04, 7.0: 7.04}
    for trial in sweep.trials:
        (run_id,) = trial.seeds[0].runs
        kept = list((climbers.paths.runs / run_id / "evaluations").glob("*.json"))
        assert len(kept) == 1, "what was measured is kept where `mosaic eval` keeps it, once"


def test_a_pruned_trial_stops_while_it_runs_and_goes_on_from_its_checkpoint_when_it_is_promoted(
    climbers: DaemonProcess, notes: Path, tmp_path: Path
) -> None:
    """Four heights, one after the other: the second is pruned at first, and among the best two of four at last."""
    heights = Dimension("choice", choices=(9.0, 8.0, 1.0, 2.0))
    gate = tmp_path / "gate"
    params = {"gate": str(gate), "gate_at": 20}
    order = _grid_order((9.0, 8.0, 1.0, 2.0))
    spec = spec_of(
        notes,
        params=params,
        space={"height": heights},
        sampler="grid",
        sampler_seed=order,
        parallel=1,
        pruner="asha",
        rungs=(10,),
    )
    climbers.client.submit_sweep("promoted", spec)
    sweep = wait_sweep(climbers, "promoted", "judge the first", lambda one: bool(one.trials and one.trials[0].rungs))
    assert sweep.trials[0].state is TrialState.RUNNING
    for number in (1, 2, 3):
        if number == 1:
            gate.touch()  # the first goes to its end
            wait_sweep(climbers, "promoted", "complete one", lambda one: one.trials[0].state is TrialState.COMPLETE)
            gate.unlink()
        wait_sweep(
            climbers,
            "promoted",
            f"prune trial {number}",
            lambda one, n=number: (
                len(one.trials) > n
                and len(one.trials[n].seeds[0].runs) > 0
                and one.trials[n].state is TrialState.PRUNED
            ),
        )
    run = climbers.client.run(climbers.client.sweep("promoted").trials[2].seeds[0].runs[0])
    assert (run.outcome, run.last_step < STEPS) == ("canceled", True)
    assert "pruned at step 10: number 3 of 3 there, and the best 1 go on" in run.reason
    assert list_checkpoints(Path(run.run_dir) / "checkpoints"), "it was stopped with a checkpoint"
    gate.touch()
    sweep = wait_sweep(climbers, "promoted", "end", lambda one: one.is_over)
    assert [trial.state.value for trial in sweep.trials] == ["complete", "complete", "pruned", "pruned"]
    promoted = sweep.trials[1]
    first, second = (climbers.client.run(run_id) for run_id in promoted.seeds[0].runs)
    assert (second.parent, second.outcome, second.last_step) == (first.run_id, "completed", STEPS)
    assert steps_trained(notes, promoted) == list(range(1, STEPS + 1)), "no step was trained twice"
    assert promoted.seeds[0].steps == STEPS
    require_nothing_doubled(climbers, sweep)


def _grid_order(heights: tuple[float, ...]) -> int:
    """The seed with which the grid's points come in the order in which they are listed."""
    import random

    count = len(heights)
    return next(seed for seed in range(10_000) if random.Random(seed).sample(range(count), count) == list(range(count)))


def test_a_trial_that_crashes_goes_on_from_its_checkpoint_and_fails_when_it_crashes_too_often(
    climbers: DaemonProcess, notes: Path
) -> None:
    space = {"height": Dimension("choice", choices=(5.0,)), "crashes": Dimension("choice", choices=(1, 9))}
    spec = spec_of(notes, params={"crash_at": 20}, space=space, sampler="grid", trials=2, parallel=1, retries=1)
    climbers.client.submit_sweep("crashing", spec)
    sweep = wait_sweep(climbers, "crashing", "end", lambda one: one.is_over)
    kind = {trial.params["crashes"]: trial for trial in sweep.trials}
    assert (kind[1].state, len(kind[1].seeds[0].runs), kind[1].seeds[0].failures) == (TrialState.COMPLETE, 2, 1)
    assert (kind[9].state, len(kind[9].seeds[0].runs)) == (TrialState.FAILED, 2)
    assert "status 9" in kind[9].reason
    assert kind[1].seeds[0].steps == STEPS, "the second run went on where the first had left a checkpoint"


def test_paused_means_paused_stopped_means_stopped_and_both_go_on_where_they_were(
    climbers: DaemonProcess, notes: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    spec = spec_of(notes, params={"gate": str(gate), "gate_at": 20}, trials=2)
    climbers.client.submit_sweep("held", spec)

    def at_the_gate(one: Sweep) -> bool:
        return len(one.trials) == 2 and all(len(steps_trained(notes, trial)) == 19 for trial in one.trials)

    wait_sweep(climbers, "held", "stand at the gate", at_the_gate)
    assert climbers.client.pause_sweep("held").state is SweepState.PAUSED
    runs = [trial.seeds[0].runs[-1] for trial in climbers.client.sweep("held").trials]
    for run_id in runs:
        climbers.wait_state(run_id, "PAUSE")
    climbers.kill()
    climbers.start()
    assert climbers.client.sweep("held").state is SweepState.PAUSED
    assert climbers.client.resume_sweep("held").state is SweepState.RUNNING
    for run_id in runs:
        climbers.wait_state(run_id, "EXEC")
    climbers.client.stop_sweep("held")
    sweep = wait_sweep(climbers, "held", "stop", lambda one: one.is_over)
    assert (sweep.state, [trial.state.value for trial in sweep.trials]) == (SweepState.STOPPED, ["stopped"] * 2)
    assert all(climbers.client.run(run_id).outcome == "canceled" for run_id in runs)
    gate.touch()
    climbers.client.resume_sweep("held")
    sweep = wait_sweep(climbers, "held", "end", lambda one: one.is_over)
    assert [trial.state.value for trial in sweep.trials] == ["complete"] * 2
    for trial in sweep.trials:
        assert steps_trained(notes, trial) == list(range(1, STEPS + 1))
    require_nothing_doubled(climbers, sweep)
    climbers.client.resume_sweep("held", percent=50)
    sweep = wait_sweep(climbers, "held", "use its new budget", lambda one: one.is_over)
    assert (len(sweep.trials), sweep.budget) == (3, 3)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"space": {}}, "a sweep searches 1 to 100 settings"),
        ({"space": {"height": Dimension("float", 2.0, 1.0)}}, "height has no values to search, or a range"),
        ({"space": {"hieght": Dimension("float", 1.0, 2.0)}, "params": {"hieght": 1.0}}, "hieght"),
        ({"seeds": (1, 1)}, "a seed is named twice"),
        ({"rungs": (20, 10), "pruner": "asha"}, "rungs are steps in ascending order"),
        ({"pruner": "median"}, "the pruner median needs rungs"),
        ({"sampler": "grid"}, "height has no fixed number of values"),
        ({"parallel": 0}, "parallel must be between 1 and 1,000"),
        (
            {"pruner": "pbt", "rungs": (10,), "space": {"heigth": Dimension("float", 1.0, 2.0)}},
            "pbt cannot search heigth: a run of climb that goes on must leave it as it was; did you mean 'height'?",
        ),
        (
            {"pruner": "pbt", "rungs": (10,), "space": {"pace": Dimension("float", 0.1, 0.2)}},
            "pbt cannot search pace: a run of climb that goes on must leave it as it was",
        ),
    ],
)
def test_what_a_program_sends_is_refused_in_a_sentence_and_nothing_is_kept(
    shared: DaemonProcess, tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(RequestRefusedError, match=re.escape(sentence)):
        shared.client.submit_sweep("refused", spec_of(tmp_path, **changes))
    assert shared.client.sweeps() == []
