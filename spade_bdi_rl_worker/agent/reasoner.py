"""The interpreter of one agent's plans: agentspeak's, with what an agent in charge of a training needs.

- a plan is chosen with its reasons at hand (:attr:`Reasoner.choice`), and not looked for again while nothing that the
  conditions ask for has changed;
- ``-!goal`` plans recover from a failed goal, ``!goal[within(500)]`` and ``!goal[deadline(30)]`` fail it when it takes
  more than so many episodes or seconds;
- what nobody recovers from, and a plan that turns in circles, is a :class:`PlanError` with file and line;
- intentions take turns, so that none of them starves the others.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import agentspeak as asp
import agentspeak.runtime as asr

from mosaic_worker.errors import UsageError
from spade_bdi_rl_worker.agent.beliefs import BeliefBase
from spade_bdi_rl_worker.agent.plans import BuiltPlan, groups_read_by
from spade_bdi_rl_worker.agent.program import Mistake, mistake_at, parse_term
from spade_bdi_rl_worker.agent.reasons import why_not
from spade_bdi_rl_worker.agent.terms import (
    MOST_PARTS,
    as_written,
    atom,
    is_constant,
    is_too_large,
    with_source,
    written,
)

MOST_IDLE_CYCLES = 200_000
"""Formulas that an agent may execute without acting before it counts as one that turns in circles."""
MOST_DEEP = 1000
"""Goals that may wait for each other. Each record of a mind tells of all of them."""
MOST_QUESTIONS = 2_000_000
"""Looks at beliefs and possibilities for one formula, some seconds' worth, before it counts as one without end."""
DEADLINE, WITHIN = "deadline", "within"
_FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What expressions and AgentSpeak's own actions raise for values that they do not take."""
_ADDED, _REMOVED = asp.Trigger.addition, asp.Trigger.removal
_BELIEF, _GOAL, _TEST = asp.GoalType.belief, asp.GoalType.achievement, asp.GoalType.test


class PlanError(Exception):
    """A plan failed and nothing recovers from it; :attr:`mistake` has its place."""

    def __init__(self, mistake: Mistake) -> None:
        self.mistake = mistake
        super().__init__(str(mistake))


class NotYetError(Exception):
    """An action that is not over: it is executed again when other intentions had their turn."""


class GoalFailedError(asp.AslError):
    """An action that cannot be done; its text is the reason."""


class ConditionError(asp.AslError):
    """A condition that can be decided neither way; :attr:`loc` is its place."""

    def __init__(self, what: str, loc: Any) -> None:
        super().__init__(what)
        self.loc = loc


class EndlessError(RecursionError):
    """A condition that could be looked at for ever: like one that refers to itself, but it goes on beside that."""


class _Rules(defaultdict[tuple[str, int], list[Any]]):
    """The interpreter asks for rules each time that it looks at a belief: so that is what is counted."""

    def __init__(self, count: Callable[[], None]) -> None:
        super().__init__(list)
        self._count = count

    def __getitem__(self, group: tuple[str, int]) -> list[Any]:
        self._count()
        return super().__getitem__(group)


class Purpose(asr.Intention):
    """One goal or event that is being pursued, by one plan."""

    def __init__(self, plan: BuiltPlan, event: Any) -> None:
        super().__init__()
        self.plan, self.event = plan, event
        self.until: float | None = None
        """When its goal has failed, in seconds of the monotonic clock."""
        self.last_episode: int | None = None
        """After which episode its goal has failed."""
        self.left: int | None = None
        """How much of a running action is still to be done."""

    @property
    def is_goal(self) -> bool:
        return self.plan.goal_type is _GOAL

    @property
    def is_fresh(self) -> bool:
        """Whether nothing of its body was executed yet, but perhaps a part of its first action."""
        return self.instr is self.plan.start


class Choice:
    """The plans for one kind of event: which one applied last, and what that depended on."""

    __slots__ = ("chosen", "considered", "event", "groups", "plans", "versions")

    def __init__(self, plans: list[BuiltPlan], rules: dict[Any, list[Any]]) -> None:
        self.plans = plans
        self.chosen: BuiltPlan | None = None
        self.event: Any = None
        self.considered: list[tuple[str, str, str]] = []
        """Every plan as it stood when one was chosen: its label, its condition, and why it was not chosen."""
        read = [groups_read_by(plan, rules) for plan in plans]
        repeatable = all(plan.takes_any_event for plan in plans) and None not in read
        self.groups = sorted(set().union(*(one or set() for one in read))) if repeatable else None
        """The beliefs that decide; None when more than beliefs does."""
        self.versions: tuple[int, ...] | None = None


class Reasoner(asr.Agent):
    """One agent. ``clock`` gives the number of its episodes, for goals with a limit of them."""

    def __init__(self, name: str, clock: Callable[[], int] = lambda: 0) -> None:
        super().__init__(None, name, beliefs=BeliefBase(), rules=_Rules(self.count_question))
        self.env = self  # actions of the standard library ask it for the time
        self.agents: dict[str, Any] = {name: self}
        self.choices: dict[Any, Choice] = {}
        self.choice: Choice | None = None
        """The newest one for a goal: what a record tells of."""
        self.choice_number = 0
        """Grows when a choice, or what it depended on, changed."""
        self.problem = ""
        """What failed last, and which plan dealt with it."""
        self.idle_cycles = 0
        """Formulas since the agent last acted; each action sets it to 0."""
        self.plays = False
        """Whether an episode is under way: what goes wrong in one is no mistake of a plan."""
        self._clock = clock
        self._limits = 0
        self._questions = 0
        self._reactions: set[tuple[bool, str, int]] = set()
        """Beliefs whose coming (True) or going a plan waits for: asked for with each change of one."""

    # ---- building ------------------------------------------------------------------------------------------------

    def load(self, tree: Any, actions: Any, log: Any) -> None:
        """Take over rules and plans of a program, then its beliefs."""
        for node in tree.rules:
            variables: dict[str, Any] = {}
            head = node.head.accept(asr.BuildTermVisitor(variables))
            self.add_rule(asr.Rule(head, node.consequence.accept(asr.BuildQueryVisitor(variables, actions, log))))
        for node in tree.plans:
            self.add_plan(BuiltPlan(node, actions, log))
        self._reactions = {(key[0] is _ADDED, *key[2:]) for key in self.plans if key[1] is _BELIEF}
        for node in tree.beliefs:
            self.believe(with_source(node.accept(asr.BuildTermVisitor({})), "self"))

    def pursue_initial_goals(self, tree: Any) -> None:
        for node in tree.goals:
            self.pursue(node.atom.accept(asr.BuildTermVisitor({})))

    def time(self) -> float:
        """For those who wait. Somebody may set the clock of the machine meanwhile."""
        return time.monotonic()

    # ---- what happens to the agent -------------------------------------------------------------------------------

    def believe(self, literal: Any) -> bool:
        """Add a belief, and react to it where a plan says so; False when it was believed already."""
        if not self.beliefs[literal.literal_group()].add(literal):
            return False
        self._react(_ADDED, literal)
        return True

    def forget(self, literal: Any) -> None:
        """Remove a belief exactly as it is."""
        group = self.beliefs[literal.literal_group()]
        if literal in group:
            group.remove(literal)
            self._react(_REMOVED, literal)

    def perceive(self, literal: Any) -> None:
        """Believe this in the place of everything else of its functor, arity and source."""
        group = self.beliefs[literal.literal_group()]
        if literal in group:
            return
        for old in [one for one in group if one.annots == literal.annots]:
            self.forget(old)
        self.believe(literal)

    def pursue(self, goal: Any) -> None:
        """A goal of its own stack. Raises PlanError when there is no plan for it."""
        try:
            self.call(_ADDED, _GOAL, goal, asr.Intention(), delayed=True)
        except asp.AslError as error:
            self._recover(deque(), goal, str(error), mistake_at(str(error), place_of(error)))

    def _react(self, trigger: Any, literal: Any) -> None:
        """Wake those who wait for it; begin the plan that it triggers, if there is one."""
        self._wake(trigger, _BELIEF, literal)
        if (trigger is _ADDED, literal.functor, len(literal.args)) in self._reactions:
            purpose = self._choose((trigger, _BELIEF, *literal.literal_group()), literal)
            if purpose is not None:
                self.intentions.append(deque((purpose,)))

    # ---- the interpreter's own hooks -----------------------------------------------------------------------------

    def call(self, trigger: Any, goal_type: Any, term: Any, calling_intention: Any, delayed: bool = False) -> bool:
        """A formula of a plan asks for something. Raises AslError when no plan applies."""
        if goal_type is _BELIEF:
            return self._change_belief(trigger, term, calling_intention)
        event = term if is_constant(term) else asp.freeze(term, calling_intention.scope, {})
        if not isinstance(event, asp.Literal):
            raise asp.AslError(f"a goal is a literal, got {written(event)}")
        _require_small(event, "goal")
        self._wake(trigger, goal_type, event)
        if goal_type is _GOAL and trigger is _REMOVED:
            self.drop_goal(event)
            return True
        key = (trigger, goal_type, *event.literal_group())
        purpose = self._choose(key, event)
        if purpose is None:
            if goal_type is _TEST:
                return bool(self.test_belief(term, calling_intention))
            raise asp.AslError(f"no plan applies to {trigger.value}{goal_type.value}{written(event)}")
        purpose.head_term, purpose.calling_term = event, term
        self._set_limits(purpose, event)
        if not delayed:
            for stack in self.intentions:
                if stack and stack[-1] is calling_intention:
                    if len(stack) >= MOST_DEEP:
                        self._stop_counting(purpose)
                        what = f"!{written(event)} would be goal {MOST_DEEP + 1:,} of a stack"
                        raise asp.AslError(
                            f"{what}: a plan that calls its own goal with ! never comes back; use while or !!"
                        )
                    stack.append(purpose)
                    return True
        self.intentions.append(deque((purpose,)))
        return True

    def replace_belief(self, term: Any, intention: Any) -> bool:
        self.perceive(_own_belief(term, intention))
        return True

    def _change_belief(self, trigger: Any, term: Any, intention: Any) -> bool:
        if trigger is _ADDED:
            self.believe(_own_belief(term, intention))
            return True
        pattern = asp.evaluate(term, intention.scope)
        if not isinstance(pattern, asp.Literal):
            raise asp.AslError(f"a belief is a literal, got {written(pattern)}")
        for belief in self.beliefs[pattern.literal_group()]:
            choicepoint = object()
            intention.stack.append(choicepoint)
            if asp.unifies_annotated(pattern, belief, intention.scope, intention.stack):
                self.forget(belief)
                return True
            asp.reroll(intention.scope, intention.stack, choicepoint)
        return True

    def _wake(self, trigger: Any, goal_type: Any, event: Any) -> None:
        for stack in self.intentions:
            waiter = stack[-1].waiter if stack else None
            if waiter is None or waiter.event is None:
                continue
            wanted = waiter.event
            if (wanted.trigger, wanted.goal_type) == (trigger, goal_type) and asp.unifies_annotated(wanted.head, event):
                stack[-1].waiter = None

    def drop_goal(self, goal: Any) -> None:
        """Give up every intention that pursues a goal, with all that it was pursued for."""
        for stack in list(self.intentions):
            if any(one.is_goal and asp.unifies(goal, one.event) for one in stack):
                self._end(stack)

    # ---- choosing ------------------------------------------------------------------------------------------------

    def count_question(self) -> None:
        """A belief, a rule or one of several possibilities is looked at. Raises EndlessError."""
        self._questions += 1
        if self._questions > MOST_QUESTIONS:
            self._questions = 0
            raise EndlessError(f"has no end: {MOST_QUESTIONS:,} beliefs and possibilities were looked at")

    def _choose(self, key: Any, event: Any) -> Purpose | None:
        plans = self.plans.get(key)
        if not plans:
            return None
        choice = self.choices.get(key)
        if choice is None:
            choice = self.choices[key] = Choice(plans, self.rules)
        versions = None
        if choice.groups is not None:
            beliefs = self.beliefs
            versions = tuple([beliefs[group].version for group in choice.groups])
            if versions == choice.versions and (known := choice.chosen) is not None:
                purpose = Purpose(known, event)
                if not known.binds or self._applies(known, event, purpose):
                    purpose.instr = known.start
                    return self._note(choice, purpose, event, changed=False)
        for plan in plans:
            purpose = Purpose(plan, event)
            if self._applies(plan, event, purpose):
                purpose.instr = plan.start
                choice.versions = versions
                return self._note(choice, purpose, event, changed=True)
        choice.chosen = choice.versions = None
        return None

    def _note(self, choice: Choice, purpose: Purpose, event: Any, *, changed: bool) -> Purpose:
        choice.chosen, choice.event = purpose.plan, event
        if purpose.plan.goal_type is _GOAL and purpose.plan.trigger is _ADDED:
            if changed:
                choice.considered = self._considered(choice)
            if changed or self.choice is not choice:
                self.choice_number += 1
            self.choice = choice
        return purpose

    def _applies(self, plan: BuiltPlan, event: Any, purpose: Purpose) -> bool:
        """Whether head and condition hold; then their variables are bound."""
        try:
            if plan.takes_any_event:
                return self._holds(plan, purpose)
            heads = asp.unify_annotated(plan.head, event, purpose.scope, purpose.stack)
            return any(self._holds(plan, purpose) for _ in heads)
        except RecursionError as error:
            raise PlanError(mistake_at(f"its condition {_without_end(error)}", plan.loc)) from None

    def _holds(self, plan: BuiltPlan, purpose: Purpose) -> bool:
        conjuncts = plan.conjuncts
        if not conjuncts:
            return True
        queries = [conjuncts[0].execute(self, purpose)]
        try:
            while queries:
                if next(queries[-1], queries) is queries:
                    queries.pop()
                elif len(queries) == len(conjuncts):
                    return True
                else:
                    queries.append(conjuncts[len(queries)].execute(self, purpose))
        except RecursionError:
            raise
        except (asp.AslError, *_FAULTS) as error:
            part = plan.parts[len(queries) - 1]
            what = f"the condition {as_written(part)} of {plan.label} cannot be decided: {reason_of(error)}"
            raise ConditionError(what, part.loc or plan.loc) from error
        return False

    def _considered(self, choice: Choice) -> list[tuple[str, str, str]]:
        """Now, because the body of the chosen plan may change what the conditions ask for."""
        found, chosen = [], choice.chosen
        passed = False
        for plan in choice.plans:
            if plan is chosen:
                passed, why = True, ""
            elif passed and chosen is not None:
                why = f"listed after {chosen.label}, which applied first"
            else:
                why = why_not(self, plan, choice.event) or "its condition did not hold when the choice was made"
            found.append((plan.label, plan.context_text, why))
        return found

    # ---- limits --------------------------------------------------------------------------------------------------

    def _set_limits(self, purpose: Purpose, event: Any) -> None:
        for mark in event.annots:
            name: str = getattr(mark, "functor", "")
            args: tuple[Any, ...] = getattr(mark, "args", ())
            if name not in (DEADLINE, WITHIN):
                continue
            if len(args) != 1 or not asp.is_number(args[0]):
                raise asp.AslError(f"{name} takes one number, such as {name}(30), got {written(mark)}")
            if name == DEADLINE:
                purpose.until = time.monotonic() + float(args[0])
            else:
                purpose.last_episode = self._clock() + int(args[0])
            self._limits += 1

    def _enforce_limits(self) -> None:
        now, episode = time.monotonic(), self._clock()
        for stack in list(self.intentions):
            for place, purpose in enumerate(stack):
                late = purpose.until is not None and now >= purpose.until
                spent = purpose.last_episode is not None and episode >= purpose.last_episode
                if late or spent:
                    why = "its deadline has passed" if late else "its episodes are used up"
                    while len(stack) > place + 1:
                        self._stop_counting(stack.pop())
                    self._fail(stack, f"!{written(purpose.event)} was not reached: {why}", purpose.plan.loc, why)
                    break

    def _stop_counting(self, purpose: Purpose) -> None:
        self._limits -= (purpose.until is not None) + (purpose.last_episode is not None)

    # ---- acting --------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Execute one formula of the next intention that does not wait; False when there is none.

        Raises :class:`PlanError`.
        """
        if self._limits:
            self._enforce_limits()
        intentions = self.intentions
        for _ in range(len(intentions)):
            stack = intentions[0]
            purpose = stack[-1]
            if purpose.waiter is None or purpose.waiter.poll(self):
                purpose.waiter = None
                break
            intentions.rotate(-1)
        else:
            self.idle_cycles = 0  # who waits does not turn in circles
            return False
        self._count_cycle(purpose)
        self._questions = 0
        instruction = purpose.instr
        if instruction is None:
            self._succeed(stack, purpose)
            return True
        try:
            done = instruction.f(self, purpose)
        except NotYetError:
            intentions.rotate(-1)
            return True
        except RecursionError as error:
            raise PlanError(mistake_at(f"it {_without_end(error)}", instruction.loc)) from None
        except (asp.AslError, *_FAULTS) as error:
            self._blame(stack, purpose, error)
            return True
        if done:
            purpose.instr = instruction.success
            if purpose.instr is None and purpose.waiter is None and stack and stack[-1] is purpose:
                self._succeed(stack, purpose)
        elif instruction.failure is not None:
            purpose.instr = instruction.failure
        else:
            text = getattr(instruction, "text", "a condition")
            self._fail(stack, f"{text} did not succeed", instruction.loc or purpose.plan.loc)
            return True
        if len(intentions) > 1 and intentions[0] is stack:
            intentions.rotate(-1)
        return True

    def _blame(self, stack: Any, purpose: Purpose, error: Exception) -> None:
        """A formula raised something: its goal fails, unless what failed is the episode that it ran."""
        place = purpose.instr.loc or purpose.plan.loc
        if isinstance(error, asp.AslError):
            self._fail(stack, str(error), place_of(error) or place)
        elif self.plays or isinstance(error, UsageError):
            raise error
        else:
            text = getattr(purpose.instr, "text", "a condition")
            self._fail(stack, f"{text} cannot be done: {reason_of(error)}", place)

    def _count_cycle(self, purpose: Purpose) -> None:
        self.idle_cycles += 1
        if self.idle_cycles > MOST_IDLE_CYCLES:
            plan, instruction = purpose.plan, purpose.instr
            loc = getattr(instruction, "loc", None) or plan.loc
            what = (
                f"the plan {plan.label} turns in circles: {MOST_IDLE_CYCLES:,} formulas without an action. "
                "Let it run an episode, wait, or end"
            )
            raise PlanError(mistake_at(what, loc))

    def _succeed(self, stack: Any, purpose: Purpose) -> None:
        stack.pop()
        self._stop_counting(purpose)
        if not stack:
            self.intentions.remove(stack)
            return
        if purpose.calling_term is not None and purpose.head_term is not None:
            caller = stack[-1]
            frozen = asp.freeze(purpose.head_term, purpose.scope, {})
            if not asp.unify(purpose.calling_term, frozen, caller.scope, caller.stack):
                self._fail(stack, f"!{written(frozen)} was reached with other values", caller.plan.loc)

    def _end(self, stack: Any) -> None:
        for purpose in stack:
            self._stop_counting(purpose)
        if any(one is stack for one in self.intentions):
            self.intentions.remove(stack)

    # ---- recovering ----------------------------------------------------------------------------------------------

    def _fail(self, stack: Any, what: str, loc: Any, reason: str = "") -> None:
        """The goal on top of a stack failed: the first plan for its failure, or for that of a goal below it, goes on in
        its place."""
        mistake = mistake_at(what, loc)
        event = stack[-1].event
        instruction = stack[-1].instr
        wanted = getattr(instruction, "f", None)
        args: tuple[Any, ...] = getattr(wanted, "args", ())
        if what.startswith("no plan applies to +!") and len(args) == 3:  # the goal that it called for failed
            event = asp.freeze(args[2], stack[-1].scope, {})
            if self._push_recovery(stack, event, reason or what, replace=False):
                return
        self._recover(stack, stack[-1].event, reason or what, mistake)

    def _recover(self, stack: Any, event: Any, reason: str, mistake: Mistake) -> None:
        while stack:
            if stack[-1].is_goal and self._push_recovery(stack, stack[-1].event, reason, replace=True):
                return
            self._stop_counting(stack.pop())
        self._end(stack)
        raise PlanError(mistake)

    def _push_recovery(self, stack: Any, event: Any, reason: str, *, replace: bool) -> bool:
        failed = asp.Literal(event.functor, event.args, event.annots | {asp.Literal("error", (reason,))})
        failed = with_source(failed, "self")
        purpose = self._choose((_REMOVED, _GOAL, *event.literal_group()), failed)
        if purpose is None or (replace and stack[-1].plan.trigger is _REMOVED and stack[-1].plan is purpose.plan):
            return False
        self.problem = f"!{written(event)} failed: {reason}; {purpose.plan.label} deals with it"
        if replace:
            gone = stack.pop()
            self._stop_counting(gone)
            purpose.calling_term, purpose.head_term = gone.calling_term, gone.head_term
        else:
            stack[-1].instr = stack[-1].instr.success  # the goal counts as reached when its recovery is over
        stack.append(purpose)
        return True

    # ---- for records and checkpoints -----------------------------------------------------------------------------

    @property
    def is_fresh(self) -> bool:
        """Whether every intention is a goal whose plan has not gone beyond its first action: then :meth:`pending` and
        beliefs are the whole state."""
        return all(
            len(stack) == 1 and (stack[0].instr is None or (stack[0].is_goal and stack[0].is_fresh))
            for stack in self.intentions
        )

    def pending(self) -> list[dict[str, Any]]:
        """The goal at the bottom of each stack that is not over, as JSON, for :meth:`take_up`. One that nothing was yet
        done for has its plan with it: another one might be chosen by what is believed now."""
        return [
            {"goal": asp.asl_repr(stack[0].event), **(self._chosen(stack[0]) if _is_untouched(stack) else {})}
            for stack in self.intentions
            if stack[0].is_goal and (len(stack) > 1 or stack[0].instr is not None)
        ]

    def _chosen(self, purpose: Purpose) -> dict[str, Any]:
        plan, scope = purpose.plan, purpose.scope
        bound = {name: variable for name, variable in plan.variables.items() if asp.is_ground(variable, scope)}
        return {
            "plan": self._name_of(plan),
            "bound": {name: asp.asl_repr(asp.grounded(variable, scope)) for name, variable in bound.items()},
            "last_episode": purpose.last_episode,
            "left": purpose.left,
        }

    def _name_of(self, plan: BuiltPlan) -> list[Any]:
        """Which one it is, as long as the program is the same."""
        return [plan.trigger.value, self.plans[plan.key].index(plan), plan.label, plan.context_text]

    def take_up(self, found: dict[str, Any]) -> None:
        """Go on with a goal. Raises PlanError when there is no plan for it, ProgramError when it cannot be read."""
        goal = parse_term(found["goal"], ground=False)
        keys = [(trigger, _GOAL, *goal.literal_group()) for trigger in (_ADDED, _REMOVED)]
        known = (plan for key in keys for plan in self.plans.get(key, ()))
        plan = next((one for one in known if self._name_of(one) == found.get("plan")), None)
        if plan is None:
            self.pursue(goal)
            return
        purpose = Purpose(plan, goal)
        purpose.head_term = purpose.calling_term = goal
        purpose.instr = plan.start
        purpose.scope = {plan.variables[name]: _read_value(text) for name, text in found["bound"].items()}
        if plan.trigger is _ADDED:
            self._set_limits(purpose, goal)
        purpose.last_episode, purpose.left = found["last_episode"], found["left"]
        choice = self.choices.setdefault(plan.key, Choice(self.plans[plan.key], self.rules))
        chance = random.getstate()
        self._note(choice, purpose, goal, changed=True)
        random.setstate(chance)  # the choice was made before: to say why draws nothing
        self.intentions.append(deque((purpose,)))


def _is_untouched(stack: Any) -> bool:
    return len(stack) == 1 and stack[0].is_fresh


def _read_value(text: str) -> Any:
    """A value as a checkpoint has it."""
    return parse_term(f"value({text})").args[0]


def _own_belief(term: Any, intention: Any) -> Any:
    """What a plan wants to believe; its own thought, unless it names another source."""
    literal = asp.grounded(asp.evaluate(term, intention.scope), intention.scope)
    if not isinstance(literal, asp.Literal):
        raise asp.AslError(f"a belief is a literal, got {written(literal)}")
    _require_small(literal, "belief")
    has_source = any(getattr(one, "functor", "") == "source" for one in literal.annots)
    return literal if has_source else with_source(literal, "self")


def _require_small(literal: Any, what: str) -> None:
    """One that grows in circles fills the memory long before these are counted."""
    if literal.args and is_too_large(literal):
        raise asp.AslError(f"the {what} {literal.functor} has more than {MOST_PARTS:,} parts: let it stop growing")


def place_of(error: asp.AslError) -> Any:
    """Where in a program an error arose, if that is known."""
    return getattr(error, "loc", None)


def _without_end(error: RecursionError) -> str:
    return str(error) if isinstance(error, EndlessError) else "refers to itself without end"


def reason_of(error: Exception) -> str:
    """In words: some errors have none of their own."""
    return str(error) or type(error).__name__


def goal_text(event: Any) -> str:
    if not event.args:
        return str(event.functor)
    return written(asp.Literal(event.functor, event.args))


__all__ = ["Choice", "GoalFailedError", "NotYetError", "PlanError", "Purpose", "Reasoner", "atom", "goal_text"]
