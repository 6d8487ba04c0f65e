"""The record that a tracking process leaves: what is written comes back, what a script put there is not believed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mosaic_protocol.tracking_record import TrackingRecord, read_record, write_record


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    (tmp_path / "wandb").mkdir()
    record = TrackingRecord("online", "x", "walks", None, "a name", "https://wandb.ai/x", rows=3, cpu_seconds=1.5)
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 100_000, '"x"'])
def test_a_record_that_is_none_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "tracking.json").write_text(content)
    assert read_record(tmp_path) is None and read_record(tmp_path / "nowhere") is None


def test_fields_of_another_type_are_as_good_as_missing(tmp_path: Path) -> None:
    (tmp_path / "wandb").mkdir()
    content = {"mode": 1, "url": ["x"], "rows": True, "seconds": "10", "name": "kept", "later": 1}
    (tmp_path / "wandb" / "tracking.json").write_text(json.dumps(content))
    assert read_record(tmp_path) == TrackingRecord(name="kept")
