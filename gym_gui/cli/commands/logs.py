"""``mosaic logs``: what a run printed, also while it prints."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from gym_gui.cli import run_view
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import Count, run_argument
from gym_gui.cli.session import CliSession, program, run_id_for
from mosaic_protocol.plain_text import clean_line

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

_POLL_SECONDS = 0.3
_OVER = "\r\x1b[K"


class LinePrinter:
    """Writes whole lines, so that the two sources of a run do not break into each other's.

    Knows how much of each source it has printed: after the daemon was away everything is sent again, and what was
    printed before is passed over.

    ``cleaned`` is for a terminal, which obeys escape sequences: each line is written as a terminal would leave it. Else
    bytes are written as the run wrote them.
    """

    def __init__(self, *, as_json: bool = False, cleaned: bool = False) -> None:
        self._as_json, self._cleaned = as_json, cleaned
        self._shows_progress = False
        """Whether the line that the terminal shows last may yet be written over."""
        self._printed: dict[str, int] = {}
        self._position: dict[str, int] = {}
        self._pending: dict[str, bytes] = {}

    @property
    def has_printed(self) -> bool:
        return bool(self._printed)

    def begin_again(self) -> None:
        """What comes next starts from the beginning of each source."""
        self._position.clear()

    def take(self, source: str, data: bytes) -> None:
        position, printed = self._position.get(source, 0), self._printed.get(source, 0)
        fresh = data[max(0, printed - position) :]
        self._position[source] = position + len(data)
        self._printed[source] = max(printed, position + len(data))
        text = self._pending.pop(source, b"") + fresh
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1  # progress bars end their lines with the latter
        self._pending[source] = text[end:]
        self._write(source, text[:end])

    def close(self) -> None:
        """Write what never became a line."""
        for source, rest in self._pending.items():
            self._write(source, rest + b"\n" if rest else b"")
        self._pending.clear()
        if self._shows_progress:
            click.echo()

    def _write(self, source: str, data: bytes) -> None:
        if self._as_json:
            for line in data.splitlines():
                click.echo(json.dumps({"source": source, "line": line.decode(errors="replace")}))
        elif data and self._cleaned:
            sys.stdout.write(self._as_shown(data.decode(errors="replace")))
            sys.stdout.flush()
        elif data:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def _as_shown(self, text: str) -> str:
        """Whole lines, and what a progress bar shows at the moment: that is written over by what comes next."""
        *lines, progress = text.split("\n")
        begin = _OVER if self._shows_progress else ""
        self._shows_progress = bool(progress)
        return begin + "".join(f"{clean_line(line)}\n" for line in lines) + clean_line(progress)


@dataclass
class LogReader:
    """Prints the logs of one run."""

    session: CliSession
    run: pb.Run
    printer: LinePrinter
    tail: int = 0
    source: str = ""

    def print_now(self, client: TrainerClient) -> None:
        self._copy(client, follow=False)

    def print_until_over(self) -> None:
        """Waits for a daemon that is away. Raises :class:`CliError` INTERRUPTED on Ctrl-C."""
        from gym_gui.services.trainer.client import DaemonAwayError

        while True:
            with self._reached() as client:
                try:
                    self._copy(client, follow=True)
                    if run_view.is_over(client.run(self.run.run_id)):
                        return
                except DaemonAwayError:
                    time.sleep(_POLL_SECONDS)
            self._prepare_to_go_on()

    def _copy(self, client: TrainerClient, *, follow: bool) -> None:
        for chunk in client.logs(self.run.run_id, follow=follow, tail_lines=self.tail, source=self.source):
            self.printer.take(chunk.source, chunk.data)

    def _reached(self) -> TrainerClient:
        client = self.session.impatient_client()
        if client is None:
            why = self.session.why_away() or "trainer daemon away"
            click.echo(f"mosaic: {why}, waiting… (the run goes on)", err=True)
        while client is None:
            time.sleep(_POLL_SECONDS)
            client = self.session.impatient_client()
        return client

    def _prepare_to_go_on(self) -> None:
        """A daemon numbers no bytes: everything is asked for again and what was printed is passed over. Where only the
        tail was wanted the old beginning is not known, and some lines come twice."""
        if self.tail:
            click.echo("mosaic: the trainer daemon was away; the last lines may repeat", err=True)
        else:
            self.printer.begin_again()


@click.command()
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the run is over.")
@click.option("--tail", type=Count(), default=None, help="Only the last N lines of each source.  [default: everything]")
@click.option("--source", type=click.Choice(["stdout", "stderr"]), help="Only one of the two.  [default: both]")
@click.option("--raw", is_flag=True, help="Also on a terminal every byte as the run wrote it, escape sequences too.")
@click.option("--json", "as_json", is_flag=True, help="Print every line as a JSON object.")
@click.pass_obj
def logs(
    session: CliSession, run: str, follow: bool, tail: int | None, source: str | None, raw: bool, as_json: bool
) -> None:
    """Print what a run wrote to stdout and stderr.

    On a terminal colours and other escape sequences are left out: a script can put anything into its log. Into a file
    or a pipe every byte goes as it was written.
    """
    if raw and as_json:
        raise click.UsageError("choose one of --raw and --json")
    printer = LinePrinter(as_json=as_json, cleaned=sys.stdout.isatty() and not raw)
    with session.client() as client:
        reader = LogReader(session, client.run(run_id_for(client, run)), printer, tail or 0, source or "")
        if not follow:
            reader.print_now(client)
    try:
        if follow:
            reader.print_until_over()
    except KeyboardInterrupt:
        raise _interrupted(reader.run.run_id) from None
    finally:
        printer.close()
    if not printer.has_printed:
        _tell_nothing(reader.run, source)


def _interrupted(run_id: str) -> CliError:
    short = run_view.short_id(run_id)
    sentence = f"no longer following; `{program()} logs -f {short}` follows again. The run is as it was."
    return CliError(sentence, ExitCode.INTERRUPTED, run_id=run_id)


def _tell_nothing(run: pb.Run, source: str | None) -> None:
    what = f"anything to its {source}" if source else "anything"
    waiting = "" if run_view.is_over(run) else " yet"
    click.echo(f"{run_view.called(run)} has not written {what}{waiting}.", err=True)
