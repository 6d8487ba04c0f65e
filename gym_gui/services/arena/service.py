"""The arena as commands and screens use it: begin or extend one, and read how it stands."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gym_gui.services.arena.contest import described
from gym_gui.services.arena.entries import Finder, admitted
from gym_gui.services.arena.errors import ArenaError
from gym_gui.services.arena.model import Arena, Entry
from gym_gui.services.arena.played import Played, read_played
from gym_gui.services.arena.standings import OPTIMAL, Measure, Standings, standings_of
from gym_gui.services.arena.store import ArenaStore, default_name
from gym_gui.services.worker_tools import ToolRefusedError

if TYPE_CHECKING:
    from mosaic_protocol.paths import MosaicPaths


@dataclass(frozen=True)
class Wanted:
    """An arena that somebody asks for; an empty name means the usual one of this game and these seeds."""

    env_id: str
    seeds: tuple[int, ...]
    env_kwargs: Mapping[str, Any]
    words: Sequence[str]
    name: str = ""


def begun(paths: MosaicPaths, wanted: Wanted, finder: Finder) -> Arena:
    """The arena, with its entries, kept; the one that is there already where it has the same game and seeds, with the
    entries that are new. Blocking: the environment is asked about itself. Raises ArenaError, CheckpointsError and
    ToolError."""
    store = ArenaStore(paths)
    name = wanted.name or default_name(wanted.env_id, wanted.seeds, wanted.env_kwargs)
    if store.exists(name):
        _require_same(store.load(name), wanted)
        return extended(paths, name, wanted.words, finder, known_is_fine=True)
    found = [finder.find(word) for word in wanted.words]
    if not found:
        raise ArenaError("nobody takes part: name entries, such as random, optimal or a run with a checkpoint")
    try:
        told = described(paths, wanted.env_id, wanted.env_kwargs)
    except ToolRefusedError as error:
        raise ArenaError(str(error)) from error
    _require_table(found, wanted.env_id, told)
    arena = Arena(name, wanted.env_id, dict(wanted.env_kwargs), wanted.seeds, time.time(), dict(told["rules"]))
    arena = admitted(arena, found, known_is_fine=False)
    store.save(arena)
    return arena


def extended(
    paths: MosaicPaths, name: str, words: Sequence[str], finder: Finder, *, known_is_fine: bool = False
) -> Arena:
    """The arena with more entries, kept. Raises ArenaError, CheckpointsError, ToolError."""
    store = ArenaStore(paths)
    store.load(name)
    found = [finder.find(word) for word in words]
    with store.playing(name):
        before = store.load(name)
        new = [one for one in found if one.identity not in {entry.identity for entry in before.entries}]
        if any(one.identity == OPTIMAL for one in new):
            _require_table(new, before.env_id, described(paths, before.env_id, before.env_kwargs))
        arena = admitted(before, found, known_is_fine=known_is_fine)
        if arena != before:
            store.save(arena)
    return arena


def _require_table(found: Sequence[Entry], env_id: str, told: Mapping[str, Any]) -> None:
    if any(one.identity == OPTIMAL for one in found) and not told["has_table"]:
        raise ArenaError(
            f"{env_id} shows no table of what its actions lead to, so nobody knows the optimal policy: "
            "leave “optimal” out"
        )


def _require_same(arena: Arena, wanted: Wanted) -> None:
    if arena.env_id != wanted.env_id or dict(arena.env_kwargs) != dict(wanted.env_kwargs):
        raise ArenaError(f"the arena {arena.name} is of {arena.env_id} with other settings: choose another --name")
    if set(arena.seeds) != set(wanted.seeds):
        shared = len(set(arena.seeds) & set(wanted.seeds))
        raise ArenaError(
            f"the arena {arena.name} has {len(arena.seeds):,} seeds, {shared:,} of them among those "
            "that were named: an arena keeps its seeds, so choose another --name"
        )


def read_all(paths: MosaicPaths, arena: Arena) -> dict[str, Played]:
    """Everything that was played so far, by the keys of the entries. Raises ArenaError."""
    store = ArenaStore(paths)
    return {entry.key: read_played(store.folder(arena, entry), arena.seeds) for entry in arena.entries}


def read_standings(paths: MosaicPaths, name: str, measure: Measure = Measure.RETURN) -> Standings:
    """Raises ArenaError."""
    arena = ArenaStore(paths).load(name)
    return standings_of(arena, read_all(paths, arena), measure)
