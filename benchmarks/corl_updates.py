"""How fast our offline algorithms update, beside CORL's own classes.

``python -m benchmarks.corl_updates CHECKOUT ALGO ROUNDS`` measures one in this process: blocks in turn, on the same
random rows with the shapes of Hopper. Only CORL's classes are used: what its scripts import besides (gym, d4rl, wandb,
pyrallis) is replaced by nothing.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from benchmarks.daemon import BenchmarkError
from benchmarks.report import Line, Section, Target
from corl_worker.corl import iql, td3_bc
from corl_worker.replay import Replay

NAME = "corl_updates"
TITLE = "Offline updates, against CORL's own classes"
METHOD = """\
Updates per CPU second of 256x256 networks and batches of 256 with the shapes of Hopper: ours, and CORL's own classes
from the checkout that `MOSAIC_CORL_PATH` names, in one process with one thread of PyTorch, blocks of 50 updates in
turn. A ratio belongs to one pair of blocks."""
ALGORITHMS = ("td3_bc", "iql")
CHECKOUT = "MOSAIC_CORL_PATH"
TARGET = Target("≥", 1.05)
OBSERVATION, ACTION, ROWS, BATCH, HIDDEN = 11, 3, 20_000, 256, 256
BLOCK, ROUNDS = 50, 12
CPU = torch.device("cpu")


def run(*, quick: bool = False) -> Section:
    """One section of the benchmark page."""
    checkout = os.environ.get(CHECKOUT, "")
    if not Path(checkout, "algorithms", "offline").is_dir():
        raise BenchmarkError(f"{CHECKOUT} names no checkout of corl-team/CORL")
    rounds = 3 if quick else ROUNDS
    return Section(NAME, TITLE, METHOD, [line for algo in ALGORITHMS for line in _lines(checkout, algo, rounds)])


def _lines(checkout: str, algo: str, rounds: int) -> list[Line]:
    command = [sys.executable, "-m", "benchmarks.corl_updates", checkout, algo, str(rounds)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise BenchmarkError(f"{algo}: {ended.stderr.strip()[-300:]}")
    told = json.loads(ended.stdout.splitlines()[-1])
    ratios = [one / other for one, other in zip(told["ours"], told["theirs"], strict=True)]
    return [
        Line(f"{algo}: updates per CPU second, ours ÷ CORL's", ratios, target=TARGET),
        Line(f"{algo}: updates per CPU second, ours", told["ours"], "/s"),
        Line(f"{algo}: updates per CPU second, CORL's classes", told["theirs"], "/s"),
    ]


class _Nothing(ModuleType):
    """Whatever is asked of it is a class or a decorator that does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # what Python itself asks of a module
        if name == "wrap":
            return lambda *_, **__: lambda function: function
        return type(name, (), {})


def theirs(checkout: Path, algo: str, columns: list[torch.Tensor]) -> Callable[[], None]:
    """One update of CORL's classes, as its script makes them."""
    for name in ("d4rl", "gym", "pyrallis", "wandb"):
        sys.modules[name] = _Nothing(name)
    spec = importlib.util.spec_from_file_location(f"corl_{algo}", checkout / "algorithms" / "offline" / f"{algo}.py")
    assert spec is not None and spec.loader is not None
    script: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script  # dataclasses look their own module up
    spec.loader.exec_module(script)
    buffer = script.ReplayBuffer(OBSERVATION, ACTION, ROWS, "cpu")
    observations, actions, following, rewards, ends = (column.numpy() for column in columns)
    buffer.load_d4rl_dataset(
        {
            "observations": observations,
            "actions": actions,
            "next_observations": following,
            "rewards": rewards[:, 0],
            "terminals": ends[:, 0],
        }
    )
    adam = lambda module: torch.optim.Adam(module.parameters(), lr=3e-4)  # noqa: E731
    if algo == "td3_bc":
        actor = script.Actor(OBSERVATION, ACTION, 1.0)
        one, other = script.Critic(OBSERVATION, ACTION), script.Critic(OBSERVATION, ACTION)
        trainer = script.TD3_BC(1.0, actor, adam(actor), one, adam(one), other, adam(other))
    else:
        actor = script.GaussianPolicy(OBSERVATION, ACTION, 1.0)
        critics, values = script.TwinQ(OBSERVATION, ACTION), script.ValueFunction(OBSERVATION)
        trainer = script.ImplicitQLearning(1.0, actor, adam(actor), critics, adam(critics), values, adam(values))
    return lambda: trainer.train(buffer.sample(BATCH))


def ours(algo: str, columns: list[torch.Tensor]) -> Callable[[], None]:
    script: Any = {"td3_bc": td3_bc, "iql": iql}[algo]
    space = gym.spaces.Box(-1, 1, (ACTION,), np.float32)
    about = {"observation_size": OBSERVATION, "action_size": ACTION, "action_space": space, "is_discrete": False}
    task: Any = SimpleNamespace(**about)
    learner = script.Learner(task, script.Args(hidden_dim=HIDDEN), CPU)
    replay = Replay(task)
    replay.rows, replay.filled, replay.offline = torch.cat(columns, dim=1), ROWS, ROWS
    return lambda: learner.update(replay.sample(BATCH, CPU))


def cpu_seconds(update: Callable[[], None]) -> float:
    began = time.process_time()
    for _ in range(BLOCK):
        update()
    return time.process_time() - began


def main() -> None:
    checkout, algo, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    widths = (OBSERVATION, ACTION, OBSERVATION, 1)
    columns = [*(torch.randn(ROWS, width).clamp_(-1, 1) for width in widths), torch.zeros(ROWS, 1)]
    updates = {"ours": ours(algo, columns), "theirs": theirs(checkout, algo, columns)}
    for update in updates.values():
        cpu_seconds(update)
    rounds = [{who: cpu_seconds(update) for who, update in updates.items()} for _ in range(count)]
    print(json.dumps({who: [BLOCK / one[who] for one in rounds] for who in updates}))


if __name__ == "__main__":
    main()
