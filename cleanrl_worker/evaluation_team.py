"""Episodes played side by side, in processes forked from one that has loaded the policy.

Which process plays an episode makes no difference to it (see :mod:`cleanrl_worker.evaluation`), so their number is a
matter of speed alone. Each makes its environment after the fork: simulators may have threads, which a fork would lose.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import gymnasium as gym

from cleanrl_worker.acting import LoadedPolicy
from cleanrl_worker.evaluation import Episode, Player
from cleanrl_worker.launcher import die_with_parent
from cleanrl_worker.session import UsageError

_PROGRESS_SECONDS = 0.5


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
    record: Path | None = None
    """Where to put clips of some episodes; whoever plays the very first one records."""

    def play(self, numbers: range, stop: Callable[[], bool]) -> Iterator[Episode | Steps]:
        """Play in this process. Raises UsageError when the environment cannot be made or does not fit."""
        with self._env(recorded=self.record is not None and numbers[:1] == range(1)) as env:
            player = Player(self.loaded.policy, env, self.seed, deterministic=self.deterministic)
            told_at = time.monotonic()
            for event in player.play(numbers, stop):
                if event is not None:
                    yield event
                elif time.monotonic() - told_at > _PROGRESS_SECONDS:
                    told_at = time.monotonic()
                    yield Steps(player.steps)

    def _env(self, *, recorded: bool) -> gym.Env[Any, Any]:
        if not recorded or self.record is None:
            return self.loaded.make_env(self.env_id)
        from cleanrl_worker.video import attach, clips

        env = clips(self.loaded.make_env(self.env_id, render_mode="rgb_array"))
        attach([env], self.record, lambda: self.loaded.manifest.step)
        return env


def play(task: Task, episodes: int, jobs: int, stop: Callable[[], bool]) -> Iterator[Episode | Steps]:
    """All episodes in the order they are finished, and the steps now and then.

    Raises UsageError or EvaluationError. When it is left early no process stays behind.
    """
    if jobs == 1:
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
    asked = False
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
        if stop() and not asked:
            asked = True
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
