"""What a run would take is told from runs of the same program, the most similar first; days on a CPU are warned of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.run_estimate import Estimate, caution, estimate, folder_bytes, with_space
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.proto import trainer_pb2 as pb

SETTINGS: dict[str, Any] = {"algo": "ppo", "env_id": "A", "params": {"num_envs": 8}}


def warning(*facts: Any, **more: Any) -> str:
    found = caution(*facts, **more)
    return "" if found is None else found.on_command_line()


def ran(
    speed: int, *, algo: str = "ppo", env_id: str = "A", run_dir: str = "", created: float = 0.0, **more: Any
) -> pb.Run:
    settings = {"algo": algo, "env_id": env_id, **more}
    config = {"metadata": {"worker": {"config": settings}}}
    times: dict[str, Any] = {"last_step": speed * 10, "active_seconds": 10.0, "created_at": created}
    told: dict[str, Any] = {
        "algo": algo or "mine",
        "env_id": env_id,
        "run_dir": run_dir,
        "config_json": json.dumps(config),
    }
    return pb.Run(worker_type="cleanrl", **told, **times)


def test_runs_with_the_same_settings_count_before_others() -> None:
    others = [ran(10), ran(20, params={"num_envs": 1}), ran(900, env_id="B", params={"num_envs": 8})]
    same = ran(50, params={"num_envs": 8, "seed": 7}, seed=9, total_timesteps=3)
    found = estimate([*others, same], SETTINGS, 1000, "cleanrl")
    assert found is not None
    assert (found.steps_per_second, found.runs, found.same_environment, found.same_settings) == (50, 1, True, True)
    found = estimate(others, SETTINGS, 1000, "cleanrl")
    assert found is not None and (found.steps_per_second, found.same_environment, found.same_settings) == (
        15,
        True,
        False,
    )
    found = estimate(others[2:], SETTINGS, 1000, "cleanrl")
    assert found is not None and (found.same_environment, found.same_settings) == (False, False)


def test_a_script_of_ones_own_is_known_by_its_file() -> None:
    runs = [ran(40, algo="", script="/me/mine.py"), ran(7, algo="", script="/me/other.py"), ran(9)]
    found = estimate(runs, {"script": "/me/mine.py", "env_id": "A"}, 400, "cleanrl")
    assert found is not None and (found.steps_per_second, found.runs) == (40, 1)
    assert estimate(runs, {"env_id": "A"}, 400, "cleanrl") is None


def test_ours_and_upstreams_script_of_one_name_never_count_for_each_other() -> None:
    runs = [ran(5000), ran(400, source="cleanrl"), ran(300, source="cleanrl", cleanrl_path="/me/cleanrl")]
    for settings, speed in (
        (SETTINGS, 5000),
        ({**SETTINGS, "source": "cleanrl"}, 400),
        ({**SETTINGS, "source": "cleanrl", "cleanrl_path": "/me/cleanrl"}, 300),
    ):
        found = estimate(runs, settings, 1000, "cleanrl")
        assert found is not None and (found.steps_per_second, found.runs) == (speed, 1), settings
    assert estimate(runs[1:], SETTINGS, 1000, "cleanrl") is None


def test_runs_of_another_machine_are_left_out_and_the_next_best_count() -> None:
    there = [ran(500, params={"num_envs": 8}), ran(5, params={"num_envs": 1})]
    found = estimate(there, SETTINGS, 1000, "cleanrl", lambda run: "8" not in run.config_json)
    assert found is not None and (found.steps_per_second, found.same_settings) == (5, False)
    assert estimate(there, SETTINGS, 1000, "cleanrl", lambda _: False) is None


@pytest.mark.parametrize("steps", [None, 0])
def test_without_a_number_of_steps_nothing_is_told(steps: int | None) -> None:
    assert estimate([ran(5)], SETTINGS, steps, "cleanrl") is None
    assert warning(None, steps) == ""


def test_curves_grow_with_the_steps_and_checkpoints_do_not(tmp_path: Path) -> None:
    folders = RunPaths(tmp_path)
    for folder in (folders.outbox, folders.checkpoints):
        folder.mkdir()
        (folder / "data").write_bytes(b"x" * 40_960)
    (folders.outbox / "link").symlink_to("/dev/zero")
    grown, kept = folder_bytes(folders.outbox), folder_bytes(folders.checkpoints)
    assert grown >= 40_960
    found = Estimate(seconds=20.0, steps_per_second=50.0, runs=1, same_environment=True)
    told = with_space(found, [ran(50, run_dir=str(tmp_path), params={"num_envs": 8})], SETTINGS, "cleanrl")
    assert told.bytes == pytest.approx(2 * grown + kept, abs=1)
    assert "of disk" in told.sentence()
    assert with_space(found, [ran(50, run_dir=str(tmp_path / "gone"))], SETTINGS, "cleanrl") == found


def of(seconds: float) -> Estimate:
    return Estimate(seconds, 100.0, 1, same_environment=True)


def test_days_on_a_cpu_are_warned_of_with_something_shorter_to_try() -> None:
    assert warning(of(86_000.0), 8_600_000) == ""
    told = warning(of(300_000.0), 30_000_000, free_gpus=1)
    assert told.startswith("on the CPU alone this takes about 3.5 days: try --total-timesteps 300000 first")
    assert told.endswith("takes about 50 min, or reserve a GPU with --gpus 1")
    assert warning(of(300_000.0), 30_000_000, gpus=1) == ""


def test_a_script_that_never_ran_is_warned_of_by_its_steps() -> None:
    assert warning(None, 1_000_000) == ""
    assert "is not known; at 100 steps/s" in warning(None, 10_000_000)
    assert "--gpus" not in warning(None, 10_000_000)
    for found in (None, Estimate(300_000.0, 100.0, 1, same_environment=True)):
        told = caution(found, 30_000_000, free_gpus=1)
        assert told is not None
        assert "--" not in told.in_a_form() and "reserve a GPU." in told.in_a_form(), "a form has no flags"
