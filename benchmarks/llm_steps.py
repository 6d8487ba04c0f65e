"""The LLM worker beside its model: what a step costs, what a cached one gains, and whether it counts exactly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from benchmarks.daemon import BenchmarkError
from benchmarks.local_model import local_python
from benchmarks.machine import SCRATCH
from benchmarks.report import Line, Section, Target
from llm_worker.client.ledger import tokens_of
from llm_worker.tests.scripted_server import KEY, Script, serving
from mosaic_protocol.dialogue import DIALOGUE
from mosaic_protocol.steps.recorded_episodes import read_episodes
from mosaic_protocol.steps.recordings import Recording

NAME = "llm_steps"
TITLE = "Language models: steps beside the model"
METHOD = """\
`python -m llm_worker.cli` by hand, as the daemon starts it, every step recorded and every call in its ledger. What a
step costs is CPU time of the worker's process: that of a long run less that of a short one, by the steps between them,
so that its start does not count. Its server is scripted, in another process than the worker, answers at once and plays
FrozenLake 4x4 that is not slippery to its goal. The local model plays the slippery lake; the CPU time of a live step is
that of worker and model, less what both took for an episode that was known, so that their start does not count. It is
compared with the cached step above."""


class Run(NamedTuple):
    """What one run took and recorded."""

    steps: int
    successes: list[bool]
    cpu_seconds: float
    """Of the worker, and of the local model where it started that."""
    exchanges: list[dict[str, Any]]
    ledger: dict[str, Any]


def run(*, quick: bool = False) -> Section:
    """One section of the benchmark page. Raises BenchmarkError."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="llm-", dir=SCRATCH) as name:
        folder = Path(name)
        lines = _beside_a_scripted_server(folder, rounds=1 if quick else 5)
        lines += _cached(folder, 2 if quick else 20, lines[1].centre)
    return Section(NAME, TITLE, METHOD, lines)


def _beside_a_scripted_server(folder: Path, rounds: int) -> list[Line]:
    costs, cached_costs, successes, misses = list[float](), list[float](), list[bool](), list[float]()
    for _ in range(rounds):
        script = Script(keeps=("grammar",))
        with serving(script) as url:
            params: dict[str, Any] = {"model": "m", "base_url": url, "is_slippery": False}
            for cache, found in ((False, costs), (True, cached_costs)):
                short, long = (play(folder, episodes=count, cache=cache, **params) for count in (5, 105))
                found.append(1000 * (long.cpu_seconds - short.cpu_seconds) / (long.steps - short.steps))
                successes += long.successes
                misses += [] if cache else [abs(long.ledger["prompt"] - _asked(script, long)), _off(script, long)]
    return [
        Line("CPU of a step beside the model", costs, "ms", Target("<", 5)),
        Line("CPU of a step whose answer is cached", cached_costs, "ms"),
        Line("Success of a server that plays optimally", [mean(successes)], target=Target("≥", 1.0)),
        Line("Tokens that the ledger has more or less than the server counted", misses, target=Target("≤", 0)),
    ]


def _asked(script: Script, found: Run) -> int:
    """The tokens that the scripted server counted in the newest calls of its, as many as the run made."""
    newest = script.asked[-found.ledger["calls"] :]
    return sum(len(str(one["content"]).split()) for asked in newest for one in asked.body["messages"])


def _off(script: Script, found: Run) -> int:
    """One word is an answer's token there, and every call has one."""
    return abs(found.ledger["completion"] - found.ledger["calls"])


def _cached(folder: Path, episodes: int, cached: float) -> list[Line]:
    """``cached``: CPU milliseconds of a cached step, of which there are too few here."""
    python = local_python()
    live, known = (play(folder, python=python, model="local", episodes=one) for one in (episodes, 1))
    if known.ledger["calls"]:
        raise BenchmarkError("a run that was to find its answers in the cache asked the model")
    answers = [one["seconds"] for one in live.exchanges if one.get("source") == "server"]
    live_cpu = (live.cpu_seconds - known.cpu_seconds) / live.ledger["calls"]
    return [
        Line("An answer of the local model, by the clock", answers, "s"),
        Line("An answer of the local model, CPU", [live_cpu], "s"),
        Line("A live step ÷ a cached one, CPU", [1000 * live_cpu / cached], target=Target("≥", 100)),
    ]


def play(folder: Path, *, python: Path | None = None, **params: Any) -> Run:
    """One run by hand, in a folder and with a data root of its own. Raises BenchmarkError."""
    place = Path(tempfile.mkdtemp(dir=folder))
    mode, seed = str(params.pop("mode", "direct")), int(params.pop("seed", 3))
    config = {"algo": mode, "env_id": "FrozenLake-v1", "seed": seed, "params": params}
    (place / "config.json").write_text(json.dumps(config))
    environment = {**os.environ, "MOSAIC_HOME": str(folder / "home"), "MOSAIC_TENSORBOARD": "0", "OPENAI_API_KEY": KEY}
    if python is not None:
        environment["MOSAIC_LLM_LOCAL_PYTHON"] = str(python)
    command = [sys.executable, "-m", "llm_worker.cli", "--config", "config.json"]
    with (place / "said").open("wb") as said:
        process = subprocess.Popen(command, cwd=place, env=environment, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise BenchmarkError(f"the run failed: {(place / 'said').read_text(errors='replace')[-400:]}")
    (made,) = (place / "runs").iterdir()
    episodes = list(read_episodes(Recording(made / "outbox", {"kind": "run"}).chunks()))
    exchanges = [one[DIALOGUE] for episode in episodes for _, one in sorted(episode.extras.items())]
    return Run(
        sum(map(len, episodes)),
        [float(sum(episode.rewards)) > 0 for episode in episodes],
        used.ru_utime + used.ru_stime,
        exchanges,
        tokens_of(made / "llm" / "ledger.jsonl"),
    )
