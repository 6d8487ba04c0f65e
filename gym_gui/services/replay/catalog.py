"""What can be replayed of a run: its recorded episodes, the clips that were filmed while it trained, and evaluations of
its checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gym_gui.services.recorded_steps import StepSource, about_run
from gym_gui.services.replay.episode_list import ListedEpisode, listed
from gym_gui.services.replay.recorded_evaluations import RecordedEvaluation, recorded_evaluations
from gym_gui.services.run_words import PLAY, called
from gym_gui.services.trainer.client import TrainerClient

if TYPE_CHECKING:
    from mosaic_protocol.events import StepChunk
    from mosaic_protocol.paths import MosaicPaths
    from mosaic_protocol.proto import trainer_pb2 as pb

MOST_READ_STEPS = 300_000
"""Of longer runs the list is made of what the daemon knows of episodes, without who acted in them."""
MOST_EPISODES = 1000
_VIDEOS = "videos"


@dataclass(frozen=True)
class Catalogue:
    """Episodes in the order of their numbers, clips by their names."""

    episodes: list[ListedEpisode] = field(default_factory=list)
    clips: list[Path] = field(default_factory=list)
    problem: str = ""
    """Why there is nothing, in one sentence."""
    left_out: int = 0
    """Older episodes that are not listed."""
    evaluations: list[RecordedEvaluation] = field(default_factory=list)
    """Of a run's checkpoints, the newest first; each has a list of its own."""


def source_of_run(paths: MosaicPaths, run: pb.Run) -> StepSource:
    """The steps of a run, read over a connection of its own each time: in any thread, whatever becomes of others."""

    def chunks(episode: int | None) -> Iterator[StepChunk]:
        with TrainerClient.connect(paths, start=False) as client:
            yield from client.step_chunks(run.run_id, episode=episode)

    return StepSource(called(run), about_run(run), chunks)


def catalogue_of_run(paths: MosaicPaths, run: pb.Run) -> Catalogue:
    """Raises :class:`~gym_gui.services.trainer.errors.TrainerError`, and ChunkError for damaged steps."""
    clips = clips_of(run)
    with TrainerClient.connect(paths, start=False) as client:
        ended = list(client.episodes(run.run_id, tail=MOST_EPISODES))
        steps = sum(one.length for one in ended)
        if steps <= MOST_READ_STEPS and len(ended) < MOST_EPISODES:
            episodes = list(listed(client.step_chunks(run.run_id)))
        else:
            episodes = [
                ListedEpisode(one.episode, one.seed, one.length, one.total_reward or 0.0, one.outcome, one.agent_id)
                for one in ended
            ]
    left_out = max(0, ended[0].episode) if len(ended) >= MOST_EPISODES else 0
    problem = "" if episodes or clips else _nothing(run)
    evaluations = recorded_evaluations(Path(run.run_dir)) if run.run_dir else []
    return Catalogue(episodes, clips, problem, left_out, evaluations)


def catalogue_of_folder(source: StepSource) -> Catalogue:
    """Of a recorded evaluation. Raises ChunkError for damaged steps."""
    clips = sorted(source.folder.glob("*.mp4")) if source.folder is not None else []
    episodes = list(listed(source.chunks(None)))
    return Catalogue(episodes, clips, "" if episodes or clips else f"{source.name} holds no recorded episode.")


def clips_of(run: pb.Run) -> list[Path]:
    """What was filmed while it trained, in the order of its steps."""
    folder = Path(run.run_dir) / _VIDEOS if run.run_dir else None
    if folder is None or not folder.is_dir() or run.algo == PLAY:  # the films of a session stand in for its replays
        return []
    return sorted((file for file in folder.rglob("*.mp4") if not file.name.startswith(".")), key=_step_of)


def films_of(run: pb.Run | None) -> Path | None:
    """Where a session kept pictures of its episodes, numbered as they are. (Clips of a training count otherwise.)"""
    folder = Path(run.run_dir) / _VIDEOS if run is not None and run.run_dir and run.algo == PLAY else None
    return folder if folder is not None and folder.is_dir() else None


def _step_of(clip: Path) -> tuple[int, str]:
    number = clip.stem.rpartition("-")[2]
    return (int(number) if number.isdigit() else 0, clip.name)


def _nothing(run: pb.Run) -> str:
    params = json.loads(run.config_json or "{}").get("metadata", {}).get("worker", {}).get("config", {})
    if run.worker_type == "play" or params.get("algo") == "play":
        return "Nothing was played in this session yet."
    return (
        "This run recorded no steps. Sessions do, and `mosaic eval --record` records what a checkpoint plays; "
        "with “Video” in the form a training keeps clips."
    )
