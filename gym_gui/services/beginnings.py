"""Copies of recorded steps that runs begin with, below ``training/beginnings``: whose they are.

A session begins in the middle of an episode, and is given that one; a run that learns from what somebody played is
given all of it. A copy is needed until its run has read it. Named after the run that it was made of, so that it goes
when that run is removed for good, or the one that began with it; one that an unfinished run still needs stays until
then. How far the run had recorded is part of the name: a copy never changes, because others may be reading it, and what
went on since has another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mosaic_protocol.paths import MosaicPaths

RECORDING, EPISODE, STEP = "from_recording", "from_episode", "from_step"
"""Parameters of a session that begins at a step of a recorded episode."""
_COPY = re.compile(r"\.?([0-9a-z]+)-(?:all-)?\d+(?:-\d+)?(?:\.[\d-]+\.draft)?")
"""Earlier versions named them without a step; a draft was left by a process that was killed."""


def copy_for(paths: MosaicPaths, run_id: str, episode: int, steps: int) -> Path:
    """Where the copy of a run's episode goes, made when the run had so many steps."""
    return paths.beginnings / f"{run_id.lower()}-{episode}-{steps}"


def copies_of(paths: MosaicPaths, run_id: str, episode: int) -> Path:
    """What the drafts of such copies are named after."""
    return paths.beginnings / f"{run_id.lower()}-{episode}"


def copy_of_all(paths: MosaicPaths, run_id: str, steps: int) -> Path:
    """Where the copy of all steps of a run goes."""
    return paths.beginnings / f"{run_id.lower()}-all-{steps}"


def run_copied(paths: MosaicPaths, copy: Path) -> str:
    """The id of the run that a copy was made of; "" for any other folder."""
    named = _COPY.fullmatch(copy.name) if copy.parent == paths.beginnings else None
    return named[1].upper() if named is not None else ""


def removed_with(paths: MosaicPaths, run_id: str, config_json: str, unfinished: Iterable[str]) -> list[Path]:
    """The copies that nobody needs once a run is gone: those of its episodes, and the one that it began with.
    ``unfinished`` are the configs of runs that may still read theirs."""
    if not paths.beginnings.is_dir() or paths.beginnings.is_symlink():
        return []
    its_own = [path for path in paths.beginnings.iterdir() if run_copied(paths, path) == run_id.upper()]
    found = dict.fromkeys([*its_own, *begun_with(paths, config_json)])
    needed = {path for config in unfinished for path in begun_with(paths, config)}
    return [path for path in found if path not in needed and (path.exists() or path.is_symlink())]


def begun_with(paths: MosaicPaths, config_json: str) -> list[Path]:
    """The copies that the parameters of a run's config name; nothing for a folder anywhere else, which is not ours to
    remove."""
    if f"/{paths.beginnings.name}/" not in config_json:  # most runs: their configs need not be read
        return []
    try:
        params: Any = json.loads(config_json)["metadata"]["worker"]["config"]["params"]
        named = [Path(value) for value in params.values() if isinstance(value, str)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
    return [path for path in named if run_copied(paths, path)]
