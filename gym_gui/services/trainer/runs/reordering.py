"""Moving a run to another place of the queue: which key it gets, and what cannot be. Pure, like every decision."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from gym_gui.services.run_labels import config_of
from gym_gui.services.trainer.errors import RefusedError, WrongStateError
from gym_gui.services.trainer.runs.queue_keys import between, in_front_of
from gym_gui.services.trainer.runs.run_queue import ANY, HERE
from gym_gui.services.trainer.runs.run_record import RunRecord
from mosaic_protocol.run_config import parse_run_config, to_json


class Where(StrEnum):
    FIRST = "first"
    LAST = "last"
    BEFORE = "before"
    AFTER = "after"
    HOST = "host"
    """Where it stands, and on another host."""


@dataclass(frozen=True)
class Place:
    """Where a run is to stand; ``anchor`` is the run beside it, for BEFORE and AFTER."""

    where: Where
    anchor: RunRecord | None = None
    host: str = HERE
    """For HOST: the one that it is to run on."""

    @property
    def story(self) -> str:
        """What the history of the run keeps of it."""
        if self.where is Where.HOST:
            return {HERE: "to this machine", ANY: "to any host"}.get(self.host, f"to host {self.host}")
        ends = {Where.FIRST: "to the front of the queue", Where.LAST: "to the end of the queue"}
        return ends[self.where] if self.anchor is None else f"{self.where} {self.anchor.short}"

    @property
    def digest(self) -> str:
        """Tells a request that comes again from another one under the same id."""
        anchor = "" if self.anchor is None else self.anchor.run_id
        return hashlib.sha256(f"move {self.where} {anchor or self.host}".encode()).hexdigest()


def rehosted(run: RunRecord, host: str) -> RunRecord:
    """The run as it would be submitted for another host. Labels go with ``any`` alone: who names a host has chosen."""
    config = dict(config_of(run.config_json))
    resources = {name: value for name, value in dict(config.get("resources") or {}).items() if name != "host"}
    if host != ANY:
        resources.pop("labels", None)
    text = to_json(parse_run_config({**config, "resources": {**resources, "host": host}}))
    return replace(run, config_json=text)


def require_queued(run: RunRecord) -> None:
    """Raises :class:`WrongStateError` for a run that waits for nothing more."""
    if run.is_over:
        raise WrongStateError(f"run {run.short} is not in the queue: it ended: {run.outcome}, {run.reason}")
    if not run.is_queued:
        raise WrongStateError(f"run {run.short} is not in the queue any more: it has started")


def require_movable(run: RunRecord) -> None:
    """Raises :class:`WrongStateError` for a run that does not stand in the line."""
    require_queued(run)
    if run.reason:
        raise WrongStateError(f"run {run.short} does not stand in the line: {run.reason}")


def require_same_line(run: RunRecord, anchor: RunRecord, *, sessions_apart: bool) -> None:
    """Raises for a place that the run cannot have."""
    if run.run_id == anchor.run_id:
        raise RefusedError(f"run {run.short} cannot stand {Where.BEFORE} or {Where.AFTER} itself: name another run")
    require_movable(anchor)
    if sessions_apart and run.interactive is not anchor.interactive:
        raise RefusedError(
            f"runs {run.short} and {anchor.short} wait in different lines: "
            "interactive runs have CPUs of their own and never wait behind training"
        )


def new_key(place: Place, others: Iterable[str], next_at_the_end: Callable[[], str]) -> str:
    """The key for a place among the keys of all other queued runs."""
    if place.where is Where.FIRST:
        return in_front_of(others)
    if place.anchor is None:
        return next_at_the_end()
    anchor = place.anchor.queue_key
    if place.where is Where.BEFORE:
        ahead = [key for key in others if key < anchor]
        return between(max(ahead), anchor) if ahead else in_front_of([anchor])
    behind = [key for key in others if key > anchor]
    return between(anchor, min(behind)) if behind else next_at_the_end()
