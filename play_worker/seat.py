"""The seat: who plays, who played before, who watches, and who is being made ready."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from mosaic_protocol.live.messages import Advise, HandOver, Unseated
from play_worker.actors import Actor, HumanActor, RandomActor, ScriptedActor, read_script
from play_worker.opinions import Opinion
from play_worker.policy_actor import PolicyActor

_OVERTAKEN = "somebody else was given the seat meanwhile"


class Seat:
    """Belongs to the session's thread. The person never leaves for good: who cannot go on gives the seat back.

    A policy that was loaded stays when a person takes the seat, and watches.
    """

    def __init__(self, human: HumanActor, env: gym.Env[Any, Any], wake: Callable[[], None]) -> None:
        self.human, self._env, self._wake = human, env, wake
        self.actor: Actor = human
        self.policy: PolicyActor | None = None
        """The one that plays or, while a person does, watches."""
        self.loading: PolicyActor | None = None
        self.problem = ""
        """Why somebody did not take the seat, or left it."""
        self.unseated = Unseated()
        """The last policy that was to play and does not."""
        self.turns = 0
        """How often the seat changed hands."""
        self.failures = 0
        """How often a policy or another actor could not go on, or not begin."""
        self._will_play = True
        """Whether the policy that is being loaded is to play, not only to watch."""
        self._before: Actor = human
        self._policies: list[PolicyActor] = []
        self._seed = 0

    @property
    def is_human(self) -> bool:
        return self.actor is self.human

    @property
    def checkpoint(self) -> str:
        """Of the policy that plays."""
        return self.actor.checkpoint if isinstance(self.actor, PolicyActor) else ""

    def begin_episode(self, seed: int) -> None:
        self._seed = seed
        self.actor.begin_episode(seed)
        if self.policy is not None:
            self.policy.begin_episode(seed)

    def think(self, observation: Any) -> None:
        """Have the policy that plays or watches look at what came; nobody waits for it here."""
        if self._is_heard and self.policy is not None:
            self.policy.consider(observation, plays=self.actor is self.policy)

    @property
    def opinion(self) -> Opinion | None:
        """What the policy thinks of the step to come, if it has thought already and is there to be heard."""
        return self.policy.opinion if self._is_heard and self.policy is not None else None

    @property
    def last_opinion(self) -> Opinion | None:
        """The newest opinion: while the policy thinks, that of the step before."""
        return self.policy.last_opinion if self._is_heard and self.policy is not None else None

    @property
    def _is_heard(self) -> bool:
        return self.actor is self.policy or self.is_human

    def hand_over(self, wish: HandOver) -> None:
        """Give the seat to another actor, a policy as soon as it is loaded. Raises UsageError, and nothing changes."""
        match wish.actor:
            case "human":
                self._give(self.human)
            case "random":
                self._give(RandomActor(self._env.action_space))
            case "scripted":
                self._give(ScriptedActor(read_script(wish.script)))
            case "policy" if self.policy is not None and self._is_same(self.policy, wish):
                self._give(self.policy)
            case "policy":
                self._load(wish, plays=True)

    def advise(self, wish: Advise) -> None:
        """Have a policy watch, or send away the one that does."""
        if wish.checkpoint:
            self._load(HandOver("policy", checkpoint=wish.checkpoint, python=wish.python), plays=False)
            return
        self._stop_loading()
        if self.policy is not self.actor:
            self.policy = None
            self._let_go()

    @property
    def expected(self) -> str:
        """The checkpoint that takes the seat when it is loaded."""
        return self.loading.checkpoint if self.loading is not None and self._will_play else ""

    def look(self) -> bool:
        """Seat a policy that is loaded, give up one that failed; whether anything changed."""
        changed = False
        if self.loading is not None and self.loading.failure:
            self.problem = self.loading.failure
            self.failures += 1
            self._stop_loading(self.problem)
            changed = True
        elif self.loading is not None and self.loading.is_ready:
            self.policy, self.loading = self.loading, None
            self.policy.begin_episode(self._seed)
            if self._will_play:
                self._give(self.policy)
            self._let_go()
            changed = True
        if self.actor.failure:
            self.give_back(self.actor.failure)
            changed = True
        elif self.policy is not None and self.policy.failure:
            self.problem, self.policy = self.policy.failure, None
            self.failures += 1
            changed = True
        return changed

    def give_back(self, why: str) -> None:
        """The actor cannot go on: the one of before plays on."""
        self.failures += 1
        failed, before = self.actor, self._before
        if isinstance(failed, PolicyActor):
            self._note_unseated(failed, why)
        if failed is self.policy:
            self.policy = None
        self._give(self.human if before is failed or before.failure else before)
        self._before = self.human
        self.problem = why
        failed.close()

    def close(self) -> None:
        for policy in self._policies:
            policy.close()
        for policy in self._policies:
            policy.join()

    def _give(self, actor: Actor) -> None:
        self._stop_loading("a person took the seat meanwhile" if actor is self.human else _OVERTAKEN)
        if actor is self.actor:
            return
        self.actor.forget()
        self._before, self.actor = self.actor, actor
        self.problem = ""
        self.turns += 1
        if isinstance(actor, PolicyActor):
            self.policy = actor
        actor.begin_episode(self._seed)
        self._let_go()

    @staticmethod
    def _is_same(had: PolicyActor | None, wish: HandOver) -> bool:
        """Whether the policy that is wanted is there already, or on its way."""
        if had is None or had.failure:
            return False
        python = wish.python or sys.executable  # a session's first policy is not told which: it is the same one
        return (had.checkpoint, had.python, had.deterministic) == (wish.checkpoint, python, wish.deterministic)

    def _load(self, wish: HandOver, *, plays: bool) -> None:
        if self._is_same(self.loading, wish):
            self._will_play = plays or self._will_play
            return
        self._stop_loading()
        self._will_play = plays
        self.loading = PolicyActor(
            wish.checkpoint, self._env, self._wake, deterministic=wish.deterministic, python=wish.python
        )
        self._policies.append(self.loading)

    def _stop_loading(self, why: str = _OVERTAKEN) -> None:
        if self.loading is not None:
            loading, self.loading = self.loading, None
            loading.close()
            if self._will_play:
                self._note_unseated(loading, why)

    def _note_unseated(self, policy: PolicyActor, why: str) -> None:
        self.unseated = Unseated(self.unseated.number + 1, policy.checkpoint, why)

    def _let_go(self) -> None:
        """End the processes of policies that nobody will ask any more."""
        for policy in self._policies:
            if policy not in (self.actor, self._before, self.policy, self.loading):
                policy.close()
