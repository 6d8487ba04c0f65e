"""Runs by expression over the wire: the daemon looks, and only what matches is sent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.trainer.client import RequestRefusedError
from gym_gui.tests.support.daemon_process import DaemonProcess, toy_config, wait_for
from gym_gui.tests.support.dropped_worker import dropped_worker
from mosaic_protocol.proto import trainer_pb2 as pb


def submit(daemon: DaemonProcess, metadata: dict[str, Any] | None = None, **config: Any) -> str:
    asked = toy_config(**config)
    asked["metadata"] |= metadata or {}
    return daemon.client.submit(asked).run.run_id


def found(daemon: DaemonProcess, where: str, **more: Any) -> list[str]:
    """Names, the oldest run first."""
    page = daemon.client.runs(where=where, **more)
    assert page.total == len(page.runs) or page.next_page_token
    return [run.name for run in reversed(page.runs)]


def test_upper_and_lower_case_are_the_same_beyond_ascii(daemon: DaemonProcess) -> None:
    for name in ("Äpfel und Birnen", "Obst", "ЯБЛОКИ", "kelvin K"):
        submit(daemon, {"tags": [f"süß-{name}"]}, name=name, total_timesteps=1)
    for search, names in {"ÄPFEL": ["Äpfel und Birnen"], "äpfel": ["Äpfel und Birnen"], "яблоки": ["ЯБЛОКИ"]}.items():
        assert [run.name for run in daemon.client.runs(search=search).runs] == names
        assert found(daemon, f'"{search}"') == names
        assert found(daemon, f"name={search}*") == names
        assert found(daemon, f"tag~{search}") == names
    assert found(daemon, "kelvin") == ["kelvin K"]
    assert found(daemon, 'name="obst"') == ["Obst"]


def test_labels_are_fields_of_a_run(make_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> None:
    workers = dropped_worker(tmp_path / "workers", "reader", algorithm="reader", needs=["dataset"])
    daemon = make_daemon()
    daemon.env["MOSAIC_WORKER_PATH"] += f"{os.pathsep}{workers}"
    daemon.start()
    first = submit(daemon, name="first", seed=3, total_timesteps=1)
    parent = {"run_id": first, "checkpoint": "checkpoints/step-1"}
    labels = {"tags": ["paper", "x"], "group": "lr-study", "sweep": "s1", "parent": parent}
    second = submit(daemon, labels, name="second", total_timesteps=1)
    run = daemon.client.run(second)
    told = (list(run.tags), run.group, run.sweep, run.dataset, run.parent, run.HasField("seed"))
    assert told == (["paper", "x"], "lr-study", "s1", "", first, False)
    third = daemon.client.submit(reader_config("d4rl/hopper-medium")).run.run_id
    assert daemon.client.run(third).dataset == "d4rl/hopper-medium"
    assert found(daemon, "dataset=d4rl/*") == ["reader"]
    assert daemon.wait_over(third).outcome == "completed"
    assert json.loads(daemon.paths.worker_config(third).read_text())["dataset"] == "d4rl/hopper-medium"
    plain = daemon.client.run(first)
    assert (list(plain.tags), plain.group, plain.parent, plain.seed) == ([], "", "", 3)
    daemon.kill()
    daemon.start()
    again = daemon.client.run(second)
    assert (list(again.tags), again.group, again.sweep) == (["paper", "x"], "lr-study", "s1")
    assert found(daemon, "dataset=d4rl/hopper-medium") == ["reader"]


def reader_config(dataset: str) -> dict[str, Any]:
    """A run of the worker that learns from a dataset."""
    config = toy_config(name="reader", total_timesteps=1)
    settings = {"algo": "reader", "total_timesteps": 1, "dataset": dataset}
    config["metadata"]["worker"] = {"type": "reader", "module": "reader_worker.cli", "config": settings}
    return config


def test_listings_take_expressions_over_columns_settings_and_results(daemon: DaemonProcess, tmp_path: Path) -> None:
    for number, rate in enumerate((0.1, 0.001, 0.0001), start=1):
        steps = 10 * number
        run_id = submit(
            daemon,
            {"tags": [f"t{number}"], "group": "even" if number == 2 else "odd"},
            name=f"run-{number}",
            seed=number,
            total_timesteps=steps,
            extras={"algo_params": {"learning_rate": rate}},
        )
        daemon.wait_over(run_id)
    gate = tmp_path / "gate"
    live = submit(daemon, name="live", total_timesteps=100, gate=str(gate), gate_at=51)
    wait_for("its steps", lambda: daemon.client.run(live).last_step == 50)
    expected = {
        "group=odd": ["run-1", "run-3"],
        "tag=t1,t2": ["run-1", "run-2"],
        "lr<1e-2": ["run-2", "run-3"],
        "group=odd lr<1e-2 seed>1": ["run-3"],
        "learning_rate!=0.1": ["run-2", "run-3", "live"],
        "return>6": ["run-2", "run-3", "live"],  # means of 1 to 10, 20, 30 and 50
        "return>6 state=over": ["run-2", "run-3"],
        "steps>=20": ["run-2", "run-3", "live"],
        "steps>40": ["live"],
        "state=running": ["live"],
        "outcome=completed name=*-?": ["run-1", "run-2", "run-3"],
        "run group=even": ["run-2"],
        "group=none": [],
    }
    assert {where: found(daemon, where) for where in expected} == expected
    assert found(daemon, "lr<1e-2", search="run-3") == ["run-3"]
    first = daemon.client.runs(where="lr>0", size=2)
    rest = daemon.client.runs(where="lr>0", size=2, token=first.next_page_token)
    assert [run.name for run in (*first.runs, *rest.runs)] == ["run-3", "run-2", "run-1"]
    assert (first.total, rest.next_page_token) == (3, "")
    gate.touch()
    daemon.wait_over(live)


def test_a_mistake_is_refused_with_its_place_and_the_nearest_name(daemon: DaemonProcess) -> None:
    assert found(daemon, "learnin_rate<1") == [], "before the first run every name is as good as any"
    daemon.wait_over(submit(daemon, total_timesteps=1, extras={"algo_params": {"learning_rate": 0.1}}))
    for where, words in (
        ("learnin_rate<1", "did you mean 'learning_rate'?"),
        ("algo=none learnin_rate!=1", "(at character 11)"),
        ("state=runnin", "did you mean 'running'?"),
        ("x" * 2000, "at most 1000 characters"),
    ):
        with pytest.raises(RequestRefusedError) as refused:
            daemon.client.runs(where=where)
        assert words in str(refused.value)
        with pytest.raises(RequestRefusedError):
            next(iter(daemon.client.watch(where=where)))


def test_a_watcher_of_some_runs_receives_those_and_hears_when_one_does_not_match_any_more(
    daemon: DaemonProcess,
) -> None:
    for number in range(5):
        daemon.wait_over(submit(daemon, name=f"other-{number}", total_timesteps=1))
    old = submit(daemon, {"tags": ["mine"]}, name="old", total_timesteps=1)
    daemon.wait_over(old)
    seen: list[pb.RunUpdate] = []
    new, is_ending = "", False
    for update in daemon.client.watch(where="tag=mine outcome!=canceled"):
        seen.append(update)
        if len(seen) == 1:
            submit(daemon, name="another", total_timesteps=1)
            new = submit(daemon, {"tags": ["mine"]}, name="new", total_timesteps=10**6, step_seconds=0.01)
        elif update.unmatched:
            break
        elif update.run.state == "EXEC" and not is_ending:
            is_ending = bool(daemon.client.cancel(new).run_id)
    assert seen[0].run.run_id == old and not seen[0].unmatched
    assert {update.run.run_id for update in seen[1:]} == {new}
    assert [update.unmatched for update in seen].count(True) == 1 and seen[-1].run.name == ""
