"""Every script, on tiny datasets: a resumed run is the same to the bit, what was learned acts again, what cannot work
is refused in one sentence."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from corl_worker import cli
from corl_worker.config import PACKAGE, WorkerConfig
from corl_worker.tests.worlds import SHORT, run
from mosaic_worker.policies.acting import load_acting
from mosaic_worker.state.checkpoints import load, read_manifest
from mosaic_worker.tests.script_tools import (
    checkpoints_of,
    differing,
    logged_rows,
    newest_tensors,
    run_until,
)

ALGORITHMS = list(WorkerConfig.manifest().algorithms)
OF_DISCRETE = [name for name in ALGORITHMS if "discrete" in WorkerConfig.manifest().algorithms[name].action_spaces]
TUNED = [name for name in ALGORITHMS if "online_steps" in (PACKAGE / "corl" / f"{name}.py").read_text()]
RUNS = [(name, "swings") for name in ALGORITHMS] + [(name, "balance") for name in OF_DISCRETE]


def script_of(name: str) -> ModuleType:
    return importlib.import_module(f"corl_worker.corl.{name}")


def flags_of(name: str, dataset: str, updates: int, *more: str) -> list[str]:
    short = ("--vae-iterations", "5", "--vae-hidden-dim", "8") if name == "spot" else ()
    return ["--dataset", dataset, "--total-timesteps", str(updates), *SHORT, *short, *more]


def rows_of(folder: Path) -> list[tuple[int, dict[str, float]]]:
    """What was logged, without how fast it went."""
    return [(step, {tag: one for tag, one in row.items() if tag != "charts/SPS"}) for step, row in logged_rows(folder)]


@pytest.mark.parametrize(("name", "dataset"), RUNS)
def test_a_resumed_run_is_the_same_to_the_bit(
    name: str, dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, online = script_of(name), ["--online-steps", "30"] if name in TUNED else []
    flags = flags_of(name, dataset, 40, "--checkpoint-every", "0", *online)
    monkeypatch.setattr("corl_worker.offline_run.LOG_EVERY", 10)
    assert run(script, monkeypatch, tmp_path / "whole", *flags) == 0
    for stop_at in (25, 55) if online else (25,):
        first, rest = tmp_path / f"first{stop_at}", tmp_path / f"rest{stop_at}"
        stopped = run_until(stop_at, script, monkeypatch, first, *flags)
        assert run(script, monkeypatch, rest, "--resume", str(stopped)) == 0
        assert differing(newest_tensors(tmp_path / "whole"), newest_tensors(rest)) == []
        assert rows_of(first) + rows_of(rest) == rows_of(tmp_path / "whole")


@pytest.mark.parametrize(("name", "dataset"), RUNS)
def test_what_was_learned_acts_and_says_what_it_learned_from(
    name: str, dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(script_of(name), monkeypatch, tmp_path, *flags_of(name, dataset, 20)) == 0
    (checkpoint,) = checkpoints_of(tmp_path)
    manifest = read_manifest(checkpoint)
    assert manifest.offline_dataset["name"] == dataset and len(manifest.offline_dataset["sha256"]) == 64
    assert manifest.offline_dataset["references"]["whose"] == "mosaic"
    loaded = load_acting(checkpoint, PACKAGE)
    env = loaded.make_env()
    observation, _ = env.reset(seed=1)
    for deterministic in (True, False):
        (action,) = loaded.policy.act(
            np.asarray(observation)[None], deterministic=deterministic, random=np.random.default_rng(0)
        )
        assert env.action_space.contains(action.astype(env.action_space.dtype))
    env.close()


@pytest.mark.parametrize("name", TUNED)
def test_a_run_goes_on_in_the_environment_and_its_curve_says_where(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corl_worker.offline_run.LOG_EVERY", 10)
    assert run(script_of(name), monkeypatch, tmp_path, *flags_of(name, "swings", 20, "--online-steps", "210")) == 0
    phases = {step: row["charts/phase"] for step, row in logged_rows(tmp_path) if "charts/phase" in row}
    assert phases[20] == 0.0 and phases[30] == 1.0
    played = [row for _, row in logged_rows(tmp_path) if "charts/online_return" in row]
    assert len(played) == 1 and played[0]["charts/online_length"] == 200
    assert len(load(checkpoints_of(tmp_path)[-1]).tensors["replay.made"]) == 210


def refusal(capsys: pytest.CaptureFixture[str]) -> str:
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize(
    ("name", "flags", "sentence"),
    [
        ("bc", ["--dataset", "swigns"], "did you mean 'swings'?"),
        ("bc", [], "--dataset is missing"),
        ("bc", ["--dataset", "balance", "--best-fraction", "0.1"], "10 % of 4 episodes is less than one"),
        ("td3_bc", ["--dataset", "balance"], "td3_bc needs continuous actions; the dataset balance has Discrete(2)."),
        ("bc", ["--dataset", "swings", "--env-id", "CartPole-v1"], "CartPole-v1 does not fit the dataset 'swings'"),
        ("iql", ["--dataset", "swings", "--iql-tau", "1.0"], "--iql-tau must lie between 0 and 1"),
    ],
)
def test_what_cannot_work_is_refused(
    name: str,
    flags: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(script_of(name), monkeypatch, tmp_path, *flags) == 2
    assert sentence in refusal(capsys)


def test_a_checkpoint_is_not_resumed_with_other_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bc = script_of("bc")
    assert run(bc, monkeypatch, tmp_path / "first", *flags_of("bc", "swings", 20)) == 0
    (checkpoint,) = checkpoints_of(tmp_path / "first")
    capsys.readouterr()
    words = ["--resume", str(checkpoint), "--total-timesteps", "40", "--dataset"]
    assert run(bc, monkeypatch, tmp_path / "rest", *words, "other-swings") == 2
    other = "it learned from the dataset 'swings', this run from the dataset 'other-swings'"
    assert other in refusal(capsys)
    start = {"mode": "resume", "checkpoint": str(checkpoint)}
    asked = {"algo": "bc", "total_timesteps": 40, "start": start}
    (tmp_path / "run.json").write_text(json.dumps({**asked, "dataset": "other-swings"}))
    monkeypatch.setattr("sys.argv", ["corl", "--config", str(tmp_path / "run.json"), "--dry-run", "--emit-summary"])
    assert cli.main() == 2 and other in refusal(capsys), "before the run as well"
    (tmp_path / "run.json").write_text(json.dumps({**asked, "dataset": "swings"}))
    assert cli.main() == 0 and json.loads(capsys.readouterr().out)["offline_dataset"]["name"] == "swings"
    words = flags_of("bc", "balance", 20, "--warm-start", str(checkpoint))
    assert run(bc, monkeypatch, tmp_path / "other", *words) == 2
    assert "its environment is Pendulum-v1, this run's is CartPole-v1" in refusal(capsys)


def test_a_run_begins_with_the_networks_and_the_scales_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    td3_bc = script_of("td3_bc")
    assert run(td3_bc, monkeypatch, tmp_path / "first", *flags_of("td3_bc", "swings", 20)) == 0
    (checkpoint,) = checkpoints_of(tmp_path / "first")
    words = flags_of("td3_bc", "other-swings", 1, "--warm-start", str(checkpoint))
    assert run(td3_bc, monkeypatch, tmp_path / "second", *words) == 0
    one, other = (newest_tensors(tmp_path / folder) for folder in ("first", "second"))
    assert (one["scales.mean"] == other["scales.mean"]).all()


def test_lost_networks_stop_the_run_and_leave_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("corl_worker.offline_run.LOG_EVERY", 10)
    iql = script_of("iql")
    flags = flags_of("iql", "swings", 400, "--checkpoint-every", "5", "--qf-lr", "1e8", "--eval-freq", "0")
    assert run(iql, monkeypatch, tmp_path, *flags) == 1
    sentence = refusal(capsys)
    assert "the run diverges" in sentence or "no longer finite" in sentence
    assert "The checkpoint of update" in sentence or "No checkpoint was written" in sentence
    for checkpoint in checkpoints_of(tmp_path):
        assert all(np.isfinite(one.double().sum().item()) for one in load(checkpoint).tensors.values())


def test_data_without_an_environment_is_learned_from_all_the_same(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from corl_worker.tests.worlds import play_set
    from mosaic_protocol.paths import MosaicPaths

    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "var"))
    play_set(MosaicPaths(tmp_path / "var"), "foreign", "Pendulum-v1", episodes=2, env_id="Nowhere-v3")
    bc: Any = script_of("bc")
    assert run(bc, monkeypatch, tmp_path, *flags_of("bc", "foreign", 20)) == 0
    assert "No evaluation: There is no environment 'Nowhere-v3'" in capsys.readouterr().out
    assert run(bc, monkeypatch, tmp_path / "asked", *flags_of("bc", "foreign", 20, "--env-id", "Nowhere-v4")) == 2


def test_data_that_was_changed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from corl_worker.tests.worlds import play_set
    from mosaic_protocol.paths import MosaicPaths

    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "var"))
    file = play_set(MosaicPaths(tmp_path / "var"), "swings", "Pendulum-v1", episodes=2) / "data.hdf5"
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(content)
    assert run(script_of("bc"), monkeypatch, tmp_path, *flags_of("bc", "swings", 20)) == 2
    assert "changed since it was written" in refusal(capsys)


def test_online_algorithms_go_on_from_offline_ones_where_networks_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a process of its own: no worker imports another."""
    wide = ("--dataset", "swings", "--total-timesteps", "3", "--eval-freq", "0", "--batch-size", "8")
    assert run(script_of("td3_bc"), monkeypatch, tmp_path / "offline", *wide) == 0
    (checkpoint,) = checkpoints_of(tmp_path / "offline")
    online = PACKAGE.parent / "cleanrl_worker" / "cleanrl"
    words = ["--env-id", "Pendulum-v1", "--total-timesteps", "1", "--warm-start", str(checkpoint)]

    def go_on(name: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(online / f"{name}.py"), *words]
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert go_on("td3_continuous_action").returncode == 0
    refused = go_on("sac_continuous_action")
    assert refused.returncode == 2 and "the checkpoint does not fit: " in refused.stderr


# ---- data that memory is too small for -------------------------------------------------------------------------------

LIMITED = """
import importlib, resource, sys
script = importlib.import_module(f"corl_worker.corl.{sys.argv.pop(1)}")
megabytes = int(sys.argv.pop(1))
if megabytes:
    used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (used * 1024 + megabytes * 2**20,) * 2)
sys.exit(script.main())
"""


@pytest.fixture(scope="module")
def wide_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with a dataset whose rows take 290 MB."""
    from mosaic_protocol.paths import MosaicPaths
    from mosaic_worker.tests.offline.made_sets import box, columns, flat_set

    root = tmp_path_factory.mktemp("wide_home")
    found = columns(36_000, width=1000, actions=2, last=300)
    ends = {"low": [-1, -1], "high": [1, 1]}
    actions = json.dumps({"type": "Box", "dtype": "float32", "shape": [2], **ends})
    flat_set(MosaicPaths(root), "wide", found, observation_space=box(1000), action_space=actions)
    return root


def limited(name: str, megabytes: int, root: Path, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """A script that may take so much more memory than it has when everything is imported; 0: as much as there is."""
    folder.mkdir()
    words = ["--dataset", "wide", "--total-timesteps", "12", "--eval-freq", "0", "--hidden-dim", "8", *flags]
    command = [sys.executable, "-c", LIMITED, name, str(megabytes), *words, "--batch-size", "16"]
    environment = {**os.environ, "MOSAIC_HOME": str(root), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["iql", "dt"])
def test_a_run_learns_from_more_than_memory_holds_as_it_does_in_memory(
    name: str, wide_root: Path, tmp_path: Path
) -> None:
    within, beyond = (limited(name, size, wide_root, tmp_path / str(size)) for size in (0, 260))
    assert within.returncode == 0 and "drawn from a file" not in within.stdout, within.stderr
    assert beyond.returncode == 0 and "drawn from a file" in beyond.stdout, beyond.stderr
    assert differing(newest_tensors(tmp_path / "0"), newest_tensors(tmp_path / "260")) == []
    left = [file for file in (tmp_path / "260").rglob("*") if file.is_file() and file.stat().st_size > 10**8]
    assert left == []
