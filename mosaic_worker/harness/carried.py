"""Which variables a loop carries from one turn to the next: those it may read before it sets them.

What a turn always sets first need not be kept in a checkpoint. Nor need a store that is filled row by row in an inner
loop before it is read, as the rollout of PPO is: with image observations it would be most of the checkpoint. In doubt
a variable counts as carried.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from mosaic_worker.harness.source import TrainingLoop, inner_blocks

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class LoopNames:
    """The variables of a loop."""

    carried: frozenset[str] = frozenset()
    """Those whose value at the top of a turn matters to it."""
    assigned: frozenset[str] = frozenset()
    """Those that a turn may bind to another object; any other refers to the same object in all of them."""
    fresh: frozenset[str] = frozenset()
    """Those that hold what the environments were reset to before the loop."""

    @classmethod
    def of(cls, loop: TrainingLoop, tree: ast.Module) -> LoopNames:
        return cls(_carried(loop, tree), _assigned(loop, tree), _fresh(loop))


def _carried(loop: TrainingLoop, tree: ast.Module) -> frozenset[str]:
    reader = _Reader()
    if isinstance(loop.node, ast.While):
        reader.expression(loop.node.test, set())
        reader.block(loop.node.body, set())
    else:
        reader.block(loop.node.body, _names(loop.node.target))
    return frozenset(reader.read | _read_in_functions(tree))


def _assigned(loop: TrainingLoop, tree: ast.Module) -> frozenset[str]:
    stored = {part.id for part in ast.walk(loop.node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    shared = {name for part in ast.walk(tree) if isinstance(part, ast.Global) for name in part.names}
    return frozenset(stored | shared)


def _fresh(loop: TrainingLoop) -> frozenset[str]:
    found: set[str] = set()
    for statement in loop.before:
        if isinstance(statement, ast.Assign) and _resets(statement.value):
            for target in statement.targets:
                found |= _names(target)
    return frozenset(found)


def _resets(value: ast.expr) -> bool:
    calls = (node.func for node in ast.walk(value) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Attribute) and called.attr == "reset" for called in calls)


class _Reader:
    """Walks statements in the order they run. `known` are the names that were set for certain on the way."""

    def __init__(self) -> None:
        self.read: set[str] = set()
        self._filled: set[str] = set()
        self._counters: set[str] = set()

    def block(self, statements: list[ast.stmt], known: set[str]) -> set[str]:
        for statement in statements:
            self._statement(statement, known)
        return known

    def _statement(self, node: ast.stmt, known: set[str]) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                self.expression(value, known)
                for target in targets:
                    self._target(target, known)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self.expression(value, known)
                    self._target(target, known)
            case ast.AugAssign(target=target, value=value):
                self.expression(value, known)
                self._read_all(target, known)
                known |= _names(target)
            case ast.If(test=test, body=body, orelse=orelse):
                self.expression(test, known)
                known |= self.block(body, set(known)) & self.block(orelse, set(known))
            case ast.For(target=target, iter=values, body=body, orelse=orelse):
                self.expression(values, known)
                self._counters |= _names(target)
                self.block(body, known | _names(target))
                self.block(orelse, set(known))
            case ast.With(items=items, body=body):
                for item in items:
                    self.expression(item.context_expr, known)
                    known |= _names(item.optional_vars) if item.optional_vars else set()
                self.block(body, known)
            case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                known.add(node.name)
            case _:
                self._other(node, known)

    def _other(self, node: ast.stmt, known: set[str]) -> None:
        for field in ast.iter_child_nodes(node):
            if isinstance(field, ast.expr):
                self.expression(field, known)
        for inner in inner_blocks(node):
            self.block(inner, set(known))

    def _target(self, target: ast.expr, known: set[str]) -> None:
        match target:
            case ast.Name(id=name):
                known.add(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._target(part, known)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Name(id=index)) if index in self._counters:
                self._filled |= {name} - self.read
            case _:
                self._read_all(target, known)

    def expression(self, node: ast.expr, known: set[str]) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.NamedExpr):
                known = known | _names(part.target)
        self._read_all(node, known | _own_names(node))

    def _read_all(self, node: ast.expr, known: set[str]) -> None:
        used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        self.read |= used - known - self._filled


def _own_names(node: ast.expr) -> set[str]:
    """Variables of comprehensions and parameters of lambdas."""
    found: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, _COMPREHENSIONS):
            for generator in part.generators:
                found |= _names(generator.target)
        elif isinstance(part, ast.Lambda):
            found |= {argument.arg for argument in part.args.args}
    return found


def _read_in_functions(tree: ast.Module) -> set[str]:
    """Names that the script's own functions take from the module, one of which may be called in any turn."""
    return {name for node in ast.walk(tree) if isinstance(node, _FUNCTIONS[:2]) for name in _free(node)}


def _free(function: ast.AST) -> Iterator[str]:
    names = [part for part in ast.walk(function) if isinstance(part, ast.Name)]
    shared = {name for part in ast.walk(function) if isinstance(part, ast.Global) for name in part.names}
    own = {part.id for part in names if isinstance(part.ctx, ast.Store)}
    own |= {part.arg for part in ast.walk(function) if isinstance(part, ast.arg)}
    yield from {part.id for part in names} - (own - shared)


def _names(target: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
