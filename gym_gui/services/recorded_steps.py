"""Where recorded steps come from: a run that the daemon knows, or the folder of a recorded evaluation. Needs no Qt."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.services.passing_folder import passing_folder
from gym_gui.services.run_words import called
from gym_gui.services.worker_tools import ToolError, ToolRefusedError, WorkerTool
from mosaic_protocol.events import StepChunk
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.steps.recordings import EVALUATION, RUN, Recording, is_recording
from mosaic_protocol.worker_manifest import WorkerManifest, discover

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

REPLAY_MODULE = "mosaic_worker.replay"


@dataclass(frozen=True)
class StepSource:
    """Recorded steps, with what is known of how they came about."""

    name: str
    """What to call it in a sentence."""
    about: Mapping[str, Any]
    """As :mod:`mosaic_protocol.steps.recordings` describes."""
    chunks: Callable[[int | None], Iterator[StepChunk]]
    """All chunks, or those that hold steps of one episode."""
    folder: Path | None = None
    """Where they are, when that is a folder of their own."""

    @contextmanager
    def as_folder(self, episode: int | None = None, *, description_only: bool = False) -> Iterator[Path]:
        """A folder for a process of the worker to read; one of a run holds the episode alone, and goes afterwards.
        Raises ToolRefusedError where it cannot be written."""
        if self.folder is not None:
            yield self.folder
            return
        with ExitStack() as passing:
            try:
                place = passing.enter_context(passing_folder("replay"))
                recording = Recording.new(place, self.about)
                if not description_only:
                    recording.add(self.chunks(episode))
            except OSError as error:
                said = f"{error.strerror or error} in {tempfile.gettempdir()}; TMPDIR names another folder"
                raise ToolRefusedError(f"the steps of {self.name} cannot be handed to the replay: {said}") from error
            yield recording.folder

    def manifest(self) -> WorkerManifest:
        """The worker that recorded. Raises ToolRefusedError where it is not installed."""
        wanted, workers = str(self.about.get("worker", "")), discover().workers
        if wanted not in workers:
            raise ToolRefusedError(
                f"{self.name} was recorded by the worker {wanted!r}, which is not installed here: "
                "`mosaic workers` lists those that are"
            )
        return workers[wanted]


def of_folder(folder: Path) -> StepSource:
    """Raises :class:`~mosaic_protocol.steps.recordings.RecordingError`."""
    recording = Recording.at(folder)
    return StepSource(folder.name, recording.about, recording.chunks, folder)


def of_run(client: TrainerClient, run: pb.Run) -> StepSource:
    return StepSource(called(run), about_run(run), lambda episode: client.step_chunks(run.run_id, episode=episode))


def about_run(run: pb.Run) -> dict[str, Any]:
    """What :mod:`mosaic_protocol.steps.recordings` says of a run's steps."""
    config = json.loads(run.config_json)
    # As the worker's file has them: these two are always there.
    settings = {"params": {}, "extras": {}, **config.get("metadata", {}).get("worker", {}).get("config", {})}
    about = {"kind": RUN, "worker": run.worker_type, "algo": run.algo, "env_id": run.env_id, "settings": settings}
    return about | {"run_id": run.run_id, "run_name": run.name}


def folder_meant(word: str) -> Path | None:
    """The recording that somebody names by its folder; None for the name of a run."""
    folder = Path(word)
    return folder.absolute() if ("/" in word or folder.is_dir()) and is_recording(folder) else None


def replay(
    source: StepSource, paths: MosaicPaths, folder: Path, words: list[str], *, holds: tuple[int, ...] = ()
) -> WorkerTool:
    """Start the process that simulates episodes again, and keeps the descriptors it ``holds``. Raises ToolError."""
    return WorkerTool(source.manifest(), paths, REPLAY_MODULE, ["--recording", str(folder), *words], holds=holds)


def described(source: StepSource, paths: MosaicPaths) -> tuple[dict[str, Any], str]:
    """What the environment of a recording says of itself, in a process of the worker that recorded, and why not where
    it cannot. Blocking."""
    try:
        with source.as_folder(description_only=True) as folder:
            words = ["--recording", str(folder), "--describe", "--parent", str(os.getpid())]
            with WorkerTool(source.manifest(), paths, REPLAY_MODULE, words) as tool:
                return list(tool.messages())[-1], ""
    except (ToolError, IndexError) as error:
        return {}, str(error)


def played_by(about: Mapping[str, Any]) -> dict[str, Any]:
    """Who or what a recording is of, for people and manifests."""
    names = ("kind", "run_id", "run_name", "worker", "algo", "env_id", "seed", "mode", "checkpoint")
    told = {name: about[name] for name in names if about.get(name) not in (None, "")}
    settings = about.get("args") if about.get("kind") == EVALUATION else about.get("settings")
    return {**told, "settings": settings or {}}
