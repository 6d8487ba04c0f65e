"""A run that needs more than this machine has is told of before it starts, in one sentence for each thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.run_needs import shortages
from gym_gui.services.run_outlook import Outlook

HUGE = 10**9


def told(**needs: Any) -> dict[str, Any]:
    return {"status": "ok", "needs": {"because": "200,000 rows of the dataset", **needs}}


def test_enough_of_everything_needs_no_word(tmp_path: Path) -> None:
    assert shortages(told(memory_mb=1, disk_mb=1, gpu_memory_mb=1), tmp_path, gpu_memory_mb=[8000]) == ()


def test_each_thing_that_is_missing_is_named(tmp_path: Path) -> None:
    found = shortages(told(memory_mb=HUGE, disk_mb=HUGE, gpu_memory_mb=9000), tmp_path, gpu_memory_mb=[0, 8000])
    memory, disk, card = found
    assert memory.startswith("it needs about ")
    assert "of memory for 200,000 rows of the dataset" in memory
    assert memory.endswith("it would be killed")
    assert str(tmp_path) in disk
    assert "on a GPU" in card
    assert Outlook(shortages=found).warning == "; ".join(found)


def test_memory_that_others_hold_now_is_told_apart(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 99999999 kB\nMemAvailable: 2048 kB\n")
    (sentence,) = shortages(told(memory_mb=3), tmp_path, meminfo=meminfo)
    assert sentence.endswith("end something else first")
    assert shortages(told(memory_mb=2), tmp_path, meminfo=meminfo) == ()


@pytest.mark.parametrize("needs", [None, [], "much", {"memory_mb": "much"}, {"memory_mb": True}, {"disk_mb": -1}, {}])
def test_what_a_worker_says_wrongly_says_nothing(tmp_path: Path, needs: Any) -> None:
    assert shortages({"needs": needs}, tmp_path) == ()
    assert shortages(None, tmp_path) == ()
