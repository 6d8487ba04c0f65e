"""Everything that is known of one run, in the order in which people ask for it. Without Qt.

The facts are those that :mod:`gym_gui.services.run_diff` compares, so that a run looks the same alone and beside
others; what it comes from, what came of it and where its files are is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gym_gui.services.run_diff import Row, compared
from gym_gui.services.run_words import short_id, state_word
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.run_manifest import read_manifest

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb

SectionName = Literal["results", "changed", "defaults", "run", "lineage", "files", "code", "environment"]
SECTIONS: tuple[SectionName, ...] = (
    "results",
    "changed",
    "defaults",
    "run",
    "lineage",
    "files",
    "code",
    "environment",
)
_MOST_FILES = 50


@dataclass(frozen=True)
class Fact:
    """One line. ``run_id`` names another run that it is about, ``path`` a folder or file of this one."""

    section: SectionName
    name: str
    text: str
    run_id: str = ""
    path: str = ""


def overview_of(run: pb.Run, others: Iterable[pb.Run]) -> list[Fact]:
    """The facts in the order of :data:`SECTIONS`. ``others``: among whom parents and children are looked for. Reads
    the run's manifest: not for a thread that must not wait."""
    manifest = read_manifest(RunPaths(Path(run.run_dir))) if run.run_dir else {}
    facts = [
        *(_fact(row) for row in compared([run], [manifest]).rows),
        *_lineage(run, others),
        *_files(run, manifest),
    ]
    return sorted(facts, key=lambda fact: SECTIONS.index(fact.section))


def found_in(facts: Iterable[Fact], words: str) -> list[Fact]:
    """Those in whose name or text each of some words occurs."""
    wanted = words.casefold().split()
    return [fact for fact in facts if all(word in f"{fact.name} {fact.text}".casefold() for word in wanted)]


def _fact(row: Row) -> Fact:
    (value,) = row.values
    if row.section == "settings":
        return Fact("defaults" if value.is_default else "changed", row.name, value.text)
    section: Mapping[str, SectionName] = {
        "run": "run",
        "code": "code",
        "environment": "environment",
        "results": "results",
    }
    return Fact(section[row.section], row.name, value.text)


def _lineage(run: pb.Run, others: Iterable[pb.Run]) -> Iterator[Fact]:
    known = {one.run_id: one for one in others}
    if run.parent:
        parent = known.get(run.parent)
        yield Fact(
            "lineage", "goes on from", _named(parent) if parent is not None else short_id(run.parent), run.parent
        )
    children = sorted((one for one in known.values() if one.parent == run.run_id), key=lambda one: one.created_at)
    for child in children:
        yield Fact("lineage", "was gone on with by", _named(child), child.run_id)


def _named(run: pb.Run) -> str:
    return f"{one_line(run.name)} ({short_id(run.run_id)}), {state_word(run)}"


def _files(run: pb.Run, manifest: Mapping[str, Any]) -> Iterator[Fact]:
    if not run.run_dir:
        return
    folder = Path(run.run_dir)
    yield Fact("files", "folder", one_line(run.run_dir), path=run.run_dir)
    if run.log_dir:
        yield Fact("files", "logs", one_line(run.log_dir), path=run.log_dir)
    for name, key in (("checkpoint", "checkpoints"), ("video", "videos")):
        listed = manifest.get(key)
        places = [place for place in listed if isinstance(place, str)] if isinstance(listed, list) else []
        for place in places[-_MOST_FILES:][::-1]:
            inside = folder / place
            if inside.is_relative_to(folder) and ".." not in inside.parts:
                yield Fact("files", name, one_line(place), path=str(inside))
