"""On a terminal of eighty columns no line of a list is broken, and what distinguishes its rows stays."""

from __future__ import annotations

import re

import pytest

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.support.terminal import Terminal

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def mosaic(daemon: DaemonProcess) -> CommandLine:
    return CommandLine(daemon.paths.root, daemon.env)


def lines_of(mosaic: CommandLine, *words: str, columns: int = 80) -> list[str]:
    terminal = Terminal(mosaic, *words, columns=columns)
    try:
        assert terminal.wait_for_the_end() == 0
        return _ESCAPES.sub("", terminal.written).replace("\r", "").splitlines()
    finally:
        terminal.close()


@pytest.fixture
def listed(mosaic: CommandLine, daemon: DaemonProcess) -> list[str]:
    """Runs in their midst, named as `mosaic train` does."""
    names = [f"ppo_continuous_action-halfcheetah-v4-s{seed}" for seed in (1, 12)]
    for name in names:
        run_id = daemon.submit(name=name, total_timesteps=2_000_000, step_seconds=0.01)
        daemon.wait_state(run_id, "EXEC")
    return names


def test_the_seeds_of_runs_and_how_far_they_are_stay_in_sight(mosaic: CommandLine, listed: list[str]) -> None:
    heading, *rows = lines_of(mosaic, "runs")
    assert max(map(len, [heading, *rows])) <= 80
    assert {re.split(r"  +", row)[1][-4:] for row in rows} == {"4-s1", "-s12"}
    assert all("%" in row for row in rows)


def test_curves_give_way_before_the_names_of_metrics(mosaic: CommandLine, daemon: DaemonProcess) -> None:
    daemon.wait_over(daemon.submit(total_timesteps=50))
    tags = [one["tag"] for one in mosaic("metrics", "last", "--json").json["series"]]
    lines = lines_of(mosaic, "metrics", "last", columns=66)
    assert max(map(len, lines)) <= 66
    assert [line.split()[0] for line in lines[1:]] == tags


@pytest.mark.parametrize("words", [("flags", "ppo"), ("workers",), ("doctor",)])
def test_sentences_are_wrapped_between_words(mosaic: CommandLine, words: tuple[str, ...]) -> None:
    lines = lines_of(mosaic, *words)
    piped = mosaic(*words).out
    told = {word for word in piped.split() if not word[0].isdigit()}
    assert told <= {word for line in lines for word in line.split()} | {"s"}, "no word is broken"
    too_wide = [line for line in lines if len(line) > 80]
    assert all(max(map(len, line.split())) > 40 or "try:" in line for line in too_wide), too_wide
