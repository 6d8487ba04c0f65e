"""Which server a run uses, and whether it can be used."""

from __future__ import annotations

import socket
from pathlib import Path

from spade_bdi_rl_worker.xmpp import embedded
from spade_bdi_rl_worker.xmpp.contract import LOOPBACK, ServerError, XmppServer, XmppSettings
from spade_bdi_rl_worker.xmpp.own import OwnServer
from spade_bdi_rl_worker.xmpp.prosody import ProsodyServer, find_prosody, port_taken

_HIGHEST_PORT = 65535


def choose_server(settings: XmppSettings, run_dir: Path) -> XmppServer:
    """The server for a run; nothing is started or opened yet. Raises :class:`ServerError`."""
    if not 0 <= settings.port <= _HIGHEST_PORT:
        raise ServerError(f"{settings.port} is not a port: give a number from 1 to {_HIGHEST_PORT}, or 0.")
    if settings.server == "own":
        return OwnServer(settings)
    if settings.jid or settings.host or settings.ca_file:
        raise ServerError(
            f"JID, host and CA file belong to a server of your own, but the server is {settings.server!r}. Choose "
            "'own', or leave them empty."
        )
    program = "" if settings.server == "embedded" else find_prosody()
    if program:
        return ProsodyServer(program, run_dir, settings.port)
    if settings.server == "prosody":
        raise ServerError(
            "prosody is not installed. Install it (`apt install prosody`), or choose 'auto' for the embedded server."
        )
    if not embedded.is_installed():
        raise ServerError(
            "There is no XMPP server: neither prosody nor the embedded one (pyjabber and uvloop) is installed. Install "
            "one, such as with `apt install prosody`, or use a server of your own."
        )
    why = "the run asks for it" if settings.server == "embedded" else "prosody is not installed"
    return embedded.EmbeddedServer(run_dir, settings.port, why)


def check(settings: XmppSettings) -> str:
    """What a run with these settings will use, in one sentence. Logs in to a server of the user's, which takes some
    seconds at most; starts nothing. Call it where no event loop runs.

    Raises :class:`ServerError` with what is wrong and what to do.
    """
    server = choose_server(settings, Path())
    if isinstance(server, OwnServer):
        server.check()
    elif settings.port:
        _require_free(settings.port)
    return server.description


def _require_free(port: int) -> None:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
        except PermissionError:
            raise ServerError(f"Port {port} is reserved for the administrator. Use one above 1023, or 0.") from None
        except OSError:
            raise port_taken(port) from None
