"""``mosaic steps`` and ``mosaic episodes``: what was recorded of a run, as a table, as CSV, as lines of JSON or as a
Parquet file."""

from __future__ import annotations

import csv
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import Count, run_argument
from gym_gui.cli.script_choice import workers_here
from gym_gui.cli.session import CliSession, program, run_id_for

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.events import EpisodeSummary, TrainingStep
    from mosaic_protocol.proto import trainer_pb2 as pb
    from mosaic_protocol.steps.recordings import Recording

_SHOWN = 20
_NUMBERS_SHOWN = 6
_STEP_HEAD = "     STEP  EPISODE         WHO, OBSERVATION → ACTION  REWARD, VALUE, END"
_STEP_FIELDS = (
    *("step", "episode", "agent_id", "actor", "observation", "action", "reward"),
    *("terminated", "truncated", "value", "final_observation", "info"),
)
_EPISODE_FIELDS = ("episode", "agent_id", "length", "total_reward", "outcome", "seed", "first_step", "ended_at")

_lines_option = click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each.")
_csv_option = click.option("--csv", "as_csv", is_flag=True, help="Print CSV; what is not one number is JSON in a cell.")
_follow_option = click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until the run is over.")


@click.command()
@run_argument
@click.option("--tail", type=Count(), help="The last N.  [default: 20; all with --csv, --json and --parquet]")
@click.option("--episode", type=Count(least=0), help="Those of one episode, by its number.")
@click.option("--from", "first", type=Count(least=0, most=2**62), help="From this step on; the first one is 0.")
@_follow_option
@_csv_option
@_lines_option
@click.option(
    "--parquet",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a Parquet file; needs pyarrow.",
)
@click.pass_obj
def steps(
    session: CliSession,
    run: str,
    tail: int | None,
    episode: int | None,
    first: int | None,
    follow: bool,
    as_csv: bool,
    as_json: bool,
    parquet: Path | None,
) -> None:
    """Show the recorded steps of a run.

    Each with who acted, what was seen before the action, and what came of it. Runs record steps when their worker
    does; CleanRL runs do not. RUN may also be the folder that `mosaic eval --record` names.
    """
    _require_one("--csv, --json and --parquet", as_csv, as_json, parquet)
    _require_one("--tail, --episode and --from", tail, episode is not None, first is not None)
    _require_one("--parquet and --follow", parquet, follow)
    everything = as_csv or as_json or parquet or episode is not None or first is not None
    if folder := _folder(run):
        kept = _last(_steps_in(folder, episode, first or 0), None if everything and not tail else tail or _SHOWN)
        if (one := next(kept, None)) is None:
            which = "steps" if episode is None else f"episode {episode}"
            raise CliError(f"{folder.folder.name} has no recorded {which}", ExitCode.REFUSED)
        _write_steps(_each([one], kept), as_csv, as_json, parquet, is_stream=first is not None)
        return
    with session.client() as client:
        found = client.run(run_id_for(client, run))
        session.tell_cuts()
        wanted = 0 if everything and not tail else tail or _SHOWN
        recorded = client.steps(found.run_id, first_step=first or 0, tail=wanted, episode=episode, follow=follow)
        beginning = list(islice(recorded, 1))
        if not beginning:
            _say_none(client, found, episode, "steps")
            return
        is_stream = follow or first is not None
        _write_steps(_each(beginning, recorded), as_csv, as_json, parquet, is_stream=is_stream)
        _say_missing(client, found)


@click.command()
@run_argument
@click.option("--tail", type=Count(), help="The last N.  [default: 20; everything with --csv or --json]")
@_follow_option
@_csv_option
@_lines_option
@click.pass_obj
def episodes(session: CliSession, run: str, tail: int | None, follow: bool, as_csv: bool, as_json: bool) -> None:
    """Show the recorded episodes of a run.

    RUN may also be the folder that `mosaic eval --record` names.
    """
    _require_one("--csv and --json", as_csv, as_json)
    if folder := _folder(run):
        kept = _last(iter(folder.episodes()), None if (as_csv or as_json) and not tail else tail or _SHOWN)
        _write(kept, _EPISODE_FIELDS, _episode_object, _episode_line, as_csv, as_json)
        return
    with session.client() as client:
        found = client.run(run_id_for(client, run))
        session.tell_cuts()
        wanted = 0 if (as_csv or as_json) and not tail else tail or _SHOWN
        recorded = client.episodes(found.run_id, tail=wanted, follow=follow)
        beginning = list(islice(recorded, 1))
        if not beginning:
            _say_none(client, found, None, "episodes")
            return
        _write(_each(beginning, recorded), _EPISODE_FIELDS, _episode_object, _episode_line, as_csv, as_json)
        _say_missing(client, found)


def _folder(word: str) -> Recording | None:
    """The recording that is named by its folder."""
    from gym_gui.services.recorded_steps import folder_meant
    from mosaic_protocol.steps.recordings import Recording

    folder = folder_meant(word)
    return Recording.at(folder) if folder is not None else None


def _steps_in(recording: Recording, episode: int | None, first: int) -> Iterator[TrainingStep]:
    from gym_gui.services.trainer.client import steps_of

    for record in recording.chunks(episode):
        yield from steps_of(record, first, episode)


def _last(records: Iterator[Any], count: int | None) -> Iterator[Any]:
    return records if count is None else iter(deque(records, maxlen=count))


def _require_one(names: str, *given: object) -> None:
    if sum(map(bool, given)) > 1:
        raise click.UsageError(f"choose one of {names}")


def _each(beginning: list[Any], rest: Iterator[Any]) -> Iterator[Any]:
    yield from beginning
    yield from rest


def _say_none(client: TrainerClient, run: pb.Run, episode: int | None, what: str) -> None:
    if episode is not None and next(client.steps(run.run_id, tail=1), None) is not None:
        totals = client.step_totals(run.run_id)
        gone = f" any more: it keeps its last {totals.kept_last:,} steps" if totals.trimmed else ""
        raise CliError(f"{run_view.called(run)} has no recorded episode {episode}{gone}", ExitCode.REFUSED)
    click.echo(f"{run_view.called(run)} {_why_none(client, run, what)}.", err=True)


def _why_none(client: TrainerClient, run: pb.Run, what: str) -> str:
    short = run_view.short_id(run.run_id)
    if what == "episodes" and (last := next(client.steps(run.run_id, tail=1), None)) is not None:
        how = f"`{program()} replay {short} --episode {last.episode}` replays it all the same"
        return f"has no episode that ended; episode {last.episode} did not, and {how}"
    worker = workers_here().workers.get(run.worker_type)
    if worker is not None and worker.lane == "analytics":
        how = f"`{program()} eval {short} --record` records episodes of its checkpoint"
        return f"has no recorded {what}: the worker {worker.type} is not one that records them; {how}"
    return f"has no recorded {what}{'' if run_view.is_over(run) else ' yet'}"


def _say_missing(client: TrainerClient, run: pb.Run) -> None:
    """What is not there, on stderr: nobody should take a part for the whole."""
    totals = client.step_totals(run.run_id)
    if totals.trimmed:
        click.echo(
            f"mosaic: the first {totals.trimmed:,} of {totals.steps:,} steps were removed: "
            f"{run_view.called(run)} keeps its last {totals.kept_last:,}",
            err=True,
        )
    if totals.damaged:
        click.echo(f"mosaic: {totals.damaged:,} of {totals.steps:,} steps were lost on the way", err=True)


def _write_steps(
    steps: Iterator[TrainingStep], as_csv: bool, as_json: bool, parquet: Path | None, *, is_stream: bool
) -> None:
    """``is_stream``: there may be more steps than can be kept, or they are still to come. Then no line can know that a
    later step undoes it."""
    if parquet is None:
        is_table = not (as_csv or as_json)
        if is_table and sys.stdout.isatty():
            click.echo(fmt.dimmed(_STEP_HEAD))
        kept = [] if is_stream or not is_table else list(steps)
        gone = undone(kept)
        line = lambda step: _step_line(step, is_undone=step.step in gone)  # noqa: E731
        _write(iter(kept) if kept else steps, _STEP_FIELDS, _step_object, line, as_csv, as_json)
        return
    from gym_gui.services.parquet_file import TableError
    from gym_gui.services.step_table import write_parquet

    try:
        count = write_parquet(steps, parquet)
    except TableError as error:
        raise CliError(str(error), ExitCode.REFUSED) from error
    click.echo(f"{fmt.counted(count, 'step')} written to {parquet}")


def undone(steps: Iterable[TrainingStep]) -> set[int]:
    """The numbers of those that a later one of them undid."""
    from mosaic_protocol.steps.chunk import undone_steps

    gone: set[int] = set()
    lines: dict[tuple[str, int], list[int]] = {}
    for step in steps:
        line = lines.setdefault((step.agent_id, step.episode), [])
        if count := undone_steps(step.info):
            gone.update(line[-count:])
            del line[-count:]
        line.append(step.step)
    return gone


def _write(
    records: Iterator[Any], fields: tuple[str, ...], as_object: Any, as_line: Any, as_csv: bool, as_json: bool
) -> None:
    """One record after the other, as it comes: there may be millions."""
    if as_json:
        import msgspec

        for record in records:
            click.echo(msgspec.json.encode(as_object(record), enc_hook=_plain))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(fields)
        writer.writerows([_cell(value) for value in as_object(record).values()] for record in records)
    else:
        for record in records:
            click.echo(as_line(record))


def _step_object(step: TrainingStep) -> dict[str, Any]:
    return {name: getattr(step, name) for name in _STEP_FIELDS}


def _episode_object(episode: EpisodeSummary) -> dict[str, Any]:
    known = {"first_step": episode.info.get("first_step"), "ended_at": episode.t}
    return {name: known[name] if name in known else getattr(episode, name) for name in _EPISODE_FIELDS}


def _plain(value: Any) -> Any:
    """Arrays, where NumPy is installed; bytes and whatever else as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return "" if value is None else value
    if isinstance(value, str):
        return fmt.one_line(value) if sys.stdout.isatty() else value
    import msgspec

    return msgspec.json.encode(value, enc_hook=_plain).decode()


def _step_line(step: TrainingStep, *, is_undone: bool) -> str:
    from mosaic_protocol.steps.chunk import undone_steps

    end = " terminated" if step.terminated else " truncated" if step.truncated else ""
    who = f" {fmt.one_line(step.actor)}" if step.actor else ""
    agent = f" {fmt.one_line(step.agent_id)}:" if step.agent_id else ""
    value = "" if step.value is None else f" value {fmt.quantity(step.value)}"
    reward = fmt.MISSING if step.reward is None else fmt.quantity(step.reward)
    seen, done = _short(step.observation), _short(step.action)
    remarks = " (undone)" if is_undone else ""
    if count := undone_steps(step.info):
        remarks += f" (instead of {fmt.counted(count, 'step')} that {'was' if count == 1 else 'were'} undone)"
    line = f"{step.step:>9,}  episode {step.episode:<6} {agent}{who} {seen} → {done}  reward {reward}{value}{end}"
    return line + remarks


def _episode_line(episode: EpisodeSummary) -> str:
    total = fmt.MISSING if episode.total_reward is None else fmt.quantity(episode.total_reward)
    agent = f"  {fmt.one_line(episode.agent_id)}" if episode.agent_id else ""
    seed = "" if episode.seed is None else f"  seed {episode.seed}"
    outcome = fmt.one_line(episode.outcome)
    return f"episode {episode.episode:<6} {_steps(episode.length)}  return {total:>10}  {outcome}{agent}{seed}"


def _steps(count: int) -> str:
    return f"{count:>7,} {'step ' if count == 1 else 'steps'}"


def _short(value: Any) -> str:
    """A value in few characters: its first numbers."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, float):
        return fmt.quantity(value)
    if isinstance(value, list | tuple):
        shown = [_short(item) for item in value[:_NUMBERS_SHOWN]]
        return f"[{' '.join(shown)}{' …' if len(value) > _NUMBERS_SHOWN else ''}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{fmt.one_line(str(key))}: {_short(item)}" for key, item in value.items()) + "}"
    return fmt.cut(fmt.one_line(str(value)), 40)
