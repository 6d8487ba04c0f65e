"""Runs by expression: SQL decides what is a column, the rest is looked at here; only what fits leaves the daemon."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gym_gui.services.run_filter import (
    HEADLINE_FIELDS,
    FilterError,
    RunFacts,
    RunFilter,
    parse,
    require_known_settings,
    setting_in,
)
from gym_gui.services.run_labels import Scalar
from gym_gui.services.trainer.errors import RefusedError
from gym_gui.services.trainer.runs.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.storage.run_query import Query
from gym_gui.services.trainer.storage.run_registry import IndexRow, Page, settings_of
from mosaic_protocol.process_identity import boot_id
from mosaic_protocol.proto import trainer_pb2 as pb


@dataclass(frozen=True)
class _Numbers:
    """How far a live run is; named as the columns of the index that lag behind."""

    last_step: int
    total_steps: int
    active_seconds: float


_COLUMNS = {"steps": "last_step", "total_steps": "total_steps", "trained": "active_seconds"}


@dataclass(frozen=True)
class _Known:
    """What the registry cannot tell of runs: headline numbers by field and run, and how far live runs are now."""

    headlines: Mapping[str, Mapping[str, float]]
    live: Mapping[str, _Numbers]
    settings_seen: set[str] = field(default_factory=set)


class _IndexFacts:
    """The facts of a run from its row of the index; for terms that SQL does not decide."""

    __slots__ = ("_known", "_row", "_settings")

    def __init__(self, row: IndexRow, known: _Known) -> None:
        self._row, self._known = row, known
        self._settings: dict[str, Scalar] | None = None

    def values(self, field: str) -> Sequence[Scalar]:
        run_id = self._row["run_id"]
        if field in self._known.headlines:
            value = self._known.headlines[field].get(run_id)
            return () if value is None else (value,)
        column, live = _COLUMNS[field], self._known.live.get(run_id)
        number: Scalar = self._row[column] if live is None else getattr(live, column)
        return (number,) if number or column != "total_steps" else ()

    def setting(self, name: str) -> Scalar | None:
        if self._settings is None:
            self._settings = settings_of(self._row)
        value = setting_in(self._settings, name, self._row["worker_type"])
        if value is not None:
            self._known.settings_seen.add(name)
        return value


class RunSearch:
    """Belongs to the daemon's event loop."""

    def __init__(self, orchestrator: TrainerOrchestrator) -> None:
        self._orchestrator, self._registry = orchestrator, orchestrator.registry
        self._real: set[str] = set()
        """Settings that some run was given, as far as anybody asked for them."""

    async def page(self, query: Query, size: int, token: str) -> Page:
        """A page of runs. Raises :class:`RefusedError` for a setting that no run was given."""
        left = query.left
        if not left:
            return self._registry.page(query, size, token)
        known = await self._known(left)
        return await asyncio.to_thread(self._fitting_page, query, known, size, token)

    async def _known(self, left: RunFilter) -> _Known:
        hub, fields = self._orchestrator.hub, {term.field for term in left.terms if not term.is_setting}
        tags = {name: tag for name, tag in HEADLINE_FIELDS.items() if name in fields}
        headlines = {name: await hub.read(hub.store.headlines, tag) for name, tag in tags.items()}
        now, boot = time.monotonic(), boot_id()
        live = {
            run_id: _Numbers(
                max(one.step, one.run.last_step),
                one.total_steps or one.run.total_steps,
                one.run.active.total(now, boot),
            )
            for run_id, one in self._orchestrator.tracked.items()
        }
        return _Known(headlines, live)

    def _fitting_page(self, query: Query, known: _Known, size: int, token: str) -> Page:
        left = query.left
        page = self._registry.page_of_fitting(query, lambda row: left.matches(_IndexFacts(row, known)), size, token)
        self._real |= known.settings_seen
        self.require_real_settings(left)
        return page

    def require_real_settings(self, wanted: RunFilter) -> None:
        """Refuse settings that no run was given, which are misspelt fields mostly. Looks at every run unless it knows
        them: not for a thread that must not wait."""
        doubtful = tuple(term for term in wanted.settings if term.field not in self._real)
        if not doubtful:
            return
        settings = self._registry.known_settings()
        if settings:  # before the first run every name is as good as any
            try:
                require_known_settings(RunFilter(wanted.text, doubtful), settings)
            except FilterError as error:
                raise RefusedError(str(error)) from error
            self._real |= {term.field for term in doubtful}


def understood(expression: str) -> RunFilter:
    """Raises :class:`RefusedError` with what is wrong and where."""
    try:
        return parse(expression)
    except FilterError as error:
        raise RefusedError(str(error)) from error


class NarrowedWatch:
    """Lets those changes through that concern a watcher of some runs: of runs that match, and of those that did."""

    def __init__(self, wanted: RunFilter, *, taken_up: bool) -> None:
        """``taken_up``: the watcher knows of runs from an earlier stream, nobody can tell of which."""
        self._wanted, self._taken_up = wanted, taken_up
        self._shown: set[str] = set()

    def narrowed(self, update: pb.RunUpdate) -> pb.RunUpdate | None:
        run_id = update.run.run_id
        if not self._wanted:
            return update
        if self._wanted.matches(RunFacts(update.run)):
            self._shown.add(run_id)
            return update
        if run_id in self._shown or self._taken_up:
            self._shown.discard(run_id)
            left = pb.Run(run_id=run_id, deleted=update.deleted)
            return pb.RunUpdate(revision=update.revision, run=left, deleted=update.deleted, unmatched=True)
        return None
