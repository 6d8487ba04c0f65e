"""What differs, in the order in which people ask, and what the second of two runs has more than the first."""

from __future__ import annotations

from typing import Any

import pytest

from gym_gui.services.diff_arrangement import Gap, arranged, gap
from gym_gui.services.run_diff import Row, Value, compared
from gym_gui.tests.services.test_run_diff import manifest, run
from mosaic_protocol.headline import MEAN_RETURN, RETURN_TAG


def test_results_come_first_then_what_differs_what_was_changed_and_what_nobody_changed() -> None:
    one = run(1, {"learning_rate": 0.001, "clip": 2}, headline={MEAN_RETURN: 10.0, RETURN_TAG: 3.0})
    other = run(2, {"clip": 2}, headline={MEAN_RETURN: 10.0, RETURN_TAG: 4.0})
    diff = compared([one, other], [manifest(), manifest()])
    parts = arranged(diff)
    assert list(parts) == ["results", "different", "changed", "same"]
    names = {part: [row.name for row in rows] for part, rows in parts.items()}
    assert names["results"] == ["mean return"], "one episode says less than a hundred"
    assert names["different"] == ["seed", "learning_rate"] and "clip" in names["changed"]
    assert names["same"] == ["gamma", "anneal_lr"]
    everything = arranged(diff, everything=True)
    assert "last return" in [row.name for row in everything["results"]] and "environment" in everything
    assert list(arranged(diff, words="LEARN 0.001")) == ["different"]


@pytest.mark.parametrize(
    ("section", "name", "values", "expected"),
    [
        ("settings", "learning_rate", (0.00025, 0.0003), Gap("× 1.2")),
        ("settings", "ent_coef", (0.0, 0.01), Gap("+0.01")),
        ("settings", "seed", (1, 2), Gap("")),
        ("settings", "anneal_lr", ("true", "false"), Gap("")),
        ("results", "mean return", (231.4, 254.8), Gap("+23.4", True)),
        ("results", "mean return", (254.8, 231.4), Gap("−23.4", False)),
        ("results", "trained", (100.0, 63.0), Gap("−37%")),
        ("results", "mean return", (1.0, 1.0), Gap("")),
    ],
)
def test_the_gap_says_what_people_compare(section: str, name: str, values: tuple[Any, Any], expected: Gap) -> None:
    assert gap(Row(section, name, tuple(Value(value, str(value)) for value in values))) == expected
