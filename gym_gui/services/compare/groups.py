"""Which runs belong together: ``algo=ppo env=CartPole* seed=1..5 as "PPO"``, or one group for each value of a field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gym_gui.services.run_filter import FIELDS, FilterError, RunFacts, field_named, parse
from gym_gui.services.run_labels import config_of, flat_settings
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.suggest import nearest

_LABEL = re.compile(r"""(?:^|\s)as\s+("([^"]*)"|'([^']*)'|([^\s"']+))\s*$""")
_OPEN_LABEL = re.compile(r"""(?:^|\s)as\s+(["'][^"']*)$""")
"""A name whose quote is never closed."""
_LONGEST_LABEL = 60
MOST_RUNS = 1000
"""In one comparison."""
_PAGE = 200

Listing = Callable[..., pb.ListRunsResponse]
"""``client.runs``."""


class CompareError(ValueError):
    """What cannot be compared, in a sentence for the person who asked."""


@dataclass(frozen=True)
class Group:
    """Runs under one name."""

    label: str
    runs: tuple[pb.Run, ...] = field(repr=False, default=())


@dataclass(frozen=True)
class Wanted:
    """An expression and the label that was given to what it finds; without one the expression is the label."""

    where: str
    label: str
    is_named: bool = False
    """Whether somebody gave the label."""

    @classmethod
    def read(cls, text: str) -> Wanted:
        """Raises FilterError."""
        if (unclosed := _OPEN_LABEL.search(text)) is not None:
            raise FilterError("the name behind as has no closing quote", unclosed.start(1), unclosed.end(1))
        found = _LABEL.search(text)
        where, _ = label_in(text)
        parse(where)
        label = next((part for part in found.groups()[1:] if part is not None), "") if found else where
        if found and not label.strip():
            raise FilterError("as needs a name behind it", found.start(1), found.end(1))
        return cls(where, short_label(label.strip() or "all runs"), is_named=bool(found))


def label_in(text: str) -> tuple[str, str]:
    """What stands before ``as "LABEL"``, and the label; "" where there is none."""
    found = _LABEL.search(text)
    if found is None:
        return text.strip(), ""
    label = next((part for part in found.groups()[1:] if part is not None), "")
    return text[: found.start()].strip(), short_label(label)


def groups_of(listing: Listing, wanted: Sequence[Wanted]) -> list[Group]:
    """One group for each expression. Raises CompareError where one finds nothing, or a run is in two of them."""
    found = [Group(one.label, tuple(matching_runs(listing, one.where))) for one in wanted]
    for one, group in zip(wanted, found, strict=True):
        if not group.runs:
            raise _nothing_matches(one.where)
    seen: dict[str, str] = {}
    for group in found:
        for run in group.runs:
            if (other := seen.setdefault(run.run_id, group.label)) != group.label:
                raise CompareError(f"{run.name} is in {other!r} and in {group.label!r}: a run belongs to one group")
    _require_different_labels(found)
    return found


def groups_by(listing: Listing, where: str, name: str) -> list[Group]:
    """One group for each value that a field or a setting has among the runs that match. Raises CompareError, also for
    a name that means nothing to any of them."""
    runs = list(matching_runs(listing, where))
    if not runs:
        raise _nothing_matches(where)
    if not field_named(name) and all(RunFacts(run).setting(name) is None for run in runs):
        known = {field.name for field in FIELDS}.union(*(flat_settings(config_of(run.config_json)) for run in runs))
        near = nearest(name, known)
        hint = f"; did you mean {near!r}?" if near else ": each has the default, or the name is another"
        raise CompareError(f"none of these runs has a field or was given a setting {name!r}{hint}")
    return by_value(runs, name)


def by_value(runs: Iterable[pb.Run], name: str) -> list[Group]:
    """One group for each value of a field or a setting."""
    members: dict[str, list[pb.Run]] = {}
    for run in runs:
        members.setdefault(_value(run, name), []).append(run)
    return [Group(short_label(value), tuple(alike)) for value, alike in sorted(members.items())]


def _nothing_matches(where: str) -> CompareError:
    if not where:
        return CompareError("there are no runs yet: `mosaic train` makes one")
    return CompareError(f"no run matches {where!r}: `mosaic runs --where …` shows what does")


def _value(run: pb.Run, name: str) -> str:
    facts, known = RunFacts(run), field_named(name)
    values = facts.values(known) if known else [facts.setting(name)]
    texts = [str(value) for value in values if value is not None and value != ""]
    return f"{name}={', '.join(texts)}" if texts and not known else ", ".join(texts) or f"no {name}"


def matching_runs(listing: Listing, where: str) -> Iterable[pb.Run]:
    """Every run that an expression finds, the newest first. Raises :class:`CompareError` for too many."""
    token, count = "", 0
    while True:
        page = listing(size=_PAGE, token=token, where=where)
        count += len(page.runs)
        if count > MOST_RUNS:
            raise CompareError(f"{where or 'this'!r} matches more than {MOST_RUNS:,} runs: narrow it")
        yield from page.runs
        token = page.next_page_token
        if not token:
            return


def _require_different_labels(found: Sequence[Group]) -> None:
    labels = [group.label for group in found]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        raise CompareError(f'two groups are called {twice!r}: give them names with as "…"')


def short_label(label: str) -> str:
    plain = "".join(mark if mark.isprintable() else "?" for mark in label)
    return plain if len(plain) <= _LONGEST_LABEL else plain[: _LONGEST_LABEL - 1] + "…"
