"""The process that tracks one run: lines of JSON in, a W&B run out.

Internal: started by :class:`mosaic_worker.tracking.Tracker` and ended by it. First line: the fields of a
:class:`TrackingPlan`; then ``{"rows": [[step, {tag: value}], …]}``; last ``{"exit_code": n}``. When the lines end
without that, or the parent dies, the run is finished as failed. wandb's own helper process ends with this one.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from mosaic_protocol.tracking_record import FINISHED, FOLDER, TrackingRecord, write_record
from mosaic_protocol.wandb_keys import HOW_TO_SET, KEY_VARIABLE, find_key
from mosaic_protocol.wandb_proxies import without_credentials
from mosaic_worker.tracking.cost import Meter
from mosaic_worker.tracking.plan import TrackingPlan
from mosaic_worker.tracking.tracker import TOLD_STATUS

LOG = "process.log"
STEP_METRIC = "global_step"

_INIT_SECONDS = 30.0
_ORPHAN_SECONDS = 5.0
_POLL_SECONDS = 1.0
_RECORD_SECONDS = 10.0
_FAILED = 1
_STDERR = os.dup(2)
"""The run's own, for the sentences of this process. Not inherited by what it starts."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Internal: track one run with W&B.")
    parser.add_argument("--parent", type=int, required=True)
    parent = parser.parse_args().parent
    # The training process decides when this one ends: a Ctrl-C or a polite stop reaches it first.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_after, args=(parent,), daemon=True).start()
    os.nice(5)
    lines = _lines(parent)
    first = next(lines, None)
    if first is None:
        return _FAILED
    plan = TrackingPlan(**json.loads(first))
    try:
        _make_quiet(Path(plan.directory) / FOLDER)
        _track(plan, lines)
    except Exception as error:  # noqa: BLE001 - whatever wandb raises, the sentence is what is left to do
        _tell(f"Tracking ended early: {_reason(error)}. Training goes on without W&B.")
        os._exit(TOLD_STATUS)  # wandb's exit functions would wait for what is broken
    return 0


def _track(plan: TrackingPlan, lines: Iterator[str]) -> None:
    meter = Meter()
    run, record = _start(plan)
    notes = _Notes(Path(plan.directory), record, meter)
    exit_code = _FAILED
    for line in lines:
        message = json.loads(line)
        for step, values in message.get("rows", ()):
            # Without `step=`: W&B would keep only the last of several rows of one step.
            run.log({**values, STEP_METRIC: step})
        exit_code = message.get("exit_code", exit_code)
        notes.count(len(message.get("rows", ())), message.get("dropped", 0))
    notes.write()
    run.finish(exit_code=exit_code)
    notes.write(state=FINISHED)


class _Notes:
    """Keeps the record that others read up to date."""

    def __init__(self, directory: Path, record: TrackingRecord, meter: Meter) -> None:
        self._directory, self._record, self._meter = directory, record, meter
        self._next = time.monotonic() + _RECORD_SECONDS
        self.write()

    def count(self, rows: int, dropped: int) -> None:
        self._record = replace(self._record, rows=self._record.rows + rows, dropped_rows=dropped)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _RECORD_SECONDS
            self.write()

    def write(self, **facts: Any) -> None:
        # At the end the helper that did the work is gone, and its time with it.
        cpu_seconds = max(self._meter.cpu_seconds, self._record.cpu_seconds)
        self._record = replace(self._record, seconds=self._meter.seconds, cpu_seconds=cpu_seconds, **facts)
        with suppress(OSError):  # a full disk is wandb's to report: without this note the run is tracked all the same
            write_record(self._directory, self._record)


def _start(plan: TrackingPlan) -> tuple[Any, TrackingRecord]:
    """Online when there is a key and W&B answers, else offline, with the reason and what to do about it."""
    because = plan.offline_because
    if not plan.mode and not because:
        if _take_key():
            try:
                run = _begin(plan, "online")
                _tell(f"Tracked at {run.url}")
                return run, _record(plan, run, "online")
            except Exception as error:  # noqa: BLE001 - no network, a wrong key, a wrong project: all end the same way
                because = f"W&B cannot be used online ({_reason(error)})"
                _give_up_connection()
        else:
            because = f"there is no key ({HOW_TO_SET})"
    os.environ.pop(KEY_VARIABLE, None)
    run = _begin(plan, "offline")
    reason = f": {because}" if because else ""
    _tell(f"Tracked offline{reason}. `wandb sync {Path(run.dir).parent}` uploads it later.")
    return run, _record(plan, run, "offline", because)


def _begin(plan: TrackingPlan, mode: Literal["online", "offline"]) -> Any:
    import wandb

    run = wandb.init(
        project=plan.project,
        entity=plan.entity,
        name=plan.name,
        id=plan.run_id,
        dir=plan.directory,
        config=dict(plan.config),
        mode=mode,
        resume="allow" if mode == "online" and plan.run_id else None,
        settings=_settings(wandb),
    )
    run.define_metric(STEP_METRIC, hidden=True)
    run.define_metric("*", step_metric=STEP_METRIC)
    return run


def _settings(wandb: Any) -> Any:
    """Arguments and scalars leave the machine; code, console output, hardware and package lists do not."""
    return wandb.Settings(
        console="off",
        disable_code=True,
        disable_git=True,
        disable_job_creation=True,
        init_timeout=float(os.environ.get("WANDB_INIT_TIMEOUT") or _INIT_SECONDS),
        save_code=False,
        silent=True,
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
    )


def _record(plan: TrackingPlan, run: Any, mode: str, because: str = "") -> TrackingRecord:
    return TrackingRecord(
        mode=mode,
        run_id=run.id,
        project=plan.project,
        entity=plan.entity,
        name=plan.name,
        url=run.url if mode == "online" else None,
        files=Path(run.dir).parent.name,
        because=because,
    )


def _make_quiet(folder: Path) -> None:
    """wandb does not report its own errors, and what it says and its scratch files stay with the run.

    Its helper process inherits the log too: a crash of that one must not fill the run's own stderr.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    os.environ |= {"WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}
    for variable, name in {"WANDB_CACHE_DIR": "cache", "WANDB_DATA_DIR": "data", "WANDB_CONFIG_DIR": "config"}.items():
        os.environ.setdefault(variable, str(folder / name))


def _take_key() -> bool:
    """Whether there is a key. It is put where wandb looks, in the memory of this process only."""
    key = find_key(os.environ)
    if key is not None:
        os.environ[KEY_VARIABLE] = key.secret
    return key is not None


def _give_up_connection() -> None:
    import wandb

    wandb.teardown()


def _lines(parent: int) -> Iterator[str]:
    """The lines of standard input, until it closes or the parent is gone (a fork of it may hold the pipe open)."""
    pending = b""
    while True:
        orphaned = os.getppid() != parent
        if not select.select([0], [], [], 0.0 if orphaned else _POLL_SECONDS)[0]:
            if orphaned:
                return
            continue
        received = os.read(0, 1 << 16)
        if not received:
            return
        *whole, pending = (pending + received).split(b"\n")
        yield from (line.decode() for line in whole)


def _end_after(parent: int) -> None:
    """A thread's work: when the parent is gone, nobody else would break this process off should W&B not answer."""
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    time.sleep(_ORPHAN_SECONDS)
    os._exit(_FAILED)


def _reason(error: BaseException) -> str:
    """One line of an exception, without anything that could be a secret."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = without_credentials(lines[0] if lines else type(error).__name__)
    if key := os.environ.get(KEY_VARIABLE):
        text = text.replace(key, "(the key)")
    return text[:300].rstrip(".")


def _tell(sentence: str) -> None:
    os.write(_STDERR, f"{sentence}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
