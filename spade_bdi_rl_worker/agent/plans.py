"""Plans as they are built for the interpreter, with what a person wants to know of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import agentspeak as asp
import agentspeak.runtime as asr

from spade_bdi_rl_worker.agent.terms import as_written


class BuiltPlan(asr.Plan):
    """One plan. :attr:`conjuncts` are the parts of its condition that must hold together, in their order."""

    def __init__(self, node: Any, actions: Any, log: Any) -> None:
        variables: dict[str, Any] = {}
        head = node.event.head.accept(asr.BuildTermVisitor(variables))
        parts = _conjuncts_of(node.context)
        queries = [part.accept(asr.BuildQueryVisitor(variables, actions, log)) for part in parts]
        body = asr.Instruction(asr.noop)
        if node.body is not None:
            node.body.accept(_InstructionBuilder(variables, actions, body, log))
        context = asr.TrueQuery() if not queries else queries[0]
        super().__init__(node.event.trigger, node.event.goal_type, head, context, body, node.body, node.annotation)
        self.start = body.success
        """The first instruction; None for a plan that does nothing."""
        self.conjuncts: list[Any] = queries
        self.parts = parts
        """The syntax trees of the conjuncts."""
        self.context_text = as_written(node.context) if node.context is not None else ""
        self.trigger_text = f"{node.event.trigger.value}{node.event.goal_type.value}{as_written(node.event.head)}"
        self.label: str = node.annotation.functor if node.annotation is not None else self.trigger_text
        self.loc = node.loc
        self.variables = variables
        """By name."""
        self.binds = bool(variables)
        """Whether the body may need what head or condition bind."""
        self.takes_any_event = not head.args and not head.annots

    @property
    def key(self) -> tuple[Any, Any, str, int]:
        return self.trigger, self.goal_type, self.head.functor, len(self.head.args)


def _conjuncts_of(node: Any) -> list[Any]:
    if node is None:
        return []
    if getattr(node, "operator", None) is asp.BinaryOp.op_and:
        return _conjuncts_of(node.left) + _conjuncts_of(node.right)
    return [node]


class _InstructionBuilder(asr.BuildInstructionsVisitor):
    """Gives each instruction the formula that it belongs to: its text and its place."""

    def visit_formula(self, node: Any) -> Any:
        before = self.tail
        if node.formula_type is asp.FormulaType.replace:
            # The interpreter's own removes nothing but what is equal to the new belief.
            term = node.term.accept(asr.BuildTermVisitor(self.variables))
            after = self.add_instr(functools.partial(_replace_belief, term))
        elif node.formula_type is asp.FormulaType.term:
            # One instruction in the place of three: nothing asks an action for a second answer.
            query = node.term.accept(asr.BuildQueryVisitor(self.variables, self.actions, self.log))
            after = self.add_instr(functools.partial(_act, query))
        else:
            after = super().visit_formula(node)
        one = before.success
        while one is not None:
            one.text = str(node.formula_type.value) + as_written(node.term)
            one.loc = one.loc or node.term.loc or node.loc
            one = one.success
        return after

    def visit_while(self, node: Any) -> Any:
        return self._with_place(super().visit_while, node, node.condition)

    def visit_for(self, node: Any) -> Any:
        return self._with_place(super().visit_for, node, node.generator)

    def visit_if_then_else(self, node: Any) -> Any:
        return self._with_place(super().visit_if_then_else, node, node.condition)

    def _with_place(self, build: Callable[[Any], Any], node: Any, condition: Any) -> Any:
        """The instructions that look at the condition have its text and its place."""
        before = self.tail
        after = build(node)
        one = before.success
        while one is not None:
            one.text, one.loc = as_written(condition), condition.loc or node.loc
            one = one.success if one.f is not asr.next_or_fail else None
        return after


def _act(query: Any, agent: Any, intention: Any) -> bool:
    for _ in query.execute(agent, intention):
        return True
    return False


def _replace_belief(term: Any, agent: Any, intention: Any) -> bool:
    """``-+mode(reuse)``: the agent's own beliefs of that functor and arity go, then this one comes."""
    return bool(agent.replace_belief(term, intention))


def groups_read_by(plan: BuiltPlan, rules: dict[Any, list[Any]]) -> set[tuple[str, int]] | None:
    """The groups of beliefs that a plan's condition depends on; None when it depends on anything else, such as an
    action."""
    found: set[tuple[str, int]] = set()
    return found if all(_gather(query, rules, found) for query in plan.conjuncts) else None


def _gather(query: Any, rules: dict[Any, list[Any]], found: set[tuple[str, int]]) -> bool:
    match query:
        case asr.TrueQuery() | asr.FalseQuery() | asr.UnifyQuery():
            return True
        case asr.NotQuery():
            return _gather(query.query, rules, found)
        case asr.AndQuery() | asr.OrQuery():
            return _gather(query.left, rules, found) and _gather(query.right, rules, found)
        case asr.TermQuery():
            if not isinstance(query.term, asp.Literal):
                return isinstance(query.term, asp.BinaryExpr | asp.UnaryExpr | bool)
            group = query.term.literal_group()
            if group in found:
                return True
            found.add(group)
            return all(_gather(rule.query, rules, found) for rule in rules.get(group, ()))
    return False
