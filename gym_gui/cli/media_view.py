"""``mosaic metrics --media``, ``--histograms``, ``--images`` and ``--texts``: what event files hold beside numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.out_file import require_numpy
from gym_gui.cli.session import CliSession, run_id_for, shortest_path

if TYPE_CHECKING:
    from gym_gui.services.scalars.histograms import Histogram
    from gym_gui.services.scalars.media import Contents, Entry, RunMedia
    from mosaic_protocol.proto import trainer_pb2 as pb

_WORDS = {"histogram": "histograms", "image": "images", "text": "texts"}
_LAST = 1000
_ROWS = 24


class MediaView:
    """One look at the event files of one run."""

    def __init__(self, session: CliSession, run: str, *, last: int | None, as_json: bool) -> None:
        require_numpy("histograms, images and texts")
        self._last, self._as_json = last or _LAST, as_json
        with session.client() as client:
            self._run = client.run(run_id_for(client, run))

    def show(self, kind: str, tag: str, out: Path | None) -> None:
        """Everything of one tag, or without a kind what there is."""
        from gym_gui.services.scalars.media import RunMedia
        from gym_gui.services.tensorboard.run_folders import events_folder

        folder = events_folder(self._run)
        media = RunMedia(folder if folder is not None else Path("/nonexistent"))
        contents = media.look()
        for note in contents.notes:
            click.echo(f"mosaic: {fmt.one_line(note)}", err=True)
        if not kind:
            self._list(contents)
            return
        entries = _found(self._run, contents, kind, tag)[-self._last :]
        if kind == "histogram":
            self._histograms(media, tag, entries)
        elif kind == "text":
            self._texts(media, tag, entries)
        else:
            assert out is not None
            self._images(media, tag, entries, out)

    def _list(self, contents: Contents) -> None:
        rows = [(kind, tag, contents.of(kind)[tag]) for kind in _WORDS for tag in sorted(contents.of(kind))]
        if self._as_json:
            objects = [
                {"kind": kind, "tag": tag, "count": len(found), "steps": [found[0].step, found[-1].step]}
                for kind, tag, found in rows
            ]
            fmt.echo_json({"run_id": self._run.run_id, "media": objects, "notes": list(contents.notes)})
        elif not rows:
            waiting = "" if run_view.is_over(self._run) else " yet"
            click.echo(f"{run_view.called(self._run)} has no histograms, images or texts in its event files{waiting}.")
        else:
            cells = [
                [kind, fmt.one_line(tag), f"{len(found):,}", f"{found[0].step:,}", f"{found[-1].step:,}"]
                for kind, tag, found in rows
            ]
            headers = ["KIND", "TAG", "COUNT", "FIRST STEP", "LAST STEP"]
            click.echo(fmt.table(headers, cells, right=frozenset(headers[2:]), give_way="TAG", in_the_middle=True))

    # ---- one tag -------------------------------------------------------------------------------------------------

    def _histograms(self, media: RunMedia, tag: str, entries: Sequence[Entry]) -> None:
        found, problems = media.histograms(entries, most=len(entries))
        if self._as_json:
            objects = [_histogram_object(one) for one in found]
            fmt.echo_json({"run_id": self._run.run_id, "tag": tag, "histograms": objects, "notes": problems})
        elif found:
            click.echo(_histogram_table(found))
        for problem in problems[:1] if not self._as_json else []:
            more = f" ({len(problems) - 1} more are like it)" if len(problems) > 1 else ""
            click.echo(f"mosaic: {fmt.one_line(problem)}{more}", err=True)
        if problems and not found:
            raise CliError(f"no histogram of {tag[:60]!r} can be read", ExitCode.FAILED)

    def _texts(self, media: RunMedia, tag: str, entries: Sequence[Entry]) -> None:
        from gym_gui.services.scalars.media import MediaError

        texts = []
        for entry in entries:
            try:
                texts.append({"step": entry.step, "wall_time": entry.wall_time, "text": media.text(entry)})
            except MediaError as error:
                click.echo(f"mosaic: {fmt.one_line(str(error))}", err=True)
        if self._as_json:
            fmt.echo_json({"run_id": self._run.run_id, "tag": tag, "texts": texts})
            return
        for one in texts:
            click.echo(fmt.dimmed(f"step {one['step']:,}"))
            click.echo(one["text"])

    def _images(self, media: RunMedia, tag: str, entries: Sequence[Entry], out: Path) -> None:
        from gym_gui.services.charts.files import write

        files: list[Path] = []
        problems: list[str] = []
        try:
            out.mkdir(parents=True, exist_ok=True)
            for place, content in _named(media, tag, entries, problems):
                write(out / place, content)
                files.append(out / place)
        except OSError as error:
            raise CliError(f"cannot write to {out}: {error.strerror or error}", ExitCode.FAILED) from error
        for problem in problems:
            click.echo(f"mosaic: {fmt.one_line(problem)}", err=True)
        if self._as_json:
            fmt.echo_json({"run_id": self._run.run_id, "tag": tag, "files": [str(file) for file in files]})
        elif files:
            click.echo(f"{fmt.counted(len(files), 'image')} written to {shortest_path(out)}")
        if problems and not files:
            raise CliError(f"no image of {tag[:60]!r} can be read", ExitCode.FAILED)


def _named(media: RunMedia, tag: str, entries: Sequence[Entry], problems: list[str]) -> Iterator[tuple[str, bytes]]:
    """(file name, content) of each picture, read when it is written. Names are of the tag, the step and what tells
    pictures of one step apart; a run that was taken up again has some steps twice."""
    from gym_gui.services.file_names import safe_file_name
    from gym_gui.services.scalars.media import MediaError

    used: set[str] = set()
    for entry in entries:
        try:
            pictures = media.pictures(entry)
        except MediaError as error:
            problems.append(str(error))
            continue
        for picture in pictures:
            number, stem = 1, f"{safe_file_name(tag)}-{entry.step:09d}"
            name = f"{stem}.{picture.kind}"
            while name in used:
                number += 1
                name = f"{stem}-{number}.{picture.kind}"
            used.add(name)
            yield name, picture.data


def _found(run: pb.Run, contents: Contents, kind: str, tag: str) -> Sequence[Entry]:
    known = contents.of(kind)
    if tag in known:
        return known[tag]
    from mosaic_protocol.suggest import did_you_mean

    short = f"{tag}/text_summary"  # as PyTorch's writer calls the texts of a tag
    if kind == "text" and short in known:
        return known[short]
    hint = did_you_mean(tag, list(known)) if known else f"; it has no {_WORDS[kind]} in its event files"
    raise CliError(f"{run_view.called(run)} has no {_WORDS[kind]} {tag[:60]!r}{hint}", ExitCode.REFUSED)


def _histogram_object(one: Histogram) -> dict[str, Any]:
    buckets = zip(one.lefts.tolist(), one.rights.tolist(), one.counts.tolist(), strict=True)
    return {"step": one.step, "wall_time": one.wall_time, "buckets": [list(bucket) for bucket in buckets]}


def _histogram_table(found: Sequence[Histogram]) -> str:
    """A line for each step; the bars of all of them are of the same values."""
    from gym_gui.cli.commands.metrics import bars, sparkline
    from gym_gui.services.scalars.histograms import heat

    picture = heat(found, rows=_ROWS)
    rows = []
    for column, one in enumerate(found):
        low, high = one.ends or (float("nan"), float("nan"))
        shape = sparkline([0.0, *picture.shares[:, column].tolist()], _ROWS + 1, bars())[1:]
        rows.append([f"{one.step:,}", fmt.quantity(low), fmt.quantity(high), fmt.quantity(one.total), shape])
    span = f"{fmt.quantity(float(picture.edges[0]))} … {fmt.quantity(float(picture.edges[-1]))}"
    headers = ["STEP", "MIN", "MAX", "COUNT", span]
    return fmt.table(headers, rows, right=frozenset(headers[:-1]), shorter=[("COUNT", None)])
