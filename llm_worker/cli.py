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

    from llm_worker.client.keys import find_key
    from llm_worker.describing.choice import describer_for, require_pictures
    from llm_worker.environments import make_env
    from llm_worker.playing.examples import examples_text
    from llm_worker.playing.preview import first_prompt
    from llm_worker.settings import check_model, read_params

    told = read_params(settings.algo, settings.params, settings.seed)
    check_model(told)
    with closing(make_env(settings.env_id, settings.params)) as env:
        describer = describer_for(env)
        if told.sees:
            require_pictures(env, describer, settings.seed)
        # Who gives a run's name has its steps copied when it is submitted: there is nothing to read yet.
        is_there = Path(str(settings.params["examples_from"] or "")).is_dir()
        examples = examples_text(settings, describer) if is_there and not settings.resume else ""
        asked = first_prompt(told, env, describer, settings.env_id, examples)
    return {
        "server": "this machine" if told.is_local else told.base_url,
        "has_key": bool(not told.is_local and find_key(told.key_env, told.base_url)),
        "describer": describer.family,
        "actions": list(describer.actions),
        "prompt": str(told.template.path),
        "price": told.price.as_words() if told.price is not None else "",
        "asks_first": asked,
    }


def train(session: TrainingSession, settings: Settings) -> None:
    from contextlib import ExitStack

    from llm_worker.playing.runner import LLMRunner

    with ExitStack() as living:
        LLMRunner(session, settings, living).run()


if __name__ == "__main__":
    run_worker(Path(__file__).parent, train, check)
