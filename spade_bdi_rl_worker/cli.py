"""``python -m spade_bdi_rl_worker.cli``: one run of BDI agents. Started by the trainer daemon, or by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mosaic_worker.settings import Settings
from mosaic_worker.worker_main import run_worker

if TYPE_CHECKING:
    from mosaic_worker.training.session import TrainingSession


def check(settings: Settings) -> dict[str, Any]:
    """Refuse what cannot run before it starts: the environment, plans that cannot be read, the server."""
    from spade_bdi_rl_worker.checks import check_run

    return check_run(settings)


def train(session: TrainingSession, settings: Settings) -> None:
    from contextlib import closing

    from spade_bdi_rl_worker.runner import SpadeBDIRunner

    runner = SpadeBDIRunner(session, settings)
    with closing(runner.crew):
        runner.run()


if __name__ == "__main__":
    run_worker(Path(__file__).parent, train, check)
