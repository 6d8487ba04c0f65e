"""Warming up: all that a run would import is there, in one thread, and nothing random is shared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WARMED = """
import json, os, sys
from cleanrl_worker.warm_up import after_fork, warm_up

warm_up()
modules = set(sys.modules)
threads = len(os.listdir("/proc/self/task"))

import numpy, torch  # they are there, this only names them


def drawn_in_a_fork() -> list[float]:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        after_fork()
        numbers = [float(numpy.random.random()), float(torch.rand(1))]
        os.write(write, json.dumps(numbers).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    return json.loads(os.read(read, 1000))


import cleanrl_worker.cleanrl.ppo, cleanrl_worker.cli, mosaic_worker.supervision.launcher

watched = ("cleanrl_worker", "mosaic_protocol", "torch", "grpc")
needed = {name for name in sys.modules if name.partition(".")[0] in watched}
print(json.dumps({
    "threads": threads,
    "late": sorted(needed - modules),
    "cli": "cleanrl_worker.cli" in modules,
    "drawn": [drawn_in_a_fork(), drawn_in_a_fork()],
}))
"""


@pytest.fixture(scope="module")
def warmed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process that warmed up reports of itself."""
    folder: Path = tmp_path_factory.mktemp("warmed")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # as fork servers are started
    command = [sys.executable, "-c", WARMED]
    told = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=True)
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def test_a_warm_process_has_one_thread_and_so_can_fork(warmed: dict[str, Any]) -> None:
    assert warmed["threads"] == 1


def test_a_warm_run_has_no_module_of_mosaic_left_to_import(warmed: dict[str, Any]) -> None:
    """Only what is executed as the main module must not be there twice."""
    assert warmed["late"] == ["cleanrl_worker.cleanrl", "cleanrl_worker.cleanrl.ppo", "cleanrl_worker.cli"]
    assert not warmed["cli"]


def test_forks_draw_different_random_numbers(warmed: dict[str, Any]) -> None:
    first, second = warmed["drawn"]
    assert first[0] != second[0]
    assert first[1] != second[1]
