"""How many steps a run made itself, for speeds and estimates: a resumed run counts on from its checkpoint's step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gym_gui.services.run_labels import config_of, worker_settings
from mosaic_protocol.checkpoint_manifest import step_of
from mosaic_protocol.settings_spelling import start_of

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb


def first_step(run: pb.Run) -> int:
    """The step that a run was resumed at, as the name of its checkpoint says; 0 for any other run."""
    if "resume" not in run.config_json:  # most runs: their configs need not be read
        return 0
    start = start_of(worker_settings(config_of(run.config_json)))
    if start is None or start[0] != "resume":
        return 0
    return step_of(Path(start[1])) or 0


def own_steps(run: pb.Run) -> int:
    """The steps that it made in its own time. A worker that counts from 0 again after a resume is believed, too."""
    last, first = int(run.last_step), first_step(run)
    return last - first if last >= first else last


def own_speed(run: pb.Run) -> float:
    """Steps per second of training, 0 where nobody can tell."""
    return own_steps(run) / run.active_seconds if run.active_seconds > 0 else 0.0
