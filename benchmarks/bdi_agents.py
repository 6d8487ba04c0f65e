"""BDI agents: how many episodes a second with every step stored, how well they learn, what they cost while idle."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from statistics import mean
from typing import Any

from benchmarks.daemon import BenchDaemon, BenchmarkError, ScratchHome, wait_for
from benchmarks.machine import ROOT, SCRATCH, cpu_seconds, memory_mb
from benchmarks.report import Line, Section, Target
from mosaic_protocol.proto import trainer_pb2 as pb

NAME = "bdi_agents"
TITLE = "BDI agents"
METHOD = """\
The Spade BDI Worker through the daemon: a SPADE agent on a prosody of its own, AgentSpeak plans in charge, every step
and every mind stored. Episodes are those that the store has, by the seconds between the first and the last of them, and
by the CPU seconds of the worker's process from a look at its first steps to its end, with those recorded since. Not
slippery FrozenLake 4x4 unless a line says otherwise; what was learned is then judged without exploration: success in
the mean of 100 episodes there, and of 1,000 where the ground is slippery, over seeds. The optimum of a world is that of
value iteration on its own table. Stock spade_bdi: an agent of that package with one AgentSpeak cycle for each step of
that world, nothing recorded. It believes where it is and how its last episode ended, as ours believes outcome,
confidence and success; the last line is against one that believes nothing at all."""

WORKER = "spade_bdi_rl_worker"
SIXTEEN = "!learn.\n+!learn <- .run_episodes(explore, 16); !!learn.\n"


def run(*, quick: bool = False) -> Section:
    episodes, seeds = (20_000, 2) if quick else (200_000, 10)
    with ScratchHome() as paths, BenchDaemon(paths) as daemon:
        lines = [
            *_fast(daemon, episodes, rounds=1 if quick else 3),
            *_good(daemon, seeds, quick=quick),
            *_together(daemon, seeds),
            *_long(daemon, 500_000 if quick else 10_000_000),
            *_idle(daemon, 5.0 if quick else 30.0),
        ]
    return Section(NAME, TITLE, METHOD, lines)


def _config(name: str, env_id: str, algo: str, seed: int = 1, **params: Any) -> dict[str, Any]:
    worker = {"algo": algo, "env_id": env_id, "seed": seed, "params": params}
    module = {"type": WORKER, "module": f"{WORKER}.cli", "config": worker}
    return {"run_name": name, "resources": {}, "artifacts": {}, "metadata": {"worker": module}}


def _ended(daemon: BenchDaemon, config: dict[str, Any]) -> pb.Run:
    run = daemon.wait_state(daemon.client.submit(config).run.run_id, "TERM")
    if run.outcome != "completed":
        raise BenchmarkError(f"the run ended as {run.outcome}: {run.reason}")
    return run


# ---- how fast ----------------------------------------------------------------------------------------------------


def _fast(daemon: BenchDaemon, episodes: int, rounds: int) -> list[Line]:
    _ended(daemon, _config("first", "FrozenLake-v1", "q_learning", is_slippery=False, episodes=10))
    one = [_speed(daemon, episodes) for _ in range(rounds)]
    with tempfile.NamedTemporaryFile("w", suffix=".asl", dir=SCRATCH) as file:
        file.write(SIXTEEN)
        file.flush()
        sixteen = [_speed(daemon, episodes, plans=file.name) for _ in range(rounds)]
    count = 500 if rounds == 1 else 2000
    stock = [(_stock(count), _stock(count, "blind")) for _ in range(rounds)]
    return [
        Line("Episodes a second, one for each intention", [a for a, _, _ in one], "/s", Target("≥", 4200)),
        Line("The same, by CPU seconds of the worker", [b for _, b, _ in one], "/s"),
        Line("Steps a second meanwhile", [c for _, _, c in one], "/s"),
        Line(".run_episodes(16): episodes a CPU second", [b for _, b, _ in sixteen], "/s", Target("≥", 40_000)),
        Line(
            "Episodes a CPU second ÷ stock spade_bdi",
            [ours / theirs for (_, ours, _), (theirs, _) in zip(one, stock, strict=True)],
            "",
            Target("≥", 10),
        ),
        Line(
            "Episodes a CPU second ÷ stock spade_bdi without beliefs",
            [ours / theirs for (_, ours, _), (_, theirs) in zip(one, stock, strict=True)],
        ),
    ]


def _speed(daemon: BenchDaemon, episodes: int, **params: Any) -> tuple[float, float, float]:
    """Episodes by the clock, episodes by the worker's CPU time, steps by the clock. Of the CPU time only that after the
    first look counts, and so do only the episodes that were recorded after it."""
    config = _config("fast", "FrozenLake-v1", "q_learning", is_slippery=False, episodes=episodes, **params)
    run_id = daemon.client.submit(config).run.run_id
    pid = wait_for("the worker", lambda: daemon.client.run(run_id).pid)
    wait_for("the first steps", lambda: daemon.client.step_totals(run_id).steps)
    began, before, last = time.time(), cpu_seconds(pid), 0.0
    while daemon.client.run(run_id).state != "TERM":
        try:
            last = cpu_seconds(pid)
        except (OSError, BenchmarkError):
            break  # it is gone, and was looked at a moment ago
        time.sleep(0.02)
    run = daemon.wait_state(run_id, "TERM")
    if run.outcome != "completed":
        raise BenchmarkError(f"the run ended as {run.outcome}: {run.reason}")
    recorded = [episode.t for episode in daemon.client.episodes(run_id)]
    counted = sum(when >= began for when in recorded)
    seconds = recorded[-1] - recorded[0]
    totals = daemon.client.step_totals(run_id)
    return episodes / seconds, counted / max(last - before, 1e-9), totals.steps / seconds


def _stock(episodes: int, *how: str) -> float:
    """Episodes a CPU second of an agent of spade_bdi as it is, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.stock_bdi", str(episodes), *how]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise BenchmarkError(f"stock spade_bdi failed: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    return float(done.stdout.split()[-1])


# ---- how good ----------------------------------------------------------------------------------------------------


def _good(daemon: BenchDaemon, seeds: int, *, quick: bool) -> list[Line]:
    fixed = [_success(daemon, seed, 100, episodes=2000, is_slippery=False) for seed in range(1, 3)]
    slippery = [_success(daemon, seed, 1000, episodes=20_000, is_slippery=True) for seed in range(1, seeds + 1)]
    lines = [
        Line("FrozenLake 4x4: success after 2,000 episodes", fixed, target=Target("≥", 1.0), over_seeds=True),
        Line(
            "FrozenLake 4x4 slippery: success after 20,000 episodes, IQM",
            [_iqm(slippery)],
            target=Target("≥", 0.70),
        ),
        Line("The same, each seed", slippery, over_seeds=True),
    ]
    tasks: tuple[tuple[str, int, dict[str, Any]], ...] = (
        ("FrozenLake8x8-v1", 5000, {"is_slippery": False}),
        ("CliffWalking-v1", 3000, {}),
        ("Taxi-v4", 10_000, {}),
    )
    for env_id, episodes, params in tasks[: 1 if quick else 3]:
        reached = [_return(daemon, env_id, seed, episodes, params) for seed in (1, 2, 3)]
        best = _optimum(env_id, params)
        what = f"{env_id}: return after {episodes:,} episodes, below the optimum of {best:.2f}"
        shortfall = [100 * (best - one) / abs(best) for one in reached]
        lines.append(Line(what, shortfall, "%", Target("≤", 2.0), over_seeds=True))
    return lines


def _together(daemon: BenchDaemon, seeds: int) -> list[Line]:
    """Two agents with the plans ``pair`` against one with the same plans, which then has nobody to talk to."""
    alone = [mean(_needed(daemon, seed, "one=pair")) for seed in range(1, seeds + 1)]
    pairs = [mean(_needed(daemon, seed, "left=pair,right=pair")) for seed in range(1, seeds + 1)]
    ratios = [one / two for one, two in zip(alone, pairs, strict=True)]
    task = "FrozenLake 8x8: own episodes until half of the last 50 succeed"
    return [
        Line(f"{task}, alone", alone, over_seeds=True),
        Line(f"{task}, each of two that exchange values", pairs, over_seeds=True),
        Line("Alone ÷ in a pair, each seed", ratios, over_seeds=True),
        Line("Alone ÷ in a pair, lower end of the 95 % interval", [_lower_end(ratios)], target=Target(">", 1.0)),
    ]


def _needed(daemon: BenchDaemon, seed: int, agents: str) -> list[int]:
    """How many episodes each agent needed; all that it had where they were not enough."""
    exploring = {"epsilon": 0.1, "epsilon_end": 0.1, "alpha_end": 0.5}
    params = {"agents": agents, "episodes": 3000, "is_slippery": False, **exploring}
    run = _ended(daemon, _config("together", "FrozenLake8x8-v1", "q_learning", seed, **params))
    returns: dict[str, list[float]] = {}
    for episode in daemon.client.episodes(run.run_id):
        returns.setdefault(episode.agent_id, []).append(episode.total_reward or 0.0)
    return [_when_half_succeeds(one) for one in returns.values()]


def _when_half_succeeds(returns: Sequence[float], last: int = 50) -> int:
    ends = range(last, len(returns) + 1)
    return next((end for end in ends if 2 * sum(returns[end - last : end]) >= last), len(returns))


def _lower_end(values: Sequence[float], draws: int = 10_000) -> float:
    """Of the interval that holds the mean with 95 %, by the bootstrap."""
    chance = random.Random(1)
    means = sorted(mean(chance.choices(values, k=len(values))) for _ in range(draws))
    return means[draws * 25 // 1000]


def _success(daemon: BenchDaemon, seed: int, judged: int, **params: Any) -> float:
    run = _ended(daemon, _config("good", "FrozenLake-v1", "q_learning", seed, **params))
    return _evaluated(daemon, run, judged)


def _return(daemon: BenchDaemon, env_id: str, seed: int, episodes: int, params: dict[str, Any]) -> float:
    algo = "dyna_q" if env_id.startswith("Taxi") else "q_learning"
    run = _ended(daemon, _config("good", env_id, algo, seed, episodes=episodes, **params))
    return _evaluated(daemon, run, 1000 if env_id.startswith("Taxi") else 20)


def _evaluated(daemon: BenchDaemon, run: pb.Run, episodes: int) -> float:
    root = str(daemon.paths.root)
    words = ["--home", root, "eval", run.run_id, "--episodes", str(episodes), "--json"]
    command = [sys.executable, "-m", "gym_gui.cli", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise BenchmarkError(f"the evaluation failed: {done.stderr.strip()[-300:]}")
    return float(json.loads(done.stdout)["results"]["deterministic"]["mean"])


def _optimum(env_id: str, params: dict[str, Any]) -> float:
    """The undiscounted return of the policy that value iteration finds, in the mean over starts."""
    import gymnasium as gym
    import numpy as np

    with gym.make(env_id, **params) as env:
        inner: Any = env.unwrapped
        table, starts = inner.P, np.asarray(inner.initial_state_distrib)
    values = np.zeros(len(starts))
    for _ in range(10_000):
        before = values.copy()
        for state, actions in table.items():
            values[state] = max(
                sum(p * (reward + (0.0 if over else before[after])) for p, after, reward, over in outcomes)
                for outcomes in actions.values()
            )
        if np.abs(values - before).max() < 1e-9:
            break
    return float(starts @ values)


def _iqm(values: Sequence[float]) -> float:
    """The mean of the middle half, the samples at its edges by their share."""
    ordered, quarter = sorted(values), len(values) / 4
    weights = [max(0.0, min(place + 1, len(ordered) - quarter) - max(place, quarter)) for place in range(len(ordered))]
    return sum(w * v for w, v in zip(weights, ordered, strict=True)) / sum(weights)


# ---- for long ----------------------------------------------------------------------------------------------------


def _long(daemon: BenchDaemon, steps: int) -> list[Line]:
    """The memory of the worker after a tenth of the steps, and at the end."""
    config = _config("long", "FrozenLake-v1", "q_learning", is_slippery=True)
    config["metadata"]["worker"]["config"]["total_timesteps"] = steps
    run_id = daemon.client.submit(config).run.run_id
    pid = wait_for("the worker", lambda: daemon.client.run(run_id).pid)
    wait_for("a tenth of the steps", lambda: daemon.client.step_totals(run_id).steps > steps / 10, 600)
    tenth = last = memory_mb(pid)[0]
    while daemon.client.run(run_id).state != "TERM":
        try:
            last = memory_mb(pid)[0]
        except (OSError, BenchmarkError):
            break
        time.sleep(0.2)
    daemon.wait_state(run_id, "TERM")
    return [
        Line(f"Memory of the worker after {steps / 10:,.0f} steps", [tenth], "MB"),
        Line(f"Memory after {steps:,} steps ÷ after a tenth of them", [last / tenth], target=Target("≤", 1.1)),
    ]


# ---- at rest -----------------------------------------------------------------------------------------------------


def _idle(daemon: BenchDaemon, span: float) -> list[Line]:
    began = time.monotonic()
    with tempfile.NamedTemporaryFile("w", suffix=".asl", dir=SCRATCH) as file:
        file.write("!rest.\n+!rest <- .run_episode(explore).\n")
        file.flush()
        config = _config("idle", "FrozenLake-v1", "q_learning", plans=file.name, when_idle="wait", episodes=1000)
        run_id = daemon.client.submit(config).run.run_id
        wait_for("the first episode", lambda: daemon.client.step_totals(run_id).steps)
        seconds = time.monotonic() - began
        pid = daemon.client.run(run_id).pid
        time.sleep(2.0)
        before, started = cpu_seconds(pid), time.monotonic()
        time.sleep(span)
        share = 100 * (cpu_seconds(pid) - before) / (time.monotonic() - started)
        daemon.client.cancel(run_id)
        daemon.wait_state(run_id, "TERM")
    return [
        Line("From submit to the first stored episode", [seconds], "s", Target("<", 3.0)),
        Line("An agent without a goal", [share], "% of one core", Target("<", 3.0)),
    ]
