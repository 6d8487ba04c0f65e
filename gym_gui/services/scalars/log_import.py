"""Foreign log folders made into runs: each folder that holds event files is one.

:func:`survey` looks and changes nothing; :class:`LogImport` brings what is new to the daemon. The numbers of each file
are a stream with a cursor there, so an import that is repeated, or was cut short, adds what is missing and nothing
twice. What a file holds beside scalars stays where it is; :mod:`gym_gui.services.scalars.media` reads it there.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.services.run_labels import config_of
from gym_gui.services.run_labels import worker_settings as settings_of
from gym_gui.services.scalars import events as kinds
from gym_gui.services.scalars import logged_settings
from gym_gui.services.scalars.event_reader import EventFileError, EventFileReader, event_files, log_folders
from mosaic_protocol import events as ev
from mosaic_protocol.headline import RECENT_MEANS, RETURN_TAG
from mosaic_protocol.imported_runs import IMPORTED, SOURCE, STREAM_PREFIX, source_of
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.protobuf_wire import WireError
from mosaic_protocol.run_config import RunConfigError, parse_run_config

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient

RETURNS_FROM = "returns_from"
"""Among the extras of an imported run: which of its metrics is taken for the return of its episodes."""
_KNOWN_MEANS = (
    "rollout/ep_rew_mean",
    "ray/tune/env_runners/episode_return_mean",
    "ray/tune/episode_reward_mean",
)
"""Means of recent episodes as Stable-Baselines3 and RLlib log them."""
_LINES_PER_BATCH = 4000
_LONGEST_NAME = 112
_OF_HPARAMS = re.compile(r"\d{9,}\.\d+")
"""The folder below a run's that PyTorch's ``add_hparams`` writes: it is called after the time."""


class ImportRefusedError(Exception):
    """A folder cannot be imported; the message is a sentence."""


@dataclass(frozen=True)
class LogFolder:
    """What was found in one folder."""

    folder: Path
    name: str
    files: tuple[Path, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    points: Mapping[Path, int] = field(default_factory=dict)
    """How many scalars each file has."""
    tags: frozenset[str] = frozenset()
    others: Mapping[str, int] = field(default_factory=dict)
    """How many histograms, texts, images and so on there are; they are not imported."""
    last_step: int = 0
    notes: tuple[str, ...] = ()
    """A sentence for each thing that is not as it should be."""

    @property
    def source(self) -> str:
        return os.fsencode(self.folder).decode(errors="replace")

    @property
    def total(self) -> int:
        return sum(self.points.values())

    @property
    def returns_from(self) -> str:
        """The metric that stands for the return where the log does not have MOSAIC's own."""
        return "" if RETURN_TAG in self.tags else next((tag for tag in _KNOWN_MEANS if tag in self.tags), "")


def survey(root: Path, own: Path | None = None) -> list[LogFolder]:
    """Everything at and below a folder that can be a run, by path, but for what lies in the data root ``own``: those
    are runs already. Reads every file once; changes nothing. Raises :class:`ImportRefusedError`."""
    root = Path(os.path.realpath(root))
    if not root.exists():
        raise ImportRefusedError(f"there is no folder {root}")
    if not root.is_dir():
        raise ImportRefusedError(f"{root} is a file: name the folder that it is in")
    try:
        folders = log_folders(root)
    except EventFileError as error:
        raise ImportRefusedError(str(error)) from error
    if own is not None and (mine := [one for one in folders if one.is_relative_to(os.path.realpath(own))]):
        folders = [one for one in folders if one not in mine]
        if not folders:
            raise ImportRefusedError(f"the event files in {root} belong to runs of MOSAIC: `mosaic runs` lists them")
    if not folders:
        raise ImportRefusedError(f"{root} holds no event files of TensorBoard (*tfevents*), nor does a folder below it")
    known = set(folders)
    owned = {one: one.parent for one in folders if _OF_HPARAMS.fullmatch(one.name) and one.parent in known}
    found = []
    for folder in folders:
        if folder not in owned:
            below = [one for one, owner in owned.items() if owner == folder]
            found.append(_surveyed(folder, below, _name_of(folder, root)))
    return found


def _name_of(folder: Path, root: Path) -> str:
    """After the folder, below the named one; without slashes, because a word with one is taken for a path."""
    parts = folder.relative_to(root).parts or (root.name or "logs",)
    plain = "".join(character if character.isprintable() else "?" for character in "-".join(parts)).strip()
    return plain[-_LONGEST_NAME:].strip() or "logs"


def _surveyed(folder: Path, below: Sequence[Path], name: str) -> LogFolder:
    files: list[Path] = []
    notes: list[str] = []
    for place in (folder, *below):
        try:
            files += event_files(place)
        except EventFileError as error:
            notes.append(str(error))
    logged: dict[str, Any] = {}
    tags: set[str] = set()
    points: dict[Path, int] = {}
    others: dict[str, int] = {}
    last_step = 0
    for file in files:
        reader = EventFileReader(file)
        try:
            for part in reader.read():
                points[file] = points.get(file, 0) + len(part.points)
                last_step = max(last_step, int(part.points.steps.max(initial=0)))
                for one in part.listed:
                    others[one.kind] = others.get(one.kind, 0) + 1
                    logged |= _settings_in(reader, one)
        except EventFileError as error:
            notes.append(str(error))
        tags.update(reader.tags)
        notes += _damage(reader)
    settings = logged_settings.worker_settings(logged)
    return LogFolder(folder, name, tuple(files), settings, points, frozenset(tags), others, last_step, tuple(notes))


def _damage(reader: EventFileReader) -> Iterator[str]:
    yield from reader.troubles()
    if reader.is_half_written and not reader.ended:
        yield f"the last record of {reader.path} is not whole yet: import the folder again later"


def _settings_in(reader: EventFileReader, listed: Any) -> dict[str, Any]:
    try:
        if listed.kind == kinds.HPARAMS:
            return dict(kinds.hparams(*reader.record_of(listed)))
        if listed.kind == kinds.TEXT and listed.tag == logged_settings.TABLE_TAG:
            return logged_settings.settings_in_table("\n".join(kinds.texts(*reader.record_of(listed))))
    except WireError:  # of a plugin's content, which no checksum of the record vouches for
        return {}
    return {}


# ---- bringing it to the daemon -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wishes:
    """What a person says about runs to be imported."""

    name: str = ""
    tags: tuple[str, ...] = ()
    group: str = ""
    algo: str = ""
    env_id: str = ""
    returns_from: str = ""


@dataclass(frozen=True)
class Plan:
    """What becomes of a folder: ``run`` is there where it was imported before."""

    found: LogFolder
    config: Mapping[str, Any]
    run: pb.Run | None = None
    imported: Mapping[Path, int] = field(default_factory=dict)
    why_not: str = ""

    @property
    def new_points(self) -> int:
        return 0 if self.why_not else self.found.total - sum(self.imported.values())


class LogImport:
    """Uses a client that it does not own. Raises its ClientErrors, and nothing is lost then: an import goes on."""

    def __init__(self, client: TrainerClient, wishes: Wishes) -> None:
        self._client, self._wishes = client, wishes

    def plans(self, found: Sequence[LogFolder]) -> list[Plan]:
        """What there is to do for each folder."""
        known = {source_of(settings_of(config_of(run.config_json))): run for run in self._imported_runs()}
        return [self._plan(one, known.get(one.source), alone=len(found) == 1) for one in found]

    def _imported_runs(self) -> Iterator[pb.Run]:
        """Older ones first: of several of one source the newest counts."""
        token, pages = "", []
        while True:
            page = self._client.runs(size=1000, token=token, where=f"worker={IMPORTED}", include_deleted=True)
            pages.append(page.runs)
            token = page.next_page_token
            if not token:
                break
        for runs in reversed(pages):
            yield from reversed(runs)

    def _plan(self, found: LogFolder, run: pb.Run | None, *, alone: bool) -> Plan:
        if not found.total:
            return Plan(found, {}, run, why_not="it has no scalars")
        if run is not None and run.deleted:
            sentence = f"it was imported as {run.name}, which is in the trash: `mosaic restore` or purge that run first"
            return Plan(found, {}, run, why_not=sentence)
        if run is None:
            return Plan(found, self._config(found, alone=alone))
        cursors = self._cursors(run, found)
        shorter = [file for file, count in cursors.items() if count > found.points.get(file, 0)]
        if shorter:
            sentence = f"{shorter[0].name} has fewer points than were imported of it: it was written again. Delete"
            return Plan(found, {}, run, why_not=f"{sentence} {run.name} with --purge, then import the folder again")
        return Plan(found, {}, run, cursors)

    def _config(self, found: LogFolder, *, alone: bool) -> dict[str, Any]:
        wishes = self._wishes
        name = found.name if not wishes.name else wishes.name if alone else f"{wishes.name}-{found.name}"
        returns = wishes.returns_from or found.returns_from
        if wishes.returns_from and wishes.returns_from not in found.tags:
            raise ImportRefusedError(f"{found.folder} has no metric {wishes.returns_from[:60]!r}: {_some(found.tags)}")
        named = {"algo": wishes.algo, "env_id": wishes.env_id}
        settings = {**found.settings, **{key: value for key, value in named.items() if value}}
        settings["extras"] = {SOURCE: found.source, **({RETURNS_FROM: returns} if returns else {})}
        config: dict[str, Any] = {
            "run_name": name,
            "resources": {},
            "artifacts": {"tensorboard": {"enabled": False}, "checkpoints": {"enabled": False}},
            "metadata": {
                "worker": {"type": IMPORTED, "module": IMPORTED, "config": settings},
                "tags": list(wishes.tags),
                **({"group": wishes.group} if wishes.group else {}),
            },
        }
        try:
            parse_run_config(config)
        except RunConfigError as error:
            raise ImportRefusedError("; ".join(str(error).splitlines())) from error
        return config

    def _cursors(self, run: pb.Run, found: LogFolder) -> dict[Path, int]:
        """How many points of each file are stored."""
        asked = [pb.RecordBatch(run_id=run.run_id, stream=_stream(found, file)) for file in found.files]
        answers = self._client.import_records(asked)
        return {file: int(ack.acked_seq) for file, ack in zip(found.files, answers, strict=True)}

    def bring(self, plan: Plan) -> Plan:
        """Import what is new; the plan with its run."""
        if plan.why_not or not plan.new_points:
            return plan
        run = plan.run
        if run is None:
            request = hashlib.sha256(plan.found.source.encode()).hexdigest()[:40]
            default = not self._wishes.name
            run = self._client.import_run(plan.config, f"import-logs:{request}", name_is_default=default).run
        extras = settings_of(config_of(run.config_json)).get("extras") or {}
        returns = str(extras.get(RETURNS_FROM) or "")
        for _ in self._client.import_records(_batches(run.run_id, plan, returns)):
            pass
        return replace(plan, run=self._client.run(run.run_id))


def _stream(found: LogFolder, file: Path) -> str:
    return STREAM_PREFIX + os.fsencode(file.relative_to(found.folder)).decode(errors="replace")[-250:]


def _batches(run_id: str, plan: Plan, returns: str) -> Iterator[pb.RecordBatch]:
    for file in plan.found.files:
        stream, first = _stream(plan.found, file), plan.imported.get(file, 0) + 1
        lines: list[bytes] = []
        for number, row in enumerate(_rows(file, returns), 1):
            if number < first:
                continue
            row.seq = number
            lines.append(ev.encode(row))
            if len(lines) == _LINES_PER_BATCH:
                yield pb.RecordBatch(run_id=run_id, stream=stream, first_seq=first, lines=lines)
                first, lines = number + 1, []
        if lines:
            yield pb.RecordBatch(run_id=run_id, stream=stream, first_seq=first, lines=lines)


def _rows(file: Path, returns: str) -> Iterator[ev.MetricRow]:
    """A row for each point, so that each keeps its own time. What cannot be read was said when it was surveyed."""
    reader = EventFileReader(file)
    try:
        for part in reader.read():
            points, tags = part.points, reader.tags
            columns: Iterable[tuple[int, int, float, float]] = zip(
                points.tag.tolist(),
                points.steps.tolist(),
                points.values.tolist(),
                points.wall_times.tolist(),
                strict=True,
            )
            for tag, step, value, when in columns:
                number = value if math.isfinite(value) else None
                values = {tags[tag]: number}
                if returns and tags[tag] == returns:
                    values |= {RETURN_TAG: number} | (
                        {RECENT_MEANS[RETURN_TAG]: number} if returns in _KNOWN_MEANS else {}
                    )
                yield ev.MetricRow(step=step, values=values, t=when if math.isfinite(when) else 0.0)
    except EventFileError:
        return


def _some(tags: Iterable[str]) -> str:
    known = sorted(tags)
    more = f" and {len(known) - 8} more" if len(known) > 8 else ""
    return f"it has {', '.join(known[:8])}{more}" if known else "it has none"
