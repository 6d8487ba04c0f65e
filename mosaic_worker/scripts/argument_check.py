"""The check that a script makes of its own arguments, made before it starts and without what it trains with.

Scripts that speak to their supervisor have a dataclass ``Args`` and a function ``check`` that raises ``UsageError``
with a sentence. Only these are executed here, with what they refer to in the script; PyTorch, whose import would take
longer than all else, is imported when they really use it.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from mosaic_protocol.checkpoint_manifest import CheckpointError, read_manifest
from mosaic_worker.errors import UsageError

_NOT_INHERITED = frozenset({"resume", "warm_start"})


def check_arguments(script: Path, values: Mapping[str, Any]) -> None:
    """Raise :class:`UsageError` with the script's own sentence for the first argument that it would refuse. A script
    without such a check is not asked."""
    names = _names_for(ast.parse(script.read_text(encoding="utf-8"), filename=str(script)), {"Args", "check"})
    if not {"Args", "check"} <= names.keys():
        return
    known = {field.name for field in dataclasses.fields(names["Args"])}
    given = {**_inherited(values.get("resume")), **values}
    names["check"](names["Args"](**{name: value for name, value in given.items() if name in known}))


def _inherited(resumed: str | None) -> dict[str, Any]:
    """A run that goes on has the arguments of the one it goes on from, where they are not given."""
    if resumed is None:
        return {}
    try:
        saved = read_manifest(Path(resumed)).args
    except CheckpointError as error:
        raise UsageError(str(error)) from None
    return {name: value for name, value in saved.items() if name not in _NOT_INHERITED}


def _names_for(tree: ast.Module, wanted: set[str]) -> dict[str, Any]:
    """What these names mean in the script, once they and all they refer to were executed."""
    statements = {name: statement for statement in tree.body for name in _defined_by(statement)}
    needed: set[str] = set()
    while fresh := {name for name in wanted if name in statements} - needed:
        needed |= fresh
        wanted = {node.id for name in fresh for node in ast.walk(statements[name]) if isinstance(node, ast.Name)}
    module = ModuleType("_arguments_of_a_script")  # dataclasses look their own module up
    chosen = [one for one in tree.body if needed & set(_defined_by(one))]
    plain = [one for one in chosen if not isinstance(one, ast.Import | ast.ImportFrom)]
    for statement in chosen:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            vars(module).update(_imported(statement, needed))
    sys.modules[module.__name__] = module
    try:
        program = ast.Module([_FUTURE, *plain], [])
        exec(compile(program, "<the script's own check>", "exec"), vars(module))  # noqa: S102 - a script of the worker's own
    finally:
        del sys.modules[module.__name__]
    return vars(module)


_FUTURE = ast.parse("from __future__ import annotations").body[0]


def _defined_by(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
            yield name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in names)


def _imported(statement: ast.Import | ast.ImportFrom, needed: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for alias in statement.names:
        name = alias.asname or alias.name
        if name not in needed:
            continue
        if alias.name == "UsageError":
            found[name] = UsageError  # from wherever the script has it: that module may bring PyTorch along
        elif isinstance(statement, ast.Import):
            found[name] = _Later(alias.name)
        else:
            found[name] = getattr(importlib.import_module(statement.module or ""), alias.name)
    return found


class _Later:
    """A module that is imported when something of it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)
