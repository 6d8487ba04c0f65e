"""Who is meant by a word: ``random``, ``optimal``, a checkpoint, the steps of a run; ``NAME=ENTRY`` gives it a name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gym_gui.services.arena.errors import ArenaError
from gym_gui.services.arena.model import Arena, Entry, Kind
from gym_gui.services.arena.store import slug
from gym_gui.services.checkpoints.errors import UnknownCheckpointError
from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.checkpoints.use import require_whole, tool_for
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.suggest import nearest

if TYPE_CHECKING:
    from gym_gui.services.checkpoints.entry import CheckpointEntry
    from mosaic_protocol.paths import MosaicPaths
    from mosaic_protocol.proto import trainer_pb2 as pb

RANDOM, OPTIMAL = "random", "optimal"
STEPS = "steps:"
"""In front of a run's name: what it recorded takes part, and not its checkpoint."""
_NAMED = re.compile(r"([^=/]{1,40})=(.+)")
_TITLES = {RANDOM: ("Random", "uniform over the actions"), OPTIMAL: ("Optimal", "value iteration on the table")}


def entry_words(text: str) -> list[str]:
    """What somebody typed into one line, word by word; quotes hold a name with blanks together. Raises ArenaError."""
    try:
        return shlex.split(text)
    except ValueError:
        raise ArenaError(f"a quote in {one_line(text)[:60]} is not closed") from None


FindRun = Callable[[str], "pb.Run"]
"""The run that a word means. Raises a sentence of the daemon's client, or of the command line, where there is none."""


@dataclass(frozen=True)
class Finder:
    """``run`` may start the daemon, so it is asked last, and only where a word is neither of the others."""

    paths: MosaicPaths
    run: FindRun

    def find(self, word: str) -> Entry:
        """What a word means; key and place in the arena come later. Raises ArenaError or CheckpointsError."""
        named = _NAMED.fullmatch(word)
        label, wanted = (named[1].strip(), named[2].strip()) if named else ("", word.strip())
        found = self._found(wanted)
        return replace(found, label=one_line(label)) if label else found

    def _found(self, wanted: str) -> Entry:
        if wanted in _TITLES:
            title, detail = _TITLES[wanted]
            return Entry("", title, Kind.BASELINE, wanted, detail, {"player": wanted})
        if wanted.startswith(STEPS):
            return of_run(self.run(wanted.removeprefix(STEPS)))
        try:
            return of_checkpoint(TrainingRegistry(self.paths).find(wanted))
        except UnknownCheckpointError as error:
            if near := nearest(wanted, [RANDOM, OPTIMAL]):
                raise ArenaError(f"there is no entry {wanted[:60]!r}; did you mean {near!r}?") from error
            if "/" in wanted or "@" in wanted:
                raise
            unknown = error
        try:
            return of_run(self.run(wanted))
        except ArenaError:
            raise
        except Exception as error:
            raise ArenaError(f"{wanted[:60]!r} is no entry: {unknown}; and as a run: {error}") from error


def of_checkpoint(found: CheckpointEntry) -> Entry:
    """Raises CheckpointsError for one that is damaged, or that nobody here can evaluate."""
    require_whole(found)
    manifest, _ = tool_for("evaluate", found.algo, found.worker)
    label = found.run_name or found.algo
    source = {"path": str(found.path), "id": found.id, "worker": manifest.type, "algo": found.algo}
    source |= {"env_id": found.env_id, "run_id": found.run_id, "step": str(found.step)}
    detail = f"{found.algo} of {manifest.name}, step {found.step:,}"
    return Entry("", label, Kind.CHECKPOINT, f"checkpoint {found.sha256}", detail, source)


def of_run(run: pb.Run) -> Entry:
    """The recorded steps of a run, a person's or anybody's."""
    source = {"run_id": run.run_id, "run_name": run.name, "env_id": run.env_id, "worker": run.worker_type}
    return Entry("", run.name, Kind.RECORDING, f"run {run.run_id}", f"recorded by {run.name}", source)


def admitted(arena: Arena, found: Sequence[Entry], *, known_is_fine: bool) -> Arena:
    """The arena with entries that are not in it yet. Raises ArenaError for one that is named twice, and for one that is
    there already unless that is fine: then it is the same one, and what it played counts."""
    there = {one.identity: one for one in arena.entries}
    keys, labels = {one.key for one in arena.entries}, {one.label for one in arena.entries}
    entries, asked = list(arena.entries), set[str]()
    for one in found:
        if one.identity in asked:
            raise ArenaError(f"{one.label} is named twice: an entry takes part once")
        asked.add(one.identity)
        if one.identity in there:
            if not known_is_fine:
                raise ArenaError(f"{there[one.identity].label} is in the arena {arena.name} already")
            continue
        entries.append(_placed(one, keys, labels))
    return replace(arena, entries=tuple(entries))


def _placed(entry: Entry, keys: set[str], labels: set[str]) -> Entry:
    label = next(
        name for name in (entry.label, *(f"{entry.label} {n}" for n in range(2, 10_000))) if name not in labels
    )
    key = slug(label, keys)
    keys.add(key)
    labels.add(label)
    return replace(entry, key=key, label=label)
