"""A checkpoint that plays, or watches: loaded and asked in a process of its own, by a thread of the session.

The thread that starts the process also asks it and ends it: the process is to end with that thread, should the session
be killed.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from mosaic_protocol.checkpoint_manifest import CheckpointError, read_manifest
from mosaic_protocol.paths import default_root
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.policy_client import PolicyClient, PolicyError
from mosaic_protocol.suggest import did_you_mean
from mosaic_protocol.worker_manifest import WorkerManifest, discover
from mosaic_protocol.worker_packages import worker_environment
from mosaic_worker.errors import UsageError
from play_worker.lenses import AtariLens, lens_for
from play_worker.opinions import Opinion, opinion_of

_COMPARED = ("type", "shape", "n", "start")
_END_SECONDS = 2.0


class _Question(NamedTuple):
    number: int
    observation: Any
    deterministic: bool
    seed: int | None


class PolicyActor:
    """``wake`` is called, in the policy's thread, when it is ready, has an answer, or failed.

    It may be asked faster than it answers: of several questions it answers the newest.
    """

    name = "policy"

    def __init__(
        self,
        checkpoint: str,
        env: gym.Env[Any, Any],
        wake: Callable[[], None],
        *,
        deterministic: bool = True,
        python: str = "",
    ) -> None:
        """Begin to load it. Raises nothing."""
        self.checkpoint, self.is_ready = checkpoint, False
        self.deterministic, self.python = deterministic, python or sys.executable
        self.failure = ""
        self.called = ""
        """The algorithm and how long it was trained, once that is known."""
        self._about: dict[str, Any] = {"checkpoint": checkpoint}
        self._env = env
        self._spaces = {"observation": env.observation_space, "action": env.action_space}
        self._lens: AtariLens | None = None
        self._wake = wake
        self._questions: queue.SimpleQueue[_Question | None] = queue.SimpleQueue()
        self._asked, self._is_waiting = 0, False
        self._answer: tuple[int, Opinion | None] = (0, None)
        self._seed: int | None = None
        """Of the episode, until an action was taken that it decided."""
        self._client: PolicyClient | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._live, name="policy", daemon=True)
        self._thread.start()

    @property
    def about(self) -> dict[str, Any]:
        return self._about

    def begin_episode(self, seed: int) -> None:
        self.forget()
        self._seed = seed  # decides what is drawn in the episode

    def consider(self, observation: Any, *, plays: bool) -> None:
        """Think about the step to come. One who watches is asked what it prefers, and draws nothing."""
        if self._lens is not None and (observation := self._lens.look(observation)) is None:
            return  # it holds its last action
        deterministic = self.deterministic or not plays
        seed = self._seed if plays else None
        self._asked, self._is_waiting = self._asked + 1, True
        self._questions.put(_Question(self._asked, observation, deterministic, seed))

    @property
    def opinion(self) -> Opinion | None:
        """Of the observation that it was asked about last; None while it thinks."""
        number, opinion = self._answer
        return opinion if self._is_waiting and number == self._asked else None

    @property
    def last_opinion(self) -> Opinion | None:
        """The newest one, which may be of a step before."""
        return self._answer[1]

    def action(self, observation: Any) -> Any:
        if not self._is_waiting:
            self.consider(observation, plays=True)
        if (opinion := self.opinion) is None:
            return None
        # Until here every question carries the seed: of several that were asked before the first step, any may be the
        # one that is answered, and each gives the same action. From here on the draws follow each other.
        self._seed = None
        return opinion.action

    def forget(self) -> None:
        self._is_waiting = False
        self._answer = (0, None)
        if self._lens is not None:
            self._lens.begin()

    def close(self) -> None:
        """Have the process end, also while it loads or thinks, without waiting for it."""
        self._closed = True
        self._questions.put(None)
        if self._client is not None:
            self._client.kill()  # it has nothing to lose, and may hang

    def join(self) -> None:
        """Wait a moment for the process to end; it ends with the session at the latest."""
        self._thread.join(_END_SECONDS)

    # ---- the thread ----------------------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            command, environment = policy_command(self.checkpoint, self.python)
            with PolicyClient(command, environment, self._started) as client:
                self._check(client)
                self._about = {**self._about, "sha256": client.greeting.sha256}
                self.called = f"{client.greeting.algo} at step {client.greeting.step:,}"
                self.is_ready = True
                self._wake()
                while not self._closed and (question := self._newest_question()) is not None:
                    self._answer = (question.number, self._think(client, question))
                    self._wake()
        except (PolicyError, UsageError, OSError) as error:
            self._fail(one_line(str(error)))
        except Exception as error:  # noqa: BLE001 - whatever it was, the session plays on without it
            self._fail(f"{type(error).__name__}: {one_line(str(error))}")
        self._wake()

    def _started(self, client: PolicyClient) -> None:
        self._client = client
        if self._closed:  # sent away before there was a process to end
            client.kill()

    def _fail(self, why: str) -> None:
        if not self._closed:  # whatever becomes of one that was sent away is no failure
            self.failure = f"the policy failed: {why}"

    def _newest_question(self) -> _Question | None:
        question = self._questions.get()
        while question is not None and not self._questions.empty():
            question = self._questions.get()
        return question

    def _think(self, client: PolicyClient, question: _Question) -> Opinion:
        batch = np.asarray(question.observation)[None]
        actions, told = client.consult(batch, deterministic=question.deterministic, seed=question.seed)
        if actions.shape[:1] != (1,):
            raise UsageError(f"it answered one observation with actions of the shape {list(actions.shape)}")
        return opinion_of(actions[0], told, self._spaces["action"])

    def _check(self, client: PolicyClient) -> None:
        """A policy of another environment is refused before it takes the seat."""
        self._lens = lens_for(client.greeting.spaces.get("observation") or {}, self._env)
        for what, space in self._spaces.items():
            if what == "observation" and self._lens is not None:
                continue
            described = client.greeting.spaces.get(what) or {}
            shape = list(space.shape) if space.shape is not None else None
            here: dict[str, Any] = {"type": type(space).__name__, "shape": shape}
            here |= {key: int(getattr(space, key)) for key in ("n", "start") if hasattr(space, key)}
            differing = [key for key in _COMPARED if key in described and key in here and described[key] != here[key]]
            if differing:
                needs = described.get("text", "other ones")
                raise UsageError(f"it was trained on {client.greeting.env_id}: its {what}s are {needs}, here {space}")


def policy_command(checkpoint: str, python: str = "") -> tuple[list[str], Mapping[str, str]]:
    """How the process of a checkpoint's policy is started: (command, environment). Raises UsageError."""
    path = Path(checkpoint).expanduser()
    try:
        algo = read_manifest(path).algo
    except CheckpointError as error:
        raise UsageError(str(error)) from None
    worker = _worker_of(algo)
    words = ["--checkpoint", str(path), "--parent", str(os.getpid())]
    environment = worker_environment(worker, os.environ, default_root())
    return [python or sys.executable, "-m", str(worker.policies.act), *words], environment


def _worker_of(algo: str) -> WorkerManifest:
    workers = discover().workers.values()
    found = next((one for one in workers if algo in one.algorithms), None)
    if found is None:
        known = {name for one in workers for name in one.algorithms}
        raise UsageError(f"no installed worker offers the algorithm {algo!r}{did_you_mean(algo, known)}")
    if not (found.capabilities.offline_inference and found.policies.act):
        raise UsageError(f"the worker {found.type!r} cannot let checkpoints act")
    return found
