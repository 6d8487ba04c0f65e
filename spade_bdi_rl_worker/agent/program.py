"""Plans in ``.asl`` files: read, checked, and every mistake named with its place.

A mistake is shown with file, line and column, the line itself, and a caret under the place. What the interpreter would
only find when it gets there is found here as well: actions that do not exist, goals without a plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import agentspeak as asp
import agentspeak.lexer
import agentspeak.parser
import agentspeak.runtime

from mosaic_protocol.regular_files import IrregularFileError, open_regular
from mosaic_protocol.suggest import did_you_mean
from mosaic_worker.errors import UsageError

SHIPPED = Path(__file__).resolve().parent.parent / "plans"
MOST_BYTES = 1024 * 1024
_IGNORED = ("recovery plans are ignored",)
"""What the interpreter warns of and this worker can do."""


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong with a program."""

    what: str
    file: str = ""
    line: int = 0
    column: int = 0
    """Counted from 1, as the line is."""
    text: str = ""
    """The line as it stands in the file."""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def __str__(self) -> str:
        """In one line: what and where."""
        return f"{self.place}: {self.what}" if self.place else self.what

    def drawn(self) -> str:
        """In three: with the line, and a caret under the place."""
        return f"{self}\n{self.text}\n{' ' * (self.column - 1)}^" if self.text else str(self)


class ProgramError(UsageError):
    """A program that cannot run; :attr:`mistakes` has all that were found."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        self.mistakes = mistakes
        more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
        super().__init__(f"{mistakes[0]}{more}")
        self.excerpt = tuple(mistakes[0].drawn().splitlines()[1:])


class _Listener(asp.Log):
    """Keeps what the interpreter would print."""

    def __init__(self) -> None:
        super().__init__(None)
        self.mistakes: list[Mistake] = []

    def error(self, msg: str, *args: Any, **about: Any) -> Exception:
        self.note(msg % args if args else msg, about.get("loc"))
        return asp.AggregatedError(1, 0)

    exception = error

    def warning(self, msg: str, *args: Any, **about: Any) -> None:
        if not msg.startswith(_IGNORED) and not msg.startswith("assertion after plan"):
            self.note(msg % args if args else msg, about.get("loc"))

    def info(self, msg: str, *args: Any, **about: Any) -> None:
        pass

    def note(self, what: str, loc: Any = None) -> None:
        self.mistakes.append(mistake_at(what, loc))


def mistake_at(what: str, loc: Any) -> Mistake:
    if loc is None:
        return Mistake(what)
    return Mistake(what, str(loc.filename), loc.lineno, loc.startcol + 1, loc.line.rstrip("\n"))


def find_program(name: str) -> Path:
    """The file of a program: one that comes with the worker by its name, or a user's own by its path. Raises
    UsageError."""
    shipped = {file.stem: file for file in sorted(SHIPPED.glob("*.asl"))}
    if name in shipped:
        return shipped[name]
    path = Path(name).expanduser()
    if path.suffix != ".asl":
        raise UsageError(
            f"there are no plans {name!r}, and a file of your own would end in .asl{did_you_mean(name, shipped)}"
        )
    return path


def read_program(path: Path) -> str:
    """The text of a file. Raises UsageError."""
    try:
        with open_regular(path) as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UsageError(f"--plans {path}: more than {MOST_BYTES:,} bytes are no program")
        text: str = data.decode()
        return text
    except (OSError, IrregularFileError) as error:
        raise UsageError(f"--plans {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"--plans {path} is not text in UTF-8: byte {error.start} cannot be read") from None


def parse_program(text: str, file: str, actions: Any) -> Any:
    """The syntax tree of a program that can run. Raises :class:`ProgramError`."""
    log = _Listener()
    tree = _parsed(text, file, log)
    if tree is not None and not log.mistakes:
        _Checks(tree, actions, log).run()
    if log.mistakes or tree is None:
        raise ProgramError(log.mistakes or [Mistake("it cannot be read", file)])
    return tree


def _parsed(text: str, file: str, log: _Listener) -> Any:
    try:
        tokens = agentspeak.lexer.TokenStream(asp.StringSource(file, text), log)
        return agentspeak.parser.parse(file, tokens, log)
    except asp.AggregatedError:
        return None  # it was noted
    except RecursionError:
        log.note("it is nested too deeply")
    except Exception as error:  # noqa: BLE001 - the parser stumbles over its own errors in included files
        log.note(f"it cannot be read: {type(error).__name__}: {error}")
    return None


def build_into(reasoner: Any, tree: Any, actions: Any) -> None:
    """Give an agent the rules, plans and beliefs of a program that was parsed. Raises :class:`ProgramError`."""
    log = _Listener()
    try:
        reasoner.load(tree, actions, log)
    except asp.AggregatedError:
        pass  # it was noted
    except asp.AslError as error:
        log.note(str(error))
    if log.mistakes:
        raise ProgramError(log.mistakes)


def parse_term(text: str) -> Any:
    """One literal that a person or a peer says, such as ``at(1, left)``, without variables. Raises
    :class:`ProgramError`."""
    log = _Listener()
    shown = " ".join(text.strip().removesuffix(".").split())
    try:
        tokens = agentspeak.lexer.TokenStream(asp.StringSource("", shown + "."), log)
        after, node = agentspeak.parser.parse_literal(_first(tokens, log), tokens, log)
        if not log.mistakes and after.lexeme != ".":
            log.note(f"expected the end, got {after.lexeme!r}", after.loc)
        if not log.mistakes:
            node = node.accept(agentspeak.parser.ConstFoldVisitor(log))
        if not log.mistakes:
            literal = node.accept(agentspeak.runtime.BuildTermVisitor({}))
            if not asp.is_ground(literal, {}):
                log.note("it has a variable: say a value, which begins with a small letter or a digit", node.loc)
            else:
                return asp.grounded(literal, {})
    except (asp.AggregatedError, StopIteration):
        if not log.mistakes:
            log.note("it ends too early")
    except asp.AslError as error:
        log.note(str(error))
    except RecursionError:
        log.note("it is nested too deeply")
    raise ProgramError([_in_a_term(one, shown) for one in log.mistakes])


def _first(tokens: Any, log: _Listener) -> Any:
    token = next(tokens)
    if not token.token.functor:
        log.note(f"a belief or goal begins with a small letter, got {token.lexeme!r}", token.loc)
        raise StopIteration
    return token


def _in_a_term(mistake: Mistake, shown: str) -> Mistake:
    """Without a file: there is one line, and it stands there."""
    return Mistake(mistake.what, "", 0, mistake.column or len(shown) + 1, shown)


class _Checks:
    """What the parser accepts and a run would fail of."""

    def __init__(self, tree: Any, actions: Any, log: _Listener) -> None:
        self._tree, self._actions, self._log = tree, actions, log
        self._handled = {_event_key(plan.event) for plan in tree.plans}

    def run(self) -> None:
        for goal in self._tree.goals:
            self._goal(goal.atom, goal.loc)
        for rule in self._tree.rules:
            self._condition(rule.consequence)
        for plan in self._tree.plans:
            self._condition(plan.context)
            self._body(plan.body)

    def _body(self, node: Any) -> None:
        if node is None:
            return
        for formula in getattr(node, "formulas", (node,)):
            kind = getattr(formula, "formula_type", None)
            if kind in (asp.FormulaType.achieve, asp.FormulaType.achieve_later):
                self._goal(formula.term, formula.loc)
            elif kind is asp.FormulaType.term:
                self._term(formula.term)
            for name in ("body", "if_body", "else_body"):
                self._body(getattr(formula, name, None))
            for name in ("condition", "generator"):
                self._condition(getattr(formula, name, None))

    def _term(self, term: Any) -> None:
        if hasattr(term, "functor") and not term.functor.startswith("."):
            known = did_you_mean(f".{term.functor}", _names(self._actions))
            self._log.note(f"{term.functor} is no action; actions begin with a dot{known}", term.loc)
        else:
            self._condition(term)

    def _goal(self, term: Any, loc: Any) -> None:
        if not hasattr(term, "functor"):
            return
        if ("+!", term.functor, len(term.terms)) not in self._handled:
            names = [name for kind, name, _ in self._handled if kind == "+!"]
            nearest = did_you_mean(term.functor, names)
            self._log.note(f"there is no plan for !{term.functor}/{len(term.terms)}{nearest}", loc or term.loc)

    def _condition(self, node: Any) -> None:
        if node is None:
            return
        if hasattr(node, "functor"):
            if node.functor.startswith("."):
                self._action(node)
            return
        for name in ("left", "right", "operand"):
            self._condition(getattr(node, name, None))

    def _action(self, node: Any) -> None:
        try:
            self._actions.lookup(node.functor, len(node.terms))
        except KeyError:
            counts = sorted(count for name, count in _signatures(self._actions) if name == node.functor)
            if counts:
                wanted = " or ".join(map(str, counts))
                what = f"{node.functor} takes {wanted} arguments, not {len(node.terms)}"
            else:
                what = f"there is no action {node.functor}{did_you_mean(node.functor, _names(self._actions))}"
            self._log.note(what, node.loc)


def _event_key(event: Any) -> tuple[str, str, int]:
    return f"{event.trigger.value}{event.goal_type.value}", event.head.functor, len(event.head.terms)


def _signatures(actions: Any) -> list[tuple[str, int]]:
    found = list(actions.actions)
    return found + (_signatures(actions.parent) if actions.parent is not None else [])


def _names(actions: Any) -> list[str]:
    found = [name for name, _ in actions.actions] + list(actions.variadic_actions)
    return found + (_names(actions.parent) if actions.parent is not None else [])
