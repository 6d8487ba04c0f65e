"""``mosaic --on SERVER``: what each command does with a daemon of another machine.

A command that only asks the daemon asks it through the link, which mends itself. One that reads or writes files of
runs, or asks workers, runs over there through SSH, where these are. Starting a run does both: it is checked and
submitted over there and followed from here.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.session import CliSession
from gym_gui.services.remote.server import Server, Servers
from mosaic_protocol.paths import default_root
from mosaic_protocol.ssh_command import FAILED, SshCommand, SshError, end, start_tied

if TYPE_CHECKING:
    from gym_gui.services.remote.link import RemoteLink


class Way(Enum):
    """How a command reaches a daemon elsewhere."""

    THROUGH = "through the link"
    THERE = "over there"
    LAUNCH = "submitted over there, followed from here"
    PORT = "over there, its port forwarded"
    HERE = "here"


WAYS = {
    **dict.fromkeys(("runs", "follow", "logs", "episodes", "steps", "mind", "tell", "plot", "workers"), Way.THROUGH),
    **dict.fromkeys(("pause", "cancel", "delete", "restore", "queue", "rename", "tag", "note", "metrics"), Way.THROUGH),
    **dict.fromkeys(("train", "submit"), Way.LAUNCH),
    **dict.fromkeys(("show", "diff", "compare", "resume", "reproduce", "sweep", "arena", "datasets"), Way.THERE),
    **dict.fromkeys(("checkpoints", "eval", "policy", "import-checkpoint", "import-logs"), Way.THERE),
    **dict.fromkeys(("export", "import", "storage", "bundles", "doctor", "daemon", "hosts", "wandb"), Way.THERE),
    **dict.fromkeys(("play", "watch", "replay", "flags", "presets"), Way.THERE),
    "tensorboard": Way.PORT,
    "gui": Way.HERE,
    "completion": Way.HERE,
}
"""Of every command; a test holds it to that."""

_FILES_OF_METRICS = {"--media", "--histograms", "--images", "--texts", "--tensorboard", "--archive"}
"""Options with which ``mosaic metrics`` reads or writes files of the run."""
_NOT_FOLLOWED = {"--detach", "--dry-run", "--help", "-h"}


def way_of(command: str, words: Sequence[str]) -> Way:
    """How a command goes with these words behind it."""
    own = words[: words.index("--")] if "--" in words else words
    way = WAYS.get(command, Way.HERE)
    if command == "metrics" and _FILES_OF_METRICS & {word.partition("=")[0] for word in own}:
        return Way.THERE
    if way is Way.THROUGH and {"--help", "-h"} & set(own):
        return Way.HERE
    return way


def named_server(text: str) -> Server:
    """The server of ``--on``, with the place that was named for it before. Raises :class:`CliError`."""
    try:
        return Servers(default_root()).completed(Server.parse(text))
    except SshError as error:
        raise CliError(f"--on: {error}", ExitCode.REFUSED) from None
    except RuntimeError:
        raise CliError("MOSAIC_HOME names the home of a user who is not known here", ExitCode.REFUSED) from None


def may_ask() -> bool:
    """Whether somebody sits at a terminal, on which ssh can ask for a password."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class Elsewhere:
    """One command line with ``--on``."""

    server: Server
    home: str
    session: CliSession

    def run(self, command: click.Command, words: list[str], way: Way) -> int:
        """A command that runs over there, at least for its beginning; the exit code."""
        name = command.name or ""
        if way is Way.LAUNCH:
            return self._launched(command, words)
        if way is Way.PORT:
            return self._with_port(name, words)
        return self._there([name, *words])

    # ---- over there ----------------------------------------------------------------------------------------------

    def _there(self, words: Sequence[str], *, forwards: Sequence[tuple[str, str]] = (), hangs_up: bool = False) -> int:
        """Run ``mosaic`` over there with these words, on this terminal; its exit code."""
        process = self._started(words, forwards=forwards, hangs_up=hangs_up)
        try:
            return self._judged(process.wait())
        finally:
            end(process)

    def _started(
        self, words: Sequence[str], *, forwards: Sequence[tuple[str, str]] = (), hangs_up: bool = False, **how: Any
    ) -> subprocess.Popen[bytes]:
        from gym_gui.services.remote.there import there

        is_terminal = hangs_up or (sys.stdin.isatty() and sys.stdout.isatty() and not how)
        ssh = SshCommand.to(self.server.destination, may_ask=may_ask())
        arguments = ssh.arguments(there(self.server, self.home, words), forwards=forwards, terminal=is_terminal)
        sys.stdout.flush()
        try:
            return start_tied(arguments, is_apart=False, **how)
        except (SshError, OSError) as error:
            raise CliError(str(error), ExitCode.DAEMON_AWAY) from error

    def _judged(self, code: int) -> int:
        """The exit code of the command over there. Raises :class:`CliError` where it did not get that far."""
        from gym_gui.services.remote.there import NOT_FOUND, not_found

        if code in NOT_FOUND:
            raise CliError(not_found(self.server), ExitCode.DAEMON_AWAY)
        if code == FAILED or code < 0:
            sentence = f"the link to {self.server.destination} failed or was cut; what was started there goes on"
            raise CliError(sentence, ExitCode.DAEMON_AWAY)
        remember(self.server)
        return code

    def _with_port(self, name: str, words: list[str]) -> int:
        """A command that serves on a port of the server's loopback, reached on the same port here."""
        if {"--help", "-h"} & set(words):
            return self._there([name, *words])
        port = _named_port(words) or _free_port()
        given = words if _named_port(words) else [*words, "--port", str(port)]
        forward = ("-L", f"127.0.0.1:{port}:127.0.0.1:{port}")
        # With a terminal over there it ends with the connection; without one sshd would leave it alone.
        return self._there([name, *(word for word in given if word != "--open")], forwards=[forward], hangs_up=True)

    # ---- runs ----------------------------------------------------------------------------------------------------

    def _launched(self, command: click.Command, words: list[str]) -> int:
        """Submit over there and follow here, so that a link that is cut does not end the following."""
        own = set(words[: words.index("--")] if "--" in words else words)
        words, given = _with_file(command, words)
        if _NOT_FOLLOWED & own:
            return self._given([command.name or "", *words], given)
        as_json = "--json" in own
        asked = [command.name or "", "--detach", *([] if as_json else ["--json"]), *words]
        process = self._started(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            out, _ = process.communicate(given or b"")
            code = self._judged(process.returncode)
        finally:
            end(process)
        told = _object(out)
        if code or "run_id" not in told:
            if as_json and told:
                fmt.echo_json(told)
            return code or ExitCode.FAILED
        return self._followed(str(told["run_id"]), as_json=as_json, full="--summary" in own)

    def _followed(self, run_id: str, *, as_json: bool, full: bool) -> int:
        from gym_gui.cli import run_view
        from gym_gui.cli.commands.follow import follow_and_tell

        if not as_json:
            with self.session.client() as client:
                run = client.run(run_id)
            click.echo(f"{run_view.called(run)} submitted to {run.worker_type} on {self.server.destination}")
        return follow_and_tell(self.session, run_id, as_json=as_json, full=full)

    def _given(self, words: list[str], given: bytes | None) -> int:
        if given is None:
            return self._there(words)
        process = self._started(words, stdin=subprocess.PIPE)
        try:
            process.communicate(given)
            return self._judged(process.returncode)
        finally:
            end(process)


def remember(server: Server) -> None:
    """For the next time it is named, and for those who press Tab."""
    Servers(default_root()).remember(server)


def tell_versions(link: RemoteLink) -> None:
    """After a command that went through a link: that it was reached, and a warning on stderr where versions differ."""
    if link.version:
        remember(link.server)
    if link.warning:
        click.echo(f"mosaic: {link.warning}", err=True)


def _with_file(command: click.Command, words: list[str]) -> tuple[list[str], bytes | None]:
    """Of ``mosaic submit FILE``: the words with ``-`` for a file of this machine, and what it holds."""
    if command.name != "submit":
        return words, None
    from gym_gui.cli.commands.submit import content_of

    file = command.make_context("submit", list(words), resilient_parsing=True).params.get("file")
    if file is None:
        return words, None
    file = Path(file)
    if str(file) == "-":
        return words, content_of(file)
    at = next(index for index, word in enumerate(words) if word == str(file) or Path(word) == file)
    return [*words[:at], "-", *words[at + 1 :]], content_of(file)


def _object(text: bytes) -> dict[str, Any]:
    """The JSON that a command printed; a shell over there may print something before it."""
    decoded = text.decode(errors="replace")
    try:
        found = json.loads(decoded[decoded.index("{") :])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _named_port(words: Sequence[str]) -> int:
    for at, word in enumerate(words):
        name, _, value = word.partition("=")
        value = value or next(iter(words[at + 1 :]), "")
        if name == "--port" and value.isdigit():
            return int(value)
    return 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
