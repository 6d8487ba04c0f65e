"""What a run would take, said before it starts: time and disk from earlier runs, and a warning before it takes days.

The same for the command line and the form. Reads manifests and walks folders: not for a thread that must not wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.services.run_estimate import Caution, Estimate, caution, estimate, with_space
from mosaic_protocol.checkpoint_manifest import step_of
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.provenance import cpu_model
from mosaic_protocol.run_manifest import read_manifest
from mosaic_protocol.settings_spelling import start_of

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb


@dataclass(frozen=True)
class Outlook:
    """Neither is there where there is nothing to say."""

    found: Estimate | None = None
    caution: Caution | None = None
    shortages: tuple[str, ...] = ()
    """What this machine has too little of; see :mod:`gym_gui.services.run_needs`."""

    @property
    def sentence(self) -> str:
        return "" if self.found is None else self.found.sentence()

    @property
    def warning(self) -> str:
        """In the words of the command line."""
        slow = () if self.caution is None else (self.caution.on_command_line(),)
        return "; ".join([*self.shortages, *slow])

    def as_object(self) -> dict[str, Any]:
        found = None if self.found is None else self.found.as_object()
        return {"estimate": found, "warning": self.warning or None}


def outlook(
    runs: Sequence[pb.Run],
    settings: Mapping[str, Any],
    worker_type: str,
    steps: int,
    *,
    gpus: int = 0,
    free_gpus: int = 0,
) -> Outlook:
    """Of a run that is to make so many steps, counted from the beginning also where it is resumed."""
    left = max(1, steps - begun_at(settings))
    found = estimate(runs, settings, left, worker_type, _is_of_this_machine)
    if found is not None:
        found = with_space(found, runs, settings, worker_type)
    return Outlook(found, caution(found, left, gpus=gpus, free_gpus=free_gpus))


def begun_at(settings: Mapping[str, Any]) -> int:
    """The step that a resumed run goes on from: what lies before it takes no time."""
    start = start_of(settings)
    return (step_of(Path(start[1])) or 0) if start is not None and start[0] == "resume" else 0


def _is_of_this_machine(run: pb.Run) -> bool:
    """A data root may have come from another machine, or be shared by several. Runs that do not say count."""
    around = read_manifest(RunPaths(Path(run.run_dir))).get("environment") if run.run_dir else None
    there = around.get("cpu_model") if isinstance(around, dict) else None
    return there is None or there == cpu_model()
