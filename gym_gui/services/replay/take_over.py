"""A session that begins at a step of a recorded episode: what its run is told.

The session is given the recording of the episode and plays its actions again up to the step, which leads to the very
state: seed, settings and actions decide it. Those steps are recorded in the new run as well, so that its own replay
needs nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gym_gui.services.beginnings import EPISODE, RECORDING, STEP, copies_of, copy_for
from gym_gui.services.play_sessions import Seated, SessionWish
from gym_gui.services.recorded_steps import StepSource
from gym_gui.services.run_words import PLAY
from gym_gui.services.trained_worlds import made_with
from mosaic_protocol.events import StepChunk
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.steps.recorded_episodes import read_episodes
from mosaic_protocol.steps.recordings import EVALUATION, Recording, is_recording
from mosaic_protocol.whole_files import drafted_folder, settle

_LONGEST_NAME = 100
_OF_THE_SESSION = frozenset(
    {"actor", "checkpoint", "deterministic", "script", "episodes", "speed", "seats", RECORDING, EPISODE, STEP}
)
"""Parameters of a session that say who plays and for how long, not which game it is."""


class TakeOverError(ValueError):
    """Nobody can take over there; ``str()`` is one sentence."""


def taken_over(
    source: StepSource, paths: MosaicPaths, episode: int, step: int, actor: Seated = "human", checkpoint: str = ""
) -> SessionWish:
    """The session that begins there, with somebody in the seat. Keeps a copy of a run's episode, because the run may
    be removed before the session starts. Blocking. Raises :class:`TakeOverError`."""
    first = next(source.chunks(episode), None)
    if first is None:
        raise TakeOverError(f"{source.name} has no recorded episode {episode}: `mosaic episodes` lists those there are")
    settings = source.about.get("settings")
    named = settings.get("env_id") if isinstance(settings, dict) else ""
    env_id = str(source.about.get("env_id") or named or "")
    if not env_id:
        raise TakeOverError(f"nobody knows which environment {source.name} was recorded in")
    params = {
        **game_settings(source.about),
        RECORDING: str(_kept(source, paths, episode)),
        EPISODE: episode,
        STEP: step,
    }
    name = str(source.about.get("run_name") or "")
    run_name = f"{name[:_LONGEST_NAME]}-taken-over" if name else ""
    return SessionWish(env_id, actor=actor, checkpoint=checkpoint, params=params, run_name=run_name)


def policy_at(about: Mapping[str, Any], extras: Mapping[int, Mapping[str, Any]], place: int) -> str:
    """The folder of the checkpoint that played last before a place, as the record says; empty where none did, or where
    it is not there any more."""
    evaluated = about.get("checkpoint")
    told = [evaluated.get("path") if isinstance(evaluated, dict) else None]
    told += [extras[step].get("checkpoint") for step in sorted(extras) if step <= place]
    named = [one for one in told if isinstance(one, str) and one]
    return named[-1] if named and Path(named[-1]).is_dir() else ""


def policy_of_then(source: StepSource, episode: int, place: int) -> str:
    """:func:`policy_at` of an episode that is not read yet. Blocking."""
    recorded = next(iter(read_episodes(source.chunks(episode), episode)), None)
    return policy_at(source.about, recorded.extras if recorded is not None else {}, place)


def game_settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """What of a recording's settings decides how its environment is made."""
    settings = about.get("settings")
    params = settings.get("params") if isinstance(settings, dict) else None
    if about.get("kind") == EVALUATION or not isinstance(params, dict):
        return {}
    if about.get("worker") == PLAY:
        return {name: value for name, value in params.items() if name not in _OF_THE_SESSION}
    return made_with(str(about.get("worker") or ""), params)


def _kept(source: StepSource, paths: MosaicPaths, episode: int) -> Path:
    """A folder that stays: the recording's own, or a copy of the episode, until its run is removed for good. Raises
    TakeOverError."""
    if source.folder is not None:
        return source.folder
    try:
        return _copied(source, paths, str(source.about.get("run_id") or "run"), episode)
    except OSError as error:
        said = error.strerror or error
        raise TakeOverError(f"episode {episode} cannot be copied to {paths.beginnings}: {said}") from error


def _copied(source: StepSource, paths: MosaicPaths, run_id: str, episode: int) -> Path:
    """A copy is whole or not there, and never changes: others may take over the same episode, or be reading it."""
    recorded = 0

    def counted() -> Iterator[StepChunk]:
        nonlocal recorded
        for record in source.chunks(episode):
            recorded = record.first_step + record.count
            yield record

    with drafted_folder(copies_of(paths, run_id, episode)) as draft:
        Recording.new(draft, source.about).add(counted())
        folder = copy_for(paths, run_id, episode, recorded)
        try:
            settle(draft, folder)
        except OSError:
            if not is_recording(folder):
                raise
    return folder
