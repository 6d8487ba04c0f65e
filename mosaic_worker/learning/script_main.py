"""The ``main`` of a script: arguments, environments, session, and one sentence for what cannot work."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

from mosaic_worker.state.checkpoints import CheckpointError
from mosaic_worker.training.arguments import parse
from mosaic_worker.training.session import TrainingSession, UsageError


def run_script(
    name: str,
    description: str,
    kind: type[Any],
    check: Callable[[Any], None],
    make_envs: Callable[[Any], Any],
    train: Callable[[Any, Any, TrainingSession], None],
    *,
    twin: str = "",
) -> int:
    """Run a script with the command line of this process; returns its exit status. `twin`: the script of the same
    algorithm in another library, whose networks it can begin with.

    0: done or stopped; 2: what was asked cannot be done; 1: it failed.
    """

    def work() -> None:
        args = parse(kind, description)
        check(args)
        with closing(make_envs(args)) as envs, TrainingSession.open(dataclasses.asdict(args), name) as session:
            session.twin = twin
            train(args, envs, session)

    return exit_status(name, work)


def exit_status(name: str, work: Callable[[], None]) -> int:
    """Do the work and say on stderr, in one sentence, why it could not be done."""
    try:
        work()
    except UsageError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except (FloatingPointError, CheckpointError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0
