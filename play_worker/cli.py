"""``python -m play_worker.cli``: one live session. Started by the trainer daemon, or by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mosaic_worker.settings import Settings
from mosaic_worker.worker_main import run_worker

if TYPE_CHECKING:
    from mosaic_worker.training.session import TrainingSession


def check(settings: Settings) -> dict[str, Any]:
    """Refuse what cannot be played before the run starts; a dry run asks the same."""
    from mosaic_worker.recording.video import choose_display_drivers

    choose_display_drivers(windows=False)  # before anything is imported that draws
    from play_worker.beginning import Beginning
    from play_worker.film import require_film
    from play_worker.seating import first_wishes
    from play_worker.stage import Stage, with_keys

    first_wishes(settings.params)
    Beginning.asked_for(settings.params)
    if settings.params.get("frames"):
        require_film()
    stage = with_keys(Stage(settings.env_id, settings.params), settings.params)
    stage.close()
    return {"family": stage.family, "turns": "wait" if stage.waits else "run"}


def play(session: TrainingSession, settings: Settings) -> None:
    """One session, from its first episode to its end."""
    from contextlib import closing

    from play_worker.play import Play

    with closing(Play(session, settings)) as running:
        running.run()


if __name__ == "__main__":
    run_worker(Path(__file__).parent, play, check)
