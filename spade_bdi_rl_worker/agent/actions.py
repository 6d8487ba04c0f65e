"""What plans can do: the actions of this worker, beside those that AgentSpeak brings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import agentspeak as asp
import agentspeak.runtime as asr
import agentspeak.stdlib

from mosaic_protocol.plain_text import clean_line
from spade_bdi_rl_worker.agent.learner import PERFORMATIVES, LearningAgent
from spade_bdi_rl_worker.agent.program import ProgramError, parse_event
from spade_bdi_rl_worker.agent.reasoner import MOST_QUESTIONS, GoalFailedError
from spade_bdi_rl_worker.agent.terms import MOST_PARTS, is_constant, is_too_large, written
from spade_bdi_rl_worker.learning.runtime import MANNERS, How
from spade_bdi_rl_worker.learning.strategy import Strategy

MOST_EPISODES = 10_000_000
_MOST_SENT_STATES = 200
_UNSUITABLE = (".send", ".broadcast", ".dump", ".control_flow", ".unbind_all", ".print", ".wait")
"""Of AgentSpeak's own: those that reach for agents of the same process, write files, or colour the log; and one that
says what is wrong in the log alone."""


_POSSIBILITIES = (".range", ".member", ".substring")
"""Of AgentSpeak's own: those with more than one answer, which a condition may go through."""


class WorkerActions(asp.Actions):
    """Those that plans can use, with what can be said of them before a run."""

    words: ClassVar[dict[tuple[str, int], tuple[int, tuple[str, ...]]]] = {
        (".run_episode", 1): (0, MANNERS),
        (".run_episodes", 2): (0, MANNERS),
        (".strategy", 2): (0, Strategy.NAMES),
        (".send", 3): (1, PERFORMATIVES),
        (".broadcast", 2): (0, PERFORMATIVES),
    }
    """By name and number of arguments: which argument is one of some words."""


def make_actions() -> WorkerActions:
    """All actions. They find the agent that acts by the reasoner's ``body``."""
    actions = WorkerActions()
    for (name, arity), action in agentspeak.stdlib.actions.actions.items():
        if name not in _UNSUITABLE:
            actions.add(name, arity, _bounded(action) if name in _POSSIBILITIES else action)
    for name, action in agentspeak.stdlib.actions.variadic_actions.items():
        if name not in _UNSUITABLE:
            actions.add(name, None, _small(action) if name == ".concat" else action)
    for name, arity, action in _OWN:
        actions.add(name, arity, action)
    return actions


def _bounded(action: Any) -> Any:
    """Not for ever: nothing else has a turn meanwhile."""

    def answers(agent: Any, term: Any, intention: Any) -> Iterator[None]:
        if term.functor == ".range" and _number(term, 0, intention) > MOST_QUESTIONS:
            raise GoalFailedError(f".range takes numbers up to {MOST_QUESTIONS:,}")
        for _ in action(agent, term, intention):
            agent.count_question()
            yield

    return answers


def _small(action: Any) -> Any:
    """Not for ever larger: what is put together with itself again and again fills the memory in no time."""

    def answers(agent: Any, term: Any, intention: Any) -> Iterator[None]:
        if is_too_large([asp.grounded(part, intention.scope) for part in term.args[:-1]]):
            raise GoalFailedError(f"{term.functor} would make something of more than {MOST_PARTS:,} parts")
        yield from action(agent, term, intention)

    return answers


def _body(reasoner: Any) -> LearningAgent:
    found: LearningAgent = reasoner.body
    return found


def _value(term: Any, place: int, intention: Any) -> Any:
    value = term.args[place]
    return value if is_constant(value) else asp.grounded(value, intention.scope)


def _name(term: Any, place: int, intention: Any) -> str:
    """An atom or a text."""
    value = _value(term, place, intention)
    if isinstance(value, str):
        return value
    if asp.is_atom(value):
        return str(value.functor)
    raise GoalFailedError(f"{term.functor} takes a name there, got {written(value)}")


def _number(term: Any, place: int, intention: Any) -> float:
    value = _value(term, place, intention)
    if type(value) is not float and not asp.is_number(value):
        raise GoalFailedError(f"{term.functor} takes a number there, got {written(value)}")
    return float(value)


def _how(term: Any, place: int, intention: Any) -> How:
    name = _name(term, place, intention)
    for manner in MANNERS:
        if name == manner:
            return manner
    raise GoalFailedError(f"{term.functor} knows no {name}: use {', '.join(MANNERS)}")


def _count(term: Any, place: int, intention: Any) -> int:
    count = _number(term, place, intention)
    if not 1 <= count <= MOST_EPISODES or count != int(count):
        raise GoalFailedError(f"{term.functor} takes a whole number of episodes from 1 on, got {count:g}")
    return int(count)


def _run_episode(agent: Any, term: Any, intention: Any) -> Iterator[None]:
    _body(agent).run_episodes(_how(term, 0, intention), 1, intention)
    yield


def _run_exploring(agent: Any, term: Any, intention: Any) -> Iterator[None]:
    _body(agent).run_episodes("explore", _count(term, 0, intention), intention)
    yield


def _run_episodes(agent: Any, term: Any, intention: Any) -> Iterator[None]:
    _body(agent).run_episodes(_how(term, 0, intention), _count(term, 1, intention), intention)
    yield


def _cache_policy(agent: Any, term: Any, intention: Any) -> Iterator[None]:
    _body(agent).cache_policy()
    yield


def _drop_policy(agent: Any, term: Any, intention: Any) -> Iterator[None]:
    _body(agent).drop_policy()
    yield


def _set_strategy(agent: Any, term: Any, intention: Any) -> Iterator[None]:
    name = _name(term, 0, intention)
    if name not in Strategy.NAMES:
        raise GoalFailedError(f".strategy knows no {name}: use {', '.join(Strategy.NAMES)}")
    fixed = _body(agent).runtime.strategy.fixed
    value = _value(term, 1, intention)
    if asp.is_atom(value) and value.functor == "auto":
        fixed.pop(name, None)
    else:
        number = _number(term, 1, intention)
        if not 0 <= number <= 1:
            raise GoalFailedError(f".strategy({name}, …) takes a number from 0 to 1 or auto, got {number:g}")
        fixed[name] = number
    yield


def _save_checkpoint(agent: Any, term: Any, intention: Any) -> Iterator[None]:
    _body(agent).wants_checkpoint = True
    yield


def _done(agent: Any, term: Any, intention: Any) -> Iterator[None]:
    _body(agent).end()
    yield


def _episodes(agent: Any, term: Any, intention: Any) -> Iterator[None]:
    """``.episodes(N)``: how many the agent ran so far."""
    if asp.unify(term.args[0], _body(agent).runtime.episodes, intention.scope, intention.stack):
        yield


def _content(term: Any, place: int, intention: Any) -> Any:
    content = asp.freeze(term.args[place], intention.scope, {})
    if not isinstance(content, asp.Literal):
        raise GoalFailedError(f"{term.functor} sends a belief or a goal, got {written(content)}")
    return content


def _send(agent: Any, term: Any, intention: Any) -> Iterator[None]:
    _body(agent).send(_name(term, 0, intention), _name(term, 1, intention), _content(term, 2, intention))
    yield


def _broadcast(agent: Any, term: Any, intention: Any) -> Iterator[None]:
    """``.broadcast(tell, at(3))``: to each other agent of the run; one that is alone says it to nobody."""
    performative, content = _name(term, 0, intention), _content(term, 1, intention)
    for peer in _body(agent).peers:
        _body(agent).send(peer, performative, content)
    yield


def _q_values(agent: Any, term: Any, intention: Any) -> Iterator[None]:
    """``.q_values(Q)``: what was learned, as ``[[state, visits, [value, …]], …]``, the states with most experience. A
    state is a number, or what is seen in it where each agent numbers states as it sees them."""
    learner, world = _body(agent).runtime.learner, _body(agent).runtime.world
    known = sorted(range(len(learner.q)), key=lambda state: -learner.visits[state])[:_MOST_SENT_STATES]
    found = tuple(
        (world.name_of(state), learner.visits[state], tuple(round(value, 6) for value in learner.q[state]))
        for state in sorted(known)
        if learner.visits[state]
    )
    if asp.unify(term.args[0], found, intention.scope, intention.stack):
        yield


def _merge_q_values(agent: Any, term: Any, intention: Any) -> Iterator[None]:
    """``.merge_q_values(Q)``: take over what another agent learned, by how much experience either has."""
    try:
        for state, visits, values in _value(term, 0, intention):
            name = tuple(map(int, state)) if asp.is_list(state) else int(state)
            _body(agent).runtime.merge(name, [float(value) for value in values], int(visits))
    except (TypeError, ValueError, OverflowError) as error:
        raise GoalFailedError(f".merge_q_values takes what .q_values gives: {error}") from None
    yield


def _wait(agent: Any, term: Any, intention: Any) -> Iterator[None]:
    """``.wait(500)``, ``.wait("+event")``, ``.wait("+event", 500)``: until then, or for so many milliseconds."""
    args = [_value(term, place, intention) for place in range(len(term.args))]
    event = args.pop(0) if isinstance(args[0], str) else None
    if len(args) > 1 or not all(map(asp.is_number, args)):
        found = ", ".join(map(written, args))
        raise GoalFailedError(f'.wait takes milliseconds, an event such as "+seen(3)", or both, got {found}')
    until = agent.env.time() + float(args[0]) / 1000 if args else None
    try:
        wanted = parse_event(event) if event is not None else None
    except ProgramError as error:
        raise GoalFailedError(f".wait does not know the event {written(event)}: {error.mistakes[0].what}") from None
    intention.waiter = asr.Waiter(event=wanted, until=until)
    yield


def _print(agent: Any, term: Any, intention: Any) -> Iterator[None]:
    memo: dict[Any, Any] = {}
    words = [asp.asl_str(asp.freeze(one, intention.scope, memo)) for one in term.args]
    for line in " ".join(words).split("\n"):
        print(f"{agent.name}: {clean_line(line)}", flush=True)
    yield


_OWN: tuple[tuple[str, int | None, Any], ...] = (
    (".run_episode", 1, _run_episode),
    (".run_episodes", 1, _run_exploring),
    (".run_episodes", 2, _run_episodes),
    (".cache_policy", 0, _cache_policy),
    (".drop_policy", 0, _drop_policy),
    (".strategy", 2, _set_strategy),
    (".save_checkpoint", 0, _save_checkpoint),
    (".done", 0, _done),
    (".episodes", 1, _episodes),
    (".send", 3, _send),
    (".broadcast", 2, _broadcast),
    (".q_values", 1, _q_values),
    (".merge_q_values", 1, _merge_q_values),
    (".wait", 1, _wait),
    (".wait", 2, _wait),
    (".print", None, _print),
)
