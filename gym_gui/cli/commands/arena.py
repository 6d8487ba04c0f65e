"""``mosaic arena``: people, plans, networks and chance on the same seeds of one environment."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import candidates, out_file
from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode, translated
from gym_gui.cli.options import Count, PlainGroup, help_when_alone, json_option
from gym_gui.cli.session import CliSession, program, run_id_for

if TYPE_CHECKING:
    from gym_gui.services.arena.contest import Progress
    from gym_gui.services.arena.entries import Finder
    from gym_gui.services.arena.film import Film
    from gym_gui.services.arena.model import Arena
    from gym_gui.services.arena.standings import Standings
    from gym_gui.services.recorded_steps import StepSource
    from mosaic_protocol.proto import trainer_pb2 as pb

_JOIN_SECONDS = 0.2


class _ArenaGroup(PlainGroup):
    """A group that begins an arena when options of one come first."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {"-h", "--help"}
        if args and args[0].startswith("-") and args[0] not in own:
            args = ["start", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ArenaGroup, invoke_without_command=True)
@click.pass_context
def arena(ctx: click.Context) -> None:
    """Let different players meet on the same seeds.

    `mosaic arena --env-id FrozenLake-v1 --seeds 0-99 optimal random last@best` begins one; an entry is a checkpoint of
    any worker, the recorded steps of a run such as a person's session (steps:RUN), random or optimal. NAME=ENTRY gives
    it a name. The same command again goes on where it was interrupted.
    """
    help_when_alone(ctx)


arena_argument = click.argument("arena", metavar="ARENA", shell_complete=candidates.arenas)
arena_or_newest = click.argument("arena", metavar="[ARENA]", required=False, shell_complete=candidates.arenas)
entries_argument = click.argument("entries", metavar="ENTRY...", nargs=-1, shell_complete=candidates.checkpoints)
jobs_option = click.option(
    "--jobs", type=Count(1, 64), help="Entries that play side by side.  [default: one a core, at most 4]"
)
_OUT_HELP = "Also write the report: .html (to mail), .csv or .json."
FORMATS = (".html", ".csv", ".json")


@arena.command(options_metavar="--env-id E [OPTIONS]")
@click.option(
    "--env-id", metavar="E", required=True, help="The environment of all.", shell_complete=candidates.environments
)
@click.option("--env-kwargs", metavar="JSON", help="What it is made with: '{\"is_slippery\": false}'.")
@click.option("--seeds", metavar="S", help="Seeds of the episodes: 0-99 or 3,5,8.  [default: as many as --episodes]")
@click.option("--episodes", type=Count(1, 10_000), help="How many, with the seeds from 0 on.  [default: 100]")
@click.option("--name", metavar="NAME", help="What to call the arena.  [default: after environment and seeds]")
@jobs_option
@json_option
@out_file.out_option(_OUT_HELP)
@out_file.force_option
@out_file.open_option
@entries_argument
@click.pass_obj
def start(
    session: CliSession,
    env_id: str,
    env_kwargs: str | None,
    seeds: str | None,
    episodes: int | None,
    name: str | None,
    jobs: int | None,
    as_json: bool,
    out: Path | None,
    force: bool,
    opens: bool,
    entries: Sequence[str],
) -> int:
    """Begin an arena, or go on with it.

    Every entry plays the same seeds; every episode is recorded, simulated again and compared. What was played is never
    played again. Needs the daemon only for runs that take part by their steps.
    """
    out_file.require_numpy("arenas")
    from gym_gui.services.arena.seeds import chosen_seeds
    from gym_gui.services.arena.service import Wanted, begun

    if out is not None:
        out_file.require_place(out, FORMATS, force=force)
    wanted = Wanted(env_id, tuple(chosen_seeds(seeds, episodes)), _kwargs(env_kwargs), entries, name or "")
    found = begun(session.paths, wanted, _finder(session))
    return _play(session, found, jobs, as_json=as_json, out=out, opens=opens)


@arena.command()
@arena_argument
@entries_argument
@jobs_option
@json_option
@out_file.out_option(_OUT_HELP)
@out_file.force_option
@out_file.open_option
@click.pass_obj
def add(
    session: CliSession,
    arena: str,
    entries: Sequence[str],
    jobs: int | None,
    as_json: bool,
    out: Path | None,
    force: bool,
    opens: bool,
) -> int:
    """Let more entries play, and go on with those that were interrupted.

    Nobody plays an episode twice. Without an entry it only goes on.
    """
    out_file.require_numpy("arenas")
    from gym_gui.services.arena.service import extended

    if out is not None:
        out_file.require_place(out, FORMATS, force=force)
    found = extended(session.paths, arena, entries, _finder(session))
    return _play(session, found, jobs, as_json=as_json, out=out, opens=opens)


@arena.command()
@arena_argument
@click.argument("entry", metavar="ENTRY")
@json_option
@click.pass_obj
def remove(session: CliSession, arena: str, entry: str, as_json: bool) -> int:
    """Take an entry out of an arena, with everything that it played there."""
    from gym_gui.services.arena.store import ArenaStore

    removed = ArenaStore(session.paths).remove(arena, entry)
    if as_json:
        fmt.echo_json({"arena": arena, "removed": removed.key, "label": removed.label})
    else:
        click.echo(f"{fmt.one_line(removed.label)} is out of the arena {arena}.")
    return ExitCode.OK


@arena.command()
@arena_or_newest
@click.option(
    "--by", type=click.Choice(["return", "steps", "gap"]), default="return", show_default=True, help="Measure."
)
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print every episode.")
@click.option(
    "--seed",
    type=Count(0, 2**31 - 1),
    help="Which seed a .html report plays side by side.  [default: the one that shows most]",
)
@out_file.out_option(_OUT_HELP)
@out_file.force_option
@out_file.open_option
@click.pass_obj
def show(
    session: CliSession,
    arena: str | None,
    by: str,
    as_json: bool,
    as_csv: bool,
    seed: int | None,
    out: Path | None,
    force: bool,
    opens: bool,
) -> int:
    """Show how an arena stands; without a name the newest.

    IQM is the mean of the middle half of the seeds, intervals are 95 % of a bootstrap over seeds. Who beats whom is
    counted seed by seed, a draw as half. gap: what is missing to the optimal entry's return on the same seed.
    """
    out_file.require_numpy("arenas")
    from gym_gui.services.arena import report
    from gym_gui.services.arena.service import read_standings
    from gym_gui.services.arena.standings import Measure

    if out is not None:
        out_file.require_place(out, FORMATS, force=force)
    found = read_standings(session.paths, arena or _newest(session), Measure(by))
    _write(session, found, out, opens=opens, quiet=as_json or as_csv, seed=seed)
    if as_json:
        fmt.echo_json(report.as_object(found))
    elif as_csv:
        click.echo(report.csv_text(found), nl=False)
    else:
        click.echo(text_of(found))
    return ExitCode.OK


@arena.command(name="list")
@json_option
@click.pass_obj
def list_(session: CliSession, as_json: bool) -> int:
    """List the arenas, newest first."""
    out_file.require_numpy("arenas")
    from gym_gui.services.arena.seeds import shown_seeds
    from gym_gui.services.arena.service import read_all
    from gym_gui.services.arena.store import ArenaStore

    rows = []
    for one in ArenaStore(session.paths).all():
        played = sum(len(found.results) for found in read_all(session.paths, one).values())
        rows.append((one, played, len(one.seeds) * len(one.entries)))
    if as_json:
        listed = [
            {
                "name": one.name,
                "env_id": one.env_id,
                "seeds": list(one.seeds),
                "entries": [entry.label for entry in one.entries],
                "played": played,
                "wanted": wanted,
                "created": one.created,
            }
            for one, played, wanted in rows
        ]
        fmt.echo_json({"arenas": listed})
    elif not rows:
        click.echo(f"There are no arenas yet: `{program()} arena --help` says how to begin one.")
    else:
        lines = [
            [one.name, one.env_id, shown_seeds(one.seeds), f"{played:,} of {wanted:,}", fmt.moment(one.created)]
            for one, played, wanted in rows
        ]
        click.echo(fmt.table(["NAME", "ENVIRONMENT", "SEEDS", "PLAYED", "BEGUN"], lines, give_way="SEEDS"))
    return ExitCode.OK


# ---- what commands share -----------------------------------------------------------------------------------------


def _kwargs(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        sentence = f'--env-kwargs must be a JSON object such as {{"is_slippery": false}}, got {text[:60]!r}'
        raise CliError(sentence, ExitCode.REFUSED)
    return found


def _newest(session: CliSession) -> str:
    from gym_gui.services.arena.store import ArenaStore

    found = ArenaStore(session.paths).names()
    if not found:
        sentence = f"there are no arenas yet: `{program()} arena --help` says how to begin one"
        raise CliError(sentence, ExitCode.REFUSED)
    return found[0]


def _finder(session: CliSession) -> Finder:
    from gym_gui.services.arena.entries import Finder

    def run(word: str) -> pb.Run:
        with session.client() as client:
            return client.run(run_id_for(client, word))

    return Finder(session.paths, run)


def _source_of(session: CliSession, run_id: str) -> StepSource:
    """Steps that are read over a connection of their own each time."""
    from gym_gui.services.arena.errors import ArenaError
    from gym_gui.services.replay.catalog import source_of_run

    try:
        with session.client() as client:
            return source_of_run(session.paths, client.run(run_id))
    except Exception as error:
        known = translated(error)
        if known is None:
            raise
        raise ArenaError(str(known)) from error


def _play(session: CliSession, found: Arena, jobs: int | None, *, as_json: bool, out: Path | None, opens: bool) -> int:
    """Play what is missing, then report; exit code 1 where an entry could not play."""
    from gym_gui.services.arena import report
    from gym_gui.services.arena.contest import Contest
    from gym_gui.services.arena.service import read_standings
    from gym_gui.services.arena.store import ArenaStore

    watcher = _Watcher(found, quiet=as_json)
    store = ArenaStore(session.paths)
    contest = Contest(store, found.name, lambda run_id: _source_of(session, run_id), watcher.take)
    interrupted = _until_done(contest.run, contest.stop, jobs)
    watcher.clear()
    standings = read_standings(session.paths, found.name)
    _write(session, standings, out, opens=opens, quiet=as_json)
    if as_json:
        fmt.echo_json(report.as_object(standings))
    else:
        click.echo(text_of(standings))
        if interrupted:
            click.echo(f"Interrupted: `{program()} arena add {found.name}` goes on.")
    if interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.FAILED if any(one.entry.problem for one in standings.standings) else ExitCode.OK


def _until_done(run: Any, stop: Any, jobs: int | None) -> bool:
    """In a thread of its own, so that Ctrl-C is heard; whether it was. A second one does not wait."""
    failed: list[BaseException] = []

    def work() -> None:
        try:
            run(jobs)
        except BaseException as error:  # noqa: BLE001 - raised again where somebody hears it
            failed.append(error)

    thread = threading.Thread(target=work, name="arena", daemon=True)
    thread.start()
    interrupted = False
    while thread.is_alive():
        try:
            thread.join(_JOIN_SECONDS)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            stop()
    if failed:
        raise failed[0]
    return interrupted


def _write(
    session: CliSession, found: Standings, out: Path | None, *, opens: bool, quiet: bool, seed: int | None = None
) -> None:
    if seed is not None and (out is None or out.suffix.lower() != ".html"):
        raise CliError("--seed says what a report plays: give --out FILE.html with it", ExitCode.REFUSED)
    if out is None:
        return
    from gym_gui.services.arena.files import content

    film = _film(session, found, seed, quiet=quiet) if out.suffix.lower() == ".html" else None
    out_file.put(out, content(found, out, out_file.command_line(), film), opens=opens, quiet=quiet)


def _film(session: CliSession, found: Standings, seed: int | None, *, quiet: bool) -> Film | None:
    from gym_gui.services.arena.film import film_of, telling_seed

    chosen = telling_seed(found) if seed is None else seed
    if seed is not None and not any(seed in one.played.results for one in found.standings):
        raise CliError(f"--seed {seed}: nobody played it in {found.arena.name}", ExitCode.REFUSED)
    if chosen is None:
        return None
    if not quiet and sys.stderr.isatty():
        click.echo(f"Taking the pictures of seed {chosen}…", err=True)
    return film_of(found, chosen, session.paths)


class _Watcher:
    """One line on a terminal that says how far all entries are. Called in several threads."""

    def __init__(self, found: Arena, *, quiet: bool) -> None:
        self._labels = {one.key: one.label for one in found.entries}
        self._shows = not quiet and sys.stderr.isatty()
        self._lock = threading.Lock()
        self._at: dict[str, Progress] = {}

    def take(self, progress: Progress) -> None:
        with self._lock:
            self._at[progress.key] = progress
            if self._shows:
                words = [
                    f"{self._labels.get(one.key, one.key)} {one.played}/{one.total}"
                    + (f" ✓{one.verified}" if one.verified else "")
                    for one in self._at.values()
                ]
                sys.stderr.write(f"\r{fmt.cut('  '.join(words), fmt.terminal_width() - 1)}\x1b[K")
                sys.stderr.flush()

    def clear(self) -> None:
        if self._shows:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


# ---- what is shown -----------------------------------------------------------------------------------------------


def text_of(found: Standings) -> str:
    """The standings, who beats whom, and what weakens it."""
    from gym_gui.services.arena.report import finding
    from gym_gui.services.arena.seeds import shown_seeds

    arena = found.arena
    head = f"{arena.name}: {arena.env_id}, seeds {shown_seeds(arena.seeds)}, {_BY[found.measure]}"
    parts = [f"{fmt.cut(fmt.one_line(head), 200)}\n{_table(found)}", fmt.hanging(fmt.one_line(finding(found)))]
    if len(found.standings) > 1 and found.improvements:
        parts.append(_improvements(found))
    if found.notes:
        parts.append("\n".join(fmt.hanging(f"Note: {fmt.one_line(note)}") for note in found.notes))
    return "\n\n".join(parts)


_BY = {
    "return": "return of an episode",
    "steps": "steps of an episode",
    "gap": "what is missing to the optimal return on the same seed",
}


def _table(found: Standings) -> str:
    from gym_gui.services.arena.report import MISSING, shown_estimate, shown_price, shown_seconds

    total = len(found.arena.seeds)
    rows = [
        [
            fmt.one_line(one.entry.label),
            shown_estimate(one),
            shown_estimate(one, "mean"),
            MISSING if one.mean_steps is None else fmt.quantity(one.mean_steps),
            shown_seconds(one.cost.seconds),
            shown_seconds(one.cost.cpu_seconds),
            shown_price(one.cost, is_person=one.is_person),
            f"{len(one.played.results)}/{total}",
            f"{one.played.verified}/{len(one.played.results)}",
        ]
        for one in found.standings
    ]
    headers = ["ENTRY", "IQM", "MEAN", "STEPS", "TIME", "CPU", "PRICE", "PLAYED", "VERIFIED"]
    right = frozenset({"STEPS", "TIME", "CPU", "PLAYED", "VERIFIED"})
    return fmt.table(headers, rows, right=right, give_way="ENTRY")


def _improvements(found: Standings) -> str:
    from gym_gui.services.compare.report import interval

    labels = {one.entry.key: one.entry.label for one in found.standings}
    order = [one.entry.key for one in found.standings]
    rows = [
        [fmt.one_line(labels[one]), fmt.one_line(labels[other]), interval(chance)]
        for (one, other), chance in found.improvements.items()
        if order.index(one) < order.index(other)
    ]
    return fmt.table(["ON THE SAME SEED", "DOES BETTER THAN", "WITH PROBABILITY"], rows, give_way="ON THE SAME SEED")
