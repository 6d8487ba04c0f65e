"""The progress line: what it says in each state, how fast a run seems, what a narrow terminal leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from gym_gui.cli.progress import Pace, Part, fitted, progress_parts
from gym_gui.cli.run_view import state_word, steps_text
from mosaic_protocol.proto import trainer_pb2 as pb


def a_run(**fields: Any) -> pb.Run:
    return pb.Run(
        **{"run_id": "01K9ZQ3V7X0000000000ABCDEF", "name": "toy", "state": "EXEC", "desired": "run", **fields}
    )


def line(run: pb.Run, pace: Pace | None = None, width: int = 200) -> str:
    return fitted(progress_parts(run, pace or Pace(), waited=7.0), width)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"state": "INIT"}, "queued"),
        ({"state": "HSHK"}, "starting"),
        ({"state": "RDY"}, "starting"),
        ({"state": "EXEC"}, "training"),
        ({"state": "EXEC", "algo": "play"}, "playing"),
        ({"state": "PAUSE", "desired": "pause", "algo": "play"}, "paused"),
        ({"state": "EXEC", "desired": "pause"}, "pausing"),
        ({"state": "PAUSE", "desired": "pause"}, "paused"),
        ({"state": "PAUSE", "desired": "run"}, "resuming"),
        ({"state": "EXEC", "desired": "stop"}, "stopping"),
        ({"state": "TERM", "outcome": "timed_out"}, "timed out"),
        ({"state": "LATER"}, "LATER"),
    ],
)
def test_a_state_has_a_word_that_includes_what_was_asked(fields: dict[str, str], word: str) -> None:
    assert state_word(a_run(**fields)) == word


def test_a_queued_run_shows_its_place() -> None:
    assert line(a_run(state="INIT", queue_position=2)) == "queued, 2nd in line  waiting 7s"
    assert line(a_run(state="INIT")) == "queued, about to start  waiting 7s"


def test_a_run_that_cannot_start_yet_says_what_it_waits_for() -> None:
    assert line(a_run(state="HSHK", reason="The bundle x is not ready")) == "starting  The bundle x is not ready"
    assert line(a_run(state="INIT", reason="it asks for 4 CPUs")) == "queued  it asks for 4 CPUs"


def test_a_training_run_shows_steps_speed_return_and_time_left() -> None:
    numbers = {"charts/SPS": 50.0, "charts/episodic_return": 20.0, "mean_return": 15.0}
    run = a_run(last_step=500, total_steps=2000, headline=numbers, active_seconds=10)
    assert line(run) == "training  500/2,000  25%  50 steps/s  return 15  ETA 30s  elapsed 10s"


def test_without_a_total_there_is_no_share_and_no_time_left() -> None:
    assert line(a_run(last_step=500, active_seconds=10)) == "training  500 steps  elapsed 10s"


def test_a_paused_run_has_no_speed_and_no_time_left() -> None:
    run = a_run(state="PAUSE", desired="pause", last_step=5, total_steps=10, headline={"charts/SPS": 50.0})
    assert line(run) == "paused  5/10  50%  elapsed 0s"


def test_a_run_that_stands_still_says_since_when() -> None:
    run = a_run(last_step=5, total_steps=10, seconds_since_progress=95, headline={"charts/SPS": 50.0})
    assert "no step for 1m 35s" in line(run)
    assert "ETA" not in line(run)


def test_a_narrow_terminal_keeps_the_state_and_what_matters_most() -> None:
    parts = [Part("training"), Part("5/10", 1), Part("50%", 2), Part("9 steps/s", 5), Part("elapsed 3s", 6)]
    assert fitted(parts, 40) == "training  5/10  50%  9 steps/s"
    assert fitted(parts, 20) == "training  5/10  50%"
    assert fitted(parts, 10) == "training"
    assert fitted(parts, 5) == "trai…"


def test_the_pace_is_that_of_the_last_seconds_and_forgets_a_pause() -> None:
    pace = Pace()
    for second in range(5):
        pace.note(a_run(last_step=100 * second), now=float(second))
    assert pace.steps_per_second == 100
    pace.note(a_run(state="PAUSE", last_step=400), now=5.0)
    assert pace.steps_per_second == 0
    pace.note(a_run(last_step=400), now=100.0)
    assert pace.steps_per_second == 0
    pace.note(a_run(last_step=600), now=110.0)
    assert pace.steps_per_second == 20


def test_steps_show_the_total_until_it_is_reached() -> None:
    assert steps_text(a_run()) == "-"
    assert steps_text(a_run(last_step=512)) == "512"
    assert steps_text(a_run(last_step=12_800, total_steps=50_000)) == "12,800/50,000 (25%)"
    assert steps_text(a_run(last_step=50_000, total_steps=50_000)) == "50,000"
