"""Episodes of people or policies, as examples for a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from llm_worker.describing.describer import Describer
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.steps.chunk import ChunkError
from mosaic_protocol.steps.columns import join
from mosaic_protocol.steps.recorded_episodes import FormError, RecordedEpisode, read_episodes
from mosaic_protocol.steps.recordings import Recording, RecordingError
from mosaic_worker.errors import UsageError
from mosaic_worker.settings import Settings

_OPTION = "--examples-from"
_MOST_STEPS = 30
"""Of one example; of a longer episode the last ones."""


def examples_text(settings: Settings, describer: Describer) -> str:
    """The best recorded episodes in words; "" where none are wanted. Raises UsageError."""
    params = settings.params
    if not params["examples_from"]:
        return ""
    folder = Path(str(params["examples_from"])).expanduser()
    actor = str(params["examples_actor"])
    try:
        recording = Recording.at(folder)
        episodes = [
            one
            for one in read_episodes(recording.chunks())
            if len(one) and not one.has_hole and (not actor or all(name == actor for name in one.actors))
        ]
    except (RecordingError, ChunkError, OSError) as error:
        hint = "" if "/" in str(params["examples_from"]) else "; `mosaic train` copies the steps of a run that you name"
        raise UsageError(f"{_OPTION}: {one_line(str(error))}{hint}") from error
    there = recording.about.get("env_id")
    if isinstance(there, str) and there and there != settings.env_id:
        raise UsageError(f"{_OPTION}: it was recorded in {one_line(there)}, and this run plays {settings.env_id}")
    if not episodes:
        whose = f" that {one_line(actor)} played to its end alone" if actor else ""
        raise UsageError(f"{_OPTION}: {folder} has no whole episode{whose}")
    episodes.sort(key=lambda one: (-float(np.sum(one.rewards)), len(one)))
    try:
        return "\n\n".join(_told(one, describer) for one in episodes[: int(params["examples"])])
    except (FormError, KeyError, IndexError, TypeError, ValueError) as error:
        raise UsageError(f"{_OPTION}: its steps do not fit {settings.env_id}: {one_line(str(error))}") from error


def _told(episode: RecordedEpisode, describer: Describer) -> str:
    places = range(len(episode))
    seen = [describer.describe(join(list(episode.observation(one).items()))).text for one in places]
    words = [describer.actions[int(episode.action(one))] for one in places]
    lines = [f"{what}\n-> {word}" for what, word in zip(seen, words, strict=True)][-_MOST_STEPS:]
    return "\n".join([*lines, f"(return {float(np.sum(episode.rewards)):g})"])
