"""The replay buffer of a checkpoint as a dataset: what an algorithm saw while it learned.

A buffer holds transitions without episodes. They end where an episode terminated, and where the next row does not begin
with what a row led to.
"""

from __future__ import annotations

import json
import struct
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.datasets.environments import promised_by
from gym_gui.services.datasets.making import drafted, finish, made, require_h5py
from mosaic_protocol.checkpoint_manifest import TENSOR_FILE, CheckpointError, CheckpointManifest, verify
from mosaic_protocol.datasets import DATA, DatasetEntry, DatasetsError
from mosaic_protocol.datasets.manifest import FLAT
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.regular_files import open_regular

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEPT, _CONTENTS = "replay.kept", "buffer.contents.rows"
"""The tensors of buffers with continuous and with discrete actions."""
_MOST_HEADER = 64 * 2**20


@dataclass(frozen=True)
class _Buffer:
    rows: NDArray[Any]
    """Oldest first."""
    position: int
    discrete: bool


def from_buffer(entry: CheckpointEntry, name: str, paths: MosaicPaths) -> DatasetEntry:
    """Make a dataset of a checkpoint's replay buffer. Raises DatasetsError."""
    require_h5py()
    try:
        manifest = verify(entry.path)
    except CheckpointError as error:
        raise DatasetsError(f"{entry.id} is damaged and not used: {error}") from error
    found = _read(entry, manifest)
    columns = _columns(found, manifest, entry)
    with drafted(name, paths) as draft:
        from gym_gui.services.datasets.flat_writer import FlatWriter

        with closing(FlatWriter(draft / DATA)) as out:
            out.append(columns)
        finish(draft, {**_told(entry, manifest, columns, paths), "name": name})
    return made(name, paths)


def _read(entry: CheckpointEntry, manifest: CheckpointManifest) -> _Buffer:
    import numpy as np

    state = manifest.state
    discrete = "buffer" in state
    tensor = _CONTENTS if discrete else _KEPT
    rows = _tensor(entry.path / TENSOR_FILE, tensor)
    if rows is None or not len(rows):
        raise DatasetsError(
            f"{entry.id} holds no replay buffer: dqn, sac and td3 keep theirs in checkpoints unless told otherwise"
        )
    place = state.get("buffer", {}).get("contents", {}) if discrete else state.get("replay", {})
    position = place.get("position", 0) if isinstance(place, dict) else 0
    if not isinstance(position, int) or not 0 <= position <= len(rows):
        raise DatasetsError(f"{entry.id} has a replay buffer that cannot be read")
    return _Buffer(np.roll(rows, -position, axis=0), position, discrete)


def _tensor(file: Path, name: str) -> NDArray[Any] | None:
    """One matrix of a file that was verified; None where there is none."""
    import numpy as np

    with open_regular(file) as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        if length > _MOST_HEADER:
            raise DatasetsError(f"{file.name} cannot be read")
        header = json.loads(stream.read(length))
        told = header.get(name)
        if not isinstance(told, dict) or told.get("dtype") != "F32" or len(told.get("shape", ())) != 2:
            return None
        first, behind = told["data_offsets"]
        stream.seek(8 + length + first)
        return np.frombuffer(stream.read(behind - first), "<f4").reshape(told["shape"])


def _columns(found: _Buffer, manifest: CheckpointManifest, entry: CheckpointEntry) -> dict[str, NDArray[Any]]:
    import numpy as np

    rows, envs = found.rows, int(manifest.args.get("num_envs", 1) or 1)
    if envs > 1:
        if len(rows) % envs:
            raise DatasetsError(f"the replay buffer of {entry.id} mixes {envs} environments that cannot be told apart")
        rows = np.concatenate([rows[number::envs] for number in range(envs)])
    shape = manifest.spaces.get("observation", {}).get("shape") or []
    width = int(np.prod(shape)) if shape else (rows.shape[1] - 3) // 2
    if found.discrete:
        seen, following, action = rows[:, :width], rows[:, width : 2 * width], rows[:, -3].astype(np.int64)
    else:
        seen, following, action = rows[:, :width], rows[:, -2 - width : -2], rows[:, width : -2 - width]
    rewards, terminals = rows[:, -2].copy(), rows[:, -1] > 0.5
    goes_on = np.zeros(len(rows), np.bool_)
    goes_on[:-1] = np.isclose(following[:-1], seen[1:], rtol=1e-5, atol=1e-6).all(axis=1)
    columns = {"observations": seen.reshape(-1, *shape) if shape else seen, "actions": action, "rewards": rewards}
    columns["next_observations"] = following.reshape(columns["observations"].shape)
    return {**columns, "terminals": terminals, "timeouts": ~goes_on & ~terminals}


def _told(
    entry: CheckpointEntry, manifest: CheckpointManifest, columns: dict[str, NDArray[Any]], paths: MosaicPaths
) -> dict[str, Any]:
    from gym_gui.services.datasets.data_spaces import SeenValues

    told, why = promised_by(manifest.env_id, paths)
    spaces: dict[str, Any] = {}
    for what in ("observation", "action"):
        values, seen = columns[f"{what}s"], SeenValues()
        seen.add({(): values})
        text = told.get(f"{what}_space")
        fits = isinstance(text, str) and _same_size(text, values)
        spaces |= {f"{what}_space": text if fits else seen.space()}
        spaces |= {f"{what}_space_from": "environment" if fits else "data"}
    checkpoint = {"id": entry.id, "step": manifest.step, "sha256": manifest.tensor_sha256, "algo": manifest.algo}
    source = {"kind": "replay_buffer", "checkpoint": checkpoint, "run_id": entry.run_id, "run_name": entry.run_name}
    about = {"layout": FLAT, "actors": {manifest.algo: len(columns["rewards"])}, "left_out": {}, "source": source}
    environment = {"env_id": manifest.env_id, "env_spec": told.get("env_spec"), "versions": told.get("versions", {})}
    limit = {"max_episode_steps": told.get("max_episode_steps"), "spaces_note": why or None}
    return {**about, **environment, **limit, **spaces}


def _same_size(space: str, values: NDArray[Any]) -> bool:
    import numpy as np

    form = json.loads(space)
    if form["type"] == "Discrete":
        return values.ndim == 1 and values.dtype.kind in "iu"
    return bool(form["type"] == "Box" and np.prod(form["shape"]) == np.prod(values.shape[1:]))
