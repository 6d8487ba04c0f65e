"""Internal: the process of the embedded server. Needs pyjabber and uvloop, and nothing of MOSAIC.

pyjabber's own start listens on the address of the local network, opens an administration page without a password on
port 9090, talks to other servers, lets everybody register, replaces signal handlers and forks. So only its parts are
used here: what reads a client's stream and what delivers messages, behind one socket on the loopback interface.

Orders come as JSON lines on standard input; answers go, also as JSON lines, to the descriptor that is the only
argument.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import uvloop

_NEVER = 10**8  # seconds of silence after which a client is cut off; the agents watch the connection themselves
_MOST_BEFORE_LOGIN = 64 * 1024
_LOGIN_SECONDS = 60.0
"""What somebody may send, and how long it may take, before a login: agents need 2 KB and a second."""
_PLUGINS = ["http://jabber.org/protocol/disco#info", "http://jabber.org/protocol/disco#items", "urn:xmpp:ping"]


def main() -> None:
    answers = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8")
    order = json.loads(sys.stdin.readline())
    _leave_out_what_is_not_used()
    # With asyncio's own loop, handshakes of TLS hang now and then.
    uvloop.run(_serve(order, answers))


def _leave_out_what_is_not_used() -> None:
    """A database in memory is never migrated; the tool for that is a third of what would be imported."""
    alembic, config = ModuleType("alembic"), ModuleType("alembic.config")
    alembic.command = config.Config = None  # type: ignore[attr-defined]
    sys.modules |= {"alembic": alembic, "alembic.config": config}


async def _serve(order: dict[str, Any], answers: Any) -> None:
    listening = _bound(order["host"], order["port"])
    if listening is None:
        _say(answers, error=_taken(order["host"], order["port"]))
        return
    from loguru import logger

    logger.remove()  # what it says in detail holds the passwords of clients
    logger.add(sys.stdout, level="WARNING", format="{message}", backtrace=False, diagnose=False, catch=True)
    _configure(order)
    await _listen(listening)
    _say(answers, port=listening.getsockname()[1])
    await _obey(answers)


def _bound(host: str, port: int) -> socket.socket | None:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(128)
    except OSError:
        found.close()
        return None
    found.setblocking(False)
    return found


def _taken(host: str, port: int) -> str:
    return (
        f"Port {port} of {host} is taken: another program listens there. Leave the port at 0, so that a free one is "
        "used, or end that program."
    )


def _configure(order: dict[str, Any]) -> None:
    from pyjabber import AppConfig

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(f"/proc/self/fd/{order['certificate']}", f"/proc/self/fd/{order['key']}")
    AppConfig.app_config = AppConfig.AppConfig(
        host=order["domain"],
        ip=[order["host"]],
        ssl_context=context,
        ssl_context_s2s=context,
        connection_timeout=_NEVER,
        server_port=0,
        family=socket.AF_INET,
        config_path="",
        cert_path="",
        root_path="",
        database_path="",
        database_in_memory=True,
        database_purge=False,
        database_debug=False,
        message_persistence=True,
        semaphore=asyncio.Semaphore(2),
        process_pool_exe=ThreadPoolExecutor(2),  # its only task releases the interpreter lock
        verbose=False,
        plugins=_PLUGINS,
        items={},
    )


async def _listen(listening: socket.socket) -> None:
    from pyjabber.db.database import DB
    from pyjabber.features.presence.PresenceFeature import Presence
    from pyjabber.queues.workers.MessageQueueWorker import queue_worker

    _close_doors()
    await DB.setup_database()
    await Presence().get_all_pending_presence()
    loop = asyncio.get_running_loop()
    _running.append(loop.create_task(queue_worker()))
    _running.append(await loop.create_server(_make_door(), sock=listening))


_running: list[Any] = []
"""A loop forgets tasks that nobody holds."""


def _make_door() -> Any:
    """What makes a connection's protocol. pyjabber keeps whatever somebody sends who is not logged in, for ever: any
    user of the machine could fill the memory with it."""
    from pyjabber.network.protocols.XMLProtocol import XMLProtocol

    class Door(XMLProtocol):
        def __init__(self) -> None:
            super().__init__("jabber:client", _NEVER)
            self._unknown_bytes = 0
            self._patience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._patience = asyncio.get_running_loop().call_later(_LOGIN_SECONDS, self._require_login)

        def data_received(self, data: bytes) -> None:
            if not self._is_known():
                self._unknown_bytes += len(data)
            if self._unknown_bytes > _MOST_BEFORE_LOGIN:
                self._transport.abort()
            else:
                super().data_received(data)

        def connection_lost(self, error: Exception | None) -> None:
            if self._patience is not None:
                self._patience.cancel()
            super().connection_lost(error)

        def _is_known(self) -> bool:
            return self._connection_manager.get_jid(self._peer) is not None

        def _require_login(self) -> None:
            if self._transport is not None and not self._is_known():
                self._transport.abort()

    return Door


def _close_doors() -> None:
    """Registering is answered also where it is not offered, and uploads need a server that is not there."""
    from pyjabber.features.SASL.SASL import SASL
    from pyjabber.plugins import PluginManager
    from pyjabber.stanzas.error import StanzaError
    from pyjabber.utils.Exceptions import NotAuthorizerStreamNegotiationException

    async def refuse(_self: Any, _element: Any) -> None:
        raise NotAuthorizerStreamNegotiationException()

    class NoUploads:
        async def feed(self, _jid: Any, _element: Any) -> bytes:
            refusal: bytes = StanzaError.feature_not_implemented("request", "urn:xmpp:http:upload:0")
            return refusal

    SASL.handle_iq = refuse
    PluginManager.HTTPFieldUpload = NoUploads


async def _obey(answers: Any) -> None:
    """Make accounts until standard input is closed: then the run is over."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        await _register(order["name"], order["password"])
        _say(answers)


async def _register(name: str, password: str) -> None:
    from pyjabber.features.SASL.SASL import SASL

    await SASL(None, None, None)._store_hash_task(password, name)


def _say(answers: Any, **answer: object) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
