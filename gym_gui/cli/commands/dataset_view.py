"""How ``mosaic datasets`` shows datasets and the making of them."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli.session import shortest_path

if TYPE_CHECKING:
    from gym_gui.services.datasets import DatasetEntry
    from gym_gui.services.datasets.inside import Histogram, Inside, Range
    from mosaic_protocol.datasets import References
    from mosaic_protocol.datasets.manifest import Seen

_SOURCE_WORDS = (
    ("run_name", "run"),
    ("run_id", "run id"),
    ("worker", "worker"),
    ("algo", "algorithm"),
    ("file", "file"),
    ("url", "downloaded from"),
    ("episode_ends", "episodes"),
)
_MOST_COLUMNS = 6
_REPEAT_SECONDS = 0.1
PROGRESS_VARIABLE = "MOSAIC_PROGRESS"
"""``json``: progress is lines of JSON on stderr, for a program that shows it."""


class Progress:
    """One line on stderr that is gone when it is done, for a person who watches a terminal; or lines of JSON for a
    program that asked for them with :data:`PROGRESS_VARIABLE`. Such a program ends a command with SIGTERM, and it
    cleans up as after Ctrl-C."""

    def __init__(self, *, quiet: bool) -> None:
        self._as_json = os.environ.get(PROGRESS_VARIABLE) == "json"
        self._shows = self._as_json or (not quiet and sys.stderr.isatty())
        self._next = 0.0
        if self._as_json:
            signal.signal(signal.SIGTERM, signal.default_int_handler)

    def _show(self, line: str, done: int = 0, of: int | None = None) -> None:
        if not self._shows or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _REPEAT_SECONDS
        if self._as_json:
            share = min(1.0, done / of) if of else None
            click.echo(json.dumps({"progress": line, "share": share}), err=True)
        else:
            click.echo(f"\r{fmt.cut(line, fmt.terminal_width() - 1)}\x1b[K", nl=False, err=True)

    def episodes(self, episodes: int, steps: int) -> None:
        self._show(f"{episodes:,} episodes, {steps:,} steps")

    def rows(self, rows: int, of: int) -> None:
        self._show(f"{rows:,} of {of:,} steps, {100 * rows // max(of, 1)}%", rows, of)

    def part(self, name: str, done: int, of: int) -> None:
        self._show(f"{name}  {done:,} of {of:,} steps, {min(100, 100 * done // max(of, 1))}%", done, of)

    def played(self, name: str, done: int, of: int) -> None:
        self._show(f"{name}  {done}/{of} episodes", done, of)

    def bytes(self, got: int, of: int | None) -> None:
        self._show(f"{fmt.size(got)} of {fmt.size(of)}, {100 * got // max(of, 1)}%" if of else fmt.size(got), got, of)

    def hashed(self, read: int, of: int) -> None:
        self._show(f"hashing  {fmt.size(read)} of {fmt.size(of)}", read, of)

    def clear(self) -> None:
        if self._shows and self._next and not self._as_json:
            click.echo("\r\x1b[K", nl=False, err=True)


def tell_made(entry: DatasetEntry, *, as_json: bool) -> None:
    """Say what was made."""
    if as_json:
        fmt.echo_json(as_object(entry))
        return
    told = entry.manifest
    size = f"{fmt.counted(told.episodes, 'episode')}, {fmt.counted(told.steps, 'step')}"
    click.echo(f"{entry.name}: {size} ({actors(told.actors)})")
    if told.left_out:
        click.echo(fmt.hanging(f"Left out: {left_out(told.left_out)}."))
    if told.spaces_note:
        why = told.spaces_note.rstrip("?.")
        click.echo(fmt.hanging(fmt.one_line(f"The spaces are those that the data shows: {why}.")))
    for doubt in told.doubts:
        click.echo(fmt.hanging(fmt.one_line(f"Doubtful: {doubt}.")))
    click.echo(fmt.dimmed(shortest_path(entry.data)))


def row(entry: DatasetEntry) -> list[str]:
    """A line of the listing."""
    if entry.found is None:
        return [fmt.one_line(entry.name), str(entry.badge), fmt.one_line(entry.problem), *([fmt.MISSING] * 5)]
    told = entry.found
    badge = f"{entry.badge}, doubtful" if told.doubts else str(entry.badge)
    counts = [f"{told.episodes:,}", f"{told.steps:,}"]
    made = [fmt.size(told.bytes), fmt.moment(told.created_at)]
    mean = number(told.returns.get("mean"))
    return [entry.name, badge, fmt.one_line(told.env_id or fmt.MISSING), *counts, mean, *made]


HEADERS = ["NAME", "DATA", "ENVIRONMENT", "EPISODES", "STEPS", "RETURN", "SIZE", "MADE"]
RIGHT = frozenset({"EPISODES", "STEPS", "RETURN", "SIZE"})


def tell_all(entry: DatasetEntry, problem: str) -> None:
    """Everything that is known of a dataset."""
    told, source = entry.manifest, entry.manifest.source
    played = source.get("checkpoint")
    facts = [
        ("environment", told.env_id or fmt.MISSING),
        ("episodes", f"{told.episodes:,}, {fmt.counted(told.steps, 'step')}"),
        ("return", spread(told.returns)),
        *([("length", spread(told.lengths))] if told.lengths else []),
        *([("reward", spread(told.rewards))] if told.rewards else []),
        *([("observations", ranges(told.observations_seen))] if told.observations_seen else []),
        *([("actions", ranges(told.actions_seen))] if told.actions_seen else []),
        ("actors", actors(told.actors)),
        *(
            [("mix", ", ".join(f"{name} {share:.0%}" for name, share in told.policy_mix.items()))]
            * bool(told.policy_mix)
        ),
        *((word, str(source[key])) for key, word in _SOURCE_WORDS if source.get(key)),
        *([("made by", str(source.get("kind")))] if source.get("kind") in ("merge", "split", "collection") else []),
        *([("checkpoint", str(played.get("path") or played.get("id")))] if isinstance(played, dict) else []),
        ("references", references_line(told.references) if told.references else "none: `mosaic datasets references`"),
        ("left out", left_out(told.left_out) or "none"),
        ("spaces", _spaces(entry)),
        ("sha256", f"{told.sha256}, {problem or 'matches'}"),
        ("file", shortest_path(entry.data)),
    ]
    click.echo(entry.name)
    click.echo(fmt.pairs([(name, fmt.one_line(value)) for name, value in facts]))
    for doubt in told.doubts:
        click.echo(fmt.hanging(fmt.one_line(f"Doubtful: {doubt}.")))


_BAR = 40


def tell_inside(found: Inside) -> None:
    """What a look inside found, as text."""
    click.echo(found.name)
    for title, drawn in (("returns of episodes", found.returns), ("lengths of episodes", found.lengths)):
        click.echo(f"\n{title}")
        for line in _bars(drawn):
            click.echo(f"  {line}")
    click.echo("\nranges, and what the environment allows")
    ranged = [[one.name, _ends(one.low, one.high), _ends(one.least, one.most), _outside(one)] for one in _all(found)]
    click.echo(fmt.table(["COLUMN", "DATA", "ALLOWED", ""], ranged))
    if found.columns_left_out:
        click.echo(f"… and {fmt.counted(found.columns_left_out, 'column')}")
    click.echo("\nepisodes")
    headers = ["", "EPISODE", "RETURN", "STEPS", "END", "ACTORS"]
    lines = [
        [one.why, str(one.number), fmt.quantity(one.total), f"{one.length:,}", one.end, fmt.one_line(one.actors)]
        for one in found.samples
    ]
    click.echo(fmt.table(headers, lines, right=frozenset({"EPISODE", "RETURN", "STEPS"})))
    click.echo(f"\nepisode {found.episode}")
    rows = [
        [str(one.step), fmt.one_line(one.observation), fmt.one_line(one.action), number(one.reward), one.end]
        for one in found.rows
    ]
    click.echo(fmt.table(["STEP", "OBSERVATION", "ACTION", "REWARD", "END"], rows, right=frozenset({"STEP", "REWARD"})))
    if found.rows_left_out:
        click.echo(f"… and {fmt.counted(found.rows_left_out, 'step')}: --rows shows more")


def _all(found: Inside) -> Sequence[Range]:
    return [*found.observations, *found.actions]


def _bars(drawn: Histogram) -> list[str]:
    highest = max(drawn.counts) or 1
    labels = [fmt.quantity(edge) for edge in drawn.edges[:-1]]
    width = max(map(len, labels))
    return [
        f"{label:>{width}}  {'█' * -(-_BAR * count // highest)} {count:,}".rstrip()
        for label, count in zip(labels, drawn.counts, strict=True)
    ]


def _ends(low: float | None, high: float | None) -> str:
    return f"{number(low)} … {number(high)}" if (low, high) != (None, None) else "no bounds"


def _outside(one: Range) -> str:
    return "outside" if one.is_outside else ""


def as_object(entry: DatasetEntry) -> dict[str, Any]:
    """As JSON."""
    shared = {"name": entry.name, "path": str(entry.folder), "integrity": str(entry.badge)}
    if entry.found is None:
        return {**shared, "problem": entry.problem}
    kept = {key: value for key, value in entry.found.as_json().items() if key not in ("v", "name")}
    return {**shared, "problem": None, **kept}


def plain(found: References) -> dict[str, Any]:
    import msgspec

    told: dict[str, Any] = msgspec.to_builtins(found)
    return told


def references_line(found: References) -> str:
    whose = f"measured here over {fmt.counted(found.episodes, 'episode')}" if found.whose == "mosaic" else "D4RL's"
    return f"random {fmt.quantity(found.random)}, expert {fmt.quantity(found.expert)} ({whose})"


def spread(values: dict[str, float | None]) -> str:
    """Mean, range and quantiles in a line."""
    line = f"mean {number(values.get('mean'))}, {number(values.get('min'))} to {number(values.get('max'))}"
    if values.get("p50") is None:
        return line
    inner = f"{number(values.get('p25'))} · {number(values.get('p50'))} · {number(values.get('p75'))}"
    return f"{line}; quartiles {inner}"


def ranges(seen: Seen) -> str:
    """The range of each column, of the first ones where there are many."""
    columns = [f"{number(low)}…{number(high)}" for low, high in zip(seen.low, seen.high, strict=False)]
    more = f", … ({len(columns)} columns)" if len(columns) > _MOST_COLUMNS else ""
    return ", ".join(columns[:_MOST_COLUMNS]) + more


def number(value: float | None) -> str:
    return fmt.MISSING if value is None else fmt.quantity(value)


def actors(counts: dict[str, int]) -> str:
    return ", ".join(f"{fmt.one_line(actor or 'unknown actor')} {count:,}" for actor, count in counts.items())


def left_out(counts: dict[str, int]) -> str:
    return ", ".join(f"{fmt.counted(count, 'episode')} ({why})" for why, count in counts.items())


def _spaces(entry: DatasetEntry) -> str:
    origins = {entry.manifest.observation_space_from, entry.manifest.action_space_from}
    return "of the environment" if origins == {"environment"} else "as the data shows them"
