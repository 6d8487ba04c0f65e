"""``mosaic train`` says before the start what a run will take, from runs that were made here."""

from __future__ import annotations

import pytest

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess

WORDS = ("train", "count", "--env-id", "Toy-v0", "--total-timesteps")


@pytest.fixture
def mosaic(daemon: DaemonProcess) -> CommandLine:
    return CommandLine(daemon.paths.root, daemon.env)


def test_time_and_space_are_told_from_earlier_runs_and_days_are_warned_of(
    mosaic: CommandLine, daemon: DaemonProcess
) -> None:
    unknown = mosaic(*WORDS, "50", "--dry-run", "--no-preflight", "--json").json
    assert (unknown["estimate"], unknown["warning"]) == (None, None)
    assert "no earlier run of this script was found" in mosaic(*WORDS, "50", "--dry-run", "--no-preflight").out
    daemon.wait_over(daemon.submit(env_id="Toy-v0", total_timesteps=60, step_seconds=0.02))
    known = mosaic(*WORDS, "50", "--dry-run", "--no-preflight", "--json").json
    assert known["estimate"]["runs"] == 1 and known["estimate"]["same_environment"]
    assert 0 < known["estimate"]["steps_per_second"] <= 50 and known["estimate"]["bytes"] > 0
    assert known["warning"] is None
    long = mosaic(*WORDS, "100M", "--dry-run", "--no-preflight")
    assert long.code == 0
    assert "(1 earlier run on this environment" in long.out
    assert long.err.startswith("Warning: on the CPU alone this takes about ")
    started = mosaic(*WORDS, "5", "--no-preflight")
    assert started.code == 0
    assert started.out.startswith("Expected: about ")


def test_a_budget_that_could_take_days_is_warned_of_before_anything_ran(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    alone = CommandLine(tmp_path_factory.mktemp("alone"))
    answer = alone(*WORDS, "20M", "--dry-run", "--no-preflight")
    assert answer.code == 0
    assert "Warning: how fast this script is here is not known" in answer.err
