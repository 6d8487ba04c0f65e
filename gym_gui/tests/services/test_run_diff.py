"""What differs between runs: found where it is recorded, equal things left out, and readable on eighty columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gym_gui.cli.commands.diff import text_of
from gym_gui.services.run_diff import Row, as_object, as_table, compared, diff_of
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, toy_config
from mosaic_protocol.headline import MEAN_RETURN
from mosaic_protocol.proto import trainer_pb2 as pb


def run(number: int, params: dict[str, Any] | None = None, **fields: Any) -> pb.Run:
    worker = {"algo": "ppo", "seed": number, "extras": {"algo_params": params or {}}}
    config = {"metadata": {"worker": {"config": worker}}, "resources": {"cpus": {"requested": 1}}}
    told: dict[str, Any] = {
        "run_id": f"01K9ZQ3V7X00000000000ID{number:03d}",
        "name": f"ppo-cartpole-v1-s{number}",
        "state": "TERM",
        "outcome": "completed",
        "worker_type": "cleanrl",
        "config_json": json.dumps(config),
    }
    return pb.Run(**{**told, **fields})


def manifest(**facts: Any) -> dict[str, Any]:
    packages = {"numpy": "2.1.0", "torch": "2.13.0", **facts.pop("packages", {})}
    return {
        "code": {"path": "/home/me/ppo.py", "sha256": "a" * 64, "commit": "b" * 40, **facts.pop("code", {})},
        "environment": {"host": "one", "python": "3.11.9", "packages": packages, "gpus": []},
        "resolved": {"gamma": 0.99, "learning_rate": 0.00025, "anneal_lr": True},
        **facts,
    }


def row(rows: list[Row], name: str) -> Row:
    return next(row for row in rows if row.name == name)


def test_settings_are_compared_with_the_defaults_that_scripts_took() -> None:
    diff = compared([run(1, {"learning_rate": 0.001}), run(2)], [manifest(), manifest()])
    rows = diff.shown()
    assert [value.shown for value in row(rows, "learning_rate").values] == ["0.001", "0.00025 (default)"]
    assert [value.raw for value in row(rows, "seed").values] == [1, 2]
    assert "gamma" not in [row.name for row in rows] and "gamma" in [row.name for row in diff.rows]


def test_a_default_and_the_same_value_given_by_hand_are_equal() -> None:
    diff = compared([run(1, {"gamma": 0.99, "anneal_lr": True}), run(1)], [manifest(), manifest()])
    assert [row.name for row in diff.shown()] == []


def test_a_sampled_number_is_short_unless_two_would_look_alike() -> None:
    def shown(one: float, other: float) -> list[str]:
        diff = compared([run(1, {"lr": one}), run(2, {"lr": other})], [manifest(), manifest()])
        return row(list(diff.rows), "lr").short_texts()

    assert shown(0.005953801978518, 0.0034798534202336437) == ["0.005954", "0.00348"]
    assert shown(0.005953801978518, 0.001) == ["0.005954", "0.001"]
    assert shown(0.005953801978518, 0.005953801978519) == ["0.005953801978518", "0.005953801978519"]


def test_code_environment_and_results_are_compared() -> None:
    better = run(1, headline={MEAN_RETURN: 480.0}, last_step=1000, active_seconds=61.0)
    worse = run(1, headline={MEAN_RETURN: 12.25}, last_step=1000, state="TERM", outcome="failed", reason="it broke")
    other = manifest(code={"sha256": "c" * 64}, packages={"numpy": "1.26.4", "extra": "1"})
    told = {
        (row.section, row.name): [value.text for value in row.values]
        for row in compared([better, worse], [manifest(), other]).shown()
    }
    assert told == {
        ("code", "script sha256"): ["a" * 12, "c" * 12],
        ("environment", "package numpy"): ["2.1.0", "1.26.4"],
        ("environment", "package extra"): ["-", "1"],
        ("results", "outcome"): ["completed", "failed"],
        ("results", "why"): ["-", "it broke"],
        ("results", "mean return"): ["480", "12.25"],
        ("results", "trained"): ["1m 01s", "-"],
    }


def test_a_manifest_may_hold_anything() -> None:
    strange = {"code": [], "environment": {"packages": 3, "host": {"x": 1}, "gpus": "no"}, "resolved": "x", "extras": 1}
    diff = compared([run(1), run(2), run(3)], [strange, {}, {"checkpoints": [1, 2], "code": {"sha256": 4}}])
    json.dumps(as_object(diff, everything=True), allow_nan=False)
    assert as_table(diff.runs, diff.rows).startswith("\t\tdefault\tppo-cartpole-v1-s1 (0ID001)\t")


def test_values_that_break_lines_or_obey_are_shown_plainly() -> None:
    diff = compared([run(1, {"x": "a\n\x1b[2Jb"}), run(1, {"x": "c\td"})], [{}, {}])
    assert all(text.isprintable() for row in diff.rows for value in row.values for text in (row.name, value.text))
    assert all(line.count("\t") == 4 for line in as_table(diff.runs, diff.rows).splitlines())


@pytest.mark.parametrize("count", [2, 5])
def test_eighty_columns_hold_two_and_five_runs_and_nothing_is_cut(count: int) -> None:
    runs = [run(number, {"learning_rate": 10.0**-number, "num_envs": 8 * number}) for number in range(1, count + 1)]
    paths = [f"/home/somebody/experiments/2026/november/{number}/a_training_script.py" for number in range(count)]
    diff = compared(runs, [manifest(code={"path": path}) for path in paths])
    text = text_of(diff, everything=False)
    assert max(map(len, text.splitlines())) <= 80
    for one, path in zip(runs, paths, strict=True):
        assert f"    {one.run_id[-6:]}  {path}" in text
    heading = next(line for line in text.splitlines() if line.startswith("SETTINGS"))
    rates = next(line for line in text.splitlines() if "learning_rate" in line)
    assert heading.split()[1:] == [one.run_id[-6:] for one in runs]
    assert rates.split()[1:] == [str(10.0**-number) for number in range(1, count + 1)]
    assert heading.index("0ID002") == rates.index("0.01")
    assert "things are equal; --all shows what" in text


def test_runs_that_do_not_differ_are_said_not_to() -> None:
    assert "They do not differ." in text_of(compared([run(1), run(1)], [{}, {}]), everything=False)


# ---- with a daemon -----------------------------------------------------------------------------------------------


def test_the_command_compares_what_real_runs_recorded(daemon: DaemonProcess) -> None:
    mosaic = CommandLine(daemon.paths.root, daemon.env)
    ids = []
    for seed in (1, 2):
        config = toy_config(name=f"toy-s{seed}", seed=seed, total_timesteps=10 * seed, step_seconds=0)
        config["metadata"]["group"] = f"g{seed}"
        ids.append(daemon.client.submit(config).run.run_id)
        daemon.wait_over(ids[-1])
    answer = mosaic("diff", *ids)
    assert (answer.code, answer.err) == (0, "")
    lines = [line.split() for line in answer.out.splitlines()]
    assert ["seed", "1", "2"] in lines and ["group", "g1", "g2"] in lines and ["steps", "10", "20"] in lines
    assert "package" not in answer.out and "host" not in answer.out
    everything = mosaic("diff", "toy-s1", "last", "--all", "--json").json
    found = {row["name"]: row for row in everything["rows"]}
    assert [one["name"] for one in everything["runs"]] == ["toy-s1", "toy-s2"]
    assert (found["seed"]["values"], found["seed"]["equal"]) == ([1, 2], False)
    for name in ("host", "python", "package pytest", "worker sha256", "mosaic"):
        assert found[name]["equal"] and all(found[name]["values"]), name
    assert everything["equal"] == sum(row["equal"] for row in everything["rows"])


def test_one_run_is_not_enough(daemon: DaemonProcess) -> None:
    mosaic = CommandLine(daemon.paths.root, daemon.env)
    daemon.wait_over(daemon.submit(name="only", total_timesteps=1))
    for words in (("only",), ("only", "last")):
        answer = mosaic("diff", *words)
        assert (answer.code, "two runs or more" in answer.err) == (2, True)
    assert mosaic("diff", "only", "nobody").code == 3


def test_a_run_that_never_started_can_be_compared(daemon: DaemonProcess) -> None:
    daemon.submit(name="holder", cpus=8, total_timesteps=10**6, step_seconds=0.01)
    waiting = [daemon.client.run(daemon.submit(name=f"w{seed}", seed=seed)) for seed in (1, 2)]
    assert [row.name for row in diff_of(waiting).shown()][:1] == ["seed"]
    for one in daemon.client.runs().runs:
        daemon.client.cancel(one.run_id)
        daemon.wait_over(one.run_id)
