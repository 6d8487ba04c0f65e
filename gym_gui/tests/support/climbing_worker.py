"""A worker whose runs climb to a height that is a setting: a sweep over it is judged in a second. It holds, crashes,
stops with a checkpoint and goes on from there, and notes every step that it trains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_MANIFEST = """
schema = 1

[worker]
type = "climbing"
name = "Climber"
version = "1"
summary = "Climbs."
lane = "analytics"
module = "climbing_worker.cli"

[capabilities]
pause = true
checkpoint = true
resume = true
offline_inference = true
dry_run = true

[policies]
evaluate = "climbing_worker.evaluate"

[algorithms.climb]
summary = "Climbs to its height, a little with each step."
changeable_params = ["height", "turns"]
"""

_SCHEMA = {
    "properties": {
        "height": {"type": "number", "default": 1.0, "maximum": 1000},
        "turns": {"type": "integer", "default": 1},
        "mode": {"type": "string", "enum": ["up", "down"], "default": "up"},
        "pace": {"type": "number", "default": 0.0},
        "notes": {"type": "string", "default": ""},
        "gate": {"type": "string", "default": ""},
        "gate_at": {"type": "integer", "default": 0},
        "crash_at": {"type": "integer", "default": 0},
        "crashes": {"type": "integer", "default": 0},
    }
}

_CLI = """
import os
import time
from pathlib import Path

from mosaic_worker.errors import UsageError
from mosaic_worker.worker_main import run_worker


def check(settings):
    if settings.params["height"] > 100:
        raise UsageError("--height is above 100: nobody breathes there")
    return {}


def train(session, settings):
    import numpy as np

    from mosaic_worker.state.training_state import TrainingState

    class Climber:
        place = np.zeros(1)

    params, climber, state = settings.params, Climber(), TrainingState()
    state.table("place", climber, "place")
    session.restore(state, settings.resume, settings.warm_start)
    session.begin(settings.total_timesteps)
    step, notes = session.step, Path(params["notes"]) if params["notes"] else None
    name = f"{params['height']!r}-{settings.seed}"
    while step < settings.total_timesteps:
        session.safe_point(step)
        while step + 1 == params["gate_at"] and not Path(params["gate"]).exists() and not session.stop_requested:
            time.sleep(0.01)
            session.safe_point(step)
        if session.stop_requested:
            break
        step += 1
        climber.place += params["height"]
        session.scalars(step, {"charts/episodic_return": float(climber.place[0]) / step * (step / 10 + 1)})
        if notes:
            with (notes / name).open("a") as file:
                file.write(f"{step} {os.environ['MOSAIC_RUN_ID']}\\n")
        crashed = notes / f"crashed-{params['crashes']}" if notes and params["crashes"] else None
        so_often = crashed.stat().st_size if crashed and crashed.exists() else 0
        if crashed and step >= params["crash_at"] and so_often < params["crashes"]:
            with crashed.open("a") as file:
                file.write("x")
            session.save_checkpoint(step, *state.capture())
            os._exit(9)
        time.sleep(params["pace"])
    session.save_checkpoint(step, *state.capture())


if __name__ == "__main__":
    run_worker(Path(__file__).parent, train, check)
"""


_EVALUATE = """
import argparse
import json
import os
import time
from pathlib import Path

from mosaic_protocol.checkpoint_manifest import read_manifest
from mosaic_worker.supervision.launcher import die_with_parent

parser = argparse.ArgumentParser()
for name in ("--checkpoint", "--episodes", "--seed", "--mode", "--jobs", "--parent"):
    parser.add_argument(name)
given = parser.parse_args()
die_with_parent(int(given.parent))
manifest = read_manifest(Path(given.checkpoint))
notes = Path(manifest.args["notes"])
with (notes / "evaluations").open("a") as file:
    file.write(f"{os.getpid()} {given.checkpoint}\\n")
while (notes / "hold").exists():
    time.sleep(0.01)
episodes, value = int(given.episodes), manifest.args["height"] + manifest.step / 1000
told = {"algo": manifest.algo, "env_id": manifest.env_id, "step": manifest.step, "sha256": manifest.tensor_sha256}
figures = {"episodes": episodes, "mean": value, "iqm": value, "returns": [value] * episodes}
told |= {"seed": int(given.seed), "episodes": episodes, "complete": True, "notes": [], "wall_seconds": 0.0}
print(json.dumps({"at": "result", **told, "results": {given.mode: figures}}), flush=True)
"""


def climbing_worker(folder: Path) -> Path:
    """The folder, to be named in MOSAIC_WORKER_PATH."""
    package = folder / "climbing_worker"
    package.mkdir(parents=True)
    files = {"worker.toml": _MANIFEST, "cli.py": _CLI, "__init__.py": "", "config.schema.json": json.dumps(_SCHEMA)}
    files["evaluate.py"] = _EVALUATE
    for name, text in files.items():
        (package / name).write_text(text)
    return folder


def climb_config(total: int, **params: Any) -> dict[str, Any]:
    """The run config that the trials of a sweep change."""
    settings = {"algo": "climb", "total_timesteps": total, "params": params}
    return {
        "run_name": "climb",
        "resources": {"cpus": {"requested": 1}},
        "artifacts": {"tensorboard": {"enabled": False}},
        "metadata": {"worker": {"type": "climbing", "module": "climbing_worker.cli", "config": settings}},
    }
