"""``python -m benchmarks.checkpoint_probe SCRIPT FLAGS…``: train with one of MOSAIC's scripts and time its checkpoints.

Prints one JSON object: milliseconds that the training thread was held up by each checkpoint that is not the last
(`held_up`), and that writing each one took beside it (`written`).
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

from mosaic_worker.state import checkpoints
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.session import TrainingSession

held_up: list[float] = []
written: list[float] = []
_captures: list[float] = []


def timed(call: Callable[..., Any], milliseconds: list[float]) -> Callable[..., Any]:
    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        began = time.perf_counter()
        try:
            return call(*arguments, **keywords)
        finally:
            milliseconds.append((time.perf_counter() - began) * 1000)

    return wrapper


def main() -> None:
    name, *flags = sys.argv[1:]
    script = importlib.import_module(f"cleanrl_worker.cleanrl.{name}")
    original = TrainingSession.save_checkpoint
    hand_over: list[float] = []

    def save(session: TrainingSession, *arguments: Any, required: bool = True, **keywords: Any) -> Any:
        answer = timed(original, hand_over)(session, *arguments, required=required, **keywords)
        if not required:
            held_up.append(_captures[-1] + hand_over[-1])
        return answer

    TrainingSession.save_checkpoint = save  # type: ignore[method-assign, assignment]
    TrainingState.capture = timed(TrainingState.capture, _captures)  # type: ignore[method-assign]
    checkpoints.save = timed(checkpoints.save, written)
    sys.argv = [name, *flags]
    with redirect_stdout(sys.stderr):
        status = script.main()
    if status:
        sys.exit(status)
    print(json.dumps({"held_up": held_up, "written": written}))


if __name__ == "__main__":
    main()
