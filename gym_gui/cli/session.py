"""What every command shares: the data root, the way to the daemon, and which run a word means."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.services.run_words import size
from gym_gui.services.trainer.errors import WorldError
from mosaic_protocol.paths import MosaicPaths, default_root
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.unix_socket import listener

if TYPE_CHECKING:
    from gym_gui.services.remote.link import LinkState, RemoteLink
    from gym_gui.services.remote.server import Server
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

NEWEST = "last"
"""The word that means the newest run wherever a run is expected."""

_SLOW_SECONDS = 0.3
_PROGRESS_SECONDS = 0.2
_HEALTH_SECONDS = 5.0


@dataclass(frozen=True)
class CliSession:
    """One invocation of the command line."""

    paths: MosaicPaths
    elsewhere: RemoteLink | None = None
    """The link to the machine of the daemon, where it is another one."""

    @classmethod
    def on(cls, server: Server, home: str | None, *, may_ask: bool) -> CliSession:
        """With the daemon of another machine; ``home`` is a data root over there. Nothing is connected yet."""
        from gym_gui.services.remote.link import RemoteLink
        from gym_gui.services.remote.paths import PathsElsewhere, kept_about

        link = RemoteLink(server, home or "", may_ask=may_ask)
        return cls(PathsElsewhere(kept_about(server), link), link)

    @classmethod
    def at(cls, home: str | None) -> CliSession:
        """Raises :class:`CliError` for a folder of a user who does not exist."""
        try:
            return cls(MosaicPaths(Path(home).expanduser().absolute() if home else default_root()))
        except RuntimeError:
            named = f"--home {home}" if home else f"MOSAIC_HOME={os.environ.get('MOSAIC_HOME', '')}"
            sentence = f"{named} names the home of a user who is not known here: give the whole path"
            raise CliError(sentence, ExitCode.REFUSED) from None

    @contextmanager
    def client(self) -> Iterator[TrainerClient]:
        """A connection to the daemon, which is started when none runs."""
        from gym_gui.services.trainer.client import TrainerClient

        with self.reaching_daemon(), notice_when_slow(f"waiting for {self.daemon_name}…"):
            client = TrainerClient.connect(self.paths)
        with client:
            yield client

    def impatient_client(self, timeout: float = 30.0) -> TrainerClient | None:
        """A connection to a daemon that runs, None when none does. Its calls report at once that it is away."""
        if not self.daemon_runs():
            return None
        from gym_gui.services.trainer.client import DaemonAwayError, TrainerClient

        try:
            return TrainerClient.connect(self.paths, start=False, patience=0.0, timeout=timeout)
        except (DaemonAwayError, OSError):
            return None

    def daemon_runs(self) -> bool:
        """Whether a daemon listens for this data root. Imports no gRPC, unless it is elsewhere."""
        if self.elsewhere is not None:
            return self.elsewhere.daemon_runs()
        return listener(self.paths.socket) is not None

    @property
    def daemon_name(self) -> str:
        if self.elsewhere is None:
            return "the trainer daemon"
        return f"the trainer daemon on {self.elsewhere.server.destination}"

    def why_away(self) -> str:
        """Why a daemon elsewhere cannot be reached; "" for one of this machine."""
        if self.elsewhere is None:
            return ""
        state = self.elsewhere.state
        return f"{self.daemon_name} is away" if state.is_up else state.sentence

    def tell_cuts(self) -> None:
        """From here on say on stderr when the link to a daemon elsewhere is cut, and when it is back."""
        if self.elsewhere is None:
            return
        name = self.elsewhere.server.destination

        def tell(state: LinkState) -> None:
            click.echo(f"mosaic: {f'{name} is reached again' if state.is_up else state.sentence}", err=True)

        self.elsewhere.on_change = tell

    @contextmanager
    def reaching_daemon(self) -> Iterator[None]:
        """Failures in here mean that there is no daemon to talk to."""
        try:
            yield
        except WorldError as error:
            raise CliError(str(error), ExitCode.DAEMON_AWAY) from error
        except OSError as error:
            sentence = f"cannot use {self.paths.root} for data: {error.strerror or error}. "
            advice = "Set MOSAIC_HOME or --home to a folder you can write to."
            raise CliError(sentence + advice, ExitCode.DAEMON_AWAY) from error


def run_id_for(client: TrainerClient, reference: str, *, deleted: bool = False) -> str:
    """What to send for a word that means a run; the daemon knows ids, parts of them and names.

    ``deleted`` makes the newest run mean the newest one in the trash.
    """
    if reference != NEWEST:
        return _as_text(reference)
    newest = _newest_deleted(client) if deleted else next(iter(client.runs(size=1).runs), None)
    if newest is None:
        start = f"start one with `{program()} train ppo --env-id CartPole-v1`"
        trash = f"`{program()} runs --deleted` lists deleted runs until they are gone for good"
        sentence = f"there is nothing in the trash: {trash}" if deleted else f"there are no runs yet: {start}"
        raise CliError(sentence, ExitCode.NO_SUCH_RUN)
    return newest.run_id


def require_files_here(client: TrainerClient, session: CliSession) -> None:
    """For commands that read the files of runs themselves."""
    home = Path(client.health().home)
    if home.resolve() != session.paths.root.resolve():
        raise CliError(f"the daemon keeps its runs in {home}: name that with --home", ExitCode.REFUSED)


def warn_of_disk(client: TrainerClient) -> None:
    """One line on stderr while the disk is nearly full; no command fails because nobody could be asked."""
    from gym_gui.services.trainer.client import ClientError

    try:
        sentence = client.health(_HEALTH_SECONDS).disk_warning
    except ClientError:
        return
    if sentence:
        click.echo(f"Warning: {one_line(sentence)}", err=True)


def named_run(client: TrainerClient, word: str) -> pb.Run | None:
    """The run that a word names; None where it can only be an expression. Raises for a name that nobody has."""
    from gym_gui.services.trainer.errors import TrainerError

    try:
        return client.run(run_id_for(client, word))
    except TrainerError as error:
        if getattr(error, "status", "") in ("NOT_FOUND", "INVALID_ARGUMENT") and set(word) & set("=<>~!:"):
            return None
        raise


def _as_text(reference: str) -> str:
    """Runs have names that are text; bytes that are none name no run."""
    try:
        reference.encode()
    except UnicodeEncodeError:
        sentence = f"no run is called {reference[:60]!r}: `mosaic runs` lists them"
        raise CliError(sentence, ExitCode.NO_SUCH_RUN) from None
    return reference


def _newest_deleted(client: TrainerClient) -> pb.Run | None:
    listed = client.runs(size=1000, include_deleted=True).runs
    return next((run for run in listed if run.deleted), None)


@contextmanager
def notice_when_slow(sentence: str) -> Iterator[None]:
    """Say on stderr what takes so long, once it does, where somebody sits before it: what a program reads there is what
    went wrong, on a busy machine too."""
    if not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(_SLOW_SECONDS, lambda: click.echo(sentence, err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def passing_notice(sentence: str) -> Iterator[None]:
    """The same for a person who watches a terminal, and gone when it is done."""
    if not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(_SLOW_SECONDS, lambda: click.echo(sentence, nl=False, err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        click.echo("\r\x1b[K", nl=False, err=True)


class PassingProgress:
    """How far something is, in one line on stderr that is gone when it is done; for a person who watches a terminal."""

    def __init__(self) -> None:
        self._is_watched, self._next, self._shown = sys.stderr.isatty(), time.monotonic() + _SLOW_SECONDS, False

    def __call__(self, what: str, done: int, total: int) -> None:
        if not self._is_watched or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PROGRESS_SECONDS
        of = f" of {size(total)}, {100 * done // total}%" if total else ""
        click.echo(f"\r\x1b[K{one_line(what)[:60]}… {size(done)}{of}", nl=False, err=True)
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)


@contextmanager
def passing_progress() -> Iterator[PassingProgress]:
    progress = PassingProgress()
    try:
        yield progress
    finally:
        progress.clear()


def program() -> str:
    """What to type to reach this command, with the server where one was named."""
    context = click.get_current_context(silent=True)
    root = context.find_root() if context is not None else None
    if root is None or not root.params.get("on") or root.get_parameter_source("on") is ParameterSource.ENVIRONMENT:
        return _program()
    return f"{_program()} --on {shlex.quote(root.params['on'])}"


def _program() -> str:
    """What was typed elsewhere, where that is known, "mosaic" when the shell finds it, else the path that was typed."""
    if typed_elsewhere := os.environ.get("MOSAIC_TYPED"):
        return one_line(typed_elsewhere)
    typed = Path(sys.argv[0])
    if typed.name != "mosaic":
        return "mosaic"
    found = shutil.which("mosaic")
    if found and os.path.realpath(found) == os.path.realpath(typed):
        return "mosaic"
    return shortest_path(typed.absolute())


def shortest_path(path: Path) -> str:
    """A path as a person would type it here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)
