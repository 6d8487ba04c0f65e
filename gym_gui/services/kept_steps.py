"""The recorded steps of a run, kept for another one to learn from.

A worker reads no daemon: what somebody names by a run becomes a folder before the run is submitted. It holds every
recorded step as it is stored, and what the worker that recorded says of its environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gym_gui.services import beginnings, recorded_steps
from gym_gui.services.worker_tools import ToolFailedError, ToolRefusedError
from mosaic_protocol.datasets.registry import staged
from mosaic_protocol.events import RecordError
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.steps.chunk import ChunkError
from mosaic_protocol.steps.recordings import COPIED_STEPS, ENVIRONMENT, MOST_COPIED_STEPS, Recording, is_recording

if TYPE_CHECKING:
    from gym_gui.services.recorded_steps import StepSource
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

NEWEST = "last"


def placed(option: str, named: str, paths: MosaicPaths) -> str:
    """The folder that a parameter names by a folder or by a run. A copy that is gone is made again, as long as its run
    is there. Blocking; starts the daemon where none runs. Raises ToolRefusedError and ToolFailedError."""
    if (folder := recorded_steps.folder_meant(named)) is not None:
        return str(folder)
    path = Path(named).expanduser()
    run = beginnings.run_copied(paths, path)
    if "/" in named and not run:
        return str(path.absolute())  # the worker says what is wrong with it
    from gym_gui.services.trainer.client import NoSuchRunError, TrainerClient
    from gym_gui.services.trainer.errors import TrainerError

    try:
        with TrainerClient.connect(paths) as client:
            return str(_kept(client, _meant(client, run or named), paths))
    except NoSuchRunError as error:
        raise ToolRefusedError(f"{option}: {error}") from error
    except (ChunkError, RecordError) as error:
        raise ToolRefusedError(f"{option}: the recorded steps of {named} are damaged: {error}") from error
    except ToolRefusedError as error:
        raise ToolRefusedError(f"{option}: {error}") from error
    except TrainerError as error:
        raise ToolFailedError(f"{option}: {error}") from error
    except OSError as error:
        raise ToolFailedError(
            f"{option}: the steps cannot be copied to {paths.beginnings}: {error.strerror or error}"
        ) from error


def _meant(client: TrainerClient, named: str) -> pb.Run:
    newest = next(iter(client.runs(size=1).runs), None) if named == NEWEST else None
    return newest if newest is not None else client.run(named)


def _kept(client: TrainerClient, run: pb.Run, paths: MosaicPaths) -> Path:
    source = recorded_steps.of_run(client, run)
    totals = client.step_totals(run.run_id)
    there = totals.steps - totals.damaged - totals.trimmed
    if there <= 0:
        raise ToolRefusedError(f"{source.name} has no recorded steps: its worker records none, or has not begun")
    if there > MOST_COPIED_STEPS:
        raise ToolRefusedError(
            f"{source.name} has {there:,} recorded steps, of which at most {MOST_COPIED_STEPS:,} can be "
            "learned from: begin with its checkpoint, if it has one (--warm-start)"
        )
    folder = beginnings.copy_of_all(paths, run.run_id, totals.steps)
    if not is_recording(folder):
        _copy(source, folder, paths)
    return folder


def _copy(source: StepSource, folder: Path, paths: MosaicPaths) -> None:
    """Whole or not at all."""
    told, _ = recorded_steps.described(source, paths)
    about = dict(source.about) | ({ENVIRONMENT: told["env_spec"]} if told.get("env_spec") else {})
    try:
        with staged(folder) as draft:
            chunks = list(source.chunks(None))
            about[COPIED_STEPS] = sum(chunk.count for chunk in chunks)
            Recording.new(draft, about).add(iter(chunks))
    except OSError:
        if not is_recording(folder):  # another command was faster
            raise
