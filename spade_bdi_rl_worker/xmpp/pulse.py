"""Noticing that a server died, hung up or froze, from inside the agent's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from spade_bdi_rl_worker.xmpp.contract import XmppServer

INTERVAL = 1.5
"""Seconds between an answer and the next ping."""
PATIENCE = 2.5
"""Seconds without an answer after which a server counts as frozen: with the interval less than 5."""
_SLICE = 0.25
_MOMENT = 0.3


class Pulse:
    """Pings the server (XEP-0199) while it is started, and says once what is wrong.

    ``on_problem`` is called in the loop, with one sentence, at most once; :attr:`problem` keeps it. A lost connection
    is noticed at once, a frozen server within :data:`INTERVAL` + :data:`PATIENCE` seconds. A ping costs less than a
    millisecond.

    Time counts only while this loop runs: waiting is done in slices, and a slice counts as one however late it ends. An
    agent that computes for ten seconds, or is stopped by a signal, does not blame its server.

    Start it after :func:`~spade_bdi_rl_worker.xmpp.connect`, and stop it before the agent: an agent that leaves loses
    its connection too. Or use it with ``async with``.
    """

    def __init__(
        self,
        agent: Any,
        server: XmppServer,
        on_problem: Callable[[str], object],
        *,
        interval: float = INTERVAL,
        patience: float = PATIENCE,
    ) -> None:
        self.problem = ""
        self._client = agent.client
        self._server = server
        self._on_problem = on_problem
        self._interval = interval
        self._slices = max(1, round(patience / _SLICE))
        self._lost = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._client.add_event_handler("disconnected", self._note_loss)
        if not self._client.is_connected():
            self._lost.set()
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="xmpp-pulse")

    async def stop(self) -> None:
        """Harmless when it is not running."""
        self._client.del_event_handler("disconnected", self._note_loss)
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _watch(self) -> None:
        while await self._answers():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._lost.wait()
        self.problem = await self._reason()
        self._on_problem(self.problem)

    async def _answers(self) -> bool:
        """Whether the connection stands and a ping comes back."""
        if self._lost.is_set():
            return False
        # Its own timeout is far away: whether it is late is decided here.
        reply = asyncio.ensure_future(self._client["xep_0199"].send_ping(self._server.domain, timeout=3600))
        lost = asyncio.ensure_future(self._lost.wait())
        try:
            for _ in range(self._slices):
                await asyncio.wait({reply, lost}, timeout=_SLICE, return_when=asyncio.FIRST_COMPLETED)
                if lost.done():
                    return False
                if reply.done():  # an error is an answer as well
                    return True
            return False
        finally:
            lost.cancel()
            reply.cancel() if not reply.done() else reply.exception()

    async def _reason(self) -> str:
        where = f"{self._server.host}:{self._server.port}"
        if not self._lost.is_set():
            return self._server.problem() or (
                f"The XMPP server at {where} has stopped answering: it is frozen or overloaded, or the network is "
                "down. Restart it, then start the run again."
            )
        for _ in range(10):  # the connection breaks a moment before the end of the process is known
            if problem := self._server.problem():
                return problem
            await asyncio.sleep(_MOMENT / 10)
        return (
            f"The connection to the XMPP server at {where} was lost: the server was stopped, or it or the network "
            "failed. Start the server, then the run again."
        )

    def _note_loss(self, _reason: object) -> None:
        self._lost.set()
