"""Minari's episodes: a group for each, and a description beside the file or in its attributes."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import h5py
from numpy.typing import NDArray

from gym_gui.services.datasets.episode_file import EpisodeArrays, EpisodeFile
from gym_gui.services.datasets.importing import ImportOrder, about_environment, environment_for, spec_env_id
from gym_gui.services.datasets.value_checks import Allowed, Place, require_sound
from mosaic_protocol.dataset_files import data_file
from mosaic_protocol.dataset_files.spaces import Leaf
from mosaic_protocol.datasets import DatasetsError, RetryableError
from mosaic_protocol.datasets.manifest import EPISODES
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.steps.recorded_episodes import FormError

_MOST_ATTRIBUTE = 2**20
Taken: TypeAlias = Callable[[dict[Leaf, NDArray[Any]], Place], dict[Leaf, NDArray[Any]]]
_WORD = re.compile(r"[ -~]{1,60}")


def convert(
    data: h5py.File,
    file: Path,
    metadata: dict[str, Any],
    destination: Path,
    order: ImportOrder,
    paths: MosaicPaths,
    progress: Callable[[int, int], None],
) -> dict[str, Any]:
    """Copy the episodes; the fields of the manifest that they give. Raises DatasetsError."""
    metadata = {**_attributes(data), **metadata}
    actor = str(metadata.get("algorithm_name") or "")
    actor = actor if _WORD.fullmatch(actor) else ""
    episodes = data_file.EpisodesFile(data, file)
    if not episodes.steps:
        raise DatasetsError(f"{file.name} has no steps")
    found = environment_for(order, spec_env_id(metadata.get("env_spec")), paths)
    allowed = Allowed.by(found.told.get("action_space"))
    with closing(EpisodeFile(destination)) as out:
        for number in range(len(episodes.names)):
            _add(out, episodes, number, actor, file, partial(_taken, allowed, order, file))
            progress(out.steps, episodes.steps)
        seen = {"observation": out.observations, "action": out.actions}
    told: dict[str, Any] = {}
    for what, values in seen.items():
        places = {"environment": found.told.get(f"{what}_space"), "file": metadata.get(f"{what}_space")}
        fitting = ((origin, text) for origin, text in places.items() if isinstance(text, str) and _fits(values, text))
        origin, text = next(fitting, ("data", values.space()))
        if order.env_id and places["environment"] and origin != "environment":
            raise RetryableError(f"{what}s of {file.name} are not those of {order.env_id}")
        told |= {f"{what}_space": text, f"{what}_space_from": origin}
    return {"layout": EPISODES, "actors": {actor: episodes.steps}, **about_environment(found), **told}


def _fits(values: Any, text: str) -> bool:
    try:
        return bool(values.fits(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return False


def _add(out: EpisodeFile, episodes: data_file.EpisodesFile, number: int, actor: str, file: Path, taken: Taken) -> None:
    first, behind = int(episodes.starts[number]), int(episodes.starts[number + 1])
    if first == behind:
        return
    place = partial(_step, episodes.names[number])
    arrays = EpisodeArrays.of(episodes, number, [actor] * (behind - first))
    for name, parts in (("observations", arrays.observations), ("actions", arrays.actions)):
        for part in parts.values():
            require_sound(part, name, file, place)
    require_sound(arrays.rewards, "rewards", file, place)
    try:
        out.add_arrays(replace(arrays, actions=taken(arrays.actions, place)))
    except FormError as error:
        raise DatasetsError(f"{file.name}: {episodes.names[number]}: {error}") from error


def _taken(
    allowed: Allowed | None, order: ImportOrder, file: Path, actions: dict[Leaf, NDArray[Any]], place: Place
) -> dict[Leaf, NDArray[Any]]:
    """Actions that the environment takes. Those of another form than its own are left to the look at the spaces."""
    whole = actions.get(())
    if allowed is None or whole is None or whole[0].size != len(allowed.low) or whole.dtype.kind not in "iuf":
        return actions
    return {(): allowed.taken(whole, "actions", file, place, clip=order.clip_actions)}


def _step(episode: str, number: int) -> str:
    return f"step {number:,} of {episode}"


def _attributes(data: h5py.File) -> dict[str, Any]:
    """What earlier versions of Minari kept in the file itself."""
    found: dict[str, Any] = {}
    for name in ("observation_space", "action_space", "env_spec", "algorithm_name"):
        try:
            attribute = h5py.h5a.open(data.id, name.encode()) if h5py.h5a.exists(data.id, name.encode()) else None
            if attribute is not None and attribute.get_storage_size() <= _MOST_ATTRIBUTE and attribute.shape == ():
                found[name] = data.attrs[name]
        except (RuntimeError, OSError, KeyError, TypeError, ValueError):
            continue
    return {name: text for name, text in found.items() if isinstance(text, str) and len(text) <= _MOST_ATTRIBUTE}
