"""An agent that learns, apart from the network: plans that decide, a runtime that acts, a mind that is recorded."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import agentspeak as asp

from mosaic_protocol.live.messages import Tell
from mosaic_protocol.mind import MIND, WHOLE_EVERY, AgentMind, ValueTable
from mosaic_worker.errors import UsageError
from spade_bdi_rl_worker.agent.mind_keeper import MindKeeper
from spade_bdi_rl_worker.agent.program import ProgramError, mistake_at, parse_term
from spade_bdi_rl_worker.agent.reasoner import GoalFailedError, NotYetError, PlanError, Reasoner, place_of
from spade_bdi_rl_worker.agent.terms import LEARNED, PERCEPT, PERSON, atom, sourced, with_source, written
from spade_bdi_rl_worker.learning.runtime import Episode, How, QLearningRuntime
from spade_bdi_rl_worker.learning.strategy import Budget

SLICE_SECONDS = 0.005
"""What an agent may take of the thread at a time, in CPU seconds: on a machine that is busy with other work a turn by
the clock is over before it began, and all that belongs to a turn is done for a handful of episodes."""
OLD = 200
"""Episodes after which a cached policy is worth another look."""
ACHIEVE, TELL, UNTELL, UNACHIEVE = "achieve", "tell", "untell", "unachieve"
PERFORMATIVES = (TELL, UNTELL, ACHIEVE, UNACHIEVE)
_MOST_SHOWN_STATES = 1000
_MOST_WAITING = 1000
AT_A_TIME = 16
"""Episodes of one action between two turns of others."""


_LEARNED_BELIEFS = ("outcome", "confidence", "success_rate")
_NOTHING = (None,) * len(_LEARNED_BELIEFS)
_FAILING, _OLD = (sourced("policy", (atom(name),), LEARNED) for name in ("failing", "old"))


class RunOverError(Exception):
    """The agent's share of the run is used up, and its plans do not rest."""


class LearningAgent:
    """Belongs to one thread; :meth:`tell` may be called in any."""

    def __init__(
        self,
        name: str,
        runtime: QLearningRuntime,
        budget: Budget,
        *,
        send: Callable[[str, str, str], None] = lambda peer, performative, text: None,
        on_episodes: Callable[[LearningAgent, list[float], list[int]], None] = lambda agent, totals, lengths: None,
        peers: tuple[str, ...] = (),
    ) -> None:
        """``send(peer, performative, text)`` sends a message; ``on_episodes`` hears returns and lengths of what was
        played; ``peers`` are the other agents of the run."""
        self.name, self.runtime, self.budget, self.peers = name, runtime, budget, peers
        self.reasoner = Reasoner(name, lambda: runtime.episodes)
        self.reasoner.body = self
        self.mind = MindKeeper(self.reasoner)
        self.is_done = False
        """Whether it said so itself."""
        self.is_over = False
        """Whether its share of the run is used up, or it is done."""
        self.has_ended = False
        """Whether that was so in the middle of a plan, which will not be gone on with."""
        self.rests = False
        """Whether it is to do nothing more once it has come to rest."""
        self.wants_checkpoint = False
        self.last: Episode | None = None
        self._send, self._on_episodes = send, on_episodes
        self._inbox: deque[tuple[str, str, Any, str]] = deque()
        self._slice_ends = 0.0
        self._cached_at = 0
        self._believed: tuple[Any, ...] = ()
        self._shown_path: list[int] = []
        self._shown_at = 0

    # ---- turns ---------------------------------------------------------------------------------------------------

    def turn(self, seconds: float = SLICE_SECONDS) -> bool:
        """Reason and act for a moment; False when there is nothing to do until something happens. Raises PlanError."""
        self._listen()
        try:
            return not self.has_ended and self._reason(seconds)
        except RunOverError:
            self.has_ended = True
            return False
        except asp.AslError as error:  # in the condition of a plan that was to deal with something
            raise PlanError(mistake_at(str(error), place_of(error))) from error
        finally:
            self.runtime.record()

    def _reason(self, seconds: float) -> bool:
        reasoner = self.reasoner
        step, clock = reasoner.step, time.thread_time
        self._slice_ends = clock() + seconds
        while True:
            for _ in range(8):
                if (self.is_over or self.rests) and reasoner.is_fresh:
                    return False
                if not step():
                    return False
                if not reasoner.idle_cycles:
                    break  # it acted, and that may take long
            if clock() >= self._slice_ends:
                return True

    @property
    def is_at_rest(self) -> bool:
        """Whether it is between two plans, or will do nothing more."""
        return self.has_ended or self.reasoner.is_fresh

    @property
    def next_deadline(self) -> float | None:
        """Seconds until something happens by itself; None: nothing will."""
        found = [
            purpose.until - time.monotonic() for stack in self.reasoner.intentions for purpose in stack if purpose.until
        ]
        if (waiting := self.reasoner.shortest_deadline()) is not None:
            found.append(waiting - self.reasoner.time())
        return max(0.0, min(found)) if found else None

    @property
    def is_idle(self) -> bool:
        """Whether it has no goal, or waits for somebody else."""
        if self._inbox or self.next_deadline is not None:
            return False
        return all(stack[-1].waiter is not None for stack in self.reasoner.intentions)

    # ---- episodes ------------------------------------------------------------------------------------------------

    def run_episodes(self, how: How, count: int, purpose: Any) -> None:
        """Run so many episodes, a few at a time: then NotYetError, and the rest when other intentions had their turn. A
        few is a number, not a time, so that a run repeats itself."""
        if how == "cached" and self.runtime.policy is None:
            raise GoalFailedError("no policy is cached: use .cache_policy first")
        left = count if purpose.left is None else purpose.left
        purpose.left = None
        goes_on = False
        while left > 0:
            if self.is_over:
                raise RunOverError
            if self.runtime.plays_many(how):
                left -= self._run_many(how, left, goes_on)
            else:
                self._run_one(how, goes_on)
                left -= 1
            goes_on = True
            if left and left % AT_A_TIME == 0:
                purpose.left = left
                break
        self._update_beliefs()
        if purpose.left is not None:
            raise NotYetError

    def _run_one(self, how: How, goes_on: bool) -> None:
        mind = self._mind_at_the_start(goes_on)
        self.reasoner.plays = True
        self.last = last = self.runtime.run_episode(how, {MIND: mind})
        self.mind.confidence = round(self.runtime.confidence.value, 2)
        self._note_played([last.steps], [last.total])

    def _run_many(self, how: How, left: int, goes_on: bool) -> int:
        """Several without a look at anything in between, but no more than :meth:`run_episodes` runs at a time, and none
        beyond the next that has a whole record; how many it were."""
        runtime = self.runtime
        count = min(left % AT_A_TIME or AT_A_TIME, WHOLE_EVERY - runtime.episodes % WHOLE_EVERY)
        mind = self._mind_at_the_start(goes_on)
        self.reasoner.plays = True
        played = runtime.run_episodes(how, count, self.budget, lambda found: self._minds(mind, found))
        self.last = played.last
        self._note_played(played.lengths, played.totals)
        return len(played.lengths)

    def _mind_at_the_start(self, goes_on: bool) -> dict[str, Any]:
        next_number = self.last.number + 1 if self.last is not None else 0
        return self.mind.record(next_number, self.runtime.episodes, same_action=goes_on)

    def _minds(self, first: dict[str, Any], confidences: list[float]) -> list[Mapping[str, Any] | None]:
        return [{MIND: first}, *self.mind.record_more(confidences)] if confidences else []

    def _note_played(self, lengths: list[int], totals: list[float]) -> None:
        self.reasoner.idle_cycles = 0
        self.note_progress()
        self._on_episodes(self, totals, lengths)
        self.reasoner.plays = False  # not where it failed: then this is looked at

    def note_progress(self) -> None:
        """How much of its share is used up."""
        runtime = self.runtime
        runtime.progress = self.budget.progress(runtime.steps, runtime.episodes)
        self.is_over = self.is_done or runtime.progress >= 1.0

    def _update_beliefs(self) -> None:
        runtime, last = self.runtime, self.last
        assert last is not None
        outcome = "reached" if last.success else "failed" if last.terminated else "out_of_time"
        found = (outcome, self.mind.confidence, round(runtime.success_rate, 2))
        if found != self._believed:
            for functor, value, before in zip(_LEARNED_BELIEFS, found, self._believed or _NOTHING, strict=True):
                if value != before:  # one belief of each functor, in the place of what it was
                    term, source = (atom(value), PERCEPT) if isinstance(value, str) else (value, LEARNED)
                    self.reasoner.perceive(sourced(functor, (term,), source))
            self._believed = found
        if runtime.policy is not None:
            if runtime.is_policy_failing:
                self.reasoner.believe(_FAILING)
            elif runtime.episodes - self._cached_at >= OLD:
                self.reasoner.believe(_OLD)

    def end(self) -> None:
        """It has done what it wanted."""
        self.is_done = self.is_over = True

    def cache_policy(self) -> None:
        self.drop_policy()
        self.runtime.cache_policy()
        self._cached_at = self.runtime.episodes
        self.reasoner.believe(sourced("policy", (atom("cached"),), LEARNED))

    def drop_policy(self) -> None:
        self.runtime.drop_policy()
        for belief in list(self.reasoner.beliefs[("policy", 1)]):
            self.reasoner.forget(belief)

    # ---- messages ------------------------------------------------------------------------------------------------

    def send(self, peer: str, performative: str, term: Any) -> None:
        if peer not in self.peers:
            known = ", ".join(self.peers) or "it is alone"
            raise GoalFailedError(f"there is no agent {peer} in this run ({known})")
        if performative not in PERFORMATIVES:
            raise GoalFailedError(f"{performative} is nothing that can be sent: use {', '.join(PERFORMATIVES)}")
        text = asp.asl_repr(asp.Literal(term.functor, term.args))
        self._send(peer, performative, text)
        self.mind.said("out", peer, performative, written(term))
        self.reasoner.idle_cycles = 0

    def hear(self, sender: str, performative: str, text: str) -> None:
        """A message came. What cannot be read is noted as a problem and changes nothing."""
        if performative not in PERFORMATIVES:
            self.reasoner.problem = f"a message from {sender} is of no known kind: {performative!r}"
            return
        try:
            term = parse_term(text)
        except ProgramError as error:
            self.reasoner.problem = f"a message from {sender} cannot be read: {error.mistakes[0].what}"
            return
        self._inbox.append((sender, performative, term, written(term)))

    def why_not_told(self, told: Tell) -> str:
        """Why a person cannot say this to the agent, or ""."""
        try:
            term = parse_term(told.text)
        except ProgramError as error:
            return error.mistakes[0].drawn()
        event = (asp.Trigger.addition, asp.GoalType.achievement, *term.literal_group())
        if told.kind == "goal" and event not in self.reasoner.plans:
            return (
                f"{self.name} has no plan for {_goal(*term.literal_group())}; it has plans for {self._served_goals()}"
            )
        if len(self._inbox) >= _MOST_WAITING:
            return f"{self.name} has not listened yet to what it was told before; try again in a moment"
        return ""

    def _served_goals(self) -> str:
        kinds = (asp.Trigger.addition, asp.GoalType.achievement)
        return ", ".join(sorted(_goal(*key[2:]) for key in self.reasoner.plans if key[:2] == kinds)) or "no goal"

    def tell(self, told: Tell) -> str:
        """A person says something; why it cannot be, or "". Safe in any thread."""
        if why := self.why_not_told(told):
            return why
        term = parse_term(told.text)
        self._inbox.append((PERSON, ACHIEVE if told.kind == "goal" else TELL, term, written(term)))
        return ""

    def connect(self, send: Callable[[str, str, str], None]) -> None:
        """Send messages this way from now on."""
        self._send = send

    def _listen(self) -> None:
        while self._inbox:
            sender, performative, term, text = self._inbox.popleft()
            self.mind.said("in", sender, performative, text)
            self.reasoner.idle_cycles = 0
            tagged = with_source(term, sender)
            wants = "wants" if performative in (ACHIEVE, UNACHIEVE) else "says"
            try:
                self._take_to_heart(performative, tagged)
            except (PlanError, asp.AslError) as error:  # what somebody else says is no reason to end
                self.reasoner.problem = f"{sender} {wants} {text}, but {error}"

    def _take_to_heart(self, performative: str, term: Any) -> None:
        """Raises PlanError for a goal that no plan applies to now, AslError where a condition cannot be decided."""
        if performative == TELL:
            self.reasoner.believe(term)
        elif performative == UNTELL:
            self.reasoner.forget(term)
        elif performative == ACHIEVE:
            self.reasoner.pursue(term)
        else:
            self.reasoner.drop_goal(term)

    # ---- looked at -----------------------------------------------------------------------------------------------

    def seen(self) -> AgentMind:
        runtime = self.runtime
        strategy = {
            "epsilon": round(runtime.strategy.epsilon_at(runtime.progress), 4),
            "alpha": round(runtime.strategy.alpha_at(runtime.progress), 4),
        }
        number = self.last.number if self.last is not None else 0
        return self.mind.seen(self.name, number, strategy, self._table())

    def look(self) -> int | None:
        """The next state of an episode that really happened, for those who watch: episodes are over faster than anybody
        can look."""
        if self._shown_at >= len(self._shown_path):
            self._shown_path, self._shown_at = list(self.runtime.path), 0
        if self._shown_path:
            self.shown_state = self._shown_path[self._shown_at]
            self._shown_at += 1
        return self.shown_state

    shown_state: int | None = None
    """Where those who watch see the agent."""
    cells: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()

    def _table(self) -> ValueTable | None:
        learner = self.runtime.learner
        if len(learner.q) > _MOST_SHOWN_STATES:
            return None
        return ValueTable(
            actions=self.action_names,
            values=tuple(tuple(round(value, 4) for value in row) for row in learner.q),
            visits=tuple(learner.visits),
            cells=self.cells,
            terminal=self.runtime.world.terminal,
            state=self.shown_state,
        )

    # ---- for a checkpoint ----------------------------------------------------------------------------------------

    @property
    def thoughts(self) -> dict[str, Any]:
        """Beliefs and goals."""
        return {
            "beliefs": self.mind.beliefs,
            "goals": self.reasoner.pending(),
            "is_done": self.is_done,
            "problem": self.reasoner.problem,
            "cached_at": self._cached_at,
            "believed": list(self._believed),
            "is_exact": self.reasoner.is_fresh,
        }

    @thoughts.setter
    def thoughts(self, found: dict[str, Any]) -> None:
        reasoner = self.reasoner
        reasoner.intentions.clear()
        for literal in list(reasoner.beliefs.all()):
            reasoner.beliefs[literal.literal_group()].remove(literal)
        for text in found["beliefs"]:
            literal = parse_term(text)
            reasoner.beliefs[literal.literal_group()].add(literal)
        for goal in found["goals"]:
            self._take_up(goal if isinstance(goal, dict) else {"goal": goal})
        self.is_done = found.get("is_done", False)
        reasoner.problem, self._cached_at = found["problem"], found["cached_at"]
        self._believed = tuple(found["believed"])

    def _take_up(self, goal: dict[str, Any]) -> None:
        try:
            self.reasoner.take_up(goal)
        except PlanError as error:
            raise UsageError(f"{self.name} pursued !{goal['goal']} then, but {error}") from error


def tell_all(agents: Sequence[LearningAgent], told: Tell) -> str:
    """A person says something to one agent, or to all: each of them hears it, or nobody; then why, in one sentence."""
    meant = [agent for agent in agents if told.agent in ("", agent.name)]
    if not meant:
        return f"there is no agent {told.agent!r}; this run has {', '.join(agent.name for agent in agents)}"
    problems = [why for agent in meant if (why := agent.why_not_told(told))]
    if problems:
        return problems[0]
    for agent in meant:
        agent.tell(told)
    return ""


def _goal(functor: str, arguments: int) -> str:
    return f"!{functor}/{arguments}" if arguments else f"!{functor}"
