"""A run of several seeds: one program trains them side by side, and each becomes a run of its own when it is over.

What belongs to a seed is kept in a folder of its own within that of the program's run, laid out like the folder of any
run: journal, checkpoints, curves. Neither side needs more than this module to agree on where that is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

FLAG = "seeds"
"""The flag of a script that trains several."""
MOST = 256
_FOLDER = "seed-runs"
_PARAMS = (("params",), ("extras", "algo_params"))
_FOREIGN = ("script", "source")
"""Settings of a run whose script is not the worker's own, whose flags may mean anything."""


def folder_of(run_dir: Path, seed: int) -> Path:
    return run_dir / _FOLDER / str(seed)


def seeds_of(settings: Mapping[str, Any]) -> range:
    """The seeds that a run trains, by the settings of its worker; none where it is an ordinary run."""
    count, seed = _flag(settings, FLAG, 1), _flag(settings, "seed", settings.get("seed", 1))
    if any(settings.get(name) for name in _FOREIGN) or not (_is_number(count) and _is_number(seed)):
        return range(0)
    return range(seed, seed + count) if 1 < count <= MOST else range(0)


def settings_of_seed(settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The settings of the run that a seed becomes: what would train it alone."""
    found = {**settings, "seed": seed}
    for path in _PARAMS:
        if FLAG in (flags := _at(settings, path)):
            _put(found, path, {name: value for name, value in flags.items() if name not in (FLAG, "seed")})
    return found


def _flag(settings: Mapping[str, Any], name: str, otherwise: Any) -> Any:
    """A flag of the script, wherever it stands."""
    return next((flags[name] for path in _PARAMS if name in (flags := _at(settings, path))), otherwise)


def _at(settings: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any]:
    for name in path:
        found = settings.get(name)
        settings = found if isinstance(found, Mapping) else {}
    return settings


def _put(settings: dict[str, Any], path: tuple[str, ...], value: dict[str, Any]) -> None:
    for name in path[:-1]:
        settings[name] = dict(settings[name])
        settings = settings[name]
    settings[path[-1]] = value


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
