"""The Optuna tab: waits for a study, shows it by objective, and says in a sentence what keeps it from doing so."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from gym_gui.services.sweeps.foreign_studies import ForeignStudy, ForeignTrial, StudyError
from gym_gui.services.sweeps.study_reader import StudyReader, read_apart
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.panels.analytics_tabs import AnalyticsTabManager
from gym_gui.ui.panels.optuna_tab import OptunaTab

HANG = 60_000
_TABLES = """
CREATE TABLE version_info (schema_version, library_version);
CREATE TABLE studies (study_id, study_name);
CREATE TABLE study_directions (study_id, direction, objective);
CREATE TABLE trials (trial_id, study_id, number, state);
CREATE TABLE trial_params (trial_id, param_name, param_value, distribution_json);
CREATE TABLE trial_values (trial_id, value, value_type, objective);
INSERT INTO studies VALUES (1, 'theirs');
INSERT INTO study_directions VALUES (1, 'MINIMIZE', 0);
"""


def write_study(file: Path, values: list[float | None], *, schema: int = 12) -> None:
    """A study as Optuna's tables hold it; no value: the trial goes on."""
    file.unlink(missing_ok=True)
    rate = json.dumps({"name": "FloatDistribution", "attributes": {}})
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executescript(_TABLES)
        connection.execute("INSERT INTO version_info VALUES (?, '5.0')", (schema,))
        for number, value in enumerate(values):
            state = "RUNNING" if value is None else "COMPLETE"
            connection.execute("INSERT INTO trials VALUES (?, 1, ?, ?)", (number, number, state))
            connection.execute("INSERT INTO trial_params VALUES (?, 'rate', ?, ?)", (number, number / 10, rate))
            if value is not None:
                connection.execute("INSERT INTO trial_values VALUES (?, ?, 'FINITE', 0)", (number, value))


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "01K9ZQ3V7X0000000000000000"
    directory.mkdir()
    return directory


@pytest.fixture
def tab(make_cockpit: MakeCockpit, run_dir: Path, qtbot: QtBot) -> Iterator[OptunaTab]:
    cockpit = make_cockpit()
    cockpit.bridge._timer.start()  # answers are delivered although there is no daemon
    tab = OptunaTab(cockpit.window.cockpit, run_dir.name, run_dir)
    tab._timer.setInterval(20)
    qtbot.addWidget(tab)
    tab.show()
    yield tab
    tab.close_tab()


def rows(tab: OptunaTab) -> list[list[str]]:
    table = tab.table
    return [[table.data(table.index(row, at)) for at in range(table.columnCount())] for row in range(table.rowCount())]


def test_the_tab_is_one_of_the_analytics_tabs() -> None:
    assert "optuna" in [tab.name for tab in AnalyticsTabManager().tabs()]


def test_a_study_that_comes_later_is_shown_by_objective_and_followed(
    tab: OptunaTab, run_dir: Path, qtbot: QtBot
) -> None:
    qtbot.waitUntil(lambda: tab.told.startswith("Not available yet"), timeout=HANG)
    write_study(run_dir / "optuna.db", [3.0, 1.0, None])
    (run_dir / "analytics.json").write_text(json.dumps({"optuna_db_path": "optuna.db"}))
    qtbot.waitUntil(lambda: tab.table.rowCount() == 3, timeout=HANG)
    assert rows(tab) == [["1", "complete", "1", "0.1"], ["0", "complete", "3", "0"], ["2", "running", "–", "0.2"]]
    assert tab.title.text() == "theirs: 3 trials, 2 complete"
    write_study(run_dir / "optuna.db", [3.0, 1.0, 0.5, None])
    qtbot.waitUntil(lambda: tab.table.rowCount() == 4, timeout=HANG)
    assert rows(tab)[0][0] == "2"


@pytest.mark.parametrize("wrong", ["locked", "version", "text", "missing"])
def test_a_file_that_cannot_be_read_is_one_sentence(
    tab: OptunaTab, tmp_path: Path, qtbot: QtBot, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "study.db"
    said = {
        "locked": "is locked",
        "version": "this version reads schema 12",
        "text": "is no study",
        "missing": "no file",
    }
    if wrong == "text":
        file.write_text("hello")
    elif wrong != "missing":
        write_study(file, [1.0], schema=13 if wrong == "version" else 12)
    if wrong == "locked":
        monkeypatch.setattr("gym_gui.services.sweeps.study_reader.read_studies", _locked)
    tab.open_file(file)
    qtbot.waitUntil(lambda: said[wrong] in tab.told, timeout=HANG)
    assert "\n" not in tab.told and not tab.studies


def _locked(file: Path) -> list[ForeignStudy]:
    raise StudyError(f"{file} is locked: another program is writing to it; try again later")


def test_a_study_that_is_locked_for_a_moment_stays_on_the_screen(
    tab: OptunaTab, tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_study(tmp_path / "study.db", [1.0])
    tab.open_file(tmp_path / "study.db")
    qtbot.waitUntil(lambda: tab.table.rowCount() == 1, timeout=HANG)
    monkeypatch.setattr(tab._reader, "read", _locked)
    qtbot.waitUntil(lambda: "is locked" in tab.banner.label.text(), timeout=HANG)
    assert tab.table.rowCount() == 1 and tab.banner.isVisible()


# ---- the reader --------------------------------------------------------------------------------------------------


def test_a_journal_is_read_once_for_each_change_and_elsewhere(tmp_path: Path) -> None:
    file, asked = tmp_path / "study.journal", list[Path]()
    found = [ForeignStudy("theirs", ("maximize",), (ForeignTrial(0, "complete", (1.0,)),))]

    def read(file: Path) -> list[ForeignStudy]:
        asked.append(file)
        return found

    reader = StudyReader(read)
    file.write_text('{"a": 1}\n')
    assert reader.read(file) is found and reader.read(file) is found and len(asked) == 1
    file.write_text('{"a": 1}\n{"a": 2}\n')
    assert reader.read(file) is found and len(asked) == 2


def test_another_process_reads_a_file_or_says_why_not(tmp_path: Path) -> None:
    write_study(tmp_path / "study.db", [2.0, float("inf")])
    (study,) = read_apart(tmp_path / "study.db")
    assert study.name == "theirs" and study.trials[0] == ForeignTrial(0, "complete", (2.0,), {"rate": 0.0})
    with pytest.raises(StudyError, match="there is no file"):
        read_apart(tmp_path / "nothing")
