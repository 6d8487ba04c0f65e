"""What a training script talks to: where its files go, how its scalars leave, when it must pause or stop.

A script opens one session and is otherwise an ordinary loop. Run by hand it gets a directory of its own under
``runs/`` and stops at Ctrl-C. Started by a supervisor (see :mod:`cleanrl_worker.control`) it also writes its
scalars to the run's durable journal and obeys what arrives on the control socket, one JSON object a line:
``{"do": "go" | "pause" | "resume" | "stop" | "checkpoint"}``. It answers ``{"at": …}`` with ``ready``,
``paused``, ``resumed``, ``stopping``, ``checkpoint`` and finally ``done`` or ``stopped``.

Requests arrive on a listening thread or in a signal handler. Both only put a word into a queue whose ``put`` is
safe in either; everything that follows from a word happens in the training thread, inside
:meth:`TrainingSession.begin` or :meth:`TrainingSession.safe_point`, so no lock is needed.
"""

from __future__ import annotations

import math
import os
import queue
import re
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, SupportsFloat

from cleanrl_worker import checkpoints, control
from cleanrl_worker.checkpoint_writer import CheckpointWriter
from cleanrl_worker.episode_digest import EpisodeDigest
from cleanrl_worker.progress import ProgressLine
from cleanrl_worker.supervisor_link import SupervisorLink

if TYPE_CHECKING:
    import torch
    from torch.utils.tensorboard import SummaryWriter

    from cleanrl_worker.tracking import Tracker
    from cleanrl_worker.training_state import TrainingState
    from mosaic_protocol.outbox import OutboxWriter

TENSORBOARD_FLUSH_SECONDS = 5
FULL_DISK_RETRY_SECONDS = 0.5


class UsageError(ValueError):
    """What was asked of a script cannot be done; the message is one sentence for the person who asked."""


class TrainingSession:
    """One run of one script. Belongs to the thread that opened it; use it as a context manager."""

    def __init__(self, args: Mapping[str, Any], algo: str, run_dir: Path, tensorboard_dir: Path) -> None:
        self.run_dir = run_dir
        self.tensorboard_dir = tensorboard_dir
        self.writer: SummaryWriter | None = None
        self.stop_requested = False
        self.checkpoint_requested = False
        self._args, self._algo = dict(args), algo
        self._step, self._total_steps = 0, math.inf
        self._asked: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._attention = False
        self._may_go = self._stop_announced = False
        self._paused_at: float | None = None
        self._paused_seconds = 0.0
        self._began = time.monotonic()
        self._old_handlers: dict[signal.Signals, Any] = {}
        self._supervisor: SupervisorLink | None = None
        self._journal: OutboxWriter | None = None
        self._tracker: Tracker | None = None
        self._episodes = EpisodeDigest()
        self._progress = ProgressLine(self._episodes)
        self._lineage: dict[str, Any] = {}
        keep = int(args.get("checkpoint_keep") or 0)
        self._checkpoints = CheckpointWriter(run_dir / "checkpoints", keep, self._on_written)

    @classmethod
    def open(cls, args: Mapping[str, Any], algo: str) -> TrainingSession:
        """Open the session this process was started for. `args`: the script's arguments as plain JSON values.

        Raises UsageError when a supervisor's environment is incomplete.
        """
        supervised = control.CONTROL_FD_VARIABLE in os.environ
        session = _open_supervised(args, algo) if supervised else _open_standalone(args, algo)
        if os.environ.get(control.TENSORBOARD_VARIABLE) != "0":
            session.writer = _summary_writer(session.tensorboard_dir, args)
        if args.get("track"):
            from cleanrl_worker.tracking import open_tracker

            session._tracker = open_tracker(args, session.run_dir, os.environ)
        return session

    @property
    def seconds_running(self) -> float:
        """Seconds since the training began, pauses left out."""
        until = time.monotonic() if self._paused_at is None else self._paused_at
        return until - self._began - self._paused_seconds

    @property
    def step(self) -> int:
        """The step that was told last, or that the run was resumed at."""
        return self._step

    @property
    def is_asked(self) -> bool:
        """Whether the next safe point has something to attend to. May be looked at from any thread."""
        return self._attention

    def note_arguments(self, args: Mapping[str, Any]) -> None:
        """Arguments that were not known when the session was opened, for checkpoints to tell."""
        self._args.update(args)

    def begin(self, total_steps: int | None) -> None:
        """Call right before the first environment step. Blocks until the supervisor says go, or stop.

        `total_steps` of None: nobody knows.
        """
        self._total_steps = math.inf if total_steps is None else total_steps
        if self._supervisor is not None:
            self._supervisor.tell(at="ready", total=total_steps)
            while not (self._may_go or self.stop_requested):
                self._obey(self._asked.get())
        self._began = time.monotonic()
        self._progress.begin(self._step, total_steps, self.run_dir)

    def safe_point(self, step: int) -> None:
        """Call where the script may be held or ended. Returns at once unless something was asked.

        Blocks while paused, without using the processor. A checkpoint asked for meanwhile is due after it.
        """
        self._step = step
        if self._attention:
            self._attend()

    def scalars(self, step: int, values: Mapping[str, SupportsFloat]) -> None:
        """Record values that belong together at one step: one TensorBoard event, one row in the journal."""
        numbers = {tag: float(value) for tag, value in values.items()}
        if self.writer is not None:
            self._to_tensorboard(self.writer, step, numbers)
        if self._journal is not None:
            self._journal.append(_metric_row(step, numbers))
        if self._tracker is not None:
            self._tracker.scalars(step, numbers)
        if "charts/episodic_return" in numbers:
            self._episodes.note(step, numbers["charts/episodic_return"])
        self._progress.note(step, self.seconds_running)

    def record(self, envs: Any) -> None:
        """Have clips of the environments go to the run's ``videos``, where the script asked for them with
        :func:`cleanrl_worker.video.clips`."""
        if self._args.get("capture_video"):
            from cleanrl_worker import video

            video.attach(envs, self.run_dir / "videos", lambda: self._step)

    def restore(self, state: TrainingState, resume: str | None, warm_start: str | None) -> None:
        """Put a run into the state of a checkpoint (`resume`), or give it its parameters (`warm_start`).

        Raises UsageError, before anything was changed, for a checkpoint that is damaged or does not fit.
        """
        path = resume or warm_start
        if path is None:
            return
        try:
            found = checkpoints.load(Path(path))
            self._check_origin(found.manifest)
            if resume:
                state.restore(found.tensors, found.manifest.state)
                self._step = found.manifest.step
                self._episodes.restore(found.manifest.metrics)
            else:
                state.warm_start(found.tensors)
            self._lineage = _origin("resume" if resume else "warm_start", found)
        except (checkpoints.CheckpointError, ValueError) as error:
            raise UsageError(f"{path} cannot be used: {error}") from error

    def _check_origin(self, manifest: checkpoints.CheckpointManifest) -> None:
        here = {"algorithm": self._algo, "environment": str(self._args.get("env_id", ""))}
        there = {"algorithm": manifest.algo, "environment": manifest.env_id}
        for what, name in here.items():
            if there[what] != name:
                raise UsageError(f"its {what} is {there[what]}, this run's is {name}")

    def save_checkpoint(
        self,
        step: int,
        tensors: Mapping[str, torch.Tensor],
        state: Mapping[str, Any] | None = None,
        spaces: Mapping[str, Any] | None = None,
        *,
        required: bool = True,
    ) -> Path | None:
        """Have a checkpoint written (see :func:`cleanrl_worker.checkpoints.save`); this also answers a request for one.

        One that is `required` is on the disk when this returns its path, or CheckpointError is raised; on a full disk
        it waits for space. Any other is written beside the training from `tensors`, which nobody may change any more;
        should that fail, it is told and the run goes on.
        """
        self._step = step
        self.checkpoint_requested = False
        if self._stopped_early:
            self._announce_stop()
        if os.environ.get(control.CHECKPOINTS_VARIABLE) == "0":
            return None
        content: dict[str, Any] = {
            "algo": self._algo,
            "env_id": str(self._args.get("env_id", "")),
            "step": step,
            "tensors": tensors,
            "state": state,
            "args": self._args,
            "spaces": spaces,
            "metrics": self._episodes.metrics(),
            "lineage": self._lineage,
        }
        if required:
            return self._write_when_there_is_space(content)
        self._checkpoints.begin(**content)
        return None

    def _write_when_there_is_space(self, content: Mapping[str, Any]) -> Path:
        """What was learned dies with this process, so a full disk is waited for like the journal's: a supervisor in a
        hurry kills it. By hand there is none, and a stop ends the waiting."""
        told = False
        while True:
            try:
                return self._checkpoints.write(**content)
            except checkpoints.DiskFullError as error:
                if self._supervisor is None and self.stop_requested:
                    raise
                if not told:
                    told = True
                    how_on = "free some, or stop the run to do without it"
                    print(f"{error} Waiting for disk space to write it: {how_on}.", file=sys.stderr, flush=True)
            if self._journal is not None:
                self._journal.flush()  # a row may fit where a checkpoint does not
            time.sleep(FULL_DISK_RETRY_SECONDS)

    def _on_written(self, step: int, path: Path) -> None:
        self._tell(at="checkpoint", step=step, path=str(path.relative_to(self.run_dir)))

    def close(self, *, failed: bool = False) -> None:
        """Flush and release everything. Unless `failed`, the supervisor then hears how the run ended."""
        self._checkpoints.wait()
        if self._journal is not None:  # before whatever else may fail
            # For as long as it takes, since what is held dies with this process; a supervisor in a hurry kills it.
            self._journal.wait_for_space(give_up=lambda: False)
            self._journal.close()
        if self.writer is not None:
            self._close_tensorboard(self.writer)
        if self._tracker is not None:
            self._tracker.close(1 if failed else 0)
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        if not failed:
            self._progress.end(self._step, self.seconds_running)
            self._tell(at="stopped" if self._stopped_early else "done", step=self._step)
        if self._supervisor is not None:
            self._supervisor.close()

    def __enter__(self) -> TrainingSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(failed=error is not None)

    @property
    def _stopped_early(self) -> bool:
        """Whether a stop changed anything: one that comes after the last step does not."""
        return self.stop_requested and self._step < self._total_steps

    def _to_tensorboard(self, writer: SummaryWriter, step: int, numbers: Mapping[str, float]) -> None:
        try:
            _add_event(writer, step, numbers)
        except OSError as error:  # a full disk must not end the training
            self._give_tensorboard_up(step, error)
            with suppress(OSError):  # its thread would go on trying otherwise
                writer.close()

    def _close_tensorboard(self, writer: SummaryWriter) -> None:
        try:
            writer.close()
        except OSError as error:
            self._give_tensorboard_up(self._step, error)

    def _give_tensorboard_up(self, step: int, error: OSError) -> None:
        self.writer = None
        print(f"TensorBoard files end at step {step:,}: {error}", file=sys.stderr, flush=True)

    def _ask(self, word: str) -> None:
        """Leave a request for the training thread. Safe in any thread and in signal handlers."""
        if word == "stop":
            self.stop_requested = True
        self._asked.put(word)
        self._attention = True

    def _attend(self) -> None:
        # Lowered before the queue is emptied: a word that arrives in between raises it again.
        self._attention = False
        while True:
            try:
                word = self._asked.get(block=self._paused_at is not None)
            except queue.Empty:
                return
            self._obey(word)

    def _obey(self, word: str) -> None:
        if word == "go":
            self._may_go = True
        elif word == "checkpoint":
            self.checkpoint_requested = True
        elif word == "stop":
            self._end_pause()
            self._announce_stop()
        elif word == "pause" and self._paused_at is None and not self.stop_requested:
            self._paused_at = time.monotonic()
            self._tell(at="paused", step=self._step)
        elif word == "resume" and self._paused_at is not None:
            self._end_pause()
            self._tell(at="resumed", step=self._step)

    def _end_pause(self) -> None:
        if self._paused_at is not None:
            self._paused_seconds += time.monotonic() - self._paused_at
            self._paused_at = None

    def _announce_stop(self) -> None:
        if not self._stop_announced:
            self._stop_announced = True
            self._tell(at="stopping", step=self._step)

    def _tell(self, **message: Any) -> None:
        if self._supervisor is not None:
            self._supervisor.tell(**message)

    def _handle_signals(self, handlers: Mapping[signal.Signals, Any]) -> None:
        if threading.current_thread() is threading.main_thread():  # the only one that may
            for number, handler in handlers.items():
                self._old_handlers[number] = signal.signal(number, handler)

    def _on_terminate(self, _number: int, _frame: FrameType | None) -> None:
        self._ask("stop")

    def _on_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self.stop_requested:
            raise KeyboardInterrupt
        # os.write because print is not reentrant, and this may have interrupted one.
        os.write(2, b"\nStopping with a checkpoint; press Ctrl-C again to end at once.\n")
        self._ask("stop")


def _open_standalone(args: Mapping[str, Any], algo: str) -> TrainingSession:
    run_dir = _fresh_directory(Path("runs"), args, algo)
    session = TrainingSession(args, algo, run_dir, run_dir)
    session._handle_signals({signal.SIGINT: session._on_interrupt, signal.SIGTERM: session._on_terminate})
    return session


def _open_supervised(args: Mapping[str, Any], algo: str) -> TrainingSession:
    from mosaic_protocol.outbox import OutboxWriter

    # Taken out of the environment: a process that the script starts must not believe the socket to be its own.
    descriptor = os.environ.pop(control.CONTROL_FD_VARIABLE)
    given = os.environ.get(control.RUN_DIR_VARIABLE)
    if not given or not descriptor.isdecimal():
        needed = f"{control.CONTROL_FD_VARIABLE} (a number) and {control.RUN_DIR_VARIABLE}"
        raise UsageError(f"A supervisor must set both {needed}; unset the first to run the script by hand.")
    run_dir = Path(given)
    tensorboard_dir = Path(os.environ.get(control.TENSORBOARD_DIR_VARIABLE) or run_dir / "tensorboard")
    session = TrainingSession(args, algo, run_dir, tensorboard_dir)
    session._handle_signals({signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: session._on_terminate})
    session._journal = OutboxWriter(directory=run_dir / "outbox", stream="script")
    session._supervisor = SupervisorLink(int(descriptor), session._ask)
    return session


def _origin(kind: str, found: checkpoints.Checkpoint) -> dict[str, Any]:
    """Where a run comes from, as its own checkpoints tell it."""
    run = found.path.absolute().parents[1].name
    return {"kind": kind, "checkpoint": f"{run}/{found.path.name}", "sha256": found.manifest.tensor_sha256}


def _fresh_directory(parent: Path, args: Mapping[str, Any], algo: str) -> Path:
    """A new directory named after the run; a second run within the same second gets a number as well."""
    parts = (args.get("env_id", "env"), args.get("exp_name", algo), args.get("seed", 0), int(time.time()))
    name = "__".join(re.sub(r"[^A-Za-z0-9._-]+", "-", str(part)) for part in parts)
    for number in range(1, 1000):
        path = parent / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue
    raise UsageError(f"{parent / name} and its numbered variants are all taken; remove some of them.")


def _summary_writer(directory: Path, args: Mapping[str, Any]) -> SummaryWriter:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(directory), max_queue=1000, flush_secs=TENSORBOARD_FLUSH_SECONDS)
    rows = "\n".join(f"|{name}|{value}|" for name, value in args.items())
    writer.add_text("hyperparameters", f"|argument|value|\n|-|-|\n{rows}")
    return writer


def _add_event(writer: SummaryWriter, step: int, numbers: Mapping[str, float]) -> None:
    """All values in one event: several times cheaper than an `add_scalar` each, and read just the same."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    values = [Summary.Value(tag=tag, simple_value=number) for tag, number in numbers.items()]
    file_writer: Any = writer.file_writer
    file_writer.add_summary(Summary(value=values), step)


def _metric_row(step: int, numbers: Mapping[str, float]) -> Any:
    from mosaic_protocol.events import MetricRow

    return MetricRow(step=step, values={tag: n if math.isfinite(n) else None for tag, n in numbers.items()})
