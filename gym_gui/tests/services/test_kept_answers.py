"""Answers of workers are kept while the code that gave them is the same, and no longer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services import kept_answers
from gym_gui.services.kept_answers import KeptAnswers
from gym_gui.services.worker_extras import ExtrasTool
from gym_gui.services.worker_queries import ToolError, WorkerQueries
from gym_gui.tests.support.dropped_worker import dropped_worker
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.worker_manifest import load_manifest

# Notes each question, and answers as a worker with scripts does: its own one, or the file that the settings name.
FLAGS = """
import json, sys
from pathlib import Path
here = Path(__file__).parent
settings = json.loads(Path(sys.argv[sys.argv.index("--config") + 1]).read_text())
with (here.parent / "asked").open("a") as notes:
    notes.write("x")
if settings.get("algo") == "wrong":
    sys.exit("there is no such algorithm")
script = settings.get("script") or str(here / "own.py")
print(json.dumps({"script": script, "flags": [{"name": "speed"}], "capabilities": {}}))
"""
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = dropped_worker(tmp_path / "workers")
    (folder / "dropped_worker" / "cli.py").write_text(FLAGS)
    monkeypatch.setenv("MOSAIC_WORKER_PATH", str(folder))
    return folder


@pytest.fixture
def ask(folder: Path, tmp_path: Path) -> Ask:
    """Asks for flags as any number of screens would, each with queries of its own."""
    kept = KeptAnswers()

    def one(**settings: Any) -> dict[str, Any]:
        return WorkerQueries(MosaicPaths(tmp_path / "home"), kept=kept).describe_flags("dropped", settings, None)

    return one


def times_asked(folder: Path) -> int:
    return len((folder / "asked").read_text())


def test_the_same_question_starts_one_process(ask: Ask, folder: Path) -> None:
    first = ask(algo="count")
    first["flags"].clear()
    assert ask(algo="count")["flags"] == [{"name": "speed"}], "the answer is the caller's own"
    assert times_asked(folder) == 1
    ask(algo="other")
    assert times_asked(folder) == 2


@pytest.mark.parametrize("changed", ["cli.py", "worker.toml", "new.py"])
def test_changed_code_is_asked_again(ask: Ask, folder: Path, changed: str) -> None:
    ask(algo="count")
    file = folder / "dropped_worker" / changed
    before = file.read_text() if file.exists() else ""
    file.write_text(before.replace("Dropped Worker", "Worker") + "\n")
    ask(algo="count")
    assert times_asked(folder) == 2


def test_a_file_of_the_same_size_that_was_written_again_is_another_one(ask: Ask, folder: Path) -> None:
    ask(algo="count")
    file = folder / "dropped_worker" / "cli.py"
    written = file.stat().st_mtime_ns
    file.write_text(FLAGS.replace("speed", "depth"))
    os.utime(file, ns=(written + 1, written + 1))
    assert ask(algo="count")["flags"] == [{"name": "depth"}]


def test_another_search_path_is_another_question(ask: Ask, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(algo="count")
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    ask(algo="count")
    assert times_asked(folder) == 2


def test_a_script_of_ones_own_is_always_asked(ask: Ask, folder: Path, tmp_path: Path) -> None:
    for _ in range(2):
        ask(script=str(tmp_path / "mine.py"))
    assert times_asked(folder) == 2


def test_a_failure_is_not_kept(ask: Ask, folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(ToolError, match="no such algorithm"):
            ask(algo="wrong")
    assert times_asked(folder) == 2


def test_the_data_root_is_no_part_of_the_question(folder: Path, tmp_path: Path) -> None:
    kept = KeptAnswers()
    for home in ("one", "two"):
        WorkerQueries(MosaicPaths(tmp_path / home), kept=kept).describe_flags("dropped", {"algo": "count"}, None)
    assert times_asked(folder) == 1


def test_code_that_changes_while_it_is_asked_is_not_kept() -> None:
    kept, names = KeptAnswers(), iter("abbb")
    answers: list[dict[str, Any]] = [{"answer": 1}, {"answer": 2}]
    told = [kept.answer(lambda: next(names), lambda: answers.pop(0)) for _ in range(2)]
    assert told == [{"answer": 1}, {"answer": 2}]


def test_answers_are_bounded_in_number_and_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "_MOST_ANSWERS", 2)
    monkeypatch.setattr(kept_answers, "_MOST_CHARACTERS", 50)
    kept, asked = KeptAnswers(), list[str]()

    def about(name: str, text: str = "") -> None:
        def ask() -> dict[str, Any]:
            asked.append(name)
            return {"text": text}

        kept.answer(lambda: name, ask)

    for name in ("a", "b", "a", "c", "b", "a"):  # "b" was used least recently when "c" came, then "a"
        about(name)
    assert asked == ["a", "b", "c", "b", "a"]
    for _ in range(2):
        about("long", "x" * 50)
    assert asked[-2:] == ["long", "long"]


def test_an_installation_makes_everything_be_asked_again(tmp_path: Path) -> None:
    package = dropped_worker(tmp_path / "workers", extras=True) / "dropped_worker"
    kept, paths = KeptAnswers(), MosaicPaths(tmp_path / "home")
    paths.root.mkdir()
    tool = ExtrasTool(lambda: load_manifest(package), paths, kept)
    assert not tool.sets()[0].installed
    (paths.root / "go").touch()
    tool.install(["games"], lambda line: None)
    assert tool.sets()[0].installed
