"""Studies of others are read and never written; reports say what pruning saved, and what it did not."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gym_gui.services.sweeps.foreign_studies import StudyError, read_studies
from gym_gui.services.sweeps.model import SeedPhase, SeedRun, Sweep, SweepSpec, SweepState, Trial, TrialState, Turn
from gym_gui.services.sweeps.report import cost_of, foretold, report_of, sentences
from gym_gui.services.sweeps.space import Dimension
from gym_gui.services.sweeps.spec_check import why_refused, why_unable
from gym_gui.services.trainer.errors import RefusedError, UnknownRunError
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from mosaic_protocol.worker_manifest import discover

# ---- studies of others -------------------------------------------------------------------------------------------


def _written(storage: Any) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(storage=storage, study_name="theirs", direction="minimize")
    for number in range(3):
        trial = study.ask()
        trial.suggest_categorical("mode", ["a", "b"])
        trial.suggest_int("size", 4, 4)
        trial.suggest_float("rate", 0.5, 0.5)
        study.tell(trial, 3.0 - number)
    study.ask()


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    folder = tmp_path_factory.mktemp("studies")
    files = {"sqlite": folder / "study # 1.db", "journal": folder / "study.journal"}
    rdb = RDBStorage(f"sqlite:///{folder / 'plain.db'}")
    _written(rdb)
    rdb.engine.dispose()
    (folder / "plain.db").rename(files["sqlite"])
    _written(JournalStorage(JournalFileBackend(str(files["journal"]))))
    return files


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_a_study_of_somebody_else_is_read_and_left_as_it_is(studies: dict[str, Path], kind: str) -> None:
    file = studies[kind]
    before, beside = file.read_bytes(), sorted(file.parent.iterdir())
    file.chmod(0o400)
    (study,) = read_studies(file)
    assert (study.name, study.directions) == ("theirs", ("minimize",))
    assert [(one.number, one.values) for one in study.ranked()] == [(2, (1.0,)), (1, (2.0,)), (0, (3.0,))]
    assert study.trials[0].params["size"] == 4
    assert study.trials[0].params["mode"] in ("a", "b")
    assert study.trials[3].state == "running"
    assert (file.read_bytes(), sorted(file.parent.iterdir())) == (before, beside)


def test_a_locked_study_is_told_as_such(studies: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "locked.db"
    file.write_bytes(studies["sqlite"].read_bytes())
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StudyError, match="is locked: another program is writing to it"):
            read_studies(file)


def _of_another_version(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE version_info SET schema_version = 11, library_version = '1.0'")


def _damaged(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[5000:] = b"x" * (len(content) - 5000)
    file.write_bytes(content)


def _a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_of_another_version, "has the schema 11, written by Optuna 1.0; this version reads schema 12"),
        (_damaged, "cannot be read as a study of Optuna's"),
        (lambda file: file.write_bytes(b"no study"), "is no study"),
        (lambda file: file.unlink(), "there is no file"),
        (_a_pipe, "is no regular file"),
        (lambda file: file.write_text('{"op_code": 99, "worker_id": "x"}\n'), "damaged, or of another version"),
        (lambda file: file.write_text("{broken\n{}\n"), "damaged, or of another version"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_a_sentence(
    studies: dict[str, Path], tmp_path: Path, spoil: Any, sentence: str
) -> None:
    file = tmp_path / "study.db"
    file.write_bytes(studies["sqlite"].read_bytes())
    spoil(file)
    with pytest.raises(StudyError) as refused:
        read_studies(file)
    assert sentence in str(refused.value)


# ---- reports -----------------------------------------------------------------------------------------------------


def _trial(number: int, state: TrialState, steps: int, value: float | None = None, **more: Any) -> Trial:
    seed = SeedRun(1, SeedPhase.OVER, ("R",), value=value, steps=steps)
    return Trial(number, {"lr": number / 10}, (seed,), state, value=value, **more)


def sweep_of(*trials: Trial, **asked: Any) -> Sweep:
    config = {"metadata": {"worker": {"config": {"total_timesteps": 100}}}}
    given = {"pruner": "asha", "rungs": (25,), **asked}
    spec = SweepSpec(config=config, space={"lr": Dimension("float", 0, 1)}, metric="return", trials=9, **given)
    return Sweep("S", "sweep", spec, state=SweepState.COMPLETED, budget=9, trials=trials)


def test_what_pruning_saved_counts_the_judged_seed_alone() -> None:
    survivor = _trial(0, TrialState.COMPLETE, 100, 5.0)
    more = replace(survivor, seeds=(*survivor.seeds, SeedRun(2, SeedPhase.OVER, steps=100)))
    sweep = sweep_of(more, _trial(1, TrialState.PRUNED, 30), _trial(2, TrialState.FAILED, 70, reason="it broke"))
    cost = cost_of(sweep)
    assert (cost.judged, cost.full, cost.more_seeds, cost.failed, cost.saved) == (130, 200, 100, 70, 0.35)
    told = " ".join(sentences(sweep))
    assert "Pruning saved 35% of the judged seed's steps: 130 were trained instead of 200" in told
    assert "1 trial did not go on, and nobody knows what would have become of them" in told
    assert "1 trial failed; the last one (trial 2): it broke" in told
    assert "`mosaic sweep best sweep` measures it on fresh seeds" in told
    assert report_of(sweep)["saved_by_pruning"] == 0.35


def test_a_rung_that_does_not_foretell_the_end_is_told() -> None:
    def trials(sign: int) -> Iterator[Trial]:
        return (_trial(n, TrialState.COMPLETE, 100, float(n), rungs=((25, float(sign * n)),)) for n in range(6))

    assert foretold(sweep_of(*trials(1))) == {25: pytest.approx(1.0)}
    reversed_order = sweep_of(*trials(-1))
    assert foretold(reversed_order) == {25: pytest.approx(-1.0)}
    assert any("foretold the order at the end badly" in one for one in sentences(reversed_order))
    assert foretold(sweep_of(*list(trials(1))[:4])) == {}, "four say nothing"


def test_without_a_pruner_nothing_is_said_to_be_saved() -> None:
    sweep = sweep_of(_trial(0, TrialState.COMPLETE, 100, 1.0), pruner="none", rungs=())
    assert not any("saved" in one for one in sentences(sweep))


# ---- rows --------------------------------------------------------------------------------------------------------


def test_a_population_is_not_said_to_have_saved_anything() -> None:
    turn = Turn(25, 0, {"lr": 0.3})
    copy = _trial(1, TrialState.COMPLETE, 75, 6.0, turns=(turn,), rungs=((25, 1.0),))
    told = report_of(sweep_of(_trial(0, TrialState.COMPLETE, 100, 5.0), copy, pruner="pbt"))
    notes = " ".join(told["notes"])
    assert (told["copies"], told["best"]["turns"]) == (1, [{"step": 25, "source": 0, "params": {"lr": 0.1}}])
    assert "No steps were saved" in notes
    assert "Pruning saved" not in notes
    assert "The settings shown for trial 1 are its last ones" in notes


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"pruner": "asha", "evaluate": 5}, "asha judges running trials by the returns of training"),
        ({"pruner": "median", "evaluate": 5}, "the two are not mixed"),
        ({"evaluate": -1}, "evaluate must be between 0 and 1,000,000 episodes, got -1"),
        ({"pruner": "pbt", "seeds": (1, 2)}, "seeds must be 1"),
        ({"pruner": "pbt", "trials": 1}, "a population has at least 2 members"),
        ({"pruner": "pbt", "quantile": 0.6}, "quantile must be between 0.01 and 0.5, got 0.6"),
        ({"pruner": "pbt", "resample": float("nan")}, "resample must be between 0 and 1, got nan"),
        ({"pruner": "pbt", "perturb": 1.0}, "perturb must be above 1 and at most 100, got 1"),
        ({"pruner": "pbt", "rungs": ()}, "the pruner pbt needs rungs"),
        ({"pruner": "pbt"}, ""),
        ({"pruner": "pbt", "evaluate": 5}, ""),
        ({"pruner": "none", "rungs": (), "evaluate": 5}, ""),
    ],
)
def test_what_does_not_go_together_is_refused_in_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    refused = why_refused(replace(sweep_of().spec, **changes))
    assert sentence in refused if sentence else not refused


@pytest.mark.parametrize(
    ("pruner", "setting", "chosen", "sentence"),
    [
        ("pbt", "learning_rate", {}, ""),
        ("pbt", "num_envs", {}, "pbt cannot search num_envs: a run of ppo that goes on must leave it as it was"),
        ("pbt", "learning_rat", {}, "did you mean 'learning_rate'?"),
        ("pbt", "learning_rate", {"script": "/mine.py"}, "of this script nobody knows which of them it can change"),
        ("asha", "num_envs", {}, ""),
    ],
)
def test_a_population_changes_only_what_a_resumed_run_can_change(
    pruner: Any, setting: str, chosen: dict[str, str], sentence: str
) -> None:
    config = {"metadata": {"worker": {"config": {"algo": "ppo", **chosen}}}}
    space = {setting: Dimension("float", 1, 2)}
    cleanrl = discover().workers["cleanrl"]
    refused = why_unable(replace(sweep_of().spec, config=config, space=space, pruner=pruner), cleanrl)
    assert sentence in refused if sentence else not refused


def test_rows_outlive_the_registry_that_wrote_them(tmp_path: Path) -> None:
    sweep = sweep_of(_trial(0, TrialState.COMPLETE, 1, 2.0), _trial(1, TrialState.COMPLETE, 1, 3.0))
    with closing(RunRegistry(tmp_path / "registry.sqlite")) as registry:
        stored = registry.sweeps.insert(replace(sweep, trials=()), "request", name_is_default=False).result()
        assert registry.sweeps.insert(replace(sweep, sweep_id="T"), "request", name_is_default=False).result() == stored
        other = registry.sweeps.insert(replace(sweep, sweep_id="U"), "another", name_is_default=True).result()
        assert other.name == "sweep-2"
        with pytest.raises(RefusedError, match="is called 'sweep' already"):
            registry.sweeps.insert(replace(sweep, sweep_id="V"), "third", name_is_default=False).result()
        registry.sweeps.save(sweep, (0, 1)).result()
    with closing(RunRegistry(tmp_path / "registry.sqlite")) as registry:
        rows = registry.sweeps
        assert rows.whole(rows.find("sweep")) == sweep == rows.whole(rows.find("s"))
        assert rows.counts("S") == {"complete": 2}
        assert b'"number":1' in rows.best(sweep)
        assert [one.sweep_id for one in rows.all()] == ["U", "S"]
        with pytest.raises(UnknownRunError, match="no sweep is called 'nobody'"):
            rows.find("nobody")
        with pytest.raises(UnknownRunError, match=r"no sweep is called 'swep'; did you mean 'sweep'\?"):
            rows.find("swep")
