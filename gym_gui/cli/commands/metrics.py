"""``mosaic metrics``: the numbers of a run as a table with a small curve for each, as CSV, as JSON, as a Parquet file,
as an event file of TensorBoard or as an archive; and what its event files hold beside numbers."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import Count, json_option, run_argument
from gym_gui.cli.session import CliSession, program, run_id_for
from mosaic_protocol.headline import RECENT_EPISODES

if TYPE_CHECKING:
    from gym_gui.services.scalars.metric_table import Stretch
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

_CURVE_COLUMNS = 24
_NARROWER_CURVES = (16, 8)
_LAST = 1000
_BARS = "▁▂▃▄▅▆▇█"
_ASCII_BARS = "_.-=+*%#"
_GAP = " "


def sparkline(values: Sequence[float], columns: int = _CURVE_COLUMNS, bars: str = _BARS) -> str:
    """A curve of at most so many characters: each shows the mean of its share, a blank one without a finite value."""
    shares = _shares(values, columns)
    known = [share for share in shares if share is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    return "".join(_GAP if share is None else bars[_height(share, low, high, len(bars))] for share in shares)


def _shares(values: Sequence[float], columns: int) -> list[float | None]:
    count = min(columns, len(values))
    edges = [index * len(values) // count for index in range(count + 1)] if count else []
    return [_mean(values[begin:end]) for begin, end in pairwise(edges)]


def _height(value: float, low: float, high: float, levels: int) -> int:
    if high == low:
        return levels // 2
    return min(levels - 1, int((value / 2 - low / 2) / (high / 2 - low / 2) * levels))  # halved: the range may overflow


def _mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if math.isfinite(value)]
    return math.fsum(value / len(known) for value in known) if known else None


@click.command()
@run_argument
@click.option("--tag", "tags", metavar="T", multiple=True, help="Only this metric; may be repeated.")
@click.option(
    "--last",
    type=Count(),
    help="The newest N points of each metric.  [default: 1000; everything with --csv and --parquet]",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print every point as tag,step,value,wall_time.")
@click.option(
    "--parquet",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a Parquet file of every point; needs pyarrow.",
)
@json_option
@click.option("--tensorboard", is_flag=True, help="Write an event file for TensorBoard, and say where.")
@click.option("--archive", is_flag=True, help="Write training/metrics/RUN_ID.jsonl below the data root.")
@click.option("--media", is_flag=True, help="List the histograms, images and texts of the run's event files.")
@click.option("--histograms", metavar="TAG", help="How the values of a histogram are spread, step by step.")
@click.option("--texts", metavar="TAG", help="Print the texts of a tag.")
@click.option("--images", metavar="TAG", help="Write the images of a tag as files; needs --out.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Where --images writes.")
@click.pass_obj
def metrics(
    session: CliSession,
    run: str,
    tags: Sequence[str],
    last: int | None,
    as_csv: bool,
    parquet: Path | None,
    as_json: bool,
    tensorboard: bool,
    archive: bool,
    media: bool,
    histograms: str | None,
    texts: str | None,
    images: str | None,
    out: Path | None,
) -> None:
    """Show the metrics of a run.

    For each: the newest value, the mean of the last 100, the extremes and a small curve.
    """
    wanted = [(kind, tag) for kind, tag in _asked(histograms, images, texts) if tag is not None]
    if media or wanted or out is not None:
        if len(wanted) + media != 1 or tags or as_csv or parquet or tensorboard or archive:
            raise click.UsageError("choose one of --media, --histograms, --texts and --images, with --json or --last")
        if (images is None) != (out is None):
            raise click.UsageError("--images TAG and --out DIR belong together")
        from gym_gui.cli.media_view import MediaView

        MediaView(session, run, last=last, as_json=as_json).show(*(wanted or [("", "")])[0], out)
        return
    if as_csv + as_json + tensorboard + archive + (parquet is not None) > 1:
        raise click.UsageError("choose one of --csv, --parquet, --json, --tensorboard and --archive")
    if tensorboard or archive:
        if tags or last:
            raise click.UsageError("--tensorboard and --archive take every point: leave out --tag and --last")
        _export(session, run, tensorboard=tensorboard)
        return
    from gym_gui.services.scalars.metric_table import MOST_PER_CALL, every_point

    with session.client() as client:
        found = client.run(run_id_for(client, run))
        if as_csv or parquet is not None:
            _check_tags(client, found, client.metrics(found.run_id, tags, max_points=1))
            _write_every(every_point(client, found.run_id, tags, last=last or 0), parquet)
            return
        series = client.metrics(found.run_id, tags, max_points=min(last or _LAST, MOST_PER_CALL))
        _check_tags(client, found, series)
    if as_json:
        fmt.echo_json({"run_id": found.run_id, "series": [series_object(one) for one in series]})
    else:
        _tell(found, series)


def _asked(histograms: str | None, images: str | None, texts: str | None) -> list[tuple[str, str | None]]:
    """By the names of the kinds of :mod:`gym_gui.services.scalars.events`, which needs NumPy."""
    return [("histogram", histograms), ("image", images), ("text", texts)]


def _export(session: CliSession, run: str, *, tensorboard: bool) -> None:
    from gym_gui.services.training_telemetry import TrainingTelemetryService

    with session.client() as client:
        run_id, service = run_id_for(client, run), TrainingTelemetryService(client, session.paths)
        if tensorboard:
            folder = service.export_to_tensorboard(run_id)
            click.echo(f"Written to {folder}: `{program()} tensorboard {run}` shows the run.")
        else:
            click.echo(f"Written to {service.archive(run_id)}")


def _check_tags(client: TrainerClient, run: pb.Run, series: Sequence[pb.MetricSeries]) -> None:
    unknown = [one.tag for one in series if not one.total_points]
    if not unknown:
        return
    from mosaic_protocol.suggest import did_you_mean

    known = [one.tag for one in client.metrics(run.run_id, max_points=1)]
    hint = did_you_mean(unknown[0], known) if known else "; it has none yet"
    raise CliError(f"{run_view.called(run)} has no metric {unknown[0][:60]!r}{hint}", ExitCode.REFUSED)


def series_object(series: pb.MetricSeries) -> dict[str, Any]:
    """A metric for programs; what is not finite is null."""
    return {
        "tag": series.tag,
        "steps": list(series.steps),
        "values": [value if math.isfinite(value) else None for value in series.values],
        "wall_times": list(series.wall_times),
        "total_points": series.total_points,
    }


def _write_every(stretches: Iterator[Stretch], parquet: Path | None) -> None:
    if parquet is None:
        write_csv(stretches)
        return
    from gym_gui.services.parquet_file import TableError
    from gym_gui.services.scalars.metric_table import write_parquet

    try:
        count = write_parquet(stretches, parquet)
    except TableError as error:
        raise CliError(str(error), ExitCode.REFUSED) from error
    click.echo(f"{fmt.counted(count, 'point')} written to {parquet}")


def write_csv(stretches: Iterator[Stretch]) -> None:
    """Names go into a file or a pipe as the script gave them, and onto a terminal in printable characters."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["tag", "step", "value", "wall_time"])
    for one in stretches:
        tag = fmt.one_line(one.tag) if sys.stdout.isatty() else one.tag
        writer.writerows(
            (tag, step, value, when) for step, value, when in zip(one.steps, one.values, one.wall_times, strict=True)
        )


def _tell(run: pb.Run, series: Sequence[pb.MetricSeries]) -> None:
    if not series:
        waiting = "" if run_view.is_over(run) else " yet"
        click.echo(f"{run_view.called(run)} has no metrics{waiting}.")
        return
    click.echo(metric_table(series))
    if any(one.total_points > len(one.values) for one in series):
        newest = max(len(one.values) for one in series)
        click.echo(fmt.dimmed(f"Extremes and curves are of the newest {newest:,} points; --last N takes more."))


def metric_table(series: Sequence[pb.MetricSeries]) -> str:
    """A line for each metric: its newest value, its extremes and a small curve."""
    headers = ["METRIC", "LAST", f"MEAN {RECENT_EPISODES}", "MIN", "MAX", "POINTS", "CURVE"]
    rows = [_row(one) for one in series]
    narrower = [("CURVE", _curves(series, columns)) for columns in _NARROWER_CURVES]
    shorter: list[fmt.Shorter] = [*narrower, ("CURVE", None), ("POINTS", None)]
    right = frozenset(headers[1:-1])
    return fmt.table(headers, rows, right=right, shorter=shorter, give_way="METRIC", in_the_middle=True)


def _row(series: pb.MetricSeries) -> list[str]:
    known = [value for value in series.values if math.isfinite(value)]
    recent = _mean(series.values[-RECENT_EPISODES:])
    numbers = [series.values[-1], recent, min(known, default=None), max(known, default=None)]
    shown = [fmt.MISSING if number is None else fmt.quantity(number) for number in numbers]
    return [fmt.one_line(series.tag), *shown, f"{series.total_points:,}", *_curves([series], _CURVE_COLUMNS)]


def _curves(series: Sequence[pb.MetricSeries], columns: int) -> list[str]:
    return [sparkline(one.values, columns, bars()) for one in series]


def bars() -> str:
    """Blocks where stdout can write them."""
    return _BARS if fmt.can_write(_BARS) else _ASCII_BARS
