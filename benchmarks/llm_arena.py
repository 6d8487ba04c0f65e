"""An arena of chance, the optimal policy, PPO, a Q-table and a language model whose answers are known."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.daemon import BenchDaemon, BenchmarkError, ScratchHome
from benchmarks.machine import ROOT
from benchmarks.report import Line, Section, Target
from llm_worker.tests.scripted_server import KEY, Asked, Script, serving

NAME = "llm_arena"
TITLE = "Language models: an arena of five"
METHOD = """\
`mosaic arena --env-id FrozenLake-v1 random optimal PPO Q-TABLE LLM`, from the command to its exit: every episode
played, recorded, simulated again and compared. PPO and the BDI agent were trained for moments before; the language
model is a scripted server in the mode `plan`, and another arena on the same seeds has asked it everything, so that it
is asked nothing any more."""
_PLAN = "down, down, right, down"


def run(*, quick: bool = False) -> Section:
    """One section of the benchmark page. Raises BenchmarkError."""
    seeds = 10 if quick else 100
    script = Script(keeps=("grammar",), answer=_answer)
    os.environ["OPENAI_API_KEY"] = KEY  # for the daemon; benchmarks run without settings of the caller
    with serving(script) as url, ScratchHome() as paths, BenchDaemon(paths):
        _train(paths.root, "q_learning", "table", "--episodes", "2000")
        _train(paths.root, "ppo", "network", "--total-timesteps", "5000")
        model = ["--worker", "llm", "--model", "m", "--base-url", url, "--episodes", "1"]
        _train(paths.root, "plan", "model", *model)
        span, times, used = f"0-{seeds - 1}", list[float](), list[float]()
        _mosaic(paths.root, "arena", "--env-id", "FrozenLake-v1", "--seeds", span, "model", "--name", "before")
        asked = len(script.asked)
        for number in range(1 if quick else 2):
            began, before = time.monotonic(), _used()
            words = ["--seeds", span, "random", "optimal", "network", "table", "model", "--name", f"arena-{number}"]
            told = json.loads(_mosaic(paths.root, "arena", "--env-id", "FrozenLake-v1", *words, "--json"))
            times.append(time.monotonic() - began)
            used.append(_used() - before)
            _check(told, seeds)
        if len(script.asked) != asked:
            raise BenchmarkError("the language model was asked again")
    return Section(
        NAME,
        TITLE,
        METHOD,
        [
            Line(f"5 entries × {seeds} episodes, played and verified", times, "s", Target("<", 60)),
            Line("The same, CPU of the command and its programs", used, "s"),
        ],
    )


def _used() -> float:
    """CPU seconds of the processes that this one waited for, and of theirs."""
    told = resource.getrusage(resource.RUSAGE_CHILDREN)
    return told.ru_utime + told.ru_stime


def _answer(asked: Asked) -> str:
    return _PLAN if asked.question.startswith("Step 0") else "right, down"


def _check(told: dict[str, Any], seeds: int) -> None:
    for entry in told["entries"]:
        if (entry["played"], entry["verified"]) != (seeds, seeds):
            raise BenchmarkError(f"{entry['label']} did not play all: {entry['problem']}")


def _train(root: Path, algo: str, name: str, *words: str) -> None:
    _mosaic(root, "train", algo, "--env-id", "FrozenLake-v1", "--run-name", name, *words)


def _mosaic(root: Path, *words: str) -> str:
    command = [sys.executable, "-m", "gym_gui.cli", "--home", str(root), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        raise BenchmarkError(f"mosaic {words[0]} failed: {done.stderr.strip()[-300:]}")
    return done.stdout
