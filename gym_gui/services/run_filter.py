"""Which runs are wanted, as a person writes it: ``algo=ppo env=CartPole* lr<1e-3 tag=paper return>400``.

Pure: from text to terms, and from a term and the facts of a run to yes or no. The daemon, the command line and the
cockpit share it; the daemon lets SQL decide those terms that are columns (:mod:`...storage.run_query`), with the same
answers.

    expression := term (blank term)*             every term has to hold
    term       := field operator value (, value)*    any of the values will do
                | word                           part of the name, id, algorithm or environment
    operator   := = != < <= > >= ~               ~ is "contains"; != holds wherever = does not

A value may have ``*`` and ``?``, and ``1..5`` stands for the numbers from 1 to 5; in quotes it is taken as it is. Upper
and lower case are the same.
"""

from __future__ import annotations

import fnmatch
import math
import operator
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Protocol

from gym_gui.services.run_labels import Scalar, config_of, flat_settings
from gym_gui.services.run_words import OUTCOME_WORDS, activity, state_meanings
from gym_gui.services.setting_defaults import setting_defaults
from mosaic_protocol.headline import LENGTH_TAG, MEAN_RETURN, RETURN_TAG, SPS_TAG
from mosaic_protocol.states import Outcome
from mosaic_protocol.suggest import did_you_mean, nearest

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb

MAX_LENGTH = 1000
MAX_TERMS = 30
MAX_VALUES = 100
CLOSE = 1e-12
"""Numbers with a fraction that differ by less than this share are the same: ``0.1 + 0.2`` was meant to be ``0.3``."""


class FilterError(ValueError):
    """An expression that cannot be understood: ``sentence`` says what and why, ``start`` and ``end`` where."""

    def __init__(self, sentence: str, start: int, end: int) -> None:
        super().__init__(f"{sentence} (at character {start + 1})")
        self.sentence, self.start, self.end = sentence, start, end


# ---- fields ------------------------------------------------------------------------------------------------------


class Kind(Enum):
    TEXT = "text"
    ID = "id"
    WORD = "word"
    NUMBER = "number"
    SECONDS = "time"
    SETTING = "setting"


_TEXT_OPERATORS, _WORD_OPERATORS = ("=", "!=", "~"), ("=", "!=")
_NUMBER_OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
_OPERATORS: dict[Kind, tuple[str, ...]] = {
    Kind.TEXT: _TEXT_OPERATORS,
    Kind.ID: _TEXT_OPERATORS,
    Kind.WORD: _WORD_OPERATORS,
    Kind.NUMBER: _NUMBER_OPERATORS,
    Kind.SECONDS: _NUMBER_OPERATORS,
    Kind.SETTING: (*_NUMBER_OPERATORS, "~"),
}


@dataclass(frozen=True)
class Field:
    """Something that every run may have. ``also`` are other names for it."""

    name: str
    kind: Kind
    meaning: str
    also: tuple[str, ...] = ()


FIELDS: tuple[Field, ...] = (
    Field("name", Kind.TEXT, "its name", ("run_name",)),
    Field("id", Kind.ID, "its id, or the beginning or end of it", ("run", "run_id")),
    Field("algo", Kind.TEXT, "its algorithm", ("algorithm",)),
    Field("env", Kind.TEXT, "its environment", ("env_id", "environment")),
    Field("worker", Kind.TEXT, "the type of its worker", ("worker_type",)),
    Field("seed", Kind.NUMBER, "its seed"),
    Field("tag", Kind.TEXT, "one of its tags", ("tags",)),
    Field("group", Kind.TEXT, "its group"),
    Field("sweep", Kind.TEXT, "the sweep that made it"),
    Field("dataset", Kind.TEXT, "the dataset it learns from"),
    Field("parent", Kind.ID, "the run it goes on from"),
    Field("state", Kind.WORD, "queued, training, playing, paused, over…, or an outcome", ("status",)),
    Field("outcome", Kind.WORD, "completed, failed, canceled, timed_out or lost"),
    Field("return", Kind.NUMBER, "mean return of the last 100 episodes", ("mean_return",)),
    Field("last_return", Kind.NUMBER, "return of the newest episode", ("episodic_return",)),
    Field("length", Kind.NUMBER, "length of the newest episode", ("episodic_length",)),
    Field("sps", Kind.NUMBER, "newest steps per second", ("speed",)),
    Field("steps", Kind.NUMBER, "steps that it has done", ("step", "last_step")),
    Field("total_steps", Kind.NUMBER, "steps that it is to do", ("total", "total_timesteps")),
    Field("trained", Kind.SECONDS, "how long it trained: 90s, 10m, 2h, 1d", ("elapsed", "duration")),
    Field("age", Kind.SECONDS, "how long ago it was submitted", ()),
)
HEADLINE_FIELDS = {"return": MEAN_RETURN, "last_return": RETURN_TAG, "length": LENGTH_TAG, "sps": SPS_TAG}
"""Fields that are headline numbers, and the tag of each."""
WORD_FIELDS = ("name", "id", "algo", "env")
"""Where a plain word is looked for."""
_BY_NAME = {name: field for field in FIELDS for name in (field.name, *field.also)}


def field_named(name: str) -> str:
    """The field that a word means, "" where it means none."""
    known = _BY_NAME.get(name.lower().replace("-", "_"))
    return known.name if known else ""


_SHORT_SETTINGS = {"lr": "learning_rate"}


def _word_meanings() -> dict[str, dict[str, tuple[str, ...]]]:
    """By field: what each word stands for, as states, what a run does in them, and outcomes."""
    outcomes: dict[str, tuple[str, ...]] = {word: (word,) for word in OUTCOME_WORDS}
    outcomes["cancelled"] = (Outcome.CANCELED.value,)
    return {"state": {**outcomes, **state_meanings()}, "outcome": outcomes}


WORDS = _word_meanings()


# ---- what is compared --------------------------------------------------------------------------------------------


def folded(text: str) -> str:
    """A text without the difference of upper and lower case.

    Letter by letter, and no letter becomes an ASCII one (the sign for kelvin would): so SQLite's own ``lower``, which
    knows ASCII alone and is fast, finds the same wherever the text that is looked for is ASCII."""
    return text.lower() if text.isascii() else "".join(map(_folded_letter, text))


def _folded_letter(letter: str) -> str:
    low = letter.lower()
    return low if letter.isascii() or not any(mark.isascii() for mark in low) else letter


@dataclass(frozen=True)
class Operand:
    """A value as it was written; ``text`` is folded."""

    text: str
    number: int | float | None = None
    is_glob: bool = False
    upto: int | float | None = None
    """The end of a range that begins with ``number``; both belong to it."""

    def equals(self, value: Scalar) -> bool:
        if self.upto is not None:
            return not isinstance(value, str) and self.number is not None and self.number <= value <= self.upto
        if self.is_glob:
            return _pattern(self.text).fullmatch(folded(str(value))) is not None
        if isinstance(value, str):
            return folded(value) == self.text
        return self.number is not None and same_number(value, self.number)


def same_number(one: int | float, other: int | float) -> bool:
    if isinstance(other, int):
        return one == other
    return abs(one - other) <= CLOSE * abs(other)


def escaped_glob(glob: str) -> str:
    """Only ``*`` and ``?`` are special; a bracket, which begins a class for ``fnmatch`` and for SQLite, is not."""
    return glob.replace("[", "[[]")


@lru_cache(256)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(escaped_glob(glob)))


class Facts(Protocol):
    """What is known of one run."""

    def values(self, field: str) -> Sequence[Scalar]:
        """What a field of :data:`FIELDS` holds: nothing, one value, or several (tags, the words of a state)."""

    def setting(self, name: str) -> Scalar | None:
        """A setting by its name, None where the run was not given it."""


_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Term:
    """One condition. ``field`` is the name of one of :data:`FIELDS`, of a setting, or "" for a plain word."""

    field: str
    kind: Kind
    operator: str
    operands: tuple[Operand, ...]
    start: int = 0
    end: int = 0

    @property
    def is_setting(self) -> bool:
        return self.kind is Kind.SETTING

    @cached_property
    def test(self) -> Callable[[Facts], bool]:
        """:meth:`matches`, with everything decided before that depends on no run: a table asks it ten thousand times
        for one key that is typed."""
        if self.kind is not Kind.SETTING or self.operator not in _COMPARE:
            return self.matches
        name, compare, bound = self.field, _COMPARE[self.operator], self.operands[0].number
        assert bound is not None, "the parser sees to it"

        def compares(facts: Facts) -> bool:
            value = facts.setting(name)
            return value is not None and not isinstance(value, str) and compare(value, bound)

        return compares

    def matches(self, facts: Facts) -> bool:
        values = self._values(facts)
        if self.operator in ("=", "!="):
            return any(self._fits(operand, values) for operand in self.operands) == (self.operator == "=")
        if self.operator == "~":
            texts = [folded(value) for value in values if isinstance(value, str)]
            return any(operand.text in text for operand in self.operands for text in texts)
        compare, bound = _COMPARE[self.operator], self.operands[0].number
        assert bound is not None, "the parser sees to it"
        return any(not isinstance(value, str) and compare(value, bound) for value in values)

    def _values(self, facts: Facts) -> Sequence[Scalar]:
        if self.is_setting:
            value = facts.setting(self.field)
            return () if value is None else (value,)
        if not self.field:
            return [value for field in WORD_FIELDS for value in facts.values(field)]
        return facts.values(self.field)

    @staticmethod
    def _fits(operand: Operand, values: Sequence[Scalar]) -> bool:
        if not operand.text:  # `group=""` finds runs without one
            return all(value == "" for value in values)
        return any(operand.equals(value) for value in values)


@dataclass(frozen=True)
class RunFilter:
    """What :func:`parse` made of an expression."""

    text: str = ""
    terms: tuple[Term, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms)

    def matches(self, facts: Facts) -> bool:
        return self.test(facts)

    @cached_property
    def test(self) -> Callable[[Facts], bool]:
        """Whether every term holds for a run."""
        tests = [term.test for term in self.terms]
        return tests[0] if len(tests) == 1 else lambda facts: all(test(facts) for test in tests)

    @cached_property
    def settings(self) -> tuple[Term, ...]:
        return tuple(term for term in self.terms if term.is_setting)


EVERYTHING = RunFilter()


class RunFacts:
    """The facts of a run as the wire carries it. ``settings`` are read from its config when first asked for, unless
    given."""

    def __init__(self, run: pb.Run, now: float | None = None, settings: Mapping[str, Scalar] | None = None) -> None:
        self._run, self._settings, self._now = run, settings, now

    def values(self, field: str) -> Sequence[Scalar]:
        run = self._run
        if field in HEADLINE_FIELDS:
            tag = HEADLINE_FIELDS[field]
            return (run.headline[tag],) if tag in run.headline else ()
        if field == "tag":
            return run.tags
        if field == "state":
            return (run.state, run.outcome, activity(run))
        if field == "seed":
            return (run.seed,) if run.HasField("seed") else ()
        if field == "age":
            return ((time.time() if self._now is None else self._now) - run.created_at,)
        value: Scalar = getattr(run, _ATTRIBUTES[field])
        return (value,) if value != "" and (value or field != "total_steps") else ()

    def setting(self, name: str) -> Scalar | None:
        if self._settings is None:
            self._settings = flat_settings(config_of(self._run.config_json))
        return setting_in(self._settings, name, self._run.worker_type)


_ATTRIBUTES = {
    "name": "name",
    "id": "run_id",
    "algo": "algo",
    "env": "env_id",
    "worker": "worker_type",
    "group": "group",
    "sweep": "sweep",
    "dataset": "dataset",
    "parent": "parent",
    "outcome": "outcome",
    "steps": "last_step",
    "total_steps": "total_steps",
    "trained": "active_seconds",
}


def find_setting(settings: Mapping[str, Scalar], name: str) -> Scalar | None:
    """A setting by its name, or by the end of its dotted name: ``fps`` finds ``extras.video.fps``."""
    if name in settings:
        return settings[name]
    if (long := _SHORT_SETTINGS.get(name)) is not None and long in settings:
        return settings[long]
    ending = f".{name}"
    return next((value for path, value in settings.items() if path.endswith(ending)), None)


def setting_in(settings: Mapping[str, Scalar], name: str, worker_type: str) -> Scalar | None:
    """A setting that the run was given, else what its worker's schema says of one that was left alone."""
    given = find_setting(settings, name)
    return given if given is not None else find_setting(setting_defaults(worker_type), name)


def require_known_settings(wanted: RunFilter, known: Mapping[str, Scalar]) -> None:
    """Refuse a field that is no field of any run and no setting of any; ``known`` has the settings of all of them."""
    for term in wanted.settings:
        if find_setting(known, term.field) is None:
            names = {field.name for field in FIELDS} | set(known)
            near = nearest(term.field, [*_BY_NAME, *known])
            hint = f"; did you mean {near!r}?" if near else did_you_mean(term.field, names)
            raise FilterError(f"no run has a field or a setting {term.field!r}{hint}", term.start, term.end)


# ---- reading -----------------------------------------------------------------------------------------------------

_BLANKS = re.compile(r"\s*")
_NAME = re.compile(r"-{0,2}([A-Za-z_][\w.-]*)")
_OPERATOR = re.compile(r"==|!=|<=|>=|=|<|>|~")
_AHEAD = re.compile(r"\s*(?:==|!=|<=|>=|=|<|>|~)")
_BARE_VALUE = re.compile(r"[^\s,=<>\"']+")
_QUOTE_IT = "Put the word in quotes to look for it"
_CONNECTIVES = {
    "and": f"terms with a blank between them must all hold: leave the 'and' out. {_QUOTE_IT}",
    "or": f"there is no 'or' between terms; one field takes several values, as in algo=ppo,dqn. {_QUOTE_IT}",
    "not": f"say what must not be with !=, as in algo!=ppo. {_QUOTE_IT}",
}
_BARE_WORD = re.compile(r"[^\s=<>~!\"']+")
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'")
_MOST_DIGITS = 100
_NUMBER = re.compile(r"([+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)([A-Za-z]?)")
_UNITS = {"": 1, "k": 1000, "K": 1000, "M": 1_000_000, "G": 1_000_000_000}
_TIME_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def has_operator(text: str) -> bool:
    """Whether a text is an expression rather than words to look for."""
    return any(mark in text for mark in "=<>~")


def parse(text: str) -> RunFilter:
    """Understand an expression; "" is the filter that lets everything through. Raises :class:`FilterError`."""
    if len(text) > MAX_LENGTH:
        raise FilterError(f"an expression has at most {MAX_LENGTH} characters, this one {len(text):,}", MAX_LENGTH, -1)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FilterError("this is no text in any alphabet", error.start, error.end) from None
    return RunFilter(text, tuple(_Reader(text).terms()))


class _Reader:
    """Goes through an expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def terms(self) -> Iterable[Term]:
        count = 0
        self._skip_blanks()
        while self._at < len(self._text):
            count += 1
            if count > MAX_TERMS:
                raise self._error(f"an expression has at most {MAX_TERMS} terms", self._at)
            yield self._term()
            self._skip_blanks()

    def _term(self) -> Term:
        start = self._at
        named = _NAME.match(self._text, start)
        if named is not None and _AHEAD.match(self._text, named.end()):
            self._at = named.end()
            return self._condition(named[1].replace("-", "_"), start)
        return self._word(start)

    def _word(self, start: int) -> Term:
        quoted = self._quoted()
        if quoted is None:
            bare = _BARE_WORD.match(self._text, start)
            if bare is None:
                mark = self._text[start]
                raise self._error(f"{mark!r} needs the name of a field before it, as in algo{mark}…", start, start + 1)
            if advice := _CONNECTIVES.get(bare[0].lower()):
                raise self._error(advice, start, bare.end())
            self._at, quoted = bare.end(), bare[0]
        self._require_end_of_term(quoted)
        return Term("", Kind.TEXT, "~", (Operand(folded(quoted)),), start, self._at)

    def _condition(self, name: str, start: int) -> Term:
        name_end = self._at
        self._skip_blanks()
        found = _OPERATOR.match(self._text, self._at)
        assert found is not None, "it was seen before"
        sign = "=" if found[0] == "==" else found[0]
        known = _BY_NAME.get(name.lower())
        field, kind = (known.name, known.kind) if known else (name, Kind.SETTING)
        if sign not in _OPERATORS[kind]:
            raise self._error(_wrong_operator(field, kind, sign), found.start(), found.end())
        self._at = found.end()
        operands = tuple(self._operands(field, kind, sign))
        return Term(field, kind, sign, operands, start, name_end)

    def _operands(self, field: str, kind: Kind, sign: str) -> Iterable[Operand]:
        count = 0
        while True:
            self._skip_blanks()
            start = self._at
            quoted = self._quoted()
            text = self._bare(field, sign) if quoted is None else quoted
            yield from _operands(_Written(field, kind, sign, text, quoted is not None, start, self._at))
            count += 1
            if count > MAX_VALUES:
                raise self._error(f"{field} has at most {MAX_VALUES} values", start, self._at)
            if self._text[self._at : self._at + 1] != ",":
                self._require_end_of_term(text)
                return
            if sign in _COMPARE:
                raise self._error(f"{field}{sign} takes one number, not a list", self._at, self._at + 1)
            self._at += 1

    def _bare(self, field: str, sign: str) -> str:
        bare = _BARE_VALUE.match(self._text, self._at)
        apart = self._text[self._at - 1 : self._at].isspace()
        # `algo= env=x`: what comes next is a term of its own, and the value is missing.
        if bare is None or (apart and _OPERATOR.match(self._text, bare.end())):
            without = f'; {field}{sign}"" finds runs without one' if sign in ("=", "!=") else ""
            raise self._error(f"{field}{sign} needs a value{without}", self._at, self._at + 1)
        self._at = bare.end()
        return bare[0]

    def _quoted(self) -> str | None:
        """What stands in quotes here, None where no quote begins."""
        start = self._at
        if self._text[start : start + 1] not in ("'", '"') or start >= len(self._text):
            return None
        found = _QUOTED.match(self._text, start)
        if found is None:
            raise self._error("this quote is not closed", start)
        self._at = found.end()
        return re.sub(r"\\(.)", r"\1", found[1] if found[1] is not None else found[2], flags=re.DOTALL)

    def _require_end_of_term(self, text: str) -> None:
        if self._at < len(self._text) and not self._text[self._at].isspace():
            mark = self._text[self._at]
            advice = (
                "leave a blank between terms, and put a value that holds blanks, commas, quotes, =, < or > in quotes"
            )
            raise self._error(f"{mark!r} is not expected after {text[:40]!r}: {advice}", self._at, self._at + 1)

    def _skip_blanks(self) -> None:
        blanks = _BLANKS.match(self._text, self._at)
        assert blanks is not None
        self._at = blanks.end()

    def _error(self, sentence: str, start: int, end: int = -1) -> FilterError:
        return FilterError(sentence, start, len(self._text) if end < 0 else end)


def _wrong_operator(field: str, kind: Kind, sign: str) -> str:
    offered = " ".join(_OPERATORS[kind])
    what = {Kind.WORD: "one of a few words", Kind.NUMBER: "a number", Kind.SECONDS: "a time"}.get(kind, "a text")
    return f"{field} is {what}: {sign} does not apply to it, {offered} do"


@dataclass(frozen=True)
class _Written:
    """A value, and where and for what it was written."""

    field: str
    kind: Kind
    sign: str
    text: str
    is_quoted: bool
    start: int
    end: int

    def error(self, sentence: str) -> FilterError:
        return FilterError(sentence, self.start, self.end)


def _operands(written: _Written) -> Iterable[Operand]:
    """What a value stands for; some stand for several."""
    kind, text = written.kind, written.text
    if not text and (written.sign not in ("=", "!=") or written.field == "state"):  # every run has a state
        raise written.error(f"{written.field}{written.sign} needs a value")
    if not text:
        yield Operand("")
    elif kind is Kind.WORD:
        meanings = WORDS[written.field]
        word = folded(text).replace("-", "_").replace(" ", "_")
        if word not in meanings:
            raise written.error(f"{text[:60]!r} is no {written.field} of a run{did_you_mean(text, meanings)}")
        yield from (Operand(folded(code)) for code in meanings[word])
    elif kind is Kind.ID and written.sign != "~" and not written.is_quoted:
        yield from (Operand(folded(shape), is_glob=True) for shape in (f"{text}*", f"*{text}"))
    elif (between := _range(written)) is not None:
        yield between
    else:
        number = _number(text, _TIME_UNITS if kind is Kind.SECONDS else _UNITS)
        needs_number = kind in (Kind.NUMBER, Kind.SECONDS) or written.sign in _COMPARE
        if needs_number and number is None:
            example = "90s, 10m or 2h" if kind is Kind.SECONDS else "3, 1e-3 or 200k"
            raise written.error(f"{text[:60]!r} is not a number: {written.field}{written.sign} takes one, as {example}")
        is_glob = not written.is_quoted and written.sign != "~" and ("*" in text or "?" in text)
        yield Operand(folded(text), number if needs_number or not written.is_quoted else None, is_glob)


def _range(written: _Written) -> Operand | None:
    """``1..5``, None for what is no range of numbers."""
    ends = written.text.split("..")
    if len(ends) != 2 or written.is_quoted or written.sign not in ("=", "!=") or written.kind is Kind.TEXT:
        return None
    units = _TIME_UNITS if written.kind is Kind.SECONDS else _UNITS
    low, high = (_number(end, units) for end in ends)
    if low is None or high is None:
        return None
    if low > high:
        raise written.error(f"{written.text[:60]!r} goes from the larger to the smaller number: turn it round")
    return Operand(folded(written.text), low, upto=high)


def _number(text: str, units: Mapping[str, int]) -> int | float | None:
    """``3``, ``1e-3``, ``200_000``, ``200k``; None for what is no number."""
    found = _NUMBER.fullmatch(text)
    if found is None or found[2] not in units:
        return None
    digits, unit = found[1].replace("_", ""), units[found[2]]
    if digits.lstrip("+-").isdigit():
        if len(digits) > _MOST_DIGITS:
            return None
        whole = int(digits) * unit
        return whole if abs(whole) < 2**63 else float(whole)
    number = float(digits) * unit
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
