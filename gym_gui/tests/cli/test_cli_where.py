"""``mosaic runs --where``: the expression as people type it, and what is said when it cannot be understood."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gym_gui.tests.cli.test_cli_completion import offered
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, toy_config
from gym_gui.tests.support.dropped_worker import dropped_worker
from gym_gui.tests.support.terminal import Terminal


@pytest.fixture
def mosaic(daemon: DaemonProcess) -> CommandLine:
    for seed in (1, 2, 3):
        config = toy_config(name=f"toy-s{seed}", seed=seed, total_timesteps=10 * seed, step_seconds=0)
        config["metadata"]["tags"] = ["odd"] if seed % 2 else ["even"]
        daemon.wait_over(daemon.client.submit(config).run.run_id)
    return CommandLine(daemon.paths.root, daemon.env)


def test_runs_are_listed_that_match(mosaic: CommandLine) -> None:
    answer = mosaic("runs", "--where", "tag=odd return>6 step-seconds=0")
    assert (answer.code, "toy-s3" in answer.out, "toy-s1" in answer.out) == (0, True, False)
    found = mosaic("runs", "--where", "tag=odd", "--json").json
    assert (found["total"], [run["name"] for run in found["runs"]]) == (2, ["toy-s3", "toy-s1"])
    assert [(run["tags"], run["seed"], run["group"]) for run in found["runs"]] == [
        (["odd"], 3, None),
        (["odd"], 1, None),
    ]
    assert mosaic("runs", "--where", "tag=none").out.startswith("No run is like that.")
    assert mosaic("runs", "--where", "seed>1", "--limit", "1").out.count("1 of 2 runs; --page 2 shows more") == 1


def test_mistakes_are_reported_on_one_line(mosaic: CommandLine) -> None:
    for where, words in (
        ("algo=", "--where: algo= needs a value"),
        ("sead=1", "no run has a field or a setting 'sead'; did you mean 'seed'? (at character 1)"),
    ):
        answer = mosaic("runs", "--where", where)
        assert (answer.code, words in answer.err, answer.err.count("\n")) == (2, True, 1)
        assert mosaic("runs", "--where", where, "--json").json["error"]["kind"] == "refused"


def test_a_watched_list_is_narrowed_too(mosaic: CommandLine) -> None:
    terminal = Terminal(mosaic, "runs", "--where", "tag=even", "--watch")
    try:
        terminal.wait_until("the list", lambda: "Ctrl-C" in terminal.written)
        assert "toy-s2" in terminal.written and "toy-s1" not in terminal.written
    finally:
        terminal.close()


def test_fields_and_their_words_complete(mosaic: CommandLine) -> None:
    assert "group=" in offered(mosaic, "mosaic runs --where gr")
    assert offered(mosaic, "mosaic runs --where outcome=com") == ["outcome=completed"]
    assert len(offered(mosaic, "mosaic diff toy")) == 3


def test_a_group_is_given_and_shown(mosaic: CommandLine) -> None:
    words = ("train", "count", "--env-id", "none", "--total-timesteps", "1", "--group", "lr study", "--detach")
    assert mosaic(*words, "--json").json["group"] == "lr study"
    assert "lr study" in mosaic("show", "last").out
    assert mosaic("runs", "--where", 'group="lr study"', "--json").json["total"] == 1
    assert mosaic("train", "count", "--env-id", "none", "--group", "x\ny").code == 2


def test_settings_that_were_left_at_the_schemas_default_are_found_by_it(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    number = {"type": "number", "default": 0.01}
    schema = {
        "properties": {"step_seconds": number, "mode": {"type": "string", "default": "slow"}},
        "additionalProperties": True,
    }
    folder = dropped_worker(tmp_path / "workers", schema=schema)
    daemon = make_daemon()
    daemon.env["MOSAIC_WORKER_PATH"] = str(folder)
    daemon.start()
    line = CommandLine(daemon.paths.root, daemon.env)
    for name, flags in (("left", ()), ("given", ("--step-seconds", "0.02"))):
        words = ("train", "count", "--env-id", "Toy-v0", "--total-timesteps", "5", "--run-name", name, "--json")
        assert line(*words, *flags).code == 0

    def found(where: str) -> list[str]:
        return [run["name"] for run in line("runs", "--where", where, "--json").json["runs"]]

    assert (found("step_seconds=0.01"), found("step-seconds=0.02")) == (["left"], ["given"])
    assert found("step_seconds<1") == ["given", "left"]
    assert found("mode=slow") == ["given", "left"], "which no run was given at all"
    answer = line("runs", "--where", "step_second=1")
    assert (answer.code, "no run has a field or a setting 'step_second'" in answer.err) == (2, True)


def test_a_run_compared_with_itself_is_told(mosaic: CommandLine) -> None:
    twice = mosaic("diff", "toy-s1", "toy-s1")
    assert twice.code == 2 and "'toy-s1' was given 2 times, " in twice.err
    assert "(toy-s1): two runs or more can be compared: `mosaic runs` lists them" in twice.err
    assert "'toy-s3' and 'last' are one and the same run, " in mosaic("diff", "toy-s3", "last").err
    assert "two runs or more" in mosaic("diff", "toy-s1").err
