"""What a replay found: how many steps are as recorded, and whose fault the first difference is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mosaic_worker.replay.environments import make_env, versions
from mosaic_worker.replay.simulation import repeats_itself

if TYPE_CHECKING:
    from pathlib import Path

    from mosaic_protocol.steps.recordings import Recording
    from mosaic_worker.replay.comparing import Difference
    from mosaic_worker.replay.simulation import Replay

_NAMES = ("place", "number", "what", "recorded", "came")


def described(difference: Difference) -> dict[str, Any]:
    return {name: getattr(difference, name) for name in _NAMES} | {"sentence": str(difference)}


def whose_fault(replay: Replay, place: int, recording: Recording, worker: Path) -> dict[str, Any]:
    """Of a difference: ``repeats_itself``, for which the environment is simulated twice more, and ``other_versions``
    where the recording knows those that it was made with."""
    told: dict[str, Any] = {
        "repeats_itself": repeats_itself(replay.episode, lambda: make_env(recording.about, worker), place + 1)
    }
    before, now = recording.about.get("versions"), versions()
    if isinstance(before, dict):
        told["other_versions"] = {
            name: [before.get(name), now.get(name)] for name in before | now if before.get(name) != now.get(name)
        }
    return told
