"""Why a plan was not chosen, in one sentence."""

from __future__ import annotations

from typing import Any

import agentspeak as asp
import agentspeak.runtime as asr

from spade_bdi_rl_worker.agent.plans import BuiltPlan
from spade_bdi_rl_worker.agent.terms import as_written, written


def why_not(agent: Any, plan: BuiltPlan, event: Any) -> str:
    """The first part of its condition that does not hold, given those before it; "" for a plan that applies."""
    intention = asr.Intention()
    heads = asp.unify_annotated(plan.head, event, intention.scope, intention.stack)
    if next(heads, heads) is heads:
        return f"it is for {plan.trigger_text}, not for {written(event)}"
    furthest, values = _furthest(agent, plan, intention)
    if furthest == len(plan.conjuncts):
        return ""
    return _sentence(agent, plan, furthest, values)


def _furthest(agent: Any, plan: BuiltPlan, intention: Any) -> tuple[int, dict[Any, Any]]:
    """How many parts of the condition hold together at most, and what their variables were bound to then."""
    best, values = 0, dict(intention.scope)
    open_queries: list[Any] = []
    place = 0
    while True:
        if place == len(plan.conjuncts):
            return place, values
        if len(open_queries) == place:
            open_queries.append(plan.conjuncts[place].execute(agent, intention))
        if next(open_queries[place], open_queries) is open_queries:
            open_queries.pop()
            place -= 1
            if place < 0:
                return best, values
        else:
            place += 1
            if place > best:
                best, values = place, dict(intention.scope)


def _sentence(agent: Any, plan: BuiltPlan, place: int, values: dict[Any, Any]) -> str:
    part, query = plan.parts[place], plan.conjuncts[place]
    text = as_written(part)
    match query:
        case asr.NotQuery():
            return f"{as_written(part.operand)} is believed" if _is_belief(query.query) else f"{text} does not hold"
        case asr.TermQuery() if isinstance(query.term, asp.Literal):
            others = list(agent.beliefs[query.term.literal_group()])
            instead = f"; {written(others[0])} is" if len(others) == 1 else ""
            return f"{text} is not believed{instead}"
        case asr.TermQuery() if isinstance(query.term, asp.BinaryExpr):
            return _comparison(plan, place, query.term, values, text)
        case asr.FalseQuery():
            return "its condition is false"
        case asr.ActionQuery():
            return f"{text} did not succeed"
    return f"{text} does not hold"


def _is_belief(query: Any) -> bool:
    return isinstance(query, asr.TermQuery) and isinstance(query.term, asp.Literal)


def _comparison(plan: BuiltPlan, place: int, term: Any, values: dict[Any, Any], text: str) -> str:
    """Which belief brought the value that was compared, and what it is."""
    for variable in (term.left, term.right):
        if not isinstance(variable, asp.Var) or variable not in values:
            continue
        value = written(asp.deref(variable, values))
        for earlier in range(place):
            bound = plan.conjuncts[earlier]
            if isinstance(bound, asr.TermQuery) and variable in getattr(bound.term, "args", ()):
                whole = f"{as_written(plan.parts[earlier])} & {text}"
                return f"{whole}: {bound.term.functor} is {value}"
        return f"{text}: it is {value}"
    return f"{text} does not hold"
