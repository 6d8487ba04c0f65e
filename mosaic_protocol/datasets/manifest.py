"""What a dataset says about itself: ``manifest.json`` beside ``data.hdf5``.

Version 1 knew datasets of recorded episodes alone; it is still read, and has the defaults of what came later.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from mosaic_protocol.datasets.errors import DatasetsError
from mosaic_protocol.regular_files import read_regular
from mosaic_protocol.whole_files import write_whole

DATA, MANIFEST = "data.hdf5", "manifest.json"
MANIFEST_VERSION = 2
EPISODES, FLAT = "episodes", "d4rl"
"""The layouts: a group for each episode as Minari has them, or columns of all steps as D4RL has them."""
QUANTILES = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
_MOST_MANIFEST_BYTES = 64 * 2**20
_LAST_MOMENT = 253_402_300_799
"""Of the year 9999, which is the last that Python can write."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Moment: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=_LAST_MOMENT - 86_400)]
Layout: TypeAlias = Literal["episodes", "d4rl"]


class Seen(msgspec.Struct, kw_only=True, forbid_unknown_fields=False):
    """The least and the greatest of each number, as the data has them. One value stands for all where there are many
    (pictures)."""

    low: list[float | None]
    high: list[float | None]


class References(msgspec.Struct, kw_only=True):
    """The returns that a normalised score counts as 0 and as 100, and who measured them."""

    random: float
    expert: float
    whose: str
    """``mosaic``: played here, on the environment of this machine; ``d4rl``: published with D4RL."""
    episodes: Count = 0
    measured_at: Moment = 0.0
    env_id: str | None = None
    checkpoint: dict[str, Any] | None = None

    def normalised(self, value: float) -> float:
        """A return on the scale from random (0) to expert (100)."""
        return 100.0 * (value - self.random) / (self.expert - self.random)


class DatasetManifest(msgspec.Struct, kw_only=True):
    """The whole manifest. Fields that this version does not know are ignored."""

    v: int
    name: str = ""
    layout: Layout = "episodes"
    created_at: Moment
    sha256: str
    bytes: Count
    episodes: Count
    steps: Count
    returns: dict[str, float | None]
    """``mean``, ``min``, ``max``, ``std`` and the quantiles of :data:`QUANTILES`; null where the number is not
    finite."""
    lengths: dict[str, float | None] = {}
    rewards: dict[str, float | None] = {}
    observations_seen: Seen | None = None
    actions_seen: Seen | None = None
    actors: dict[str, Count]
    """Steps by who acted."""
    policy_mix: dict[str, float] = {}
    """What a collection was asked for."""
    left_out: dict[str, Count]
    only: str | None = None
    source: dict[str, Any]
    env_id: str | None = None
    env_spec: str | None = None
    versions: dict[str, str] = {}
    max_episode_steps: Count | None = None
    observation_space: str
    action_space: str
    observation_space_from: str | None = None
    action_space_from: str | None = None
    spaces_note: str | None = None
    references: References | None = None
    doubts: list[str] = []
    """What the plausibility check had to say when the dataset was made."""

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def read_manifest(folder: Path) -> DatasetManifest:
    """Raises DatasetsError in one sentence, which names the file and not the dataset."""
    try:
        text = read_regular(folder / MANIFEST, _MOST_MANIFEST_BYTES)
        told = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except OSError as error:
        raise DatasetsError(f"{MANIFEST} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DatasetsError(f"{MANIFEST} is not JSON") from error
    if not isinstance(told, dict) or not isinstance(told.get("v"), int):
        raise DatasetsError(f"{MANIFEST} describes no dataset")
    if told["v"] > MANIFEST_VERSION:
        raise DatasetsError("a newer version of MOSAIC made it: update this one")
    try:
        return msgspec.convert(told, DatasetManifest)
    except msgspec.ValidationError as error:
        raise DatasetsError(f"{MANIFEST} does not say what it must: {error}") from error


def write_manifest(folder: Path, manifest: DatasetManifest) -> None:
    """Replace it, whole or not at all. Raises OSError."""
    write_whole(folder / MANIFEST, json.dumps(manifest.as_json(), indent=1, allow_nan=False) + "\n")


def finite(value: float) -> float | None:
    """As JSON holds it."""
    return float(value) if math.isfinite(value) else None


def _finite(text: str) -> float:
    """JSON has no other numbers, and could not be written with them. Raises ValueError."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number
