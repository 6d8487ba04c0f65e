"""Names, tags and notes change at any time, nothing else does, and what cannot be stored is refused whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.run_filter import parse
from gym_gui.services.run_labels import RunLabels
from gym_gui.services.trainer.errors import RefusedError, WrongStateError
from gym_gui.services.trainer.runs import lifecycle as lc
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.storage.run_query import Query
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.tests.support.run_records import live_record, run_record
from mosaic_protocol.run_config import MAX_NOTES, MAX_TAGS, RunConfigError, parse_label_change
from mosaic_protocol.states import Outcome, RunState

METADATA: dict[str, Any] = {"tags": ["a", "b"], "notes": "n", "worker": {"config": {"seed": 3}}}
CONFIG = {"run_name": "old", "metadata": METADATA}


def labelled(**facts: Any) -> RunRecord:
    labels = RunLabels(tags=("a", "b"), seed=3, parent="P")
    return run_record(**{"name": "old", "config_json": json.dumps(CONFIG), "labels": labels, **facts})


def changed(run: RunRecord, **change: Any) -> lc.Decision:
    return lc.decide(run, lc.Relabelled(parse_label_change(change)))


def test_what_is_named_changes_and_the_rest_stays() -> None:
    decision = changed(labelled(), name="new", add_tags=["c", "a"], remove_tags=["b"])
    run = decision.run
    config = json.loads(run.config_json)
    assert (run.name, run.labels) == ("new", RunLabels(tags=("a", "c"), seed=3, parent="P"))
    assert (config["run_name"], config["metadata"]["tags"], config["metadata"]["notes"]) == ("new", ["a", "c"], "n")
    assert config["metadata"]["worker"] == METADATA["worker"]
    (told,) = decision.transitions
    assert (told.origin, told.target, told.cause) == (RunState.INIT, RunState.INIT, "Relabelled")
    assert told.detail == "name 'new', tag 'c' added, tag 'a' added, tag 'b' removed"


@pytest.mark.parametrize("change", [{}, {"name": "old"}, {"notes": "n"}, {"add_tags": ["a"]}, {"remove_tags": ["z"]}])
def test_what_is_so_already_makes_no_history(change: dict[str, Any]) -> None:
    assert not changed(labelled(), **change).changes


def test_a_run_that_trains_and_one_that_is_over_take_it_and_one_in_the_trash_does_not() -> None:
    over = {"state": RunState.TERM, "outcome": Outcome.COMPLETED}
    for run in (live_record(state=RunState.EXEC), labelled(**over)):
        assert changed(run, notes="x").run.state is run.state
    with pytest.raises(WrongStateError, match="in the trash"):
        changed(labelled(**over, deleted_at=1.0), name="new")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ""}, "name"),
        ({"name": " x"}, "blank"),
        ({"name": "a\x1b[31m"}, "printable"),
        ({"add_tags": ["two\nlines"]}, "printable"),
        ({"notes": "x" * (MAX_NOTES + 1)}, "notes"),
        ({"notes": "nul \0"}, "NUL"),
        ({"nam": "x"}, "nam"),
    ],
)
def test_what_no_config_may_hold_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(RunConfigError, match=words):
        parse_label_change(change)


def test_more_tags_than_a_run_may_have_are_refused() -> None:
    with pytest.raises(RefusedError, match=f"{MAX_TAGS} is the most"):
        changed(labelled(), add_tags=[f"t{number}" for number in range(MAX_TAGS)])


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RunRegistry]:
    with closing(RunRegistry(tmp_path / "registry.sqlite")) as opened:
        yield opened


def test_a_renamed_run_is_found_by_its_new_name_and_tags_alone(registry: RunRegistry) -> None:
    stored, _ = registry.insert(labelled(), "").result(60)
    decision = changed(stored, name="new", add_tags=["paper"], remove_tags=["a"])
    registry.save(replace(decision.run, revision=stored.revision), decision.transitions).result(60)

    def found(where: str) -> int:
        return registry.page(Query(filter=parse(where)), 10, "").total

    assert (found("name=new"), found("name=old"), found("tag=paper"), found("tag=a"), found("tag=b")) == (1, 0, 1, 0, 1)
    assert registry.find("new").run_id == stored.run_id
