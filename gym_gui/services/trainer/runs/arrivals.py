"""Runs of other machines, unpacked from an archive: taken whole or not at all.

A client unpacks below ``trainer/arrivals`` and calls. Records go into the stores, files to their places, and the
registry hears of the run last: before that nobody sees any of it. What a crash leaves is named by the folder, which is
removed last; the next daemon undoes it before it serves.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.run_labels import config_of, labels_in
from gym_gui.services.trainer.errors import LeavingError, RefusedError, UnknownRunError, WorldError, WrongStateError
from gym_gui.services.trainer.runs.background import BackgroundWork
from gym_gui.services.trainer.runs.deletion import RunDeletion
from gym_gui.services.trainer.runs.lifecycle import Transition
from gym_gui.services.trainer.runs.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.storage.run_registry import PastMove
from gym_gui.services.trainer.telemetry import transfer
from mosaic_protocol import run_archive
from mosaic_protocol.paths import checked_run_id
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.regular_files import open_regular, read_regular
from mosaic_protocol.run_config import parse_run_config
from mosaic_protocol.states import RunState, is_legal
from mosaic_protocol.whole_files import remove_left_drafts, sync, write_whole

logger = logging.getLogger(__name__)

_ARRIVAL = re.compile(r"([0-9A-HJKMNP-TV-Z]{26})\.[0-9A-HJKMNP-TV-Z]{26}")
_PLACING = "placing"
"""There from the moment on at which files of the run may be in their places."""
_MOST_DOCUMENT_BYTES = 64 * 2**20
_IMPORTED = "Imported"

_decode_run = msgspec.json.Decoder(RunRecord).decode
_decode_past = msgspec.json.Decoder(list[PastMove]).decode


@dataclass(frozen=True)
class _Arrival:
    """An unpacked run."""

    folder: Path
    run: RunRecord
    past: list[PastMove]
    was: str
    """The id that it had; another one where it comes in as a copy."""

    @property
    def is_copy(self) -> bool:
        return self.was != self.run.run_id


class Arrivals:
    """Belongs to the daemon's event loop. What was begun goes to its end, also when its client hangs up."""

    def __init__(self, orchestrator: TrainerOrchestrator, deletion: RunDeletion) -> None:
        self._orchestrator, self._deletion = orchestrator, deletion
        self._paths, self._registry, self._hub = orchestrator.paths, orchestrator.registry, orchestrator.hub
        self._work = BackgroundWork()

    async def close(self) -> None:
        await self._work.close()

    async def clean(self) -> None:
        """Undo what an earlier daemon was killed in the middle of. Before anything is served."""
        for folder, run_id in await asyncio.to_thread(self._left):
            try:
                if not self._is_known(run_id):
                    await self._undo(folder, run_id)
                await asyncio.to_thread(shutil.rmtree, folder)
            except (OSError, WorldError) as error:  # the next daemon tries again; nobody sees what is left
                log_event(
                    logger, codes.LOG_TRAINER_HOUSEKEEPING, level=logging.WARNING, run_id=run_id, reason=str(error)
                )

    async def take(self, name: str) -> RunRecord:
        """Take in what a client unpacked. Its folder is gone afterwards, also when the run is refused."""
        match = _ARRIVAL.fullmatch(name)
        folder = self._paths.arrivals / name
        if match is None or folder.is_symlink() or not folder.is_dir():
            raise RefusedError(f"there is no arrival {name[:60]!r}: import the archive again")
        return await self._work.to_the_end(self._take(folder, match[1]))

    async def _take(self, folder: Path, run_id: str) -> RunRecord:
        try:
            arrival = await asyncio.to_thread(_read, folder, run_id)
            with self._deletion.held(arrival.run, "imported"):
                if self._is_known(run_id):
                    raise WrongStateError(f"run {arrival.run.short} is here already: nothing was imported")
                return await self._bring(arrival)
        except OSError as error:
            raise WorldError(f"the run cannot be imported: {error.strerror or error} ({error.filename})") from error
        finally:
            if not self._work.closing:  # then what is left to undo is undone by the next daemon
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _bring(self, arrival: _Arrival) -> RunRecord:
        run_id, folder = arrival.run.run_id, arrival.folder
        try:
            await self._forget(run_id)
            await self._store(arrival)
            await asyncio.to_thread(self._place, arrival)
            await asyncio.to_thread(self._write_through)
            detail = f"a copy of {arrival.was}" if arrival.is_copy else "from an archive"
            note = Transition(RunState.TERM, RunState.TERM, _IMPORTED, detail)
            stored = self._registry.adopt(arrival.run, arrival.past, note, name_is_default=arrival.is_copy)
            run = await asyncio.wrap_future(stored)
        except BaseException:
            if not self._work.closing:
                await self._undo(folder, run_id)
            raise
        if run.name != arrival.run.name:
            await asyncio.to_thread(write_whole, self._paths.run_config(run_id), run.config_json)
        self._orchestrator.announce()
        return run

    async def _store(self, arrival: _Arrival) -> None:
        run_id = arrival.run.run_id
        async for rows in self._batches(arrival.folder / run_archive.TELEMETRY, transfer.TELEMETRY_ROWS):
            await asyncio.wrap_future(self._hub.store.bring(run_id, rows))
        async for rows in self._batches(arrival.folder / run_archive.STEPS, transfer.STEP_ROWS):
            await asyncio.wrap_future(self._hub.steps.bring(run_id, rows))

    async def _batches(self, file: Path, kinds: tuple[type, ...]) -> AsyncIterator[list[transfer.Row]]:
        with open_regular(file) as stream:
            found = transfer.batches(stream, kinds)
            while (rows := await asyncio.to_thread(next, found, None)) is not None:
                if self._work.closing:
                    raise LeavingError("the daemon is leaving: import the archive again")
                yield rows

    def _places(self, run_id: str) -> dict[str, Path]:
        paths = self._paths
        return {
            run_archive.FILES: paths.run(run_id).directory,
            run_archive.LOGS: paths.run_logs(run_id),
            run_archive.CONFIG: paths.run_config(run_id),
            run_archive.WORKER_CONFIG: paths.worker_config(run_id),
        }

    def _place(self, arrival: _Arrival) -> None:
        """Files of a run that the registry does not know may be all that is left of one: they are not touched."""
        places = self._places(arrival.run.run_id)
        for place in places.values():
            if place.exists() or place.is_symlink():
                raise WrongStateError(f"{place} is there already, of a run that is not known here: move it away first")
        (arrival.folder / _PLACING).touch()
        sync(arrival.folder)
        for name, place in places.items():
            if (arrival.folder / name).exists():
                shutil.move(arrival.folder / name, place)  # in one step, unless the place is on another disk
                sync(place.parent)
        places[run_archive.FILES].mkdir(exist_ok=True)

    def _write_through(self) -> None:
        """The stores sync their logs now and then; the registry does so with every commit, and must not be ahead."""
        for database in (self._paths.telemetry_db, self._paths.steps_db):
            with suppress(FileNotFoundError):
                sync(database.with_name(database.name + "-wal"))

    async def _undo(self, folder: Path, run_id: str) -> None:
        if (folder / _PLACING).exists():
            await asyncio.to_thread(_remove, list(self._places(run_id).values()))
        await self._forget(run_id)

    async def _forget(self, run_id: str) -> None:
        for store in (self._hub.store, self._hub.steps):
            while await asyncio.wrap_future(store.forget(run_id)):
                pass

    def _left(self) -> list[tuple[Path, str]]:
        for name in run_archive.DRAFTS:
            remove_left_drafts(self._paths.arrivals / name)
        try:
            found = list(self._paths.arrivals.iterdir())
        except FileNotFoundError:
            return []
        folders = [path for path in found if path.is_dir() and not path.is_symlink()]
        return [(folder, match[1]) for folder in folders if (match := _ARRIVAL.fullmatch(folder.name))]

    def _is_known(self, run_id: str) -> bool:
        try:
            self._registry.get(run_id)
        except UnknownRunError:
            return False
        return True

    # ---- the other way ---------------------------------------------------------------------------------------------

    async def parts(self, run: RunRecord) -> AsyncGenerator[pb.RunPart, None]:
        """What the databases hold of a run, as the files that :meth:`take` reads."""
        if not run.is_over:
            raise WrongStateError(f"run {run.short} is not over ({run.state}): wait for it, or cancel it first")
        if run.deleted_at:
            raise WrongStateError(f"run {run.short} is in the trash: `mosaic restore` brings it back first")
        past = [PastMove(row.wall_time, row.monotonic, row.transition) for row in self._registry.history(run.run_id)]
        yield pb.RunPart(file=run_archive.RUN, data=msgspec.json.encode(_traveller(run)))
        yield pb.RunPart(file=run_archive.HISTORY, data=msgspec.json.encode(past))
        for name, store in ((run_archive.TELEMETRY, self._hub.store), (run_archive.STEPS, self._hub.steps)):
            yield pb.RunPart(file=name)
            found = transfer.blocks(store.rows(run.run_id))
            while (block := await self._hub.read(next, found, None)) is not None:
                yield pb.RunPart(file=name, data=block)


def _traveller(run: RunRecord) -> RunRecord:
    """A run without what means something on its own machine only."""
    return replace(
        run,
        locator="",
        pid=0,
        reservation=None,
        launch_token_hash="",
        session_token_hash="",
        queue_key="",
        throttled="",
        journal_unread="",
        deleted_at=0.0,
        revision=0,
    )


def _read(folder: Path, run_id: str) -> _Arrival:
    """Raises OSError, and RefusedError for what cannot be a run that is over."""
    try:
        run = _decode_run(read_regular(folder / run_archive.RUN, _MOST_DOCUMENT_BYTES))
        past = _decode_past(read_regular(folder / run_archive.HISTORY, _MOST_DOCUMENT_BYTES))
        checked_run_id(run.run_id)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RefusedError(f"the run in the archive cannot be read: {error}") from error
    _require_sound(run, past)
    config = parse_run_config(run.config_json)
    if config.worker.type != run.worker_type or config.run_name != run.name:
        raise RefusedError("the run in the archive contradicts its config: their workers or names differ")
    return _Arrival(
        folder,
        replace(_traveller(run), run_id=run_id, labels=labels_in(config_of(run.config_json))),
        past,
        was=run.run_id,
    )


def _require_sound(run: RunRecord, past: Sequence[PastMove]) -> None:
    if not run.is_over or run.outcome is None or not run.reason:
        raise RefusedError("the run in the archive is not over")
    if not all(0 <= number < 2**63 for number in (run.last_step, run.total_steps)) or not 0 <= run.attempt < 2**31:
        raise RefusedError("the run in the archive has numbers that no run has")
    state, endings = RunState.INIT, 0
    for move in (one.transition for one in past):
        if move.origin is not state or (move.origin is not move.target and not is_legal(move.origin, move.target)):
            raise RefusedError(f"the history of the run in the archive cannot be: {move}")
        endings += move.target is RunState.TERM and move.origin is not move.target
        state = move.target
    if endings != 1 or state is not RunState.TERM:
        raise RefusedError("the history of the run in the archive does not end where the run did")


def _remove(places: Sequence[Path]) -> None:
    for place in places:
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
