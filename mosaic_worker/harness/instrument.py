"""Compiles a script with one call around its training loop. The file on the disk, and every line number, stay as they
are."""

from __future__ import annotations

import ast
from types import CodeType

from mosaic_worker.harness.source import ScriptSource

LOOP_NAME = "__mosaic_loop__"
"""``for x in items`` becomes ``for x in __mosaic_loop__(items)``."""
ENTER_NAME, TURN_NAME = "__mosaic_enter__", "__mosaic_turn__"
"""``while condition`` becomes ``while __mosaic_enter__() and __mosaic_turn__(condition)``: what is restored must be
there before the condition looks at it."""


def compiled(source: ScriptSource) -> CodeType:
    """The script's code. The tree is changed: read what is needed from it before."""
    if source.loop is not None:
        node = source.loop.node
        if isinstance(node, ast.For):
            node.iter = _call(LOOP_NAME, node.iter)
        else:
            both: list[ast.expr] = [_call(ENTER_NAME), _call(TURN_NAME, node.test)]
            node.test = ast.copy_location(ast.BoolOp(ast.And(), both), node.test)
        ast.fix_missing_locations(source.tree)
    return compile(source.tree, str(source.path), "exec", dont_inherit=True)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])
