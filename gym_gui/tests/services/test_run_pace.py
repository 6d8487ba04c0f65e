"""A resumed run is as fast as it is itself: the steps that its checkpoint brought along are not its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gym_gui.cli.progress import Pace
from gym_gui.cli.summary import _speed
from gym_gui.services.run_estimate import estimate
from gym_gui.services.run_pace import first_step, own_speed, own_steps
from gym_gui.ui.models.run_rows import RunRow
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import RunState

CHECKPOINT = "/var/runs/01PARENT/checkpoints/step-000000010000"


def run_with(settings: dict[str, Any], **fields: Any) -> pb.Run:
    config = {"metadata": {"worker": {"config": {"algo": "ppo", **settings}}}}
    told: dict[str, Any] = {"last_step": 10_500, "total_steps": 12_000, "active_seconds": 10.0, "algo": "ppo", **fields}
    return pb.Run(run_id="01RUN", config_json=json.dumps(config), worker_type="cleanrl", env_id="A", **told)


RESUMED: dict[str, Any] = {"start": {"mode": "resume", "checkpoint": CHECKPOINT}}


@pytest.mark.parametrize(
    ("settings", "began", "made"),
    [
        (RESUMED, 10_000, 500),
        ({"extras": {"algo_params": {"resume": CHECKPOINT}}}, 10_000, 500),
        ({"start": {"mode": "warm_start", "checkpoint": CHECKPOINT}}, 0, 10_500),
        ({"start": {"mode": "resume", "checkpoint": "/somewhere/else"}}, 0, 10_500),
        ({}, 0, 10_500),
    ],
)
def test_a_resumed_run_begins_at_the_step_of_its_checkpoint(settings: dict[str, Any], began: int, made: int) -> None:
    run = run_with(settings)
    assert (first_step(run), own_steps(run), own_speed(run)) == (began, made, made / 10)


def test_a_worker_that_counts_from_the_beginning_again_is_believed() -> None:
    assert own_steps(run_with(RESUMED, last_step=700)) == 700


def test_summary_estimate_and_time_left_go_by_its_own_steps() -> None:
    run = run_with(RESUMED, state=RunState.EXEC)
    assert _speed(run) == " at 50 steps/s"
    found = estimate([run], {"algo": "ppo", "env_id": "A"}, 6000, "cleanrl")
    assert found is not None and found.steps_per_second == 50
    assert RunRow(run, 0.0).remaining() == pytest.approx(1500 / 50)


def test_the_first_step_of_a_resumed_run_is_no_burst_of_speed() -> None:
    pace = Pace()
    for second, step in enumerate((0, 0, 10_050, 10_100, 10_150)):
        pace.note(run_with(RESUMED, state=RunState.EXEC, last_step=step), float(second))
    assert pace.steps_per_second == 50
