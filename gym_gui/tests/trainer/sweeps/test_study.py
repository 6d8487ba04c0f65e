"""The study follows the rows, whatever a killed daemon left of it, and asks the same questions again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gym_gui.services.sweeps.foreign_studies import ForeignTrial, read_studies
from gym_gui.services.sweeps.model import SAMPLERS, SeedRun, Sweep, SweepSpec, Trial, TrialState, Turn
from gym_gui.services.sweeps.space import Dimension
from gym_gui.services.trainer.sweeps import study as study_module
from gym_gui.services.trainer.sweeps.study import ExhaustedError, SweepStudy, missing_for, opened_study

SPACE = {
    "lr": Dimension("float", 1e-5, 1e-1, log=True),
    "steps": Dimension("int", 1, 9, step=2),
    "mode": Dimension("choice", choices=("a", True, 3)),
}
GRID = {"steps": Dimension("int", 1, 3), "mode": Dimension("choice", choices=("a", "b"))}


def sweep_of(**asked: Any) -> Sweep:
    spec = SweepSpec(config={}, **{"space": SPACE, "metric": "return", "trials": 30, **asked})
    return Sweep("S", "sweep", spec, budget=spec.trials)


def asked(study: SweepStudy, sweep: Sweep, value: float | None = None) -> Sweep:
    """The sweep with one more trial; complete where it has a value, which the study is told."""
    trial = Trial(len(sweep.trials), study.ask(sweep), (SeedRun(1),))
    if value is not None:
        trial = replace(trial, state=TrialState.COMPLETE, value=value, told=True)
        study.tell(trial)
    return replace(sweep, trials=(*sweep.trials, trial))


def entries(file: Path) -> list[ForeignTrial]:
    (found,) = read_studies(file)
    return list(found.trials)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_next_question_is_the_same_after_a_crash(sampler: str, tmp_path: Path) -> None:
    """One study is asked in one go, the other is opened again before each question."""
    sweep = sweep_of(sampler=sampler, space=GRID if sampler == "grid" else SPACE)
    calm, disturbed = sweep, sweep
    once = SweepStudy(tmp_path / "once", sweep)
    for number in range(6):
        calm = asked(once, calm, float(number % 4))
        again = SweepStudy(tmp_path / "again", sweep)
        again.reconcile(disturbed)
        disturbed = asked(again, disturbed, float(number % 4))
    assert calm.trials == disturbed.trials
    assert len({str(trial.params) for trial in calm.trials}) == 6


def test_a_proposal_that_was_never_stored_is_the_answer_to_the_next_question(tmp_path: Path) -> None:
    sweep = sweep_of()
    first = SweepStudy(tmp_path / "study", sweep).ask(sweep)
    assert SweepStudy(tmp_path / "study", sweep).ask(sweep) == first
    assert len(entries(tmp_path / "study")) == 1


def test_a_proposal_that_was_cut_short_is_given_up(tmp_path: Path) -> None:
    """Killed between the trial and its number, and between two of its settings."""
    sweep, file = sweep_of(), tmp_path / "study"
    first = SweepStudy(file, sweep).ask(sweep)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]))
    assert SweepStudy(file, sweep).ask(sweep) == first, "it has all its settings"
    file.write_bytes(b"".join(lines[:-2]))
    assert SweepStudy(file, sweep).ask(sweep) == first, "it is asked again, of a sampler with the same seed"
    assert [one.state for one in entries(file)] == ["fail", "running"]


def test_half_a_line_at_the_end_of_the_journal_is_cut_off(tmp_path: Path) -> None:
    sweep, file = sweep_of(), tmp_path / "study"
    sweep = asked(SweepStudy(file, sweep), sweep, 1.0)
    with file.open("ab") as journal:
        journal.write(b'{"op_code": 4, "wor')
    sweep = asked(SweepStudy(file, sweep), sweep, 2.0)
    assert [one.values for one in entries(file)] == [(1.0,), (2.0,)]


def test_a_study_that_is_gone_is_written_again_from_the_rows(tmp_path: Path) -> None:
    sweep, file = sweep_of(), tmp_path / "study"
    study = SweepStudy(file, sweep)
    for value in (1.0, 2.0, None):
        sweep = asked(study, sweep, value)
    file.unlink()
    SweepStudy(file, sweep).reconcile(sweep)
    assert [(one.state, one.params) for one in entries(file)] == [
        ("complete", sweep.trials[0].params),
        ("complete", sweep.trials[1].params),
        ("running", sweep.trials[2].params),
    ]


def test_a_study_that_cannot_be_read_is_kept_aside_and_written_again(tmp_path: Path) -> None:
    sweep, file = sweep_of(), tmp_path / "study.journal"
    study = SweepStudy(file, sweep)
    for value in (1.0, 2.0):
        sweep = asked(study, sweep, value)
    lines = file.read_bytes().splitlines(keepends=True)
    spoilt = b"".join([*lines[:3], b"no journal\n", *lines[4:]])
    file.write_bytes(spoilt)
    opened_study(file, sweep)
    known = [(one.params, one.values) for one in entries(file)]
    assert known == [(trial.params, (trial.value,)) for trial in sweep.trials]
    (aside,) = tmp_path.glob("study.damaged-*")
    assert aside.read_bytes() == spoilt


def test_ends_are_told_once_and_a_promoted_trial_once_more(tmp_path: Path) -> None:
    sweep, file = sweep_of(), tmp_path / "study"
    study = SweepStudy(file, sweep)
    sweep = asked(study, sweep)
    pruned = replace(sweep.trials[0], state=TrialState.PRUNED, rungs=((10, 5.0),))
    study.tell(pruned)
    study.tell(pruned)
    assert [(one.state, one.values) for one in entries(file)] == [("pruned", (5.0,))]
    done = replace(pruned, state=TrialState.COMPLETE, value=9.0, promotions=1)
    study.tell(done)
    study.tell(done)
    assert [(one.state, one.values) for one in entries(file)] == [("pruned", (5.0,)), ("complete", (9.0,))]
    seen = [one.intermediate_values for one in study._entries()]
    assert seen == [{10: 5.0}, {10: 5.0}], "the later entry has everything"


def test_a_trial_that_is_pruned_again_at_a_later_rung_is_told_with_it(tmp_path: Path) -> None:
    sweep, file = sweep_of(), tmp_path / "study"
    study = SweepStudy(file, sweep)
    sweep = asked(study, sweep)
    once = replace(sweep.trials[0], state=TrialState.PRUNED, rungs=((10, 5.0),))
    again = replace(once, rungs=((10, 5.0), (20, 8.0), (40, None)), promotions=1)
    for told in (once, again, again):
        study.tell(told)
    study.reconcile(replace(sweep, trials=(replace(again, told=True),)))
    assert [(one.state, one.values) for one in entries(file)] == [("pruned", (5.0,)), ("pruned", (8.0,))]


def test_a_member_of_a_population_keeps_the_settings_it_began_with_and_names_the_later_ones(tmp_path: Path) -> None:
    sweep, file = sweep_of(), tmp_path / "study"
    study = SweepStudy(file, sweep)
    sweep = asked(study, sweep)
    first = sweep.trials[0]
    turned = replace(first, params={**first.params, "steps": 7}, turns=(Turn(10, 0, first.params),))
    study.tell(replace(turned, state=TrialState.COMPLETE, value=9.0))
    file_again = tmp_path / "again"
    again = SweepStudy(file_again, sweep)
    again.reconcile(replace(sweep, trials=(replace(turned, state=TrialState.COMPLETE, value=9.0, told=True),)))
    for one in (study, again):
        (entry,) = one._entries()
        assert entry.params == first.params
        assert entry.user_attrs["mosaic_turns"] == [{"step": 10, "source": 0, "params": turned.params}]


def test_a_grid_has_each_point_once_and_then_no_more(tmp_path: Path) -> None:
    sweep = sweep_of(sampler="grid", space=GRID)
    study = SweepStudy(tmp_path / "study", sweep)
    for _ in range(6):
        sweep = asked(study, sweep, 1.0)
    assert len({tuple(trial.params.values()) for trial in sweep.trials}) == 6
    with pytest.raises(ExhaustedError, match="all 6 points of the grid were tried"):
        study.ask(sweep)


def test_a_sampler_whose_package_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_for("cmaes") == ""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install cmaes==0.13.1" in missing_for("cmaes")
    assert missing_for("tpe") == ""


def test_neither_daemon_nor_command_line_imports_optuna_before_there_is_a_sweep() -> None:
    code = (
        "import sys, gym_gui.services.trainer.daemon, gym_gui.cli.main\n"
        "assert not {'optuna', 'numpy', 'sqlalchemy'} & sys.modules.keys()\n"
        f"import {study_module.__name__} as s, pathlib, tempfile\n"
        "from gym_gui.tests.trainer.sweeps.test_study import sweep_of\n"
        "s.SweepStudy(pathlib.Path(tempfile.mkdtemp()) / 'study', sweep_of()).ask(sweep_of())\n"
        "assert 'optuna' in sys.modules\n"
        "assert not {'torch', 'sklearn', 'pandas'} & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
