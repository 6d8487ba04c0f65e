"""``mosaic steps`` and ``mosaic episodes``, as a person and as a program reads them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_until_trimmed


@pytest.fixture
def mosaic(daemon: DaemonProcess) -> CommandLine:
    """A run of 105 recorded steps, ten to an episode, and one of none."""
    for name, record in (("silent", 0), ("recorded", 35)):
        config = {"total_timesteps": 3, "step_seconds": 0, **({"record": record} if record else {})}
        daemon.wait_over(daemon.submit(name=name, **config))
    return CommandLine(daemon.paths.root, daemon.env)


def test_a_person_sees_the_last_steps_and_episodes(mosaic: CommandLine) -> None:
    shown = mosaic("steps", "recorded").out.splitlines()
    assert len(shown) == 20 and "104" in shown[-1] and "script [104 104] → 104  reward 1" in shown[-1]
    assert sum("terminated" in line for line in shown) == 2
    assert len(mosaic("steps", "recorded", "--tail", "3").out.splitlines()) == 3
    episodes = mosaic("episodes", "recorded").out.splitlines()
    assert len(episodes) == 10 and "10 steps" in episodes[0] and "return         10  terminated  toy" in episodes[0]


def test_a_program_reads_all_of_them(mosaic: CommandLine) -> None:
    steps = [json.loads(line) for line in mosaic("steps", "recorded", "--json").out.splitlines()]
    assert [step["step"] for step in steps] == list(range(105))
    assert steps[9]["terminated"] and steps[9]["observation"] == [9, 9.0] and steps[9]["actor"] == "script"
    rows = list(csv.DictReader(mosaic("steps", "recorded", "--csv").out.splitlines()))
    assert len(rows) == 105 and (rows[7]["observation"], rows[7]["action"]) == ("[7,7.0]", "7")
    episodes = [json.loads(line) for line in mosaic("episodes", "recorded", "--json", "--follow").out.splitlines()]
    assert [(one["episode"], one["length"], one["first_step"]) for one in episodes][:2] == [(0, 10, 0), (1, 10, 10)]


def test_steps_of_one_episode_or_from_one_on(mosaic: CommandLine) -> None:
    def numbers(*options: str) -> list[int]:
        return [json.loads(line)["step"] for line in mosaic("steps", "recorded", *options, "--json").out.splitlines()]

    assert numbers("--episode", "3") == list(range(30, 40))
    assert numbers("--episode", "10") == list(range(100, 105))  # it was never ended
    assert numbers("--from", "100") == list(range(100, 105))
    assert numbers("--tail", "2") == [103, 104]


def test_numbers_and_steps_are_exported(mosaic: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "steps.parquet"
    assert mosaic("steps", "recorded", "--parquet", str(file)).out == f"105 steps written to {file}\n"
    assert pq.read_table(file)["observation"].to_pylist()[104] == [104.0, 104.0]
    assert "mosaic tensorboard recorded" in mosaic("metrics", "recorded", "--tensorboard").out
    archive = Path(mosaic("metrics", "recorded", "--archive").out.removeprefix("Written to ").strip())
    assert archive.parent.parts[-2:] == ("training", "metrics") and len(archive.read_text().splitlines()) == 3


def test_steps_that_a_run_did_not_keep_are_counted(make_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = make_daemon(keep_steps=600).start()
    run_id = daemon.submit(name="short", total_timesteps=4, step_seconds=0, record=500)
    daemon.wait_over(run_id)
    wait_until_trimmed(daemon, run_id, to=1_400)
    totals = daemon.client.step_totals(run_id)
    mosaic = CommandLine(daemon.paths.root, daemon.env)
    removed = f"the first {totals.trimmed:,} of 2,000 steps were removed"
    for words in (("steps", "short"), ("steps", "short", "--json"), ("episodes", "short", "--csv")):
        assert removed in mosaic(*words).err
    assert "has no recorded episode 0 any more" in mosaic("steps", "short", "--episode", "0").err


def test_mistakes_are_said_on_one_line(mosaic: CommandLine) -> None:
    for words, code, sentence in (
        (("steps", "silent"), 0, "has no recorded steps: the worker toy is not one that records them; `mosaic eval"),
        (("episodes", "silent"), 0, "has no recorded episodes: the worker toy"),
        (("steps", "recorded", "--episode", "99"), 2, "has no recorded episode 99"),
        (("steps", "recorded", "--episode", "1", "--tail", "2"), 2, "choose one of --tail, --episode and --from"),
        (("steps", "recorded", "--csv", "--json"), 2, "choose one of --csv, --json and --parquet"),
        (("metrics", "recorded", "--csv", "--archive"), 2, "choose one of --csv, --parquet, --json, --tensorboard"),
        (("metrics", "recorded", "--tensorboard", "--last", "3"), 2, "leave out --tag and --last"),
        (("steps", "recorded", "--tail", "0"), 2, "must be at least 1"),
        (("steps", "nobody"), 3, "no run is called 'nobody'"),
    ):
        answer = mosaic(*words)
        assert (answer.code, sentence in answer.err + answer.out) == (code, True), answer
