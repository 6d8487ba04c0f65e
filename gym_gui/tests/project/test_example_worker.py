"""The workers of docs/how-to/add-a-worker.md do what the page says, with nothing edited elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from mosaic_protocol.checkpoint_manifest import list_checkpoints, read_manifest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
ALGORITHMS = {"sb3": "sb3_a2c", "skrl": "skrl_ppo"}
PARAMS: dict[str, dict[str, Any]] = {"sb3": {"gamma": 0.98}, "skrl": {"rollouts": 16}}
OTHER_PARAMS: dict[str, dict[str, Any]] = {"sb3": {"gamma": 0.9}, "skrl": {"rollouts": 24}}


def run_config(worker: str, steps: int, **more: Any) -> dict[str, object]:
    settings = {"algo": ALGORITHMS[worker], "env_id": "CartPole-v1", "total_timesteps": steps}
    params = {"algo_params": {**PARAMS[worker], **more}}
    described = {"type": worker, "module": f"{worker}_worker.cli", "config": {**settings, "extras": params}}
    artifacts = {"checkpoints": {"enabled": True, "every_steps": 200, "keep_last": 3}}
    return {"run_name": worker, "resources": {}, "artifacts": artifacts, "metadata": {"worker": described}}


@pytest.mark.parametrize("worker", ALGORITHMS)
def test_a_folder_dropped_on_the_worker_path_trains_pauses_stops_goes_on_and_is_evaluated(
    worker: str, make_daemon: Callable[..., DaemonProcess]
) -> None:
    daemon = make_daemon(stop_seconds=60, handshake_seconds=240, liveness_seconds=240)
    daemon.env["MOSAIC_WORKER_PATH"] = str(EXAMPLES)
    daemon.start()
    assert worker in {one.type for one in daemon.client.workers().workers}

    run_id = daemon.client.submit(run_config(worker, 10_000_000)).run.run_id
    daemon.wait_state(run_id, "EXEC")
    wait_for("an episode", lambda: daemon.client.metrics(run_id, ["charts/episodic_return"])[0].values)
    daemon.client.pause(run_id)
    daemon.wait_state(run_id, "PAUSE")
    daemon.client.resume(run_id)
    daemon.wait_state(run_id, "EXEC")
    folder = daemon.paths.run(run_id)
    wait_for("a checkpoint", lambda: list_checkpoints(folder.checkpoints))
    daemon.client.cancel(run_id, "seen enough")
    stopped = daemon.wait_over(run_id)
    assert (stopped.outcome, "seen enough" in stopped.reason) == ("canceled", True)
    last = list_checkpoints(folder.checkpoints)[-1]
    told = json.loads(folder.manifest.read_text())
    assert (told["worker"], told["ending"]) == (worker, "run_stopped")
    assert told["checkpoints"][-1] == f"checkpoints/{last.name}"

    step = read_manifest(last).step
    again = daemon.client.submit(run_config(worker, step + 64, resume=str(last))).run.run_id
    finished = daemon.wait_over(again)
    manifest = read_manifest(list_checkpoints(daemon.paths.run(again).checkpoints)[-1])
    assert (manifest.step >= step + 64, manifest.lineage["kind"]) == (True, "resume")
    assert (finished.outcome, finished.reason) == ("completed", f"completed {manifest.step:,} steps"), finished

    mosaic = CommandLine(daemon.paths.root)
    mosaic.environment["MOSAIC_WORKER_PATH"] = str(EXAMPLES)
    checked = mosaic("train", ALGORITHMS[worker], "--env-id", "CartPole-v1", "--dry-run")
    assert (checked.code, "This run would start" in checked.out) == (0, True), checked
    assert "learning_rate=" in checked.out, "parameters are shown with their values"
    answer = mosaic("eval", f"{again}@last", "--episodes", "2", "--deterministic", "--json")
    assert answer.code == 0, answer
    assert answer.json["results"]["deterministic"]["episodes"] == 2


EXACTLY = """
import sys
from pathlib import Path
import torch
from mosaic_protocol.worker_manifest import load_manifest
from mosaic_worker.settings import read_settings
from mosaic_worker.state import checkpoints
from mosaic_worker.training.session import TrainingSession
import importlib
torch.set_num_threads(1)
package, algo, params = Path(sys.argv[1]), sys.argv[2], eval(sys.argv[3])
train = importlib.import_module(f"{package.name}.cli").train
def run(steps, **start):
    config = {"algo": algo, "env_id": "CartPole-v1", "total_timesteps": steps, "params": {**params, **start}}
    settings = read_settings(load_manifest(package), config)
    with TrainingSession.open(settings.arguments(), algo) as session:
        train(session, settings)
    return checkpoints.list_checkpoints(session.run_dir / "checkpoints")[-1]
whole, half = run(480), run(242)  # no whole number of rollouts
rest = run(480, resume=str(half))
one, other = checkpoints.load(whole), checkpoints.load(rest)
assert one.tensors.keys() == other.tensors.keys()
names = [name for name in one.tensors if not torch.equal(one.tensors[name], other.tensors[name])]
print("differing:", [name for name in names if "t_start" not in name])
changed = checkpoints.load(run(600, resume=str(half), **eval(sys.argv[4]))).tensors
print("not finite:", [name for name, tensor in changed.items() if not tensor.isfinite().all()])
"""


@pytest.mark.parametrize("worker", ALGORITHMS)
def test_a_run_that_goes_on_ends_as_one_that_never_stopped(worker: str, tmp_path: Path) -> None:
    path = os.pathsep.join([str(EXAMPLES), str(ROOT)])
    params = str(PARAMS[worker]), str(OTHER_PARAMS[worker])
    done = subprocess.run(
        [sys.executable, "-c", EXACTLY, str(EXAMPLES / f"{worker}_worker"), ALGORITHMS[worker], *params],
        env={**os.environ, "PYTHONPATH": path, "MOSAIC_TENSORBOARD": "0", "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    told = [line for line in done.stdout.splitlines() if line.startswith(("differing", "not finite"))]
    assert told == ["differing: []", "not finite: []"], done.stderr


def files_on_the_page() -> dict[str, str]:
    """The files that the page prints, by name in the worker's folder."""
    page = (ROOT / "docs/how-to/add-a-worker.md").read_text()
    found = {}
    for part in page.split("<!-- from examples/skrl_worker/")[1:]:
        name, _, rest = part.partition(" -->")
        found[name] = rest.partition("```")[2].partition("\n")[2].partition("```\n")[0]
    return found


def test_the_page_prints_every_file_whole() -> None:
    folder = EXAMPLES / "skrl_worker"
    files = {file.name: file.read_text() for file in folder.iterdir() if file.is_file() and file.name != "__init__.py"}
    assert files_on_the_page() == files


def test_a_folder_with_nothing_but_what_the_page_prints_works(tmp_path: Path) -> None:
    package = tmp_path / "skrl_worker"
    package.mkdir()
    for name, text in {"__init__.py": "", **files_on_the_page()}.items():
        (package / name).write_text(text)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(tmp_path), str(ROOT)])
        return subprocess.run(
            [sys.executable, "-m", *words],
            env={**os.environ, "PYTHONPATH": path, "MOSAIC_HOME": str(tmp_path / "home")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    checked = run("skrl_worker.cli", "--env-id", "CartPole-v1", "--rollouts", "64", "--dry-run", "--emit-summary")
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["params"] == {"learning_rate": 0.001, "rollouts": 64, "hidden": 64}
    refused = run("skrl_worker.cli", "--env-id", "Pendulum-v1", "--dry-run")
    assert refused.stderr.startswith("skrl_worker: skrl_ppo needs discrete actions"), refused
    listed = run("skrl_worker.extras", "--list", "--json")
    assert listed.returncode == 0, listed.stderr
    assert [one["name"] for one in json.loads(listed.stdout)["sets"]] == ["plots"]
    planned = run("skrl_worker.extras", "--set", "plots", "--dry-run", "--json")
    assert (planned.returncode, json.loads(planned.stdout)["status"]) == (0, "dry-run"), planned.stderr
