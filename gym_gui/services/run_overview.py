"""Everything that is known of one run, in the order in which people ask for it. Without Qt.

The facts are those that :mod:`gym_gui.services.run_diff` compares, so that a run looks the same alone and beside
others; what it comes from, what came of it and where its files are is added.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.errors import CheckpointsError
from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.remote.paths import PathsElsewhere
from gym_gui.services.run_diff import Row, compared
from gym_gui.services.run_words import is_over, short_id, size, state_word
from mosaic_protocol.paths import MosaicPaths, RunPaths
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.run_manifest import read_manifest

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb

SectionName = Literal["results", "changed", "defaults", "run", "lineage", "checkpoints", "files", "code", "environment"]
SECTIONS: tuple[SectionName, ...] = (
    "results",
    "changed",
    "defaults",
    "run",
    "lineage",
    "checkpoints",
    "files",
    "code",
    "environment",
)
_MOST_FILES = 50
_MOST_CHECKED_BYTES = 64 * 2**20
"""Of checkpoints whose bytes are compared with their hashes each time somebody looks."""
_SAID_ELSEWHERE = frozenset({"tags", "notes"})
"""What stands above the facts, where it can be changed."""


@dataclass(frozen=True)
class Fact:
    """One line. ``run_id`` names another run that it is about, ``path`` a folder or file of this one."""

    section: SectionName
    name: str
    text: str
    run_id: str = ""
    path: str = ""
    default: str = ""
    """Of a setting that was changed: what it would be, where that is known."""


def overview_of(run: pb.Run, others: Iterable[pb.Run], paths: MosaicPaths | None = None) -> list[Fact]:
    """The facts in the order of :data:`SECTIONS`. ``others``: among whom parents and children are looked for;
    ``paths``: where its checkpoints are. Reads the run's manifest and its checkpoints: not for a thread that must not
    wait."""
    manifest = _manifest_of(run)
    facts = [
        *(_fact(row) for row in compared([run], [manifest]).rows if row.name not in _SAID_ELSEWHERE),
        *_lineage(run, others),
        *(_checkpoints(run, manifest, paths) if paths is not None else ()),
        *_files(run, manifest),
        *_over_there(run, paths),
        *_command(manifest),
    ]
    return sorted(facts, key=lambda fact: SECTIONS.index(fact.section))


def settings_of(run: pb.Run) -> dict[str, str]:
    """Every setting by its name, in words: those that it was given, and those that its script has by default. Reads the
    run's manifest."""
    rows = compared([run], [_manifest_of(run)]).rows
    return {row.name: row.values[0].text for row in rows if row.section == "settings"}


def _manifest_of(run: pb.Run) -> Mapping[str, Any]:
    return read_manifest(RunPaths(Path(run.run_dir))) if run.run_dir else {}


def found_in(facts: Iterable[Fact], words: str) -> list[Fact]:
    """Those in whose name or text each of some words occurs."""
    wanted = words.casefold().split()
    return [fact for fact in facts if all(word in f"{fact.name} {fact.text}".casefold() for word in wanted)]


def _fact(row: Row) -> Fact:
    (value,) = row.values
    if row.section == "settings":
        if not row.is_changed(value):
            return Fact("defaults", row.name, value.text)
        return Fact("changed", row.name, value.text, default=row.default.text if row.default else "")
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
    for place, inside in _listed(folder, manifest, "videos"):
        yield Fact("files", "video", one_line(place), path=str(inside))


def _over_there(run: pb.Run, paths: MosaicPaths | None) -> Iterator[Fact]:
    """Where the rest of the facts is: code, packages and checkpoints of a run elsewhere are read over there."""
    if isinstance(paths, PathsElsewhere):
        server = paths.link.server.destination
        yield Fact("files", f"on {server}", f"`mosaic --on {server} show {short_id(run.run_id)}` tells the rest")


def _listed(folder: Path, manifest: Mapping[str, Any], key: str) -> Iterator[tuple[str, Path]]:
    """Files that a manifest names, the newest first; it may hold anything, also names of files elsewhere."""
    listed = manifest.get(key)
    places = [place for place in listed if isinstance(place, str)] if isinstance(listed, list) else []
    for place in places[-_MOST_FILES:][::-1]:
        inside = folder / place
        if inside.is_relative_to(folder) and ".." not in inside.parts:
            yield place, inside


def _checkpoints(run: pb.Run, manifest: Mapping[str, Any], paths: MosaicPaths) -> Iterator[Fact]:
    """Each with its size, where it is, and whether its bytes are what was written."""
    registry, found = TrainingRegistry(paths), list[CheckpointEntry]()
    with suppress(CheckpointsError, OSError):
        found = registry.of_run(run.run_id)
        if found and is_over(run) and sum(entry.size for entry in found) <= _MOST_CHECKED_BYTES:
            found = registry.of_run(run.run_id, check_bytes=True)
    for entry in found[:_MOST_FILES]:
        named = [word for word, so in (("best", entry.is_best), ("last", entry.is_last)) if so]
        state = {"ok": "hash verified", "unchecked": "hash not checked"}.get(
            entry.integrity.state, str(entry.integrity)
        )
        digest = f"sha256 {entry.sha256[:12]}" if entry.sha256 else ""
        text = " · ".join(part for part in (state, *named, size(entry.size), "on this machine", digest) if part)
        yield Fact("checkpoints", f"step {entry.step:,}", text, path=str(entry.path))
    there = {entry.path for entry in found}
    for place, inside in _listed(Path(run.run_dir), manifest, "checkpoints") if run.run_dir else ():
        if inside not in there:
            yield Fact("checkpoints", one_line(Path(place).name), "not on this machine any more")


def _command(manifest: Mapping[str, Any]) -> Iterator[Fact]:
    """The script as one would call it by hand."""
    code, given = manifest.get("code"), manifest.get("script_arguments")
    script = code.get("path") if isinstance(code, Mapping) else None
    if isinstance(script, str) and isinstance(given, list):
        yield Fact("code", "command", one_line(shlex.join(["python", script, *map(str, given)])))
