"""D4RL's columns, as their files have them over the years: rewards of one or two axes, with or without timeouts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from gym_gui.services.datasets.data_spaces import SeenValues
from gym_gui.services.datasets.flat_writer import FlatWriter
from gym_gui.services.datasets.importing import (
    ImportOrder,
    Promised,
    about_environment,
    d4rl_references,
    environment_for,
)
from gym_gui.services.datasets.value_checks import Allowed, require_sound
from mosaic_protocol.dataset_files import spaces
from mosaic_protocol.dataset_files.data_file import ACTIONS, NEXT, OBSERVATIONS, REWARDS, TERMINALS, TIMEOUTS
from mosaic_protocol.dataset_files.safe_hdf5 import column, values
from mosaic_protocol.datasets import DatasetsError, RetryableError
from mosaic_protocol.datasets.manifest import FLAT
from mosaic_protocol.paths import MosaicPaths

_NEEDED = (OBSERVATIONS, ACTIONS, REWARDS, TERMINALS)
_BLOCK_BYTES = 32 * 2**20


def convert(
    data: h5py.File,
    file: Path,
    destination: Path,
    order: ImportOrder,
    paths: MosaicPaths,
    progress: Callable[[int, int], None],
) -> dict[str, Any]:
    """Copy the columns; the fields of the manifest that they give. Raises DatasetsError."""
    columns = _columns(data, file)
    found = environment_for(order, None, paths)
    terminals, timeouts, how = _ends(columns, found.limit, file)
    form = _spaces(columns, found)
    seen = _copied(columns, destination, (terminals, timeouts), order, file, form, progress)
    rows = len(terminals)
    about: dict[str, Any] = {"layout": FLAT, "actors": {"": rows}, "references": d4rl_references(order.promise_name)}
    about |= {"source": {"episode_ends": how} if how else {}}
    return {**about, **about_environment(found), **_told_spaces(form, seen)}


def _columns(data: h5py.File, file: Path) -> dict[str, h5py.Dataset]:
    if missing := [name for name in _NEEDED if name not in data]:
        there = ", ".join(sorted(ascii(name)[1:-1] for name in list(data)[:12])) or "nothing"
        raise DatasetsError(f"{file.name} has no {' and no '.join(missing)}; it has {there}")
    found = {name: column(data, name, file) for name in (*_NEEDED, TIMEOUTS, NEXT) if name in data}
    rows = found[REWARDS].shape[0] if found[REWARDS].shape else 0
    if not rows:
        raise DatasetsError(f"{file.name} has no rewards: it is empty")
    for name, one in found.items():
        if not one.shape or one.shape[0] != rows:
            raise DatasetsError(f"{file.name} has {rows:,} rewards and {one.shape[0] if one.shape else 0:,} {name}")
        if one.dtype.kind not in "biuf":
            raise DatasetsError(f"{file.name} has {name} that are no numbers")
        if name in (REWARDS, TERMINALS, TIMEOUTS) and one.size != rows:
            raise DatasetsError(f"{file.name} has {one.shape[1:]} numbers for each step in {name}, where one is needed")
    if NEXT in found and found[NEXT].shape != found[OBSERVATIONS].shape:
        raise DatasetsError(f"{file.name} has next_observations of another shape than observations")
    return found


# ---- where episodes end ----------------------------------------------------------------------------------------------


def _ends(
    columns: dict[str, h5py.Dataset], limit: int | None, file: Path
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], str | None]:
    """Terminations, timeouts, and how the latter were found where the file does not say."""
    terminals = _flags(columns[TERMINALS], TERMINALS, file)
    timeouts = _flags(columns[TIMEOUTS], TIMEOUTS, file) if TIMEOUTS in columns else np.zeros_like(terminals)
    how = None
    if not timeouts.any():
        if NEXT in columns:
            timeouts, how = _breaks(columns) & ~terminals, "episodes end where observations do not go on"
        if limit and not timeouts.any():
            timeouts, how = _after(terminals, limit), f"episodes end after {limit:,} steps"
        if not (terminals.any() or timeouts.any()) and not (limit and len(terminals) <= limit):
            raise RetryableError(
                f"{file.name} has no episode boundaries: no terminal and no timeout is true; say after how many steps "
                "episodes end with --max-episode-steps"
            )
    if not terminals[-1]:
        timeouts[-1] = True  # what follows the last row is not known
    return terminals, timeouts & ~terminals, how


def _flags(found: h5py.Dataset, name: str, file: Path) -> NDArray[np.bool_]:
    given = values(found).reshape(-1)
    if given.dtype.kind != "b" and not np.isin(given, (0, 1)).all():
        raise DatasetsError(f"{file.name} has {name} that are neither true nor false")
    return given.astype(np.bool_)


def _after(terminals: NDArray[np.bool_], limit: int) -> NDArray[np.bool_]:
    """Every so many steps after a beginning."""
    ends = np.flatnonzero(terminals)
    starts = np.concatenate([[0], ends + 1])
    began = starts[np.searchsorted(ends, np.arange(len(terminals)), side="left")]
    timeouts: NDArray[np.bool_] = (np.arange(len(terminals)) - began) % limit == limit - 1
    return timeouts & ~terminals


def _breaks(columns: dict[str, h5py.Dataset]) -> NDArray[np.bool_]:
    """Steps whose next observation is not what the next step begins with."""
    rows = len(columns[OBSERVATIONS])
    found = np.zeros(rows, np.bool_)
    for first, behind in _blocks(columns, rows - 1):
        after, before = values(columns[NEXT], first, behind), values(columns[OBSERVATIONS], first + 1, behind + 1)
        same = np.isclose(after, before, rtol=1e-4, atol=1e-5).reshape(len(after), -1).all(axis=1)
        found[first:behind] = ~same
    # Where nearly every step breaks, it is the data that is broken, and not its episodes that end.
    return found if found.mean() < 0.5 else np.zeros(rows, np.bool_)


def _blocks(columns: dict[str, h5py.Dataset], rows: int) -> list[tuple[int, int]]:
    row = sum(one.dtype.itemsize * int(np.prod(one.shape[1:])) for one in columns.values())
    size = int(max(1, _BLOCK_BYTES // max(row, 1)))
    return [(first, min(first + size, rows)) for first in range(0, rows, size)]


# ---- values ----------------------------------------------------------------------------------------------------------


def _spaces(columns: dict[str, h5py.Dataset], found: Promised) -> dict[str, str]:
    """The environment's, where the shapes fit. Raises DatasetsError where they do not."""
    told: dict[str, str] = {}
    for what, name in (("observation", OBSERVATIONS), ("action", ACTIONS)):
        text = found.told.get(f"{what}_space")
        if text is None:
            continue
        form, shape = json.loads(text), columns[name].shape[1:]
        wanted = () if form["type"] == "Discrete" else tuple(form.get("shape", (spaces.width(form),)))
        if math.prod(shape) != math.prod(wanted):
            raise RetryableError(f"{what}s have the shape {shape}, where those of {found.env_id} have {wanted}")
        told[f"{what}_space"] = text
    return told


def _told_spaces(form: dict[str, str], seen: dict[str, SeenValues]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for what, values_seen in seen.items():
        told[f"{what}_space"] = form.get(f"{what}_space") or values_seen.space()
        told[f"{what}_space_from"] = "environment" if f"{what}_space" in form else "data"
    return told


def _copied(
    columns: dict[str, h5py.Dataset],
    destination: Path,
    ends: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    order: ImportOrder,
    file: Path,
    form: dict[str, str],
    progress: Callable[[int, int], None],
) -> dict[str, SeenValues]:
    seen = {"observation": SeenValues(), "action": SeenValues()}
    allowed = {name: one for name, one in _allowed(form).items() if name in columns}
    rows = len(ends[0])
    with closing(FlatWriter(destination)) as out:
        for first, behind in _blocks(columns, rows):
            block = {name: values(columns[name], first, behind) for name in (OBSERVATIONS, ACTIONS, REWARDS)}
            if NEXT in columns:
                block[NEXT] = values(columns[NEXT], first, behind)
            place = partial(_row, first)
            for name, found in block.items():
                require_sound(found, name, file, place)
            block[REWARDS] = block[REWARDS].reshape(-1)
            block[ACTIONS] = _one_axis(block[ACTIONS])
            for name, one in allowed.items():
                block[name] = one.taken(block[name], name, file, place, clip=order.clip_actions)
            seen["observation"].add({(): block[OBSERVATIONS]})
            seen["action"].add({(): block[ACTIONS]})
            out.append({**block, TERMINALS: ends[0][first:behind], TIMEOUTS: ends[1][first:behind]})
            progress(behind, rows)
    return seen


def _allowed(form: dict[str, str]) -> dict[str, Allowed]:
    """What columns may hold. Observations that are no choices may leave their bounds: environments do not keep to
    them."""
    actions, observations = (Allowed.by(form.get(f"{what}_space")) for what in ("action", "observation"))
    found = {ACTIONS: actions} if actions else {}
    return found | ({OBSERVATIONS: observations, NEXT: observations} if observations and observations.counted else {})


def _row(first: int, number: int) -> str:
    return f"row {first + number:,}"


def _one_axis(actions: NDArray[Any]) -> NDArray[Any]:
    """Counted actions have one axis."""
    return actions.reshape(-1) if actions.dtype.kind in "iu" and actions.size == len(actions) else actions
