"""A training script as its source describes it: what it imports, and where its training loop is. Runs nothing of it."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from mosaic_worker.scripts.content import script_bytes
from mosaic_worker.supervision.control import CONTROL_FD_VARIABLE

LoopNode = ast.For | ast.While
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ACTION_SPACES = {"Discrete": "discrete", "Box": "continuous", "MultiDiscrete": "multi_discrete"}
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_BLOCKS = ("body", "orelse", "finalbody")


@dataclass(frozen=True)
class TrainingLoop:
    """The outermost loop that steps environments or optimisers."""

    node: LoopNode
    before: tuple[ast.stmt, ...]
    """The statements ahead of it in the same block."""
    function: str
    """The function it is in, "" for the module itself."""
    once: bool = True
    """Whether it is entered once for certain: it is the module's, or its function is called in one place of it."""

    @property
    def variable(self) -> str:
        """The name it counts with, "" when there is none."""
        target = self.node.target if isinstance(self.node, ast.For) else None
        return target.id if isinstance(target, ast.Name) else ""


@dataclass(frozen=True)
class ScriptSource:
    """One script, parsed."""

    path: Path
    tree: ast.Module
    imports: frozenset[str]
    """Every module it imports anywhere, with the packages above it."""
    speaks: bool
    """It talks to its supervisor itself and wants no harness."""

    @classmethod
    def read(cls, path: Path) -> ScriptSource:
        """Raises OSError, SyntaxError, ValueError for text that is not UTF-8 or has a NUL in it, and UsageError for a
        script that is not the one that was allowed."""
        text = script_bytes(path).decode("utf-8")
        tree = ast.parse(text, filename=str(path))
        imports = frozenset(_imports(tree))
        speaks = "mosaic_worker" in imports or CONTROL_FD_VARIABLE in text
        return cls(path, tree, imports, speaks)

    # Looked for when asked for: a script that speaks for itself starts without, and sooner.

    @cached_property
    def loop(self) -> TrainingLoop | None:
        return find_loop(self.tree)

    @cached_property
    def action_spaces(self) -> tuple[str, ...]:
        """Those that it insists on; empty when it does not say."""
        return _action_spaces(self.tree)


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _action_spaces(tree: ast.Module) -> tuple[str, ...]:
    """From ``assert isinstance(envs.single_action_space, gym.spaces.Discrete)`` and the like."""
    found: list[str] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assert):
            continue
        words = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
        if words & {"single_action_space", "action_space"}:
            found += [kind for name, kind in _ACTION_SPACES.items() if name in words]
    return tuple(dict.fromkeys(found))


def find_loop(tree: ast.Module) -> TrainingLoop | None:
    """The loop that trains: rather one that computes gradients than one that only steps, rather one of the module than
    one in a function, rather there than in a method, and of several the last, since those before it prepare."""
    functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]
    methods = {id(node) for one in ast.walk(tree) if isinstance(one, ast.ClassDef) for node in one.body}
    found = [(0, loop) for loop in _outermost(tree.body, "")]
    for function in functions:
        rank = 2 if id(function) in methods else 1
        once = rank == 1 and _is_called_once(function.name, tree)
        found += [(rank, replace(loop, once=once)) for loop in _outermost(function.body, function.name)]
    for method in ("backward", "step"):
        calling = _that_call(method, functions, methods)
        wanted = [(rank, loop) for rank, loop in found if _calls(loop.node, method, calling)]
        for wished in range(3):
            if chosen := [loop for rank, loop in wanted if rank == wished]:
                return chosen[-1]
    return None


def _is_called_once(name: str, tree: ast.Module) -> bool:
    """By the module itself, outside any loop and function."""
    once = sum(_named_calls(statement, name) for statement in _at_the_top(tree.body))
    return once == 1 == _named_calls(tree, name)


def _at_the_top(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that a module executes once at most, those in its conditions included."""
    for statement in block:
        if isinstance(statement, ast.If | ast.Try | ast.With):
            for inner in inner_blocks(statement):
                yield from _at_the_top(inner)
        elif not isinstance(statement, (*_FUNCTIONS, ast.ClassDef, *_LOOPS)):
            yield statement


def _named_calls(node: ast.AST, name: str) -> int:
    calls = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
    return sum(isinstance(called, ast.Name) and called.id == name for called in calls)


def _outermost(block: list[ast.stmt], function: str) -> Iterator[TrainingLoop]:
    """Loops that lie in no other loop of the same function."""
    for position, statement in enumerate(block):
        if isinstance(statement, LoopNode):
            yield TrainingLoop(statement, tuple(block[:position]), function)
        elif not isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            for inner in inner_blocks(statement):
                yield from _outermost(inner, function)


def inner_blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a compound statement."""
    for name in _BLOCKS:
        if block := getattr(statement, name, None):
            yield block
    for handler in getattr(statement, "handlers", ()):
        yield handler.body
    for case in getattr(statement, "cases", ()):
        yield case.body


@dataclass
class _Calling:
    """The names of functions, and those of methods, that call a certain method themselves or through one another."""

    functions: set[str]
    methods: set[str]


def _that_call(method: str, functions: Iterable[_Function], methods: Container[int]) -> _Calling:
    calling = _Calling(set(), set())
    waiting = list(functions)
    while more := [node for node in waiting if _calls(node, method, calling)]:
        for node in more:
            (calling.methods if id(node) in methods else calling.functions).add(node.name)
        waiting = [node for node in waiting if not any(node is one for one in more)]
    return calling


def _calls(node: ast.AST, method: str, calling: _Calling) -> bool:
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            called = call.func
            if isinstance(called, ast.Attribute) and (called.attr == method or called.attr in calling.methods):
                return True
            if isinstance(called, ast.Name) and called.id in calling.functions:
                return True
    return False
