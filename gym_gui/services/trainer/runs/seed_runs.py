"""Runs of a program that trained several seeds: when it is over, each seed becomes a run of its own.

The program is one run with one launch and one claim, and until it is over the only one that there is. Then, before its
books are closed, what it kept of a seed is put into place: the folder first, by one rename, then the records of its
journal, and last the row of the registry, which holds the whole life of the run in one commit. Every part may be
repeated, under an id that follows from program and seed, so a daemon that dies in between leaves nothing that the next
one does not end, and makes no seed twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ulid import ULID

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.run_labels import config_of, labels_in, worker_settings
from gym_gui.services.trainer.errors import RefusedError, UnknownRunError
from gym_gui.services.trainer.runs import lifecycle as lc
from gym_gui.services.trainer.runs.clearing import RunClearing
from gym_gui.services.trainer.runs.run_queue import Reservation
from gym_gui.services.trainer.runs.run_record import ActiveClock, RunRecord, Verdict
from gym_gui.services.trainer.runs.watchdog import Moment
from gym_gui.services.trainer.storage.run_registry import PastMove, RunRegistry
from gym_gui.services.trainer.telemetry.hub import TelemetryHub
from mosaic_protocol import events as ev
from mosaic_protocol.full_disk import may_pass
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.run_config import RunConfigError, parse_run_config, to_json
from mosaic_protocol.seed_runs import folder_of, seeds_of, settings_of_seed
from mosaic_protocol.states import Outcome, RunState
from mosaic_protocol.whole_files import sync, write_whole

logger = logging.getLogger(__name__)

Word = ev.RunLifecycleEvent


def id_of_seed(run_id: str, seed: int) -> str:
    """The id of the run that a seed becomes: always the same, and beside its program's by time."""
    digest = hashlib.sha256(f"{run_id} {seed}".encode()).digest()
    return str(ULID.from_bytes(ULID.from_str(run_id).bytes[:6] + digest[:10]))


class SeedRuns:
    """Belongs to the daemon's event loop."""

    def __init__(self, paths: MosaicPaths, registry: RunRegistry, hub: TelemetryHub, clearing: RunClearing) -> None:
        self._paths, self._registry, self._hub, self._clearing = paths, registry, hub, clearing

    async def bring(self, whole: RunRecord, stderr_tail: str = "") -> list[RunRecord]:
        """Make runs of the seeds of a program that has ended; those that are new. Raises what the world does to it for
        a while, with nothing lost: it may be repeated."""
        found = []
        for seed in seeds_of(worker_settings(config_of(whole.config_json))):
            try:
                if (run := await self._bring(whole, seed, stderr_tail)) is not None:
                    found.append(run)
            except (OSError, RefusedError, RunConfigError) as error:
                if isinstance(error, OSError) and may_pass(error):
                    raise
                log_event(
                    logger, codes.LOG_TRAINER_HOUSEKEEPING, level=logging.WARNING, run_id=whole.run_id,
                    reason=f"seed {seed} does not become a run: {error}",
                )  # fmt: skip
        return found

    async def _bring(self, whole: RunRecord, seed: int, stderr_tail: str) -> RunRecord | None:
        """None for one that is here already, and for one that never began."""
        run_id = id_of_seed(whole.run_id, seed)
        if self._is_known(run_id) or not await asyncio.to_thread(self._place, whole, seed, run_id):
            return None
        run = _record_of(whole, seed, run_id)
        await asyncio.to_thread(write_whole, self._paths.run_config(run_id), run.config_json + "\n", mode=0o600)
        await self._clearing.take_over_outbox(run_id, begun=False)
        words = await asyncio.to_thread(self._hub.stored_lifecycle, run_id)
        step = max(run.last_step, await asyncio.to_thread(self._hub.newest_step, run_id))
        over, past = whole_life(replace(run, last_step=step), whole, words, stderr_tail)
        stored = self._registry.adopt(over, past[:-1], past[-1].transition)
        run = await asyncio.wrap_future(stored)
        await self._clearing.close_manifest(run)
        return run

    def _is_known(self, run_id: str) -> bool:
        with suppress(UnknownRunError):
            self._registry.get(run_id)
            return True
        return False

    def _place(self, whole: RunRecord, seed: int, run_id: str) -> bool:
        """Whether the folder of the seed is where that of a run is. A link that stands for one is not followed."""
        source, target = folder_of(self._paths.run(whole.run_id).directory, seed), self._paths.run(run_id).directory
        if source.parent.is_symlink() or not _is_folder(source):
            return _is_folder(target)
        if target.exists() or target.is_symlink():
            raise RefusedError(f"{target} is there already, of a run that is not known here: move it away")
        source.rename(target)
        sync(target.parent)
        return True


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _record_of(whole: RunRecord, seed: int, run_id: str) -> RunRecord:
    """The run that would train the seed alone, as it is when it begins. A sweep knows the program alone. Raises
    RunConfigError."""
    config = parse_run_config(whole.config_json)
    worker = config.worker.model_copy(update={"config": settings_of_seed(config.worker.config, seed)})
    group = config.metadata.group or whole.name
    metadata = config.metadata.model_copy(update={"worker": worker, "group": group, "sweep": None, "reproduces": None})
    named = config.model_copy(update={"metadata": metadata, "run_name": name_of_seed(config.run_name, seed)})
    text = to_json(parse_run_config(to_json(named)))
    return RunRecord(
        run_id=run_id,
        name=named.run_name,
        worker_type=whole.worker_type,
        config_json=text,
        labels=labels_in(config_of(text)),
        created_at=whole.created_at,
        algo=whole.algo,
        env_id=whole.env_id,
        agent_id=whole.agent_id,
        total_steps=whole.total_steps,
        start_mode=whole.start_mode,
        started_at=whole.started_at,
    )


def name_of_seed(name: str, seed: int) -> str:
    """What people call the run of a seed; a long name gives way to it."""
    ending = f"-seed-{seed}"
    return name[: 100 - len(ending)] + ending


def _fate_of(whole: RunRecord, stderr_tail: str) -> Verdict | None:
    """How the program ended, unless it did what it should."""
    if whole.outcome is not None:  # its books were closed while its folder was away
        return None if whole.outcome is Outcome.COMPLETED else Verdict(whole.outcome, whole.reason)
    verdict = lc.final_verdict(whole, stderr_tail)
    return None if verdict.outcome is Outcome.COMPLETED else verdict


def whole_life(
    run: RunRecord, whole: RunRecord, words: Sequence[tuple[str, Word]], stderr_tail: str = ""
) -> tuple[RunRecord, list[PastMove]]:
    """The run as it is over, and every move of its life: as the decisions of a run's life have them, from what its
    journal says. Where that has no last word, it ended as its program did."""
    now = Moment.now()
    story: list[PastMove] = []

    def hear(event: lc.LifecycleEvent, wall_time: float) -> None:
        nonlocal run
        decision = lc.decide(run, event)
        run = decision.run
        story.extend(PastMove(wall_time, now.monotonic, move) for move in decision.transitions)

    began = whole.started_at or whole.created_at
    note = lc.Transition(run.state, run.state, "Seed", f"one of the seeds of {whole.short}")
    story.append(PastMove(began, now.monotonic, note))
    hear(lc.Launching(whole.attempt, Reservation(0, 0, ()), ""), began)
    hear(lc.Registered("", whole.capabilities_json, whole.worker_id), began)
    for stream, word in words:
        hear(lc.WorkerSaid(word.event, word.sentence, word.step, stream, word.seq), word.t or began)
    if run.last_word is None or run.last_word.event == ev.RUN_STOPPED:
        run = replace(run, verdict=whole.verdict or _fate_of(whole, stderr_tail), desired=whole.desired)
    run = replace(run, exit_status=whole.exit_status)
    ended = max((word.t for _, word in words), default=0.0) or time.time()
    hear(lc.Gone(), ended)
    active = ActiveClock(min(whole.active.total(now.monotonic, now.boot), max(0.0, ended - began)))
    assert run.state is RunState.TERM
    return replace(run, active=active, ended_at=ended), story
