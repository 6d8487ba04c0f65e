"""What a server promises to those who log in, whichever it is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

ServerKind: TypeAlias = Literal["auto", "prosody", "embedded", "own"]

LOOPBACK = "127.0.0.1"
"""Where the servers of runs listen, and nowhere else."""
LOCAL_DOMAIN = "localhost"
"""The part of their JIDs behind the @."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


class ServerError(Exception):
    """A server cannot be used; the text says what happened, why, and what to do."""


@dataclass(frozen=True)
class Account:
    """What an agent logs in with. The password is in no ``repr``, so that no log has it."""

    jid: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class XmppSettings:
    """Which server a run uses."""

    server: ServerKind = "auto"
    """``auto``: prosody where it is installed, else the embedded one. ``own``: the user's server."""
    jid: str = ""
    """``own``: the account. For several agents one JID each, with commas between them."""
    host: str = ""
    """``own``: where the server listens, if that is not the part of the JID behind the @."""
    port: int = 0
    """0: a free port for the server of a run, 5222 for the user's own."""
    ca_file: str = ""
    """``own``: PEM file with the authority that signed the server's certificate. Empty: those of the system."""


class XmppServer(Protocol):
    """A server for one run: there from ``__enter__`` to ``__exit__``, which may be called from any thread.

    ``__enter__`` and :meth:`account` block for a moment and raise :class:`ServerError`; call them before an event loop
    runs, or in a thread.
    """

    host: str
    port: int
    """Valid once the server was entered."""
    domain: str
    certificate: Path | None
    """What a client must trust, and nothing else; None: what the system trusts."""
    description: str
    """Which server this is and why, in one sentence."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def account(self, name: str) -> Account:
        """An account that can log in now. The same name gives the same account."""
        ...

    def problem(self) -> str:
        """ "" while nothing is known to be wrong, else a sentence. Costs one small read at most."""
        ...


def checked_agent_name(name: str) -> str:
    """The name if it can stand before the @ of a JID as it is. Raises :class:`ServerError`."""
    if not _NAME.fullmatch(name):
        raise ServerError(
            f"An agent cannot be called {name[:64]!r}: its name becomes part of its XMPP address. Use lower-case "
            "letters, digits, '_', '-' and '.', beginning with a letter or a digit."
        )
    return name
