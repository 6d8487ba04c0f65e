"""Following a run to its end: a live line on a terminal, a plain line now and then elsewhere, nothing for ``--json``.

The run does not depend on being followed. When the daemon is away the follower waits for it, and says so.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.live.thoughts import Thoughts
from gym_gui.cli.options import json_option, run_argument
from gym_gui.cli.progress import Pace, Part, fitted, progress_parts
from gym_gui.cli.session import CliSession, program, run_id_for

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

_POLL_SECONDS = 0.2
_PLAIN_SECONDS = 5.0
_AWAY = [Part("trainer daemon away, waiting…"), Part("the run goes on; `mosaic daemon start` brings it back", 1)]


class Display(Protocol):
    """Where progress is shown."""

    def show(self, state: str, parts: list[Part], below: str = "") -> None:
        """Called several times a second; ``state`` changes when something worth a line happened. ``below``: what is to
        stand in a second line."""

    def close(self) -> None:
        """Leave the terminal ready for the next line."""


class LiveLine:
    """One line of a terminal that is written over and over, or two of them."""

    def __init__(self) -> None:
        self._has_second = False

    def show(self, state: str, parts: list[Part], below: str = "") -> None:
        width = fmt.terminal_width() - 1
        text = fitted(parts, width)
        word = text[: len(state)]
        sys.stdout.write(f"\r{fmt.painted(word, state)}{text[len(word) :]}\x1b[K{self._second(below, width)}")
        sys.stdout.flush()

    def close(self) -> None:
        sys.stdout.write(f"{self._second('', 0)}\r\x1b[K")
        sys.stdout.flush()

    def _second(self, text: str, width: int) -> str:
        """The cursor goes back to the first line; one that is no longer needed is emptied."""
        was_there, self._has_second = self._has_second, bool(text)
        return f"\n{fmt.dimmed(fmt.cut(text, width))}\x1b[K\x1b[1F" if text or was_there else ""


class PlainLines:
    """A line for every change of state, and every few seconds in between."""

    def __init__(self) -> None:
        self._last, self._next_at = "", 0.0

    def show(self, state: str, parts: list[Part], below: str = "") -> None:
        now = time.monotonic()
        if state != self._last or now >= self._next_at:
            self._last, self._next_at = state, now + _PLAIN_SECONDS
            click.echo("  ".join(part.text for part in parts))
            if below:
                click.echo(f"  {below}")

    def close(self) -> None:
        """Every line is whole already."""


class Nothing:
    """For programs, which want the end only."""

    def show(self, state: str, parts: list[Part], below: str = "") -> None:
        """Says nothing."""

    def close(self) -> None:
        """Nothing was shown."""


class Follower:
    """Watches one run. :meth:`until_over` returns it with its outcome. A run that gets beyond the step ``enough`` is
    canceled: nobody needs the rest of it."""

    def __init__(self, session: CliSession, run_id: str, display: Display, *, enough: int | None = None) -> None:
        self._enough = enough
        self._session, self._run_id, self._display = session, run_id, display
        self._client: TrainerClient | None = None
        self._pace, self._thoughts = Pace(), Thoughts()

    def until_over(self) -> pb.Run:
        """Raises :class:`CliError` INTERRUPTED on Ctrl-C, and whatever the daemon says when the run is gone."""
        try:
            while True:
                run = self._look()
                if run is not None and run_view.is_over(run):
                    return run
                self._tell(run)
                time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            raise self._interrupted() from None
        finally:
            self._display.close()
            self._drop_client()

    def _tell(self, run: pb.Run | None) -> None:
        if run is None:
            why = self._session.why_away()
            self._display.show("away", [Part(f"{why}, waiting…"), Part("the run goes on", 1)] if why else _AWAY)
            return
        waited = time.time() - run.created_at
        thought = self._thoughts.of(self._client, run) if self._client is not None else ""
        self._display.show(run_view.state_word(run), progress_parts(run, self._pace, waited), thought)

    def _look(self) -> pb.Run | None:
        """The run as it is now; None while the daemon is away."""
        from gym_gui.services.trainer.client import DaemonAwayError

        if self._client is None:
            self._client = self._session.impatient_client()
        if self._client is None:
            return None
        try:
            run = self._client.run(self._run_id)
            self._pace.note(run, time.monotonic())
            if self._enough is not None and run.last_step > self._enough and not run_view.is_over(run):
                self._enough = None
                run = self._client.cancel(self._run_id, "it has come as far as was asked")
        except DaemonAwayError:
            self._drop_client()  # the next daemon may listen elsewhere
            return None
        return run

    def _drop_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _interrupted(self) -> CliError:
        short = run_view.short_id(self._run_id)
        sentence = (
            f"no longer following; run {short} goes on. Follow it again with `{program()} follow {short}`, "
            f"end it with `{program()} cancel {short}`."
        )
        return CliError(sentence, ExitCode.INTERRUPTED, run_id=self._run_id)


def display_for(*, as_json: bool) -> Display:
    if as_json:
        return Nothing()
    return LiveLine() if fmt.is_terminal() else PlainLines()


def follow_and_tell(session: CliSession, run_id: str, *, as_json: bool, full: bool = False) -> ExitCode:
    """Follow a run to its end, tell how it went, and give its outcome as the exit code."""
    from gym_gui.cli.errors import code_for_outcome
    from gym_gui.cli.summary import tell_end

    run = Follower(session, run_id, display_for(as_json=as_json)).until_over()
    if as_json:
        fmt.echo_json(run_view.run_object(run))
    else:
        with session.client() as client:
            tell_end(client, run, full=full)
    return code_for_outcome(run.outcome)


@click.command()
@run_argument
@click.option("--summary", is_flag=True, help="End with the long summary.")
@json_option
@click.pass_obj
def follow(session: CliSession, run: str, summary: bool, as_json: bool) -> int:
    """Follow a run to its end.

    The outcome is the exit code, as of `mosaic train`. Ctrl-C stops following, not the run.
    """
    with session.client() as client:
        found = client.run(run_id_for(client, run))
    if not as_json:
        click.echo(f"{run_view.called(found)} on {found.worker_type}")
    return follow_and_tell(session, found.run_id, as_json=as_json, full=summary)
