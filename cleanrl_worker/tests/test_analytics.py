"""``analytics.json`` of a CleanRL run says what runs before anything was produced."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from cleanrl_worker.analytics import AnalyticsManifest
from cleanrl_worker.config import WorkerConfig
from cleanrl_worker.script_plan import ScriptPlan
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.run_manifest import read_manifest
from mosaic_worker.scripts.flags import Flag


def told_of(run: RunPaths, config: WorkerConfig, plan: ScriptPlan) -> dict[str, Any]:
    run.directory.mkdir()
    AnalyticsManifest(run, config, plan).refresh(ending="")  # its last word, so that nothing is recorded after it
    return read_manifest(run)


def test_the_manifest_says_what_runs(tmp_path: Path) -> None:
    config = WorkerConfig(algo="ppo", env_id="CartPole-v1", seed=3, total_timesteps=100)
    told = told_of(RunPaths(tmp_path / "01RUN"), config, ScriptPlan("ppo", Path("ppo.py"), ("--seed", "3")))
    expected: dict[str, Any] = {
        "run_id": "01RUN",
        "worker": "cleanrl",
        "algo": "ppo",
        "env_id": "CartPole-v1",
        "seed": 3,
        "total_timesteps": 100,
        "script_arguments": ["--seed", "3"],
    }
    assert expected.items() <= told.items()
    assert "script" not in told, "only of a script that runs under the harness"


def test_of_a_foreign_script_it_also_says_where_it_is_and_what_it_can(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("print('hello')\n")
    config = WorkerConfig(script=str(script)).checked()
    told = told_of(RunPaths(tmp_path / "run"), config, ScriptPlan.of(config))
    assert told["script"] == str(script)
    assert told["capabilities"]["pause"]["offered"] is True
    assert told["capabilities"]["checkpoint"]["offered"] is False


def test_the_manifest_keeps_the_code_and_the_defaults_it_took(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("print('training')\n")
    flags = {
        name: Flag(name, kind, default, "")
        for name, kind, default in (("gamma", "float", 0.99), ("cuda", "bool", True))
    }
    plan = ScriptPlan("mine", script, ("--gamma", "0.9"), flags=flags, values={"gamma": 0.9})
    told = told_of(RunPaths(tmp_path / "run"), WorkerConfig(script=str(script)), plan)
    assert told["code"]["sha256"] == hashlib.sha256(script.read_bytes()).hexdigest()
    assert told["resolved"] == {"gamma": 0.9, "cuda": True}
