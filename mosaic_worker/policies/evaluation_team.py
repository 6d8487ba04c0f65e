"""Episodes played side by side, in processes forked from one that has loaded the policy.

Which process plays an episode makes no difference to it (see :mod:`mosaic_worker.policies.evaluation`), so their
number is a matter of speed alone. Each makes its environment after the fork: simulators may have threads, which a fork
would lose.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from mosaic_worker.errors import UsageError
from mosaic_worker.policies.acting import LoadedPolicy
from mosaic_worker.policies.evaluation import Episode, Player, RandomPolicy
from mosaic_worker.policies.rules import require_rules, rules_of
from mosaic_worker.supervision.launcher import die_with_parent

if TYPE_CHECKING:
    from mosaic_worker.recording.step_lane import StepLane

_PROGRESS_SECONDS = 0.5
_ASK_AGAIN_SECONDS = 0.2
_CLIP_SECONDS = 60.0
"""How long the last clips may take to be written. Nothing waits for this process but who asked for the clips."""


class EvaluationError(RuntimeError):
    """A process that played ended before its time; the message is one sentence."""


@dataclass(frozen=True)
class Steps:
    """How many steps were made so far, the running episodes included."""

    count: int


@dataclass(frozen=True)
class Task:
    """What is to be played. Copied into each process by the fork."""

    loaded: LoadedPolicy
    env_id: str | None
    seed: int
    deterministic: bool
    random: bool = False
    """Actions are drawn from the space, and the policy is not asked."""
    record: Path | None = None
    """Where to put every step, and clips of some episodes. Steps have one writer, so one process plays them all."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What the recording says of itself."""
    actor: str = "policy"
    clips: bool = True
    seeds: Sequence[int] | None = None
    """Of the environments, one for each episode; without them they are made from ``seed``."""
    rules: Mapping[str, Any] | None = None
    """What the environment has to be; another one is refused."""

    def play(self, numbers: range, stop: Callable[[], bool]) -> Iterator[Episode | Steps]:
        """Play in this process. Raises UsageError when the environment cannot be made or does not fit."""
        with self._env() as env:
            if self.rules is not None:
                require_rules(env, self.rules)
            with self._lane(env, stop) as lane:
                yield from self._played(env, lane, numbers, stop)

    def _played(
        self, env: gym.Env[Any, Any], lane: StepLane | None, numbers: range, stop: Callable[[], bool]
    ) -> Iterator[Episode | Steps]:
        policy = RandomPolicy(env.action_space) if self.random else self.loaded.policy
        player = Player(policy, env, self.seed, deterministic=self.deterministic, lane=lane, seeds=self.seeds)
        yield from told(player, numbers, stop)

    @contextmanager
    def _lane(self, env: gym.Env[Any, Any], stop: Callable[[], bool]) -> Iterator[StepLane | None]:
        if self.record is None:
            yield None
            return
        about = self.about if self.rules is None else {**self.about, "rules": rules_of(env)}
        with recorded(self.record, about, self.actor, stop) as lane:
            yield lane

    def _env(self) -> gym.Env[Any, Any]:
        if self.record is None or not self.clips:
            return self.loaded.make_env(self.env_id)
        from mosaic_worker.recording.video import attach, clips

        env = clips(self.loaded.make_env(self.env_id, render_mode="rgb_array"))
        attach([env], self.record, lambda: self.loaded.manifest.step, patience=_CLIP_SECONDS)
        return env


@contextmanager
def recorded(folder: Path, about: Mapping[str, Any], actor: str, stop: Callable[[], bool]) -> Iterator[StepLane]:
    """A recording in a folder of its own, for one agent."""
    from mosaic_protocol.steps.recordings import Recording
    from mosaic_worker.recording.step_recorder import StepRecorder

    recorder = StepRecorder(Recording.new(folder, about).folder, give_up=stop)
    try:
        yield recorder.lane(actor=actor)
    finally:
        recorder.close()


def told(player: Player, numbers: range, stop: Callable[[], bool]) -> Iterator[Episode | Steps]:
    """The episodes of these numbers, and the steps now and then."""
    told_at = time.monotonic()
    for event in player.play(numbers, stop):
        if event is not None:
            yield event
        elif time.monotonic() - told_at > _PROGRESS_SECONDS:
            told_at = time.monotonic()
            yield Steps(player.steps)


def play(task: Task, episodes: int, jobs: int, stop: Callable[[], bool]) -> Iterator[Episode | Steps]:
    """All episodes in the order they are finished, and the steps now and then. Recorded ones are played right here.

    Raises UsageError or EvaluationError. When it is left early no process stays behind.
    """
    if jobs == 1 or task.record is not None:
        yield from task.play(range(episodes), stop)
        return
    context = multiprocessing.get_context("fork")
    sys.stdout.flush()
    sys.stderr.flush()
    team: dict[Connection, BaseProcess] = {}
    try:
        for first in range(jobs):
            reader, writer = context.Pipe(duplex=False)
            share = range(first, episodes, jobs)
            process = context.Process(target=_work, args=(task, share, writer, stop, os.getpid()), daemon=True)
            process.start()
            writer.close()
            team[reader] = process
        yield from _gathered(dict(team), stop)
    finally:
        for connection, player in team.items():
            player.kill()
            player.join()
            connection.close()


def _gathered(team: dict[Connection, BaseProcess], stop: Callable[[], bool]) -> Iterator[Episode | Steps]:
    steps = dict.fromkeys(team, 0)
    ask_at = 0.0
    while team:
        for reader in wait(list(team), timeout=0.1):
            assert isinstance(reader, Connection)
            try:
                message: dict[str, Any] = json.loads(reader.recv_bytes())
            except EOFError:
                _require_success(team.pop(reader))
                continue
            if "refused" in message:
                raise UsageError(message["refused"])
            if "steps" in message:
                steps[reader] = message["steps"]
                yield Steps(sum(steps.values()))
            else:
                yield Episode(**message)
        if stop() and time.monotonic() >= ask_at:
            # Again and again: a process that was forked this very moment forgets a signal that came too early.
            ask_at = time.monotonic() + _ASK_AGAIN_SECONDS
            for process in team.values():
                process.terminate()


def _require_success(process: BaseProcess) -> None:
    process.join()
    if process.exitcode:
        how = f"by signal {-process.exitcode}" if process.exitcode < 0 else f"with status {process.exitcode}"
        raise EvaluationError(f"a process that played episodes was ended {how}")


def _work(task: Task, share: range, writer: Connection, stop: Callable[[], bool], parent: int) -> None:
    """Play a share of the episodes and send each; the handler of SIGTERM that makes `stop` true came with the fork."""
    die_with_parent(parent)

    def send(**message: Any) -> None:
        writer.send_bytes(json.dumps(message).encode())

    try:
        for event in task.play(share, stop):
            if isinstance(event, Steps):
                send(steps=event.count)
            else:
                send(number=event.number, total=event.total, length=event.length)
    except UsageError as error:
        send(refused=str(error))
    except BrokenPipeError:
        pass  # nobody listens any more
