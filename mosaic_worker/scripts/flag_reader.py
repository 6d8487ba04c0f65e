"""Reads the flags of a script from its source: the fields of its ``Args`` dataclass (tyro), of the dataclass that a
function wrapped by pyrallis takes, or its calls of ``add_argument`` (argparse). Nothing of the script is executed;
what it would have to compute is left open."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_SWITCH_ACTIONS = {"store_true": "on", "store_false": "off", "BooleanOptionalAction": "pair"}


@dataclass(frozen=True)
class RawFlag:
    """What a declaration says."""

    name: str
    type: str
    default: Any
    help: str
    spelling: str = ""
    """The option word for word, where it is written out: argparse knows no other."""
    switch: str = "pair"
    choices: tuple[Any, ...] = ()
    required: bool = False
    yaml: bool = False
    """Its value is one word, read as YAML."""


def read_raw_flags(script: Path | ast.Module) -> list[RawFlag]:
    """In the order of declaration; [] for a script whose flags cannot be read."""
    if isinstance(script, ast.Module):
        return _of_tree(script, "script", [])
    text = script.read_text(encoding="utf-8")
    return _of_tree(ast.parse(text, filename=str(script)), script.stem, text.splitlines())


def _of_tree(tree: ast.Module, stem: str, lines: list[str]) -> list[RawFlag]:
    """``lines`` of the source, which alone has the comments."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "Args":
            return list(_fields(node.body, stem))
    if wrapped := _wrapped_class(tree):
        return [*(_from_yaml(flag, at, lines) for flag, at in _placed_fields(wrapped, stem)), CONFIG_FILE]
    try:
        declared = (_argument(call, stem) for call in _declarations(tree))
        return list({flag.name: flag for flag in declared if flag is not None}.values())
    except _Unreadable:
        return []


class _Unreadable(Exception):
    """A declaration that is computed: then none of the flags is certain."""


# ---- tyro ------------------------------------------------------------------------------------------------------------


def _fields(body: list[ast.stmt], stem: str) -> Iterator[RawFlag]:
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            default = _value(statement.value, stem)
            yield RawFlag(statement.target.id, ast.unparse(statement.annotation), default, _sentence(following))


def _sentence(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(node.value.value.split())
    return ""


# ---- pyrallis --------------------------------------------------------------------------------------------------------

CONFIG_FILE = RawFlag(
    "config_path",
    "str | None",
    None,
    "A YAML file with flags; those of the command line win.",
    "--config_path",
    yaml=True,
)


def _wrapped_class(tree: ast.Module) -> ast.ClassDef | None:
    """The class that the first argument of a function under ``@pyrallis.wrap()`` is annotated with."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.args.args and any(map(_is_wrap, node.decorator_list)):
            return classes.get(_called(node.args.args[0].annotation))
    return None


def _is_wrap(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "pyrallis.wrap"


def _placed_fields(node: ast.ClassDef, stem: str) -> Iterator[tuple[RawFlag, int]]:
    """Each field with the line that it begins in."""
    lines = [one.lineno for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
    yield from zip(_fields(node.body, stem), lines, strict=True)


def _from_yaml(flag: RawFlag, line: int, lines: list[str]) -> RawFlag:
    """Spelt with underscores, switches as a word, and its sentence in the comments above it or behind it."""
    above: list[str] = []
    while line - 2 >= 0 and line <= len(lines) and lines[line - 2 - len(above)].strip().startswith("#"):
        above.insert(0, lines[line - 2 - len(above)].strip().lstrip("# "))
    behind = lines[line - 1].partition("  # ")[2].strip() if line <= len(lines) else ""
    said = " ".join([flag.help, *above, behind]).strip()
    return replace(flag, help=said, spelling=f"--{flag.name}", switch="word", yaml=True)


# ---- argparse --------------------------------------------------------------------------------------------------------


def _declarations(tree: ast.Module) -> Iterator[ast.Call]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _called(node.func) == "add_argument"]
    yield from sorted(calls, key=lambda call: (call.lineno, call.col_offset))


def _argument(call: ast.Call, stem: str) -> RawFlag | None:
    """None for what is no flag: a positional argument."""
    words = [_value(argument, stem) for argument in call.args]
    if not words or not all(isinstance(word, str) for word in words):
        raise _Unreadable
    option = next((word for word in words if word.startswith("--")), None)
    if option is None:
        return None
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    action = _value(given.get("action"), stem) or _called(given.get("action"))
    name = _value(given.get("dest"), stem) or option.removeprefix("--").replace("-", "_")
    default = _value(given.get("default"), stem)
    if action in _SWITCH_ACTIONS and "default" not in given:
        default = action == "store_false"
    kind = "bool" if action in _SWITCH_ACTIONS else _type_text(given.get("type"), default)
    several = _value(given.get("nargs"), stem) in ("+", "*") or isinstance(_value(given.get("nargs"), stem), int)
    return RawFlag(
        name,
        f"list[{kind}]" if several else kind if "default" in given and default is not None else f"{kind} | None",
        default,
        " ".join(str(_value(given.get("help"), stem) or "").split()),
        spelling=option,
        switch=_SWITCH_ACTIONS.get(str(action), "word"),
        choices=tuple(_value(given.get("choices"), stem) or ()),
        required=bool(_value(given.get("required"), stem)),
    )


def _type_text(node: ast.expr | None, default: Any) -> str:
    """The type by name; a function that reads true and false from text makes a switch."""
    if node is None:
        return "str"
    if isinstance(node, ast.Name) and node.id in ("int", "float", "str"):
        return node.id
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    if isinstance(default, bool) or any("bool" in name for name in names):
        return "bool"
    return ast.unparse(node)


def _called(node: ast.expr | None) -> str:
    """The last word of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


# ---- values ----------------------------------------------------------------------------------------------------------


def _value(node: ast.expr | None, stem: str) -> Any:
    """What an expression plainly is: a literal, arithmetic, a number made of one, the script's own name. Else None."""
    match node:
        case None:
            return None
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _computed(type(op), _value(left, stem), _value(right, stem))
        case ast.Call(func=ast.Name(id="int" | "float" as name), args=[inner], keywords=[]):
            value = _value(inner, stem)
            return {"int": int, "float": float}[name](value) if isinstance(value, int | float) else None
        case _ if _is_own_name(node):
            return stem
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _computed(op: type[ast.operator], left: Any, right: Any) -> Any:
    if not all(isinstance(value, int | float) for value in (left, right)):
        return None
    try:
        return _ARITHMETIC[op](left, right)
    except (ArithmeticError, ValueError):
        return None


def _is_own_name(node: ast.expr) -> bool:
    """``os.path.basename(__file__)`` with the ending taken off in whichever way."""
    words = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    words |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    return "__file__" in words and bool(words & {"basename", "stem"})
