"""``python -m llm_worker.cli``: one run of a language model. Started by the trainer daemon, or by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mosaic_worker.settings import Settings
from mosaic_worker.worker_main import run_worker

if TYPE_CHECKING:
    from mosaic_worker.training.session import TrainingSession


def check(settings: Settings) -> dict[str, Any]:
    """Refuse what cannot run before it starts; no server is asked."""
    from contextlib import closing

    from llm_worker.describing.choice import describer_for
    from llm_worker.environments import make_env
    from llm_worker.settings import check_model, read_params

    told = read_params(settings.algo, settings.params, settings.seed)
    check_model(told)
    with closing(make_env(settings.env_id, settings.params)) as env:
        describer = describer_for(env)
    return {
        "server": "this machine" if told.is_local else told.base_url,
        "describer": describer.family,
        "actions": list(describer.actions),
        "prompt": str(told.template.path),
        "price_known": told.price is not None,
    }


def train(session: TrainingSession, settings: Settings) -> None:
    from contextlib import ExitStack

    from llm_worker.playing.runner import LLMRunner

    with ExitStack() as living:
        LLMRunner(session, settings, living).run()


if __name__ == "__main__":
    run_worker(Path(__file__).parent, train, check)
