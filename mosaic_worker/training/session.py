"""What a training loop talks to: where its files go, how its scalars leave, when it must pause or stop.

A script or an agent opens one session and is otherwise an ordinary loop. There are three ways to open one:

- by hand (:meth:`TrainingSession.open`): it gets a directory of its own under ``runs/`` and stops at Ctrl-C;
- in a script that a supervisor started (the same call, see :mod:`mosaic_worker.supervision.control`): it also writes
  its scalars to the run's durable journal and obeys what arrives on the control socket, one JSON object a line:
  ``{"do": "go" | "pause" | "resume" | "stop" | "checkpoint"}``. It answers ``{"at": …}`` with ``ready``, ``paused``,
  ``resumed``, ``stopping``, ``checkpoint`` and finally ``done`` or ``stopped``;
- in the worker's own process (:meth:`TrainingSession.within`): the same words go to and come from the daemon.

The session itself keeps no more than the run's identity and its step. Rows go to sinks (:mod:`.sinks`), requests arrive
through :mod:`.requests`, signals through :mod:`.signals`, checkpoints are written by
:class:`mosaic_worker.state.checkpoint_writer.CheckpointWriter`. None of them imports PyTorch, which not every
worker has.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, SupportsFloat, TypeVar

from mosaic_protocol.checkpoint_manifest import CheckpointError, CheckpointManifest, other_data
from mosaic_protocol.full_disk import require_space, until_it_works
from mosaic_protocol.headline import EPISODES_TAG, RECENT_MEANS, RETURN_TAG
from mosaic_worker.errors import UsageError
from mosaic_worker.supervision import control
from mosaic_worker.training.episode_digest import EpisodeDigest
from mosaic_worker.training.progress import ProgressLine
from mosaic_worker.training.requests import Requests
from mosaic_worker.training.signals import StopSignals
from mosaic_worker.training.sinks import (
    ConversationSink,
    JournalSink,
    Sink,
    TensorBoardSink,
    TrackingSink,
    tell_no_tensorboard,
    tell_tensorboard_ended,
)
from mosaic_worker.training.supervisor_link import SupervisorLink
from mosaic_worker.training.tensorboard_place import place_by_hand

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from mosaic_protocol.worker_client import WorkerSession
    from mosaic_worker.recording.step_recorder import StepRecorder
    from mosaic_worker.state.checkpoint_writer import CheckpointWriter
    from mosaic_worker.state.checkpoints import Checkpoint, NotNowError
    from mosaic_worker.state.training_state import TrainingState
    from mosaic_worker.supervision.analytics import AnalyticsManifest
    from mosaic_worker.training.watching import Minds, TrainingWatch

__all__ = ["TrainingSession", "UsageError"]

T = TypeVar("T")


class TrainingSession:
    """One run. Belongs to the thread that opened it; use it as a context manager."""

    def __init__(self, args: Mapping[str, Any], algo: str, run_dir: Path, tensorboard_dir: Path) -> None:
        self.run_dir = run_dir
        self.tensorboard_dir = tensorboard_dir
        self._args, self._algo = dict(args), algo
        self._checkpoint_every = int(args.get("checkpoint_every") or 0)
        self._step, self._first_step, self._saved_at, self._total_steps = 0, 0, 0, math.inf
        self._requests = Requests()
        self._signals = StopSignals(self._requests)
        self._sinks: list[Sink] = []
        self._episodes = EpisodeDigest()
        self._progress = ProgressLine(self._episodes)
        self._lineage: dict[str, Any] = {}
        self._dataset: dict[str, Any] = {}
        self._checkpoints: CheckpointWriter | None = None
        self._state: TrainingState | None = None
        self._steps: StepRecorder | None = None
        self._watch: TrainingWatch | None = None
        self.twin = ""
        """The algorithm in another library whose checkpoints have the same networks, "" without one."""

    # ---- opening -------------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, args: Mapping[str, Any], algo: str) -> TrainingSession:
        """Open the session this process was started for. `args`: the script's arguments as plain JSON values.

        Raises UsageError when a supervisor's environment is incomplete.
        """
        supervised = control.CONTROL_FD_VARIABLE in os.environ
        session = _open_supervised(args, algo) if supervised else _open_standalone(args, algo)
        session._open_further_sinks()
        return session

    @classmethod
    def within(
        cls, conversation: WorkerSession, args: Mapping[str, Any], algo: str, manifest: AnalyticsManifest
    ) -> TrainingSession:
        """Open a session in the process that talks to the daemon; signals stay the conversation's."""
        from mosaic_worker.training.daemon_link import DaemonLink

        run = conversation.run
        session = cls(args, algo, run.directory, _tensorboard_dir(run.directory))
        session._requests.link = DaemonLink(conversation, manifest, session._requests.ask)
        session._sinks.append(ConversationSink(conversation))
        session._open_further_sinks()
        return session

    def _open_further_sinks(self) -> None:
        """Those that a run can do without, after the journal."""
        if os.environ.get(control.TENSORBOARD_VARIABLE) != "0" and (sink := self._open_tensorboard()):
            self._sinks.append(sink)
        if self._args.get("track"):
            from mosaic_worker.tracking import open_tracker

            if tracker := open_tracker(self._args, self.run_dir, os.environ):
                self._sinks.append(TrackingSink(tracker))

    def _open_tensorboard(self) -> TensorBoardSink | None:
        """Wait for disk space: a run whose disk was full for a moment at its start is to have all its curves."""
        directory = self.tensorboard_dir
        try:
            return self.with_space(directory, lambda: TensorBoardSink.open(directory, self._args))
        except OSError as error:
            tell_tensorboard_ended(0, error)
        except ImportError as error:  # curves are in the journal all the same
            tell_no_tensorboard(error)
        return None

    def with_space(self, directory: Path, make: Callable[[], T]) -> T:
        """Make something of which the first bytes are to go into a directory, when that takes them. Raises OSError when
        it does not and will not, or when the run is to stop. By hand nothing is waited for."""

        def try_to_make() -> T:
            if self._requests.link is not None:
                self.run_dir.lstat()  # one that is away comes back; what is made in its place would be in the way
            require_space(directory)
            return make()

        nobody_waits = self._requests.link is None
        return until_it_works(try_to_make, f"write to {directory}", give_up=lambda: nobody_waits or self.stop_requested)

    # ---- what a loop asks ----------------------------------------------------------------------------------------

    @property
    def seconds_running(self) -> float:
        """Seconds since the training began, pauses left out."""
        return self._requests.seconds_running

    @property
    def step(self) -> int:
        """The step that was reported last, or that the run was resumed at."""
        return self._step

    def steps_per_second(self, step: int) -> float:
        """For ``charts/SPS``: what this run made itself until now, without pauses and what it was resumed from."""
        return (step - self._first_step) / max(self.seconds_running, 1e-9)

    @property
    def stop_requested(self) -> bool:
        """Whether the loop is to write its last checkpoint and end. A loop may decide that for itself."""
        return self._requests.stop_requested

    @stop_requested.setter
    def stop_requested(self, wanted: bool) -> None:
        self._requests.stop_requested = wanted

    @property
    def is_supervised(self) -> bool:
        """Whether somebody holds the other end: a supervisor or the daemon. By hand there is none."""
        return self._requests.link is not None

    @property
    def checkpoint_requested(self) -> bool:
        """Whether somebody wants a checkpoint now; writing one answers that."""
        return self._requests.checkpoint_requested

    @property
    def is_asked(self) -> bool:
        """Whether the next safe point has something to attend to. May be looked at from any thread."""
        return self._requests.waiting

    @property
    def writer(self) -> SummaryWriter | None:
        """PyTorch's writer of TensorBoard files, for what is no scalar; None when no files are written. Raises
        ImportError where PyTorch is not installed."""
        return next((sink.writer for sink in self._sinks if isinstance(sink, TensorBoardSink)), None)

    # ---- what a loop says ----------------------------------------------------------------------------------------

    def note_arguments(self, args: Mapping[str, Any]) -> None:
        """Arguments that were not known when the session was opened, for checkpoints to tell."""
        self._args.update(args)

    def note_origin(self, origin: Mapping[str, Any]) -> None:
        """What a run begins with that is no checkpoint, for its own checkpoints to tell: ``kind`` and what there is to
        say of it."""
        self._lineage = dict(origin)

    def note_dataset(self, dataset: Mapping[str, Any]) -> None:
        """What the run learns from, for its checkpoints to tell: ``name``, ``sha256``. One that is resumed must have
        learned from the same."""
        self._dataset = dict(dataset)

    def begin(self, total_steps: int | None) -> None:
        """Call right before the first environment step. Blocks until the supervisor says go, or stop.

        `total_steps` of None: nobody knows. Raises UsageError for a training state that no checkpoint could hold: hours
        of training must not end with the discovery that nothing of them can be saved.
        """
        self._require_a_state_that_can_be_saved()
        self._total_steps = math.inf if total_steps is None else total_steps
        self._requests.tell(at="ready", total=total_steps)
        self._requests.wait_for_go(self._step)
        self._progress.begin(self._step, total_steps, self.run_dir)

    def _require_a_state_that_can_be_saved(self) -> None:
        if self._state is None or os.environ.get(control.CHECKPOINTS_VARIABLE) == "0":
            return
        try:
            self._state.check()
        except TypeError as error:  # NotPlainError, whose module needs numpy
            advice = "take it out of the training state, or register the plain values in it"
            raise UsageError(f"no checkpoint of this run could be written: {error}; {advice}") from error

    def safe_point(self, step: int) -> None:
        """Call where the script may be held or ended. Returns at once unless something was asked.

        Blocks while paused, without using the processor. A checkpoint asked for meanwhile is due after it.
        """
        self._step = step
        if self._requests.waiting:
            self._requests.attend(step)
            if self._watch is not None and self._watch.look(step, self.steps_per_second(step), self._episodes):
                self._requests.waiting = True  # look again at the next one, as long as somebody watches

    def pause(self, step: int, sentence: str) -> bool:
        """Pause for a reason of the run's own, which the sentence tells, and block until a person resumes or stops it.
        False, at once, where nobody could: a run by hand has no daemon."""
        self._step = step
        return self._requests.pause(step, sentence)

    def note_step(self, step: int) -> None:
        """How far the script is, where it may neither be held nor ended. In a worker's own process the daemon hears it
        with the next heartbeat: steps may be slow, and the next row of numbers far."""
        self._step = step
        self._requests.note_step(step)

    def scalars(self, step: int, values: Mapping[str, SupportsFloat], returns: Sequence[float] | None = None) -> None:
        """Record values that belong together at one step: one TensorBoard event, one row in the journal. ``returns``:
        of the episodes that the row stands for, where these may be more than one; their number so far and the mean of
        the newest 100 are recorded with it."""
        numbers = {tag: float(value) for tag, value in values.items()}
        own = [numbers[RETURN_TAG]] if RETURN_TAG in numbers else []
        for one in own if returns is None else returns:
            self._episodes.note(step, one)
        if returns is not None:
            numbers[EPISODES_TAG] = float(self._episodes.episodes)
            numbers[RECENT_MEANS[RETURN_TAG]] = self._episodes.mean_return
        for sink in self._sinks:
            sink.scalars(step, numbers)
        self._progress.note(step, self._requests.seconds_running)

    def record(self, envs: Any) -> None:
        """Have clips of the environments go to the run's ``videos``, where the script asked for them with
        :func:`mosaic_worker.recording.video.clips`. The first environment can be watched, clips or not."""
        if self._args.get("capture_video"):
            from mosaic_worker.recording import video

            video.attach(envs, self.run_dir / "videos", lambda: self._step)
        if (found := getattr(envs, "envs", ())) and self._watch is None:
            from mosaic_worker.training.watching import drawing

            self.show(drawing(found[0]))

    def show(self, picture: Callable[[], Any], minds: Minds | None = None) -> None:
        """Let people watch the training, by pictures of its first environment, and look into the minds of its agents.
        Both are asked for at safe points, and only while somebody watches. By hand nobody can."""
        if self._requests.link is None or self._watch is not None:
            return
        from mosaic_worker.training.watching import open_watch

        env_id = str(self._args.get("env_id", ""))
        self._watch = open_watch(self.run_dir, env_id, picture, self._requests.look_up, minds)

    @property
    def steps(self) -> StepRecorder:
        """Records environment steps, where a worker has telemetry: every one that was taken survives a crash. Made with
        the first use, closed with the session."""
        if self._steps is None:
            from mosaic_worker.recording.step_recorder import StepRecorder

            self._steps = StepRecorder(
                self.run_dir / "outbox",
                give_up=lambda: self.stop_requested,
                on_wait=self._tell_waiting,
            )
        return self._steps

    def _tell_waiting(self, sentence: str) -> None:
        self._requests.tell(at="throttled", sentence=sentence)

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def restore(
        self, state: TrainingState, resume: str | None, warm_start: str | None, fixed: Collection[str] = ()
    ) -> None:
        """Put a run into the state of a checkpoint (`resume`), or give it its parameters (`warm_start`).

        `fixed` names arguments that a resumed run must leave as they were. Raises UsageError, before anything was
        changed, for a checkpoint that is damaged or does not fit. Call it also when there is no checkpoint:
        :meth:`begin` then tries whether the state can be saved.
        """
        self._state = state
        path = resume or warm_start
        if path is None:
            return
        from mosaic_worker.state import checkpoints

        try:
            found = checkpoints.load(Path(path))
            is_lent = not resume and self._is_lent(found.manifest)
            self._check_origin(found.manifest, is_lent=is_lent, resumes=bool(resume))
            if resume:
                self._check_dataset(found.manifest)
                self._check_arguments(found.manifest, fixed)
                state.restore(found.tensors, found.manifest.state)
                self.go_on_at(found.manifest.step)
                self._episodes.restore(found.manifest.metrics)
            else:
                state.warm_start(_on_true_scales(found) if is_lent else found.tensors)
            self._lineage = _origin("resume" if resume else "warm_start", found)
        except (CheckpointError, ValueError) as error:
            raise UsageError(f"{path} cannot be used: {error}") from error

    def go_on_at(self, step: int) -> None:
        """Count speed and the time to the next checkpoint from a step: the one that a run was resumed at, or an earlier
        one when it begins a part of its work again."""
        self._step = self._first_step = self._saved_at = step

    def _is_lent(self, manifest: CheckpointManifest) -> bool:
        """Whether networks come from another algorithm: one that learned offline, for one that goes on online."""
        return bool(manifest.offline_dataset) and not self._dataset and manifest.algo != self._algo

    def _check_origin(self, manifest: CheckpointManifest, *, is_lent: bool, resumes: bool) -> None:
        here = {"algorithm": self._algo, "environment": str(self._args.get("env_id", ""))}
        there = {"algorithm": manifest.algo, "environment": manifest.env_id}
        is_twin = bool(self.twin) and manifest.algo == self.twin
        for what, name in here.items():
            if there[what] == name or (what == "algorithm" and (is_lent or (is_twin and not resumes))):
                continue
            advice = "; of this twin the networks can be taken over: --warm-start" if is_twin else ""
            raise UsageError(f"its {what} is {there[what]}, this run's is {name}{advice}")

    def _check_dataset(self, manifest: CheckpointManifest) -> None:
        if why := other_data(manifest.offline_dataset, self._dataset):
            raise UsageError(why)

    def _check_arguments(self, manifest: CheckpointManifest, fixed: Collection[str]) -> None:
        for name in fixed:
            here, there = self._args[name], manifest.args.get(name)
            if there != here:
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(f"its {flag} is {there}, this run's is {here}; leave it as it was")

    def is_checkpoint_due(self, step: int) -> bool:
        """Whether a loop should save one now: because somebody asked, or because its argument ``checkpoint_every`` says
        so (0: never)."""
        return self._requests.checkpoint_requested or 0 < self._checkpoint_every <= step - self._saved_at

    def save_checkpoint(
        self,
        step: int,
        tensors: Mapping[str, Any],
        state: Mapping[str, Any] | None = None,
        spaces: Mapping[str, Any] | None = None,
        *,
        required: bool = True,
    ) -> Path | None:
        """Have a checkpoint written (see :func:`checkpoints.save`); this also answers a request for one.

        One that is `required` is on the disk when this returns its path, or CheckpointError is raised; on a full disk
        it waits for space. Any other is written beside the training from `tensors`, which nobody may change any more;
        should that fail, it is reported and the run goes on.
        """
        self._step = self._saved_at = step
        self._requests.checkpoint_requested = False
        if self._stopped_early:
            self._requests.announce_stop(step)
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
            "offline_dataset": self._dataset,
        }
        writer = self._checkpoint_writer()
        if required:
            return writer.write_when_there_is_space(content, self._does_without_a_checkpoint, self._flush_sinks)
        writer.begin(**content)
        return None

    def note_saved(self, step: int) -> None:
        """What a step is to leave was saved by other means than :meth:`save_checkpoint`, which answers a request."""
        self._step = self._saved_at = step
        self._requests.checkpoint_requested = False

    def has_saved(self, step: int) -> bool:
        """Whether the newest checkpoint that this run has on the disk is that of a step. Waits for one that is being
        written beside the training: it may yet fail."""
        return self._checkpoints is not None and self._checkpoints.has_written(step)

    def _checkpoint_writer(self) -> CheckpointWriter:
        if self._checkpoints is None:
            from mosaic_worker.state.checkpoint_writer import CheckpointWriter

            keep = int(self._args.get("checkpoint_keep") or 0)
            self._checkpoints = CheckpointWriter(self.run_dir / "checkpoints", keep, self._on_written)
        return self._checkpoints

    def _does_without_a_checkpoint(self, obstacle: NotNowError) -> bool:
        """What was learned dies with this process, so a full disk, or a folder that takes no files, is waited for like
        the journal's: a supervisor in a hurry kills it. By hand there is none: only space is waited for, and a stop
        ends the waiting."""
        return self._requests.link is None and (self.stop_requested or not obstacle.full)

    def _flush_sinks(self) -> None:
        """A row may fit where a checkpoint does not."""
        for sink in self._sinks:
            sink.flush()

    def _on_written(self, step: int, path: Path) -> None:
        self._requests.tell(at="checkpoint", step=step, path=str(path.relative_to(self.run_dir)))

    # ---- closing -------------------------------------------------------------------------------------------------

    def close(self, *, failed: bool = False) -> None:
        """Flush and release everything. Unless `failed`, the supervisor then hears how the run ended."""
        if self._watch is not None:
            self._watch.close()
        if self._checkpoints is not None:
            self._checkpoints.wait()
        if self._steps is not None:
            self._steps.close()
        for sink in self._sinks:
            sink.close(failed=failed)
        self._signals.put_back()
        if not failed:
            self._progress.end(self._step, self.seconds_running)
            self._requests.tell(at="stopped" if self._stopped_early else "done", step=self._step)
        if self._requests.link is not None:
            self._requests.link.close()

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


def _open_standalone(args: Mapping[str, Any], algo: str) -> TrainingSession:
    run_dir = _fresh_directory(Path("runs"), args, algo)
    asked = os.environ.get(control.TENSORBOARD_DIR_VARIABLE, "")
    session = TrainingSession(args, algo, run_dir, place_by_hand(asked, run_dir, run_dir))
    session._signals.take_by_hand()
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
    session = TrainingSession(args, algo, run_dir, _tensorboard_dir(run_dir))
    session._signals.take_supervised()
    session._requests.link = SupervisorLink(int(descriptor), session._requests.ask)
    journal = until_it_works(
        lambda: OutboxWriter(directory=run_dir / "outbox", stream="script"),
        "open the journal",
        give_up=lambda: session.stop_requested,
    )
    tell = lambda seq: session._requests.tell(at="journalled", seq=seq)  # noqa: E731
    session._sinks.append(JournalSink(journal, tell, session._tell_waiting))
    return session


def _tensorboard_dir(run_dir: Path) -> Path:
    return Path(os.environ.get(control.TENSORBOARD_DIR_VARIABLE) or run_dir / "tensorboard")


def _on_true_scales(found: Checkpoint) -> dict[str, Any]:
    """What a checkpoint learned offline, for an algorithm that sees observations and rewards as they are."""
    from mosaic_worker.learning.unscaling import unscaled

    return unscaled(found.tensors)


def _origin(kind: str, found: Checkpoint) -> dict[str, Any]:
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
