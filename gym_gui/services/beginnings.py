"""Copies of episodes that sessions begin in the middle of, below ``training/beginnings``: whose they are.

A copy is needed until its session has played it again. Named after the run and the episode it was made of, so that it
goes when that run is removed for good, or the session's; one that an unfinished session still needs stays until then.
How far the run had recorded is part of the name: a copy never changes, because sessions may be reading it, and an
episode that went on since has another one.
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
_COPY = re.compile(r"[0-9a-z]+-\d+(-\d+)?|\.[0-9a-z]+-\d+\.[\d-]+\.draft")
"""Earlier versions named them without a step; a draft was left by a process that was killed."""


def copy_for(paths: MosaicPaths, run_id: str, episode: int, steps: int) -> Path:
    """Where the copy of a run's episode goes, made when the run had so many steps."""
    return paths.beginnings / f"{run_id.lower()}-{episode}-{steps}"


def copies_of(paths: MosaicPaths, run_id: str, episode: int) -> Path:
    """What the drafts of such copies are named after."""
    return paths.beginnings / f"{run_id.lower()}-{episode}"


def removed_with(paths: MosaicPaths, run_id: str, config_json: str, unfinished: Iterable[str]) -> list[Path]:
    """The copies that nobody needs once a run is gone: those of its episodes, and the one that it began with.
    ``unfinished`` are the configs of runs that may still read theirs."""
    if not paths.beginnings.is_dir() or paths.beginnings.is_symlink():
        return []
    its_own = [path for path in paths.beginnings.iterdir() if _run_of(path) == run_id.lower()]
    found = dict.fromkeys(path for path in (*its_own, *_begun_with(paths, config_json)) if _COPY.fullmatch(path.name))
    needed = {path for config in unfinished for path in _begun_with(paths, config)}
    return [path for path in found if path not in needed and (path.exists() or path.is_symlink())]


def _run_of(copy: Path) -> str:
    return copy.name.removeprefix(".").partition("-")[0]


def _begun_with(paths: MosaicPaths, config_json: str) -> list[Path]:
    """The copy that a run's config names; nothing for a folder anywhere else, which is not ours to remove."""
    if RECORDING not in config_json:  # most runs: their configs need not be read
        return []
    try:
        params: Any = json.loads(config_json)["metadata"]["worker"]["config"]["params"]
        named = Path(params[RECORDING])
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return [named] if named.parent == paths.beginnings else []
