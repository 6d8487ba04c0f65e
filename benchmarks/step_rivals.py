"""The same steps through other recorders, each as its documentation shows it: CPU time a step, in a process of its own.

``python -m benchmarks.step_rivals NAME STEPS`` records and prints the CPU seconds that it took, those of the processes
that the recorder started included. :func:`microseconds_a_step` runs it twice with different numbers and divides the
difference, so that starting up does not count.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from benchmarks.daemon import BenchmarkError
from benchmarks.machine import ROOT

Row = tuple[int, dict[str, float]]


def rows(steps: int) -> Iterator[Row]:
    """Steps as CartPole has them, six numbers each."""
    import numpy as np

    names = [f"observation/{place}" for place in range(4)]
    for number, observation in enumerate(np.random.default_rng(0).standard_normal((steps, 4)).tolist()):
        yield number, {**dict(zip(names, observation, strict=True)), "action": number & 1, "reward": 1.0}


def _wandb(steps: int, folder: Path) -> None:
    import wandb

    settings = wandb.Settings(mode="offline", silent=True, console="off")
    tracked = wandb.init(project="steps", dir=str(folder), settings=settings)
    for number, row in rows(steps):
        tracked.log(row, step=number)
    tracked.finish()


def _mlflow(steps: int, folder: Path) -> None:
    """In batches of a thousand numbers, the most that it takes: one call for each step is 40 times slower."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric

    client = MlflowClient(tracking_uri=folder.as_uri())
    run_id = client.create_run(client.create_experiment("steps")).info.run_id
    batch: list[Metric] = []
    for number, row in rows(steps):
        batch += [Metric(name.replace("/", "-"), value, 0, number) for name, value in row.items()]
        if len(batch) > 990:
            client.log_batch(run_id, batch)
            batch = []
    client.log_batch(run_id, batch)


def _mcap(steps: int, folder: Path) -> None:
    from mcap.writer import Writer

    with (folder / "steps.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start()
        schema = writer.register_schema("step", "jsonschema", b'{"type": "object"}')
        channel = writer.register_channel("steps", "json", schema)
        for number, row in rows(steps):
            writer.add_message(channel, number, json.dumps(row).encode(), number)
        writer.finish()


RIVALS: dict[str, tuple[str, Callable[[int, Path], None], int]] = {
    "wandb offline": ("wandb", _wandb, 20_000),
    "MLflow, files, in batches": ("mlflow", _mlflow, 20_000),
    "MCAP, a message each": ("mcap", _mcap, 100_000),
}
"""By title: the package, what records with it, and how many steps are enough."""


def installed() -> list[str]:
    return [title for title, (package, _, _) in RIVALS.items() if find_spec(package) is not None]


def microseconds_a_step(title: str, *, quick: bool = False) -> float:
    steps = RIVALS[title][2] // (5 if quick else 1)
    few, many = (_seconds(title, count) for count in (steps // 10, steps))
    return 1e6 * (many - few) / (steps - steps // 10)


def _seconds(title: str, steps: int) -> float:
    command = [sys.executable, "-m", "benchmarks.step_rivals", title, str(steps)]
    environment = {**os.environ, "MLFLOW_ALLOW_FILE_STORE": "true"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"{title} ended with status {done.returncode}: {done.stderr.strip()[-200:]}")
    return float(done.stdout.split()[-1])


def main() -> None:
    title, steps = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="mosaic-bench-") as folder:
        RIVALS[title][1](int(steps), Path(folder))
        who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        print(sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, who)))


if __name__ == "__main__":
    main()
