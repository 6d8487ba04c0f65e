"""An archive brought to the daemon of another data root: unpacked and checked here, taken in there, run by run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ulid import ULID

from gym_gui.services.archive.packing import RunSurvey, hashes_of
from gym_gui.services.archive.unpacking import opened
from gym_gui.services.trainer.client import DaemonAwayError, NoSuchRunError
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.run_archive import DRAFTS, ArchivedRun, ArchiveError, Manifest
from mosaic_protocol.whole_files import drafted_folder, settle

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb
UNPACKED, COMPARED = DRAFTS


class Status(StrEnum):
    """What becomes of a run of the archive."""

    NEW = "new"
    COPY = "copy"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Plan:
    archived: ArchivedRun
    status: Status
    run_id: str
    """The id that it has here."""
    name: str


class Arriving:
    """Uses a client that it does not own. Raises its ClientErrors, OSError and :class:`ArchiveError`."""

    def __init__(self, client: TrainerClient, paths: MosaicPaths, *, as_new: bool = False) -> None:
        self._client, self._paths, self._as_new = client, paths, as_new

    def plans(self, file: Path) -> tuple[Manifest, list[Plan]]:
        """What there is to do; nothing is changed. Raises for a run that is here and differs."""
        with opened(file) as archive:
            return archive.manifest, [self._plan(run, archive.manifest) for run in archive.manifest.runs]

    def _plan(self, archived: ArchivedRun, manifest: Manifest) -> Plan:
        if self._as_new:
            return Plan(archived, Status.COPY, str(ULID()), archived.name)
        here = self._run(archived.run_id)
        if here is None:
            return Plan(archived, Status.NEW, archived.run_id, archived.name)
        if here.deleted:
            sentence = f"run {here.name} ({here.run_id[-6:]}) is in the trash here"
            raise ArchiveError(f"{sentence}: restore or purge it first, or import a copy with --as-new")
        if difference := self._difference(here, hashes_of(here.run_id, iter(manifest.files))):
            sentence = f"run {here.name} ({here.run_id[-6:]}) is here already and differs ({difference})"
            raise ArchiveError(f"{sentence}: import a copy with --as-new, or delete this one with --purge first")
        return Plan(archived, Status.UNCHANGED, here.run_id, here.name)

    def _run(self, run_id: str) -> pb.Run | None:
        try:
            found = self._client.run(run_id)
        except NoSuchRunError:
            return None
        return found if found.run_id == run_id else None

    def _difference(self, here: pb.Run, there: dict[str, str]) -> str:
        with drafted_folder(self._paths.arrivals / COMPARED) as spool:
            found = RunSurvey(self._client, self._paths, spool).look_at(here).hashes
        differing = sorted(path for path in found.keys() | there.keys() if found.get(path) != there.get(path))
        more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
        return f"{differing[0]}{more}" if differing else ""

    def bring(self, file: Path, plans: list[Plan], progress: Callable[[int, int], None]) -> list[Plan]:
        """Import what is not here yet. The archive is unpacked and checked to its end before the first run comes in.
        The newest comes last, so that listings and ``last`` have them in the order of the machine they are from."""
        if all(plan.status is Status.UNCHANGED for plan in plans):
            return plans
        with drafted_folder(self._paths.arrivals / UNPACKED) as draft, opened(file) as archive:
            if [run.run_id for run in archive.manifest.runs] != [plan.archived.run_id for plan in plans]:
                raise ArchiveError("it was written again meanwhile")
            archive.unpack(draft, progress)
            oldest_first = sorted(plans, key=lambda plan: plan.archived.run_id)
            brought = {plan.archived.run_id: self._brought(plan, draft) for plan in oldest_first}
        return [brought[plan.archived.run_id] for plan in plans]

    def _brought(self, plan: Plan, draft: Path) -> Plan:
        if plan.status is Status.UNCHANGED:
            return plan
        arrival = self._paths.arrivals / f"{plan.run_id}.{ULID()}"
        settle(draft / plan.archived.run_id, arrival)
        try:
            run = self._client.import_arrival(arrival.name)
        except DaemonAwayError:
            raise  # the next daemon looks at the folder, and removes it with all that came of it
        except BaseException:
            shutil.rmtree(arrival, ignore_errors=True)
            raise
        return replace(plan, name=run.name)
