"""Plans in ``.asl`` files: read, checked, and every mistake named with its place.

A mistake is shown with file, line and column, the line itself, and a caret under the place. What the interpreter would
only find when it gets there is found here as well: actions that do not exist, goals without a plan.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import agentspeak as asp
import agentspeak.lexer
import agentspeak.parser
import agentspeak.runtime

from mosaic_protocol.regular_files import open_regular
from mosaic_protocol.suggest import did_you_mean
from mosaic_worker.errors import UsageError

SHIPPED = Path(__file__).resolve().parent.parent / "plans"
SUFFIX = ".asl"
MOST_BYTES = 1024 * 1024
MOST_INCLUDED = 100
"""Files that a program may include: two that name each other twice would be read for ever."""
_IGNORED = ("recovery plans are ignored",)
"""What the interpreter warns of and this worker can do."""
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[^xuU])")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_ONE_LINE = re.compile(r"[\t\n\r]")


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
    shipped = {file.stem: file for file in sorted(SHIPPED.glob(f"*{SUFFIX}"))}
    if name in shipped:
        return shipped[name]
    path = Path(name).expanduser()
    if path.suffix != SUFFIX:
        raise UsageError(
            f"there are no plans {name!r}, and a file of your own would end in .asl{did_you_mean(name, shipped)}"
        )
    return path


def read_program(path: Path) -> str:
    """The text of a file. Raises UsageError."""
    try:
        return _text_in(path)
    except _UnreadableError as error:
        raise UsageError(f"--plans {path} {error}") from None


class _UnreadableError(Exception):
    """Completes a sentence that begins with the name of the file."""


def _text_in(path: Path) -> str:
    try:
        with open_regular(path, follow=True) as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise _UnreadableError(f"has more than {MOST_BYTES:,} bytes: that is no program")
        return data.decode()
    except OSError as error:
        raise _UnreadableError(f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise _UnreadableError(f"is not text in UTF-8: byte {error.start} cannot be read") from None


def parse_program(text: str, file: str, actions: Any) -> Any:
    """The syntax tree of a program that can run. Raises :class:`ProgramError`."""
    log = _Listener()
    tree = _parsed(text, file, log)
    if tree is not None and not log.mistakes:
        _Checks(tree, actions, log).run()
        if not tree.plans:
            log.mistakes.append(Mistake("there is no plan in it: an agent would do nothing", file, 1, 1))
    if log.mistakes or tree is None:
        raise ProgramError(log.mistakes or [Mistake("it cannot be read", file)])
    return tree


def _parsed(text: str, file: str, log: _Listener) -> Any:
    try:
        return agentspeak.parser.parse(file, _Words(text, Path(file), log), log)
    except asp.AggregatedError:
        return None  # it was noted
    except RecursionError:
        what = "it is nested too deeply"
    except Exception as error:  # noqa: BLE001 - the parser stumbles over its own errors
        what = f"it cannot be read: {type(error).__name__}: {error}"
    log.mistakes.append(Mistake(what, file, 1, 1, text.partition("\n")[0]))
    return None


class _Words(agentspeak.lexer.TokenStream):
    """The words of a program, with those of the files that it includes in their places. The parser would read whatever
    is named there, wait for pipes, and forget the place of what is wrong in it."""

    def __init__(self, text: str, path: Path, log: _Listener) -> None:
        super().__init__(asp.StringSource(str(path), text), log)
        self._log, self._included = log, 0
        self.tokens = self._words_of(text, path, ())

    def _words_of(self, text: str, path: Path, above: tuple[Path, ...]) -> Iterator[Any]:
        words = agentspeak.lexer.tokenize(asp.StringSource(str(path), text), self._log)
        for word in words:
            after = next(words, None) if word.lexeme == "{" else None
            if after is not None and after.lexeme == "include":
                yield from self._words_included(words, after, path, (*above, path.resolve()))
                continue
            yield word
            if after is not None:
                yield after

    def _words_included(self, words: Iterator[Any], word: Any, path: Path, above: tuple[Path, ...]) -> Iterator[Any]:
        """What stands in the place of ``{ include("name.asl") }``, from its second word on."""
        match list(itertools.islice(words, 4)):
            case [opening, name, closing, end] if name.token.string and (
                opening.lexeme,
                closing.lexeme,
                end.lexeme,
            ) == ("(", ")", "}"):
                found = _found_beside(path, asp.parse_string(name.lexeme))
            case _:
                raise self._log.error('write it as { include("name.asl") }', loc=word.loc)
        self._included += 1
        if found.resolve() in above:
            raise self._log.error(f"{found} includes itself", loc=word.loc)
        if found.suffix != SUFFIX or self._included > MOST_INCLUDED:
            why = f"includes more than {MOST_INCLUDED} files" if found.suffix == SUFFIX else f"ends not in {SUFFIX}"
            raise self._log.error(f"{found} {why}", loc=word.loc)
        try:
            yield from self._words_of(_text_in(found), found, above)
        except _UnreadableError as error:
            raise self._log.error(f"{found} {error}", loc=word.loc) from None


def _found_beside(path: Path, name: str) -> Path:
    """The file that a program includes: one that lies beside it, else one that comes with the worker, so that a copy of
    those goes on to work."""
    beside, shipped = path.parent / name, SHIPPED / name
    return shipped if not beside.exists() and Path(name).name == name and shipped.exists() else beside


def build_into(reasoner: Any, tree: Any, actions: Any) -> None:
    """Give an agent the rules, plans and beliefs of a program that was parsed. Raises :class:`ProgramError`."""
    log = _Listener()
    try:
        reasoner.load(tree, actions, log)
    except asp.AggregatedError:
        pass  # it was noted
    except asp.AslError as error:
        log.note(str(error), getattr(error, "loc", None))
    if log.mistakes:
        raise ProgramError(log.mistakes)


def _read_string(lexeme: str) -> str:
    """A text as it stands between its quotation marks. The interpreter's own takes every letter beyond ASCII for two,
    and fails at an escape that it does not know."""
    return _ESCAPE.sub(lambda found: _unescaped(found[0]), lexeme[1:-1])


def _unescaped(escape: str) -> str:
    kind, digits = escape[1], escape[2:]
    if digits:
        code = int(digits, 16)
        return chr(code) if code <= sys.maxunicode else escape
    return _ESCAPED.get(kind, escape)


asp.parse_string = _read_string


def parse_term(text: str, *, ground: bool = True) -> Any:
    """One literal that a person or a peer says, such as ``at(1, left)``; with variables only where it need not be
    ``ground``. Raises :class:`ProgramError`."""
    log = _Listener()
    shown = _ONE_LINE.sub(" ", text.strip()).removesuffix(".")
    try:
        tokens = agentspeak.lexer.TokenStream(asp.StringSource("", shown + "."), log)
        after, node = agentspeak.parser.parse_literal(_first(tokens, log), tokens, log)
        if not log.mistakes and after.lexeme != ".":
            log.note(f"expected the end, got {after.lexeme!r}", after.loc)
        if not log.mistakes:
            node = node.accept(agentspeak.parser.ConstFoldVisitor(log))
        if not log.mistakes:
            literal = node.accept(agentspeak.runtime.BuildTermVisitor({}))
            if not ground:
                return literal
            if not asp.is_ground(literal, {}):
                log.note("it has a variable: say a value, which begins with a small letter or a digit", node.loc)
            else:
                return asp.grounded(literal, {})
    except (asp.AggregatedError, StopIteration):
        if not log.mistakes:
            log.note("it ends too early")
    except RecursionError:
        log.note("it is nested too deeply")
    except Exception as error:  # noqa: BLE001 - it is computed where it has operators, and anything may be wrong with that
        log.note(f"it cannot be read: {error}")
    raise ProgramError([_in_a_term(one, shown) for one in log.mistakes])


def parse_event(text: str) -> Any:
    """What a plan can wait for, such as ``+at(1, left)``. Raises :class:`ProgramError`."""
    log = _Listener()
    shown = text.strip().removesuffix(".")
    try:
        tokens = agentspeak.lexer.TokenStream(asp.StringSource("", shown + "."), log)
        after, node = agentspeak.parser.parse_event(next(tokens), tokens, log)
        if not log.mistakes and after.lexeme != ".":
            log.note(f"expected the end, got {after.lexeme!r}", after.loc)
        if not log.mistakes:
            return node.accept(agentspeak.runtime.BuildEventVisitor(log))
    except (asp.AggregatedError, StopIteration):
        if not log.mistakes:
            log.note("it ends too early")
    except RecursionError:
        log.note("it is nested too deeply")
    raise ProgramError([_in_a_term(one, shown) for one in log.mistakes])


def _first(tokens: Any, log: _Listener) -> Any:
    token = next(tokens)
    if not token.token.functor or "." in token.lexeme:
        log.note(f"a belief or goal begins with a small letter, got {token.lexeme!r}", token.loc)
        raise StopIteration
    return token


def _in_a_term(mistake: Mistake, shown: str) -> Mistake:
    """Without a file: there is one line, and it stands there. The full stop behind it is not what a person wrote."""
    what, column = mistake.what, mistake.column or len(shown) + 1
    if shown and column > len(shown):
        what = re.sub(r", got '\.'$", ", and it ends there", what)
    return Mistake(what, "", 0, column, shown)


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
            self._words(node)
        except KeyError:
            counts = sorted(count for name, count in _signatures(self._actions) if name == node.functor)
            if counts:
                wanted = " or ".join(map(str, counts))
                what = f"{node.functor} takes {wanted} arguments, not {len(node.terms)}"
            else:
                what = f"there is no action {node.functor}{did_you_mean(node.functor, _names(self._actions))}"
            self._log.note(what, node.loc)

    def _words(self, node: Any) -> None:
        """A word that an action does not know, where it is written and not computed."""
        place, known = self._actions.words.get((node.functor, len(node.terms)), (0, ()))
        word = node.terms[place] if known else None
        if word is not None and hasattr(word, "functor") and not word.terms and word.functor not in known:
            what = f"{node.functor} knows no {word.functor}{did_you_mean(word.functor, known)}"
            self._log.note(what, word.loc or node.loc)


def _event_key(event: Any) -> tuple[str, str, int]:
    return f"{event.trigger.value}{event.goal_type.value}", event.head.functor, len(event.head.terms)


def _signatures(actions: Any) -> list[tuple[str, int]]:
    found = list(actions.actions)
    return found + (_signatures(actions.parent) if actions.parent is not None else [])


def _names(actions: Any) -> list[str]:
    found = [name for name, _ in actions.actions] + list(actions.variadic_actions)
    return found + (_names(actions.parent) if actions.parent is not None else [])
