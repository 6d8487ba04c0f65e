"""``mosaic runs`` and ``mosaic show``: what there is, and what is known of one run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import Count, json_option, run_argument, run_filters
from gym_gui.cli.script_flags import show as show_flags
from gym_gui.cli.session import CliSession, program, run_id_for, shortest_path, warn_of_disk
from gym_gui.cli.summary import origin, products, tracking
from gym_gui.services.run_words import time_in_trash
from mosaic_protocol.headline import EPISODES_TAG, LENGTH_TAG, MEAN_RETURN, RECENT_EPISODES, RETURN_TAG
from mosaic_protocol.imported_runs import IMPORTED, source_of
from mosaic_protocol.settings_spelling import params_of
from mosaic_protocol.states import RunState

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

_MOST_PER_CALL = 1000


@dataclass(frozen=True)
class _Listing:
    """Which runs to list."""

    outcomes: tuple[str, ...]
    search: str
    deleted: bool
    where: str = ""

    @property
    def is_filtered(self) -> bool:
        return bool(self.outcomes or self.search or self.where)

    def pages(self, client: TrainerClient, size: int) -> Iterator[pb.ListRunsResponse]:
        """Page after page, newest runs first."""
        token = ""
        while True:
            page = client.runs(
                size=size,
                token=token,
                outcomes=self.outcomes,
                search=self.search,
                include_deleted=self.deleted,
                where=self.where,
            )
            yield page
            token = page.next_page_token
            if not token:
                return


@click.command()
@run_filters
@click.option("--limit", type=Count(), default=20, show_default=True, help="Runs on a page.")
@click.option("--page", type=Count(), default=1, show_default=True, help="Which page.")
@click.option("--all", "everything", is_flag=True, help="Every run instead of a page.")
@click.option("--deleted", is_flag=True, help="List runs in the trash as well.")
@click.option("--watch", "watching", is_flag=True, help="Keep the list up to date on the terminal until Ctrl-C.")
@json_option
@click.pass_obj
def runs(
    session: CliSession,
    states: Sequence[tuple[str, ...]],
    outcomes: Sequence[tuple[str, ...]],
    search: str,
    where: str,
    limit: int,
    page: int,
    everything: bool,
    deleted: bool,
    watching: bool,
    as_json: bool,
) -> None:
    """List runs, newest first.

    The first column is the end of each id; it is enough to name a run anywhere. RETURN is the mean of the last 100
    episodes.

    --where takes fields (algo, env, tag, group, seed, state, return, steps, age…) and any setting by its name, with
    = != < <= > >= or ~ (contains), * and ? in values, commas for "or", and blanks for "and".
    """
    _require_understood(where)
    # A word such as "playing" is more than a state of the protocol; filters know all of them.
    of_state = f" state={','.join(sum(states, ()))}" if states else ""
    listing = _Listing(sum(outcomes, ()), search, deleted, where + of_state)
    if watching:
        if everything or as_json or not fmt.is_terminal():
            raise click.UsageError("--watch draws one page on a terminal: leave out --all and --json, and any pipe")
        _watch(session, listing, limit, page)
        return
    with session.client() as client:
        if everything:
            found = _everything(listing, client)
        else:
            found = _one_page(listing, client, min(limit, _MOST_PER_CALL), page)
        if not as_json:
            warn_of_disk(client)
    if as_json:
        fmt.echo_json({"runs": [run_view.run_object(run) for run in found.runs], "total": found.total})
    else:
        click.echo(_listing_text(found, listing, page))


def _require_understood(where: str) -> None:
    """Before a daemon is started for it. Whether runs have a setting of that name only the daemon knows."""
    from gym_gui.services.run_filter import FilterError, parse

    try:
        parse(where)
    except FilterError as error:
        raise CliError(f"--where: {error}", ExitCode.REFUSED) from error


def _watch(session: CliSession, listing: _Listing, limit: int, page: int) -> None:
    from gym_gui.cli.watch import Watch

    def picture(client: TrainerClient, room: int) -> str:
        most = max(1, room - 3)  # beside the line on top, the headings and the line below
        found = _one_page(listing, client, min(limit, most), page)
        return f"{_situation(client.health())}\n{_listing_text(found, listing, page)}"

    with session.client():  # starts the daemon when none runs; afterwards one that leaves is waited for
        pass
    Watch(session, picture).until_interrupted()


def _situation(health: pb.Health) -> str:
    """What the machine is doing, in a line."""
    parts = [f"{health.live} live, {health.queued} queued"]
    for name, reserved, there in (
        ("CPU", health.reserved.cpus, health.capacity.cpus),
        ("GPU", health.reserved.gpus, health.capacity.gpus),
    ):
        if there:
            parts.append(f"{reserved} of {fmt.counted(there, name)} reserved")
    if health.interactive_reserved:
        parts.append(f"{health.interactive_reserved} of {health.interactive_cpus} for sessions")
    nearly = ", which is nearly full" if health.disk_warning else ""
    parts.append(f"{fmt.size(health.disk_free_bytes)} free of the disk{nearly}")
    return "; ".join(parts)


@dataclass(frozen=True)
class _Found:
    """What a listing led to."""

    runs: Sequence[pb.Run]
    total: int
    has_more: bool = False


def _everything(listing: _Listing, client: TrainerClient) -> _Found:
    pages = list(listing.pages(client, _MOST_PER_CALL))
    return _Found([run for page in pages for run in page.runs], pages[0].total)


def _one_page(listing: _Listing, client: TrainerClient, size: int, number: int) -> _Found:
    total = 0
    for index, page in enumerate(listing.pages(client, size), start=1):
        total = page.total
        if index == number:
            return _Found(page.runs, total, bool(page.next_page_token))
    return _Found([], total)


def _listing_text(found: _Found, listing: _Listing, page: int) -> str:
    if not found.runs:
        return _nothing_to_list(found.total, listing)
    headers = ["ID", "NAME", "STATE", "STEPS", "RETURN", "TRAINED", "SUBMITTED"]
    rows = [_row(run) for run in found.runs]
    right = frozenset({"STEPS", "RETURN", "TRAINED"})
    short = [run_view.short_steps_text(run) for run in found.runs]
    shares = [run_view.share_text(run) for run in found.runs]
    shorter: list[fmt.Shorter] = [("STEPS", short), ("STEPS", shares), ("TRAINED", None)]
    text = fmt.table(headers, rows, right=right, shorter=shorter, give_way="NAME", in_the_middle=True)
    if len(found.runs) == found.total:
        return text
    more = f"; --page {page + 1} shows more, --all everything" if found.has_more else ""
    return text + "\n" + fmt.dimmed(f"{len(found.runs)} of {fmt.counted(found.total, 'run')}{more}")


def _nothing_to_list(total: int, listing: _Listing) -> str:
    if total:
        return f"There are no runs on this page; {fmt.counted(total, 'run')} on earlier ones."
    if listing.is_filtered:
        return f"No run is like that. `{program()} runs` lists them all."
    return f"No runs yet. Start one: {program()} train ppo --env-id CartPole-v1 --total-timesteps 50000"


def _row(run: pb.Run) -> list[str]:
    mean = run.headline.get(MEAN_RETURN)
    return [
        run_view.short_id(run.run_id),
        fmt.one_line(run.name),
        _state_with_place(run),
        run_view.steps_text(run),
        fmt.MISSING if mean is None else fmt.quantity(mean),
        fmt.duration(run.active_seconds) if run.active_seconds else fmt.MISSING,
        fmt.ago(run.created_at),
    ]


def _state_with_place(run: pb.Run) -> str:
    word = run_view.state_word(run)
    if run.deleted:
        return f"{word} (deleted, {time_in_trash(run)})"
    if run.host_away:
        return f"{word} (host unreachable)"
    if run.throttled:
        return f"{word} (throttled)"
    if run.state == RunState.HSHK and run.reason.startswith("waits"):
        return f"{word} ({fmt.one_line(run.reason).partition(':')[0]})"
    return f"{word} ({fmt.ordinal(run.queue_position)})" if run.queue_position else word


# ---- one run -----------------------------------------------------------------------------------------------------


@click.command()
@run_argument
@click.option("--history", is_flag=True, help="Also every transition of the run.")
@click.option("--config", "only_config", is_flag=True, help="Only its run config, as `mosaic submit` takes it.")
@json_option
@click.pass_obj
def show(session: CliSession, run: str, history: bool, only_config: bool, as_json: bool) -> None:
    """Show everything that is known of a run."""
    with session.client() as client:
        found = client.run(run_id_for(client, run))
        moves = client.history(found.run_id) if history else []
        copied = _copied_runs(client, session, found)
    if only_config:
        fmt.echo_json(json.loads(found.config_json))
        return
    if as_json:
        told = {"history": [_move_object(move) for move in moves]} if history else {}
        fmt.echo_json({**run_view.run_object(found), **told})
        return
    click.echo(f"{run_view.called(found)} {fmt.painted(run_view.state_word(found))}")
    click.echo(fmt.pairs([entry for entry in _facts(found, copied) if entry[1] not in ("", fmt.MISSING)]))
    if history:
        click.echo()
        click.echo(_history_table(moves))


def _copied_runs(client: TrainerClient, session: CliSession, run: pb.Run) -> str:
    """The runs whose recorded steps this one began with."""
    from gym_gui.services.beginnings import begun_with, run_copied
    from gym_gui.services.trainer.client import NoSuchRunError

    found = []
    for copy in begun_with(session.paths, run.config_json):
        run_id = run_copied(session.paths, copy)
        try:
            found.append(run_view.called(client.run(run_id)))
        except NoSuchRunError:
            found.append(f"{run_view.short_id(run_id)}, which is gone")
    return fmt.one_line("; ".join(found))


def _facts(run: pb.Run, copied: str) -> list[tuple[str, str]]:
    config = json.loads(run.config_json)
    settings = config["metadata"]["worker"]["config"]
    imported = run.worker_type == IMPORTED
    undo = f"{time_in_trash(run)}; `{program()} restore {run_view.short_id(run.run_id)}` brings it back"
    return [
        ("id", run.run_id),
        ("why", fmt.one_line(run.reason)),
        ("throttled", fmt.one_line(run.throttled)),
        ("host", fmt.one_line(run.host)),
        ("host unreachable", fmt.one_line(run.host_away)),
        ("in the trash", undo if run.deleted else ""),
        ("queue", f"{fmt.ordinal(run.queue_position)} in line" if run.queue_position else ""),
        ("algorithm", fmt.one_line(run.algo if imported else f"{run.algo} ({run.worker_type} worker)")),
        ("environment", fmt.one_line(run.env_id)),
        ("dataset", fmt.one_line(run.dataset)),
        ("seed", str(run.seed) if run.HasField("seed") else ""),
        ("script flags", fmt.one_line(show_flags(params_of(settings)))),
        ("steps", run_view.steps_text(run)),
        *_headline(run),
        ("imported" if imported else "submitted", fmt.moment(run.created_at)),
        ("started", fmt.moment(run.started_at)),
        ("ended", fmt.moment(run.ended_at)),
        ("trained", fmt.duration(run.active_seconds) if run.active_seconds else ""),
        ("time limit", _time_limit(config)),
        ("reserved", run_view.resources_text(run.reserved) if run.reserved.cpus else ""),
        ("process", f"{run.pid}, {run.start_mode} start, attempt {run.attempt}" if run.pid else ""),
        ("tags", ", ".join(map(fmt.one_line, run.tags))),
        ("group", fmt.one_line(run.group)),
        ("sweep", fmt.one_line(run.sweep)),
        ("preset", fmt.one_line(config["metadata"].get("preset") or "")),
        ("goes on from", run_view.short_id(run.parent) if run.parent else ""),
        ("reproduces", run_view.short_id(config["metadata"].get("reproduces") or "")),
        ("begins with", f"recorded steps of {copied}" if copied else ""),
        ("notes", _lines(config["metadata"].get("notes", ""))),
        *([] if imported else origin(run)),
        *products(run),
        ("W&B", tracking(run)),
        ("files", shlex.quote(shortest_path(Path(source_of(settings) or run.run_dir)))),
        ("logs", "" if imported else shlex.quote(shortest_path(Path(run.log_dir)))),
    ]


_OF_MEAN = f" (last {RECENT_EPISODES} episodes)"


def _headline(run: pb.Run) -> list[tuple[str, str]]:
    """The numbers by which a run is judged; of returns it is said of which episodes."""
    newest = " (mean of the newest episodes)" if EPISODES_TAG in run.headline else " (last episode)"
    of_what = {MEAN_RETURN: _OF_MEAN, RETURN_TAG: newest, LENGTH_TAG: newest}

    def entry(tag: str) -> tuple[str, str]:
        return tag.rpartition("/")[2].replace("_", " "), fmt.quantity(run.headline[tag]) + of_what.get(tag, "")

    return [entry(tag) for tag in sorted(run.headline)]


def _time_limit(config: dict[str, Any]) -> str:
    minutes = (config.get("schedule") or {}).get("max_wallclock_minutes")
    return fmt.duration(minutes * 60) if minutes else ""


def _lines(text: str) -> str:
    return "\n".join(fmt.one_line(line) for line in text.splitlines())


def _history_table(moves: Sequence[pb.RunTransition]) -> str:
    rows = [
        [fmt.moment(move.wall_time).partition(" (")[0], _move(move), move.cause, fmt.one_line(move.detail)]
        for move in moves
    ]
    return fmt.table(["WHEN", "STATE", "CAUSE", "DETAIL"], rows, give_way="DETAIL")


def _move(move: pb.RunTransition) -> str:
    return move.to_state if move.from_state == move.to_state else f"{move.from_state} → {move.to_state}"


def _move_object(move: pb.RunTransition) -> dict[str, Any]:
    return {
        "revision": move.revision,
        "at": move.wall_time,
        "from": RunState(move.from_state),
        "to": RunState(move.to_state),
        "cause": move.cause,
        "detail": move.detail,
        "reserved": run_view.resources_object(move.reserved),
    }
