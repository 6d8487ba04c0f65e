"""Logging in: an agent that is connected, or one sentence that says why not."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from spade_bdi_rl_worker.xmpp.contract import Account, ServerError, XmppServer
from spade_bdi_rl_worker.xmpp.knock import bad_certificate, knock, trust

MARK = "mosaic-"
"""How the resources of agents begin: what tells them from a person's client that uses the same account."""
_GOODBYE = 1.0


async def connect(agent: Any, server: XmppServer, timeout: float = 10.0) -> None:
    """Start a SPADE agent on a server, in the running loop. Its ``setup`` is not part of the timeout.

    Raises :class:`ServerError`; then the agent is as if it had not been started, and nothing of it is left in the loop.
    """
    context = trust(server.certificate)
    await asyncio.to_thread(knock, server.host, server.port, server.domain, context, timeout)

    async def log_agent_in() -> None:
        client = agent.client
        client.add_event_handler("message", agent._message_received)
        await log_in(client, server, context, timeout)

    agent.xmpp_port, agent.verify_security = server.port, True
    # SPADE connects to the host in the JID, checks no certificate and waits for ever. Its start does the rest.
    agent._async_connect = log_agent_in
    try:
        await agent.start(auto_register=False)
    finally:
        del agent._async_connect


async def log_in(client: Any, server: XmppServer, context: ssl.SSLContext, timeout: float) -> None:
    """Connect a slixmpp client and wait until its session has begun. Raises :class:`ServerError`."""
    client.loop = asyncio.get_running_loop()
    client.ssl_context = context
    client.enable_direct_tls = client.enable_plaintext = False
    client.requested_jid.resource = MARK + secrets.token_hex(6)
    attempt = _Attempt(client, server)
    try:
        client.connect(host=server.host, port=server.port)
        async with asyncio.timeout(timeout):
            await attempt.outcome
        await _refuse_a_twin(client, attempt, timeout)
    except TimeoutError:
        await _abandon(client)
        raise ServerError(
            server.problem()
            or f"The XMPP server at {server.host}:{server.port} does not complete the login of "
            f"{client.requested_jid.bare} within {timeout:.0f} s: it is frozen or overloaded. Restart it, then try "
            "again."
        ) from None
    except BaseException:
        await _abandon(client)
        raise
    finally:
        attempt.close()


class _Attempt:
    """Listens to what a client experiences on its way in; ``outcome`` is done when it is in, or holds the reason."""

    def __init__(self, client: Any, server: XmppServer) -> None:
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.twins: set[str] = set()
        self._client = client
        self._server = server
        self._refused = ""
        self._handlers: dict[str, Callable[[Any], object]] = {
            "session_start": lambda _: self._settle(None),
            "failed_auth": self._note_refusal,
            "failed_all_auth": lambda _: self._settle(self._wrong_password()),
            "ssl_invalid_chain": self._note_certificate,
            "connection_failed": lambda _: self._settle(self._lost()),
            "disconnected": lambda _: self._settle(self._wrong_password() if self._refused else self._lost()),
            "presence_available": self._note_presence,
        }
        for event, handler in self._handlers.items():
            client.add_event_handler(event, handler)

    def close(self) -> None:
        for event, handler in self._handlers.items():
            self._client.del_event_handler(event, handler)
        if self.outcome.done() and not self.outcome.cancelled():
            self.outcome.exception()  # it was seen

    def _settle(self, error: ServerError | None) -> None:
        if self.outcome.done():
            return
        if error is None:
            self.outcome.set_result(None)
        else:
            self.outcome.set_exception(error)

    def _note_refusal(self, failure: Any) -> None:
        self._refused = str(failure["condition"]) or "refused"

    def _note_certificate(self, error: object) -> None:
        where = f"{self._server.host}:{self._server.port}"
        if isinstance(error, ssl.SSLCertVerificationError):
            self._settle(bad_certificate(where, self._server.domain, error))
        else:
            self._settle(ServerError(f"The XMPP server at {where} and this machine agree on no encryption ({error})."))

    def _note_presence(self, presence: Any) -> None:
        sender, own = presence["from"], self._client.boundjid
        if sender.bare == own.bare and sender.resource != own.resource and sender.resource.startswith(MARK):
            self.twins.add(sender.full)

    def _wrong_password(self) -> ServerError:
        reason = self._refused or "it offers no way to log in that this client knows"
        return ServerError(
            f"The XMPP server at {self._server.host}:{self._server.port} does not let "
            f"{self._client.requested_jid.bare} in ({reason}): the password is wrong, or there is no such account. "
            "Check both."
        )

    def _lost(self) -> ServerError:
        return ServerError(
            self._server.problem()
            or f"The XMPP server at {self._server.host}:{self._server.port} broke the connection off during the login "
            f"of {self._client.requested_jid.bare}. Its log says why; then try again."
        )


async def _refuse_a_twin(client: Any, attempt: _Attempt, timeout: float) -> None:
    """Raise :class:`ServerError` when an agent of another run uses the account, also on another machine.

    A server tells a client that comes who else is there under the same account. It answers in order: with the answer to
    a ping, that has been said.
    """
    if "xep_0199" not in client.plugin:
        return
    with suppress(Exception):  # an answer that is an error is an answer; without one the pulse will say so
        async with asyncio.timeout(timeout):
            await client["xep_0199"].send_ping(client.boundjid.domain, timeout=timeout)
    if attempt.twins:
        raise ServerError(
            f"Another run is logged in as {client.boundjid.bare} ({', '.join(sorted(attempt.twins))}): both would get "
            "each other's messages. Stop that run, or use another account. After a crash, the server may need some "
            "minutes to notice that it is gone."
        )


async def leave(agent: Any) -> None:
    """Stop an agent, also when its server answers nobody. Nothing of it is left in the loop; takes some seconds at most
    and raises nothing on the server's account."""
    with suppress(Exception):  # saying goodbye is a courtesy
        async with asyncio.timeout(_GOODBYE):
            await agent.stop()
    if agent.client is not None:
        await _abandon(agent.client)


async def _abandon(client: Any) -> None:
    """Leave nothing of a client in the loop: it would try again for ever."""
    client.cancel_connection_attempt()
    client.abort()
    if (filters := client._run_out_filters) is not None:
        filters.cancel()
    for _ in range(100):  # the loop closes the socket in one of its next rounds
        if client.transport is None:
            break
        await asyncio.sleep(0.005)


def try_login(account: Account, server: XmppServer, timeout: float) -> None:
    """Log in and out again, for a check before a launch. Blocks; call it where no loop runs. Raises
    :class:`ServerError`."""
    from slixmpp import ClientXMPP

    async def once() -> None:
        context = trust(server.certificate)
        client = ClientXMPP(account.jid, account.password)
        await log_in(client, server, context, timeout)
        left: Awaitable[object] = client.disconnect(wait=1.0, ignore_send_queue=True)
        await left
        await _abandon(client)

    asyncio.run(once())
