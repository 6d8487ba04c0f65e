"""What the algorithms are for, on data of a single step: pushes between -1 and 1, of which 0.5 pays most. Imitating the
data is the middle; an algorithm that learns from rewards leaves it for what paid."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from corl_worker.config import PACKAGE
from corl_worker.tests.worlds import run
from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.policies.acting import load_acting
from mosaic_worker.tests.offline.made_sets import flat_set
from mosaic_worker.tests.script_tools import checkpoints_of

FAST = ("--policy-lr", "3e-3", "--q-lr", "3e-3")
FLAGS = {
    "bc": ("--learning-rate", "3e-3"),
    "iql": ("--qf-lr", "3e-3", "--vf-lr", "3e-3", "--actor-lr", "3e-3"),
    "awac": ("--learning-rate", "3e-3"),
    "cql": (*FAST, "--cql-alpha", "0.5"),
    "cal_ql": (*FAST, "--cql-alpha", "0.5"),
    "sac_n": FAST,
    "td3_bc": ("--learning-rate", "1e-3", "--alpha", "10"),
    "edac": (*FAST, "--num-critics", "4"),
    "rebrac": (),
    "spot": ("--actor-lr", "1e-3", "--qf-lr", "1e-3", "--vae-iterations", "300", "--vae-hidden-dim", "32"),
}
UPDATES = dict.fromkeys(("td3_bc", "edac", "rebrac", "spot"), 1500)
"""Those that follow a critic's slope need more than the others: it first has to have one."""


@pytest.fixture(scope="module")
def pushes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with one dataset."""
    root, draw, rows = tmp_path_factory.mktemp("pushes"), np.random.default_rng(0), 2000
    actions = draw.uniform(-1, 1, (rows, 1)).astype(np.float32)
    columns = {
        "observations": draw.normal(size=(rows, 2)).astype(np.float32),
        "actions": actions,
        "rewards": -np.square(actions[:, 0] - 0.5),
        "next_observations": draw.normal(size=(rows, 2)).astype(np.float32),
        "terminals": np.ones(rows, bool),
        "timeouts": np.zeros(rows, bool),
    }
    flat_set(MosaicPaths(root), "pushes", columns, observation_space=box(2, 10.0), action_space=box(1, 1.0))
    return root


def box(width: int, end: float) -> str:
    return json.dumps(
        {"type": "Box", "dtype": "float32", "shape": [width], "low": [-end] * width, "high": [end] * width}
    )


@pytest.mark.parametrize("name", FLAGS)
def test_rewards_draw_the_policy_to_what_paid(
    name: str, pushes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(pushes))
    updates = str(UPDATES.get(name, 300))
    words = ["--dataset", "pushes", "--total-timesteps", updates, "--hidden-dim", "16", "--batch-size", "64"]
    rewards = () if name == "bc" else ("--no-normalize-reward", "--reward-scale", "10")
    script = importlib.import_module(f"corl_worker.corl.{name}")
    assert run(script, monkeypatch, tmp_path, *words, "--eval-freq", "0", *rewards, *FLAGS[name]) == 0
    (checkpoint,) = checkpoints_of(tmp_path)
    draw = np.random.default_rng(1)
    seen = draw.normal(size=(50, 2)).astype(np.float32)
    pushed = load_acting(checkpoint, PACKAGE).policy.act(seen, deterministic=True, random=draw).mean()
    assert abs(pushed) < 0.15 if name == "bc" else 0.25 < pushed < 0.75
