"""Which runs and which parts of runs should go, by a profile. Pure: no clock, no disk, no daemon.

Never touched: a run that is not over or not read to its end, one that is pinned or tagged to be kept, one of a sweep
that goes on, and one that other runs began from, because they need its checkpoint to be understood and made again. Of a
run that is made smaller the newest and the best checkpoint stay.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gym_gui.services.run_filter import RunFacts, RunFilter, parse
from gym_gui.services.run_words import is_over, size
from gym_gui.services.storage.profile import Profile, Rule
from gym_gui.services.storage.sizes import RunSize

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb

KEEP_TAGS = frozenset({"keep", "pinned"})
"""A run with one of these is never touched."""
SHORTEST_END = 6
"""Characters of an id that name a run."""
DAY = 86_400.0
_CHECKPOINT = re.compile(r"/([0-9A-HJKMNP-TV-Z]{26})/checkpoints/")
_GB = 1_000_000_000

Kind = Literal["archive", "trash", "remove", "purge"]


@dataclass(frozen=True)
class Action:
    """One thing to do. ``archive``: pack, check, then trash or purge. ``remove``: parts of a run that stays.
    ``purge``: a run that is in the trash already."""

    kind: Kind
    run_id: str
    name: str
    bytes: int
    """What it takes now, and will not take once this is done (an archive takes some of it again)."""
    reason: str
    parts: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Around:
    """What is known beside the runs. ``open_sweeps``: names of those that are not over."""

    open_sweeps: Collection[str] = ()
    disk_used: int = 0
    disk_free: int = 0


def plan(
    profile: Profile, runs: Sequence[pb.Run], now: float, sizes: Mapping[str, RunSize], around: Around | None = None
) -> list[Action]:
    """What to do, in order: what is due by a rule, then what a cap brings forward, then the trash of a full disk.
    ``runs`` are all that there are, those in the trash too."""
    around = around or Around()
    there = sorted((run for run in runs if not run.deleted), key=_ended)
    kept, rules = protected(profile, runs, around), [(rule, parse(rule.runs)) for rule in profile.rules]
    free = {run.run_id: _rule_for(rules, run, now) for run in there if run.run_id not in kept}
    due = [
        action
        for run in there
        if (rule := free.get(run.run_id)) is not None
        for action in _due(rule, run, now, sizes.get(run.run_id, RunSize()))
    ]
    return [
        *due,
        *_brought_forward(profile, there, free, due, sizes),
        *_emptied_trash(profile, runs, sizes, around),
    ]


def protected(profile: Profile, runs: Iterable[pb.Run], around: Around | None = None) -> dict[str, str]:
    """Runs that nothing of a profile touches, with the reason. Runs in the trash are not among them."""
    there = [run for run in runs if not run.deleted]
    parents = begun_from(there)
    sweeps = frozenset((around or Around()).open_sweeps)
    found = {run.run_id: _why_kept(profile, run, parents, sweeps) for run in there}
    return {run_id: why for run_id, why in found.items() if why}


def _why_kept(profile: Profile, run: pb.Run, parents: Collection[str], sweeps: Collection[str]) -> str:
    if not is_over(run):
        return "it is not over"
    if run.journal_unread:
        return "what it said last is not read yet"
    if any(_names(pin, run) for pin in profile.pinned):
        return "it is pinned"
    if tags := sorted(KEEP_TAGS.intersection(run.tags)):
        return f"it has the tag {tags[0]}"
    if run.sweep and run.sweep in sweeps:
        return "its sweep goes on"
    return "other runs began from it" if run.run_id in parents else ""


def _names(pin: str, run: pb.Run) -> bool:
    return pin == run.name or (len(pin) >= SHORTEST_END and run.run_id.endswith(pin.upper()))


def _ended(run: pb.Run) -> float:
    """Imported runs have no end of their own."""
    return run.ended_at or run.created_at


def begun_from(runs: Iterable[pb.Run]) -> set[str]:
    """Ids of the runs that others go on from, or name a checkpoint of while they are not over."""
    found: set[str] = set()
    for run in runs:
        if run.parent:
            found.add(run.parent)
        if not is_over(run):
            found.update(_CHECKPOINT.findall(run.config_json))
    return found


def _rule_for(rules: Sequence[tuple[Rule, RunFilter]], run: pb.Run, now: float) -> Rule | None:
    facts = RunFacts(run, now)
    return next((rule for rule, wanted in rules if wanted.matches(facts)), None)


# ---- by rules ----------------------------------------------------------------------------------------------------


def _due(rule: Rule, run: pb.Run, now: float, found: RunSize) -> Iterator[Action]:
    days = max(0.0, now - _ended(run)) / DAY
    ended = f"ended {days:.0f} days ago"
    if rule.archive_after_days is not None and days >= rule.archive_after_days:
        reason = f"{ended}, archived after {_said(rule.archive_after_days)}"
        yield Action("archive", run.run_id, run.name, found.total, reason)
    elif rule.trash_after_days is not None and days >= rule.trash_after_days:
        yield Action("trash", run.run_id, run.name, found.total, f"{ended}, kept for {_said(rule.trash_after_days)}")
    else:
        yield from _parts_due(rule, run, days, found)


def _parts_due(rule: Rule, run: pb.Run, days: float, found: RunSize) -> Iterator[Action]:
    for part, limit in rule.keep_days.limits():
        if limit is None or days < limit:
            continue
        reason = f"ended {days:.0f} days ago, {part} kept for {_said(limit)}"
        if part == "checkpoints":
            if spare := [one for one in found.checkpoints if not one.is_best and not one.is_newest]:
                names, taken = tuple(one.name for one in spare), sum(one.bytes for one in spare)
                yield Action("remove", run.run_id, run.name, taken, reason, checkpoints=names)
        elif taken := found.parts.get(part, 0):
            yield Action("remove", run.run_id, run.name, taken, reason, parts=(part,))


def _said(days: float) -> str:
    return "1 day" if days == 1 else f"{days:g} days"


# ---- by room -----------------------------------------------------------------------------------------------------


def _brought_forward(
    profile: Profile,
    there: Sequence[pb.Run],
    free: Mapping[str, Rule | None],
    due: Sequence[Action],
    sizes: Mapping[str, RunSize],
) -> Iterator[Action]:
    """The cap does earlier what a rule would do one day, the oldest run first; what no rule ends stays."""
    taken = sum(sizes[run.run_id].total for run in there if run.run_id in sizes) - sum(action.bytes for action in due)
    gone = {action.run_id for action in due if action.kind != "remove"}
    cap = profile.cap_gb * _GB
    for run in there:
        if not cap or taken <= cap:
            return
        rule = free.get(run.run_id)
        if rule is None or run.run_id in gone or run.run_id not in sizes:
            continue
        if rule.archive_after_days is None and rule.trash_after_days is None:
            continue
        kind: Kind = "archive" if rule.archive_after_days is not None else "trash"
        found = sizes[run.run_id].total
        reason = f"runs take {size(round(taken))} of the {profile.cap_gb:g} GB that they may take"
        yield Action(kind, run.run_id, run.name, found, reason)
        taken -= found


def _emptied_trash(
    profile: Profile, runs: Sequence[pb.Run], sizes: Mapping[str, RunSize], around: Around
) -> Iterator[Action]:
    """Only where the profile says so: what was deleted can otherwise be restored until its time is over."""
    total, used = around.disk_used + around.disk_free, around.disk_used
    limit = profile.empty_trash_at_percent
    for run in sorted((run for run in runs if run.deleted), key=lambda run: run.restorable_until):
        if not limit or not total or 100 * used / total < limit:
            return
        found = sizes.get(run.run_id, RunSize()).total
        reason = f"the disk is {100 * used / total:.0f} % full, the trash is emptied at {limit:g} %"
        yield Action("purge", run.run_id, run.name, found, reason)
        used -= found
