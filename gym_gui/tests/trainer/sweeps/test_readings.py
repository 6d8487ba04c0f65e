"""What a trial is worth at a step: runs that go on from each other are one curve, and no step counts twice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.sweeps.model import WORST, SweepSpec
from gym_gui.services.sweeps.space import Dimension
from gym_gui.services.trainer.sweeps.readings import logs_beyond, value_at
from gym_gui.services.trainer.telemetry.batches import Batch
from gym_gui.services.trainer.telemetry.store import TelemetryStore
from mosaic_protocol import events


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TelemetryStore]:
    with closing(TelemetryStore(tmp_path / "telemetry.sqlite")) as opened:
        yield opened


def log(store: TelemetryStore, run_id: str, points: dict[int, float]) -> None:
    rows = [
        events.MetricRow(step=step, values={"return": value}, seq=number, t=0.0)
        for number, (step, value) in enumerate(points.items(), 1)
    ]
    store.ingest(Batch(run_id, "script", 1, [events.encode(row) for row in rows])).result()


def spec_of(**asked: Any) -> SweepSpec:
    given = {"last": 2, "trials": 1, **asked}
    return SweepSpec(config={}, space={"lr": Dimension("float", 0, 1)}, metric="return", **given)


def test_the_value_is_the_mean_of_the_last_points_up_to_a_step(store: TelemetryStore) -> None:
    log(store, "A", {10: 1.0, 20: 3.0, 30: 5.0, 40: 100.0})
    assert value_at(store, spec_of(), ["A"], 30) == 4.0
    assert value_at(store, spec_of(), ["A"], 35) == 4.0
    assert value_at(store, spec_of(), ["A"]) == 52.5
    assert value_at(store, spec_of(last=100), ["A"], 20) == 2.0
    assert value_at(store, spec_of(), ["A"], 9) is None
    assert value_at(store, spec_of(), ["nobody"]) is None


def test_a_run_counts_up_to_where_the_next_one_begins(store: TelemetryStore) -> None:
    """It logged beyond the checkpoint that the next one went on from."""
    log(store, "A", {10: 1.0, 20: 2.0, 30: 99.0})
    log(store, "B", {30: 4.0, 40: 6.0})
    assert value_at(store, spec_of(last=3), ["A", "B"]) == 4.0
    assert value_at(store, spec_of(last=3), ["A", "B"], 30) == pytest.approx(7 / 3)
    log(store, "C", {10: 7.0})
    assert value_at(store, spec_of(last=9), ["A", "C"]) == 7.0, "one that began again counts alone"


def test_a_late_look_finds_an_early_step(store: TelemetryStore) -> None:
    log(store, "A", {step: float(step) for step in range(1, 5001)})
    assert value_at(store, spec_of(), ["A"], 100) == 99.5


@pytest.mark.parametrize(("direction", "worst"), [("maximize", -WORST), ("minimize", WORST)])
def test_what_is_not_a_number_is_worse_than_everything(store: TelemetryStore, direction: str, worst: float) -> None:
    log(store, "A", {10: 1.0, 20: math.nan})
    assert value_at(store, spec_of(direction=direction), ["A"]) == worst


def test_a_rung_is_passed_when_something_later_is_stored(store: TelemetryStore) -> None:
    log(store, "A", {10: 1.0, 20: 2.0})
    assert logs_beyond(store, spec_of(), "A", 20)
    assert not logs_beyond(store, spec_of(), "A", 21)
