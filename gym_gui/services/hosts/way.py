"""How a command gets to run on a host: by ``ssh``, or here, where the login node of a batch system is this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gym_gui.services.hosts.book import Host
from mosaic_protocol.ssh_command import SshCommand, SshError, end, start_tied


class Way(Protocol):
    """What :class:`SshCommand` offers. Raises its :class:`SshError`."""

    def arguments(self, command: str = "", *, forwards: Sequence[tuple[str, str]] = ()) -> list[str]:
        """A command line that runs a shell's ``command`` there."""

    def run(self, command: str, *, given: bytes = b"", seconds: float = 60.0) -> subprocess.CompletedProcess[bytes]:
        """Run a shell's ``command`` there to its end."""


@dataclass(frozen=True)
class LocalCommand:
    """The same on this machine."""

    def arguments(self, command: str = "", *, forwards: Sequence[tuple[str, str]] = ()) -> list[str]:
        if forwards:
            raise SshError("nothing is forwarded to this machine")
        return ["sh", "-c", command]

    def run(self, command: str, *, given: bytes = b"", seconds: float = 60.0) -> subprocess.CompletedProcess[bytes]:
        arguments, pipe = self.arguments(command), subprocess.PIPE
        process = start_tied(arguments, stdin=pipe, stdout=pipe, stderr=pipe)
        try:
            out, errors = process.communicate(given, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise SshError(f"this machine did not answer within {seconds:.0f} s") from None
        finally:
            end(process)
        return subprocess.CompletedProcess(arguments, process.returncode, out, errors)


def way_to(host: Host, *, may_ask: bool = False) -> Way:
    """``may_ask``: somebody can answer ssh's questions."""
    return SshCommand.to(host.ssh, may_ask=may_ask) if host.ssh else LocalCommand()
