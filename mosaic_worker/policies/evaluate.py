"""``python -m mosaic_worker.policies.evaluate``: play episodes with a checkpoint and report how it did.

Answers with JSON lines: ``{"at": "ready", …}`` once the policy is loaded, ``{"at": "episode", …}`` for each episode,
``{"at": "progress", …}`` now and then within long ones, and last ``{"at": "result", …}``. SIGTERM ends it with the
result of the episodes that were finished; SIGINT is left to the process that started it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from mosaic_worker.errors import UsageError
from mosaic_worker.policies.answers import refuse, take_over_stdout, tell, worker_package
from mosaic_worker.supervision.launcher import die_with_parent

if TYPE_CHECKING:
    from mosaic_worker.policies.acting import LoadedPolicy

MODES = {
    "deterministic": ("deterministic",),
    "sampled": ("sampled",),
    "both": ("deterministic", "sampled"),
    "random": ("random",),
}
"""``random`` asks no policy: actions are drawn from the space, in the environment that the policy knows."""
_MOST_USUAL_JOBS = 4


def main(worker: Path | None = None) -> int:
    """Evaluate a checkpoint of a worker, given by the folder of its package; see :func:`worker_package`."""
    worker = worker_package(worker)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it here as well; the request to end is SIGTERM
    options = _parser(worker).parse_args()
    answers = take_over_stdout()
    if options.parent:
        die_with_parent(options.parent)

    os.environ["OMP_NUM_THREADS"] = "1"  # networks this small are slower on more, and threads do not survive a fork
    from mosaic_worker.policies.acting import load_acting
    from mosaic_worker.policies.evaluation_team import EvaluationError
    from mosaic_worker.state.checkpoints import CheckpointError

    try:
        return Evaluation(load_acting(options.checkpoint, worker), options, answers, worker).run()
    except (CheckpointError, UsageError) as error:
        return refuse(worker, error)
    except EvaluationError as error:
        refuse(worker, error)
        return 1
    except BrokenPipeError:
        return 1


def _parser(worker: Path) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{worker.name}: evaluate", description=__doc__, allow_abbrev=False)
    parser.add_argument("--checkpoint", type=Path, required=True, help="directory of the checkpoint")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--mode", choices=MODES, default="both")
    parser.add_argument("--env-id", help="another environment with the same spaces")
    parser.add_argument("--jobs", type=int, help="processes that play side by side")
    parser.add_argument("--steps", type=int, help="end with the episode that reaches so many, however few they are")
    parser.add_argument("--record", type=Path, help="directory for every step, and clips of some episodes")
    parser.add_argument("--no-clips", action="store_true", help="record steps alone")
    parser.add_argument("--actor", default="policy", help="who is said to have acted in recorded steps")
    parser.add_argument("--seeds", type=whole_numbers, help="seeds of the environments, an episode for each: 3,4,7")
    parser.add_argument("--rules", type=json.loads, help="JSON: refuse an environment that is not this one")
    parser.add_argument("--parent", type=int, help="end with this process")
    return parser


def whole_numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


class Evaluation:
    """One evaluation from the first episode to the result."""

    def __init__(self, loaded: LoadedPolicy, options: argparse.Namespace, answers: TextIO, worker: Path) -> None:
        self.loaded, self.options, self.answers, self.worker = loaded, options, answers, worker
        if options.seeds is not None:
            options.episodes = len(options.seeds)
        usual = min(len(os.sched_getaffinity(0)), _MOST_USUAL_JOBS)
        self.jobs: int = min(options.jobs or usual, max(1, options.episodes // 2))
        self.stopped = False
        self.results: dict[str, Any] = {}

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._on_terminate)
        tell(self.answers, at="ready", **self._about())
        began = time.monotonic()
        for mode in MODES[self.options.mode]:
            if not self.stopped:
                self._measure(mode)
        seconds = round(time.monotonic() - began, 3)
        about = self._about() | self._recorded()
        tell(self.answers, at="result", **about, wall_seconds=seconds, results=self.results)
        return 0

    def _recorded(self) -> dict[str, Any]:
        if self.options.record is None:
            return {}
        videos = sorted(str(file) for file in self.options.record.glob("*/*.mp4"))
        notes = self._about()["notes"]
        if not videos:
            notes.append("No video was recorded: the environment could not be rendered, or PyAV is not installed.")
        recordings = {mode: str(self.options.record / mode) for mode in self.results}
        return {"videos": videos, "recordings": recordings, "notes": notes}

    def _recording(self, mode: str) -> dict[str, Any]:
        """What a replay needs to know, and who played."""
        from mosaic_protocol.steps.recordings import EVALUATION
        from mosaic_protocol.worker_manifest import load_manifest
        from mosaic_worker.replay.environments import versions

        manifest = self.loaded.manifest
        played = {"path": str(self.options.checkpoint), "step": manifest.step, "sha256": manifest.tensor_sha256}
        about = {"kind": EVALUATION, "worker": load_manifest(self.worker).type, "algo": manifest.algo, "mode": mode}
        environment = {"env_id": self.options.env_id or manifest.env_id, "args": manifest.args}
        return {**about, **environment, "seed": self.options.seed, "checkpoint": played, "versions": versions()}

    def _about(self) -> dict[str, Any]:
        manifest = self.loaded.manifest
        return {
            "algo": manifest.algo,
            "env_id": self.options.env_id or manifest.env_id,
            "step": manifest.step,
            "sha256": manifest.tensor_sha256,
            "seed": self.options.seed,
            "episodes": self.options.episodes,
            "complete": not self.stopped,
            "notes": list(manifest.lineage.get("notes", [])),
        }

    def _measure(self, mode: str) -> None:
        from mosaic_worker.policies.evaluation import Episode, summary
        from mosaic_worker.policies.evaluation_team import Steps, Task, play

        about = (self.loaded, self.options.env_id, self.options.seed, mode == "deterministic", mode == "random")
        record = self.options.record
        task = Task(*about, seeds=self.options.seeds, rules=self.options.rules)
        if record:
            clips = not self.options.no_clips
            recording = {"record": record / mode, "about": self._recording(mode)}
            task = replace(task, **recording, actor=self.options.actor, clips=clips)
        episodes: list[Episode] = []
        steps = 0
        for event in play(task, self.options.episodes, self.jobs, lambda: self.stopped):
            if isinstance(event, Steps):
                tell(self.answers, at="progress", mode=mode, steps=event.count)
            else:
                episodes.append(event)
                told = {"number": event.number, "return": event.total, "length": event.length}
                tell(self.answers, at="episode", mode=mode, **_plain(told))
                steps += event.length
                if self.options.steps is not None and steps >= self.options.steps:
                    break
        self.results[mode] = summary(episodes)

    def _on_terminate(self, *_: object) -> None:
        self.stopped = True


def _plain(told: dict[str, float]) -> dict[str, float | None]:
    """JSON knows no infinity, and a broken environment may well give one."""
    return {name: value if abs(value) < float("inf") else None for name, value in told.items()}


if __name__ == "__main__":
    sys.exit(main())
