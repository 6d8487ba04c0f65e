"""``python -m mosaic_worker.policies.estimate``: what a checkpoint would earn, estimated from a dataset.

Answers with JSON lines: ``{"at": "progress", …}`` now and then, and last ``{"at": "result", …}`` with the estimates of
:mod:`mosaic_worker.offline.estimates`. SIGTERM ends it without a result.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from mosaic_worker.errors import UsageError
from mosaic_worker.policies.answers import refuse, take_over_stdout, tell, worker_package
from mosaic_worker.supervision.launcher import die_with_parent

if TYPE_CHECKING:
    from mosaic_worker.offline import OfflineDataset
    from mosaic_worker.policies.acting import LoadedPolicy

_PROGRESS_SECONDS = 0.5


def main(worker: Path | None = None) -> int:
    """Estimate a checkpoint of a worker, given by the folder of its package; see :func:`worker_package`."""
    worker = worker_package(worker)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it here as well; the request to end is SIGTERM
    options = _parser(worker).parse_args()
    answers = take_over_stdout()
    if options.parent:
        die_with_parent(options.parent)

    os.environ["OMP_NUM_THREADS"] = "1"  # networks this small are slower on more
    from mosaic_worker.offline import open_dataset
    from mosaic_worker.policies.acting import load_acting
    from mosaic_worker.state.checkpoints import CheckpointError

    try:
        with open_dataset(options.dataset) as dataset:
            tell(answers, at="result", **_estimated(load_acting(options.checkpoint, worker), dataset, options, answers))
        return 0
    except (CheckpointError, UsageError) as error:
        return refuse(worker, error)
    except BrokenPipeError:
        return 1


def _parser(worker: Path) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{worker.name}: estimate", description=__doc__, allow_abbrev=False)
    parser.add_argument("--checkpoint", type=Path, required=True, help="directory of the checkpoint")
    parser.add_argument("--dataset", required=True, help="the dataset to judge by")
    parser.add_argument("--discount", type=float, default=0.99, help="what a reward is still worth one step later")
    parser.add_argument("--updates", type=int, default=2000, help="gradient updates of each estimate")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--parent", type=int, help="end with this process")
    return parser


def _estimated(
    loaded: LoadedPolicy, dataset: OfflineDataset, options: argparse.Namespace, answers: TextIO
) -> dict[str, Any]:
    import numpy as np
    import torch

    from mosaic_worker.offline.estimates import Judge

    _check_fit(loaded, dataset)
    if not 0 <= options.discount < 1:
        raise UsageError(f"--discount must be at least 0 and less than 1, got {options.discount}")
    torch.set_num_threads(1)
    began, told_at = time.monotonic(), time.monotonic()
    action = loaded.manifest.spaces["action"]
    first, choices = int(action.get("start", 0)), int(action.get("n", 0))
    shape = tuple(loaded.manifest.spaces["observation"]["shape"])
    random = np.random.default_rng(options.seed)

    def seen(rows: Any) -> Any:
        """Flattened rows as the policy's environment shows them."""
        return rows.argmax(axis=1) if not shape else rows.reshape(len(rows), *shape)

    def act(rows: Any) -> Any:
        found = loaded.policy.act(seen(rows), deterministic=True, random=random)
        return found - first if choices else np.asarray(found, np.float32).reshape(len(rows), -1)

    def progress(done: int) -> bool:
        nonlocal told_at
        if time.monotonic() - told_at > _PROGRESS_SECONDS:
            told_at = time.monotonic()
            tell(answers, at="progress", done=done, updates=options.updates)
        return True

    probabilities = _probabilities(loaded, choices, seen)
    judge = Judge(dataset.transitions(), choices, options.discount, options.seed)
    return {
        "algo": loaded.manifest.algo,
        "env_id": loaded.manifest.env_id,
        "step": loaded.manifest.step,
        "sha256": loaded.manifest.tensor_sha256,
        "dataset": {**dataset.describe(), "rows": dataset.rows, "episodes": dataset.episodes},
        "discount": options.discount,
        "seed": options.seed,
        "behaviour": judge.behaviour().as_json(),
        "estimates": {
            "fitted_q": judge.fitted(act, options.updates, progress).as_json(),
            "weighted_importance": judge.weighted(act, probabilities, options.updates).as_json(),
        },
        "wall_seconds": round(time.monotonic() - began, 3),
    }


def _probabilities(loaded: LoadedPolicy, choices: int, seen: Any) -> Any:
    """How likely a policy of discrete actions is to take each, where it can say so."""
    appraise = getattr(loaded.policy, "appraise", None)
    if not choices or appraise is None or "probabilities" not in appraise(seen(_one_row(loaded))):
        return None
    return lambda rows: appraise(seen(rows))["probabilities"]


def _one_row(loaded: LoadedPolicy) -> Any:
    import numpy as np

    space = loaded.manifest.spaces["observation"]
    return np.zeros((1, int(space["n"]) if space["type"] == "Discrete" else int(np.prod(space["shape"]))), np.float32)


def _check_fit(loaded: LoadedPolicy, dataset: OfflineDataset) -> None:
    """Raise UsageError for data of other spaces than the policy's."""
    from mosaic_worker.policies.acting import brief_space
    from mosaic_worker.state.checkpoints import describe_space

    named = ("observation", dataset.observation_space), ("action", dataset.action_space)
    for what, space in named:
        here, there = describe_space(space), loaded.manifest.spaces[what]
        if any(here.get(key) != there.get(key) for key in ("type", "shape", "n", "start")):
            raise UsageError(
                f"the dataset {dataset.name!r} does not fit this policy of {loaded.manifest.env_id}: its {what}s are "
                f"{brief_space(here)}, the policy's {brief_space(there)}"
            )


if __name__ == "__main__":
    sys.exit(main())
