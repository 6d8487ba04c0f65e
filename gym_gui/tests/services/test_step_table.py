"""Steps as a Parquet file: what can be a column of numbers is one, and the rest is text."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from gym_gui.services import step_table
from gym_gui.services.parquet_file import TableError
from gym_gui.services.step_table import write_parquet
from mosaic_protocol.events import TrainingStep


def steps(observations: list[Any], actions: list[Any] | None = None) -> list[TrainingStep]:
    return [
        TrainingStep(episode=0, step=number, observation=seen, action=(actions or observations)[number], actor="human")
        for number, seen in enumerate(observations)
    ]


def test_numbers_become_columns_and_the_rest_text(tmp_path: Path) -> None:
    recorded = steps([np.array([0.5, number], np.float32) for number in range(5)], [{"go": [1]}] * 5)
    recorded[2].reward, recorded[3].info = math.nan, {"why": "curious"}
    assert write_parquet(recorded, tmp_path / "steps.parquet") == 5
    table = pq.read_table(tmp_path / "steps.parquet")
    assert table["observation"].to_pylist() == [[0.5, float(number)] for number in range(5)]
    assert [json.loads(text) for text in table["action"].to_pylist()] == [{"go": [1]}] * 5
    assert math.isnan(table["reward"].to_pylist()[2]) and json.loads(table["info"][3].as_py()) == {"why": "curious"}
    assert set(table["actor"].to_pylist()) == {"human"}


def test_many_steps_are_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_table, "_ROWS_AT_ONCE", 10)
    assert write_parquet(iter(steps(list(range(35)))), tmp_path / "steps.parquet") == 35
    assert pq.read_table(tmp_path / "steps.parquet")["observation"].to_pylist() == list(range(35))


def test_a_form_that_changes_later_is_said_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_table, "_ROWS_AT_ONCE", 2)
    with pytest.raises(TableError, match="change their form among steps 2 to 3"):
        write_parquet(steps([1, 2, [3], [4]]), tmp_path / "steps.parquet")
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow_the_command_that_installs_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TableError, match="--set parquet"):
        write_parquet(steps([1]), tmp_path / "steps.parquet")
