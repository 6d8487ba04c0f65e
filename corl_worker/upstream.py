"""CORL's own scripts in a checkout: where they are, and what they are given in place of what they assume."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mosaic_protocol.regular_files import read_regular
from mosaic_protocol.suggest import did_you_mean
from mosaic_worker.script_worker.config import ConfigError, require
from mosaic_worker.scripts.flags import Flag, FlagError, checked

UPSTREAM_BUNDLE, JAX_BUNDLE = "corl_upstream", "corl_upstream_jax"
DOORS = Path(__file__).resolve().parent / "doors"
_MOST_YAML_BYTES = 64 * 1024

DATASET_FLAGS = ("env", "env_name", "dataset_name")
SEED_FLAGS = ("seed", "train_seed", "eval_seed")
LENGTH_FLAGS = ("max_timesteps", "num_train_ops", "update_steps")
PHASES = (("offline_iterations", "online_iterations"), ("num_offline_updates", "num_online_updates"))
EPOCHS, PER_EPOCH = "num_epochs", "num_updates_on_epoch"
BUFFER_FLAGS = ("buffer_size", "replay_buffer_size")
CONFIG_FLAGS = ("config_path", "config")
DECIDED = {
    **dict.fromkeys(DATASET_FLAGS, "the run's dataset, unless it is given"),
    **dict.fromkeys(SEED_FLAGS, "the run's seed, unless it is given"),
    "device": "cuda where a GPU is reserved, else cpu, unless it is given",
    **dict.fromkeys(BUFFER_FLAGS, "the rows of the dataset and those that are played, unless it is given"),
    "num_workers": "0, unless it is given: batches are made in the training process",
}
"""What a run gives to a flag that nobody typed, in words, whatever the script's own default is."""
_PLAIN_NAME = re.compile(r"\w+(\.\w+)*")


def upstream_script(algo: str, checkout: Path) -> Path:
    """The script of an algorithm: of the offline folder before others, or ``FOLDER.ALGO``. Raises ConfigError."""
    folder = checkout / "algorithms" if (checkout / "algorithms").is_dir() else checkout
    found = {path.stem: path for path in sorted(folder.glob("*/*.py"), reverse=True) if path.parent.name != "offline"}
    found |= {f"{path.parent.name}.{path.stem}": path for path in folder.glob("*/*.py")}
    found |= {path.stem: path for path in [*folder.glob("offline/*.py"), *folder.glob("*.py")]}
    scripts = {name: path for name, path in found.items() if not path.stem.startswith("_")}
    if algo not in scripts:
        raise ConfigError(f"there is no script {algo!r} in {folder}{did_you_mean(algo, scripts)}")
    return scripts[algo]


def read_yaml(name: str, checkout: Path, flags: Mapping[str, Flag], script: str) -> tuple[Path, dict[str, Any]]:
    """A file of flags, given by its path or by where it is below ``configs``; checked against the script's flags.
    Raises ConfigError."""
    places = [Path(name).expanduser(), checkout / name, checkout / "configs" / name]
    places += [place.with_name(f"{place.name}.yaml") for place in places if place.suffix not in (".yaml", ".yml")]
    import yaml

    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise ConfigError(f"there is no config {name!r}, neither as a file nor below {checkout / 'configs'}")
    try:
        content = yaml.safe_load(read_regular(path, _MOST_YAML_BYTES))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read as YAML: {' '.join(str(error).split())[:200]}") from error
    require(isinstance(content, dict) and all(isinstance(key, str) for key in content), f"{path} holds no flags")
    try:
        return path.absolute(), {key: checked(dict(flags), key, value, script) for key, value in content.items()}
    except FlagError as error:
        raise ConfigError(f"{path}: {error}") from None


@dataclass
class Given:
    """What a script is going to be given. ``why`` says of each flag that nobody typed where its value comes from."""

    flags: Mapping[str, Flag]
    values: dict[str, Any]
    """What the user gave, and what is put beside it."""
    beneath: Mapping[str, Any] = field(default_factory=dict)
    """What a YAML file says."""
    why: dict[str, str] = field(default_factory=dict)

    def now(self, name: str) -> Any:
        """The value that the script would have."""
        default = self.flags[name].default if name in self.flags else None
        return self.values.get(name, self.beneath.get(name, default))

    def put(self, name: str, value: Any, why: str) -> None:
        """Unless the user gave it, or the script has no such flag."""
        if name in self.flags and name not in self.values:
            self.values[name] = value
            self.why[name] = f"{value}: {why}"

    def has(self, *names: str) -> bool:
        return all(name in self.flags for name in names)


def fit_names(given: Given, dataset: str, seed: int) -> None:
    """Dataset and seeds under the script's own names."""
    for name in DATASET_FLAGS:
        given.put(name, dataset, "the run's dataset")
    for name in SEED_FLAGS:
        given.put(name, seed, "the run's seed")


def fit_length(given: Given, total: int | None) -> None:
    """``--total-timesteps`` under the script's own names. Raises ConfigError."""
    if total is None:
        return
    for name in LENGTH_FLAGS:
        given.put(name, total, "--total-timesteps")
    for offline, online in PHASES:
        if given.has(offline, online):
            _fit_phases(given, offline, online, total)
    if given.has(EPOCHS, PER_EPOCH):
        per = min(int(given.now(PER_EPOCH)), total)
        if per < int(given.now(PER_EPOCH)):
            given.put(PER_EPOCH, per, "--total-timesteps, which is less than an epoch")
        given.put(EPOCHS, math.ceil(total / per), f"--total-timesteps in epochs of {per:,} updates")


def _fit_phases(given: Given, offline: str, online: str, total: int) -> None:
    """One of the two that was given decides the other; else they share as in the script's own defaults."""
    if online in given.values or offline in given.values:
        known = online if online in given.values else offline
        rest = total - int(given.values[known])
        require(rest >= 0, f"--{known} is more than --total-timesteps {total:,}, which counts both phases")
        given.put(offline if known == online else online, rest, f"--total-timesteps without {known}")
        return
    parts = int(given.now(offline)), int(given.now(online))
    first = round(total * parts[0] / max(1, sum(parts)))
    given.put(offline, first, "its part of --total-timesteps")
    given.put(online, total - first, "its part of --total-timesteps")


def fit_machine(given: Given, rows: int, *, gpu: bool) -> None:
    """Device, buffers and loaders. Buffers are as large as the data and what is played, not the millions of rows that
    scripts assume."""
    device = "cuda" if gpu else "cpu"
    given.put("device", device, "a GPU is reserved" if gpu else "no GPU is reserved (--gpus 1 does)")
    played = sum(int(given.now(online) or 0) for _, online in PHASES if given.has(online))
    for name in BUFFER_FLAGS:
        given.put(name, max(1, rows + played), f"{rows:,} rows of the dataset{_and(played)}")
    given.put("num_workers", 0, "batches are made in the training process, which is held and ended as one")


def _and(played: int) -> str:
    return f" and {played:,} that are played" if played else ""


def steps_of(given: Given) -> tuple[int | None, int]:
    """How many updates the script makes in all, and how many in one turn of its loop."""
    for name in LENGTH_FLAGS:
        if given.has(name):
            return int(given.now(name)), 1
    for offline, online in PHASES:
        if given.has(offline, online):
            return int(given.now(offline)) + int(given.now(online)), 1
    if given.has(EPOCHS, PER_EPOCH):
        per = int(given.now(PER_EPOCH))
        return int(given.now(EPOCHS)) * per, per
    return None, 1
