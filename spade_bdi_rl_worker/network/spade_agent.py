"""The SPADE side of an agent: its account, its messages, and its turns in the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from spade.container import Container
from spade.message import Message
from spade_bdi.bdi import BDIAgent
from spade_bdi.bdi_behaviour import BDIBehaviour

from spade_bdi_rl_worker.agent.learner import LearningAgent

NAP_SECONDS = 0.2
"""How long an agent without anything to do sleeps at most before it looks again. A message wakes it."""
_SHORTEST_NAP = 0.001
"""Also for a plan that waits for no time at all, again and again."""
_PERFORMATIVE = "ilf_type"


def forget_agents() -> None:
    """Begin with none, in the loop that runs now: SPADE keeps one list for the process, and the loop of the first."""
    Container().reset()


class Turns(Protocol):
    """Who says when an agent may go on."""

    async def take(self, agent: LearningAgent) -> bool:
        """Let an agent have its turn; False when it had nothing to do."""

    def fail(self, error: BaseException) -> None:
        """An agent cannot go on."""


class SpadeLearner(BDIAgent):
    """One agent on an XMPP server. What it thinks and does is :class:`LearningAgent`'s."""

    def __init__(self, jid: str, password: str, mind: LearningAgent, turns: Turns) -> None:
        self.mind, self.turns = mind, turns
        self.jids: dict[str, str] = {}
        """The addresses of the other agents of the run, by name; see :func:`introduce`."""
        self.names: dict[str, str] = {}
        """Their names, by account."""
        super().__init__(jid, password, "")

    def _load_asl(self) -> None:
        self.bdi_agent = self.mind.reasoner
        self.resume_bdi()

    def add_behaviour(self, behaviour: Any, template: Any = None) -> None:
        if isinstance(behaviour, BDIBehaviour) and not isinstance(behaviour, _SlicedBehaviour):
            behaviour = _SlicedBehaviour()  # the stock loop turns as fast as it can, idle or not
        super().add_behaviour(behaviour, template)

    def send(self, peer: str, performative: str, text: str) -> None:
        """Send a message through the server, soon."""
        metadata = {"performative": "BDI", _PERFORMATIVE: performative}
        message = Message(to=self.jids[peer], body=text, metadata=metadata)
        task = self.submit(self.bdi._xmpp_send(message))
        task.add_done_callback(self._note_sent)

    def _note_sent(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.turns.fail(error)


def introduce(agents: Sequence[SpadeLearner]) -> None:
    """Give agents that are logged in each other's addresses. Those are full: what is sent to an account alone goes to
    the client that wants it most, which may be a person's."""
    for agent in agents:
        others = [one for one in agents if one is not agent]
        agent.jids = {one.mind.name: str(one.client.boundjid.full) for one in others}
        agent.names = {str(one.client.boundjid.bare): one.mind.name for one in others}


class _SlicedBehaviour(BDIBehaviour):
    """A few milliseconds of reasoning, then whatever else the loop has to do; a nap while there is nothing to do."""

    agent: SpadeLearner

    def add_actions(self) -> None:
        """They are there already."""

    async def run(self) -> None:
        try:
            await self._take_in(0)
            if not await self.agent.turns.take(self.agent.mind):
                due = self.agent.mind.next_deadline
                await self._take_in(NAP_SECONDS if due is None else min(NAP_SECONDS, max(due, _SHORTEST_NAP)))
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - SPADE would log it, end the behaviour, and call the agent alive
            self.agent.turns.fail(error)
            self.kill()

    async def _take_in(self, seconds: float) -> None:
        receive: Callable[..., Awaitable[Any]] = self.receive
        while (message := await receive(timeout=seconds)) is not None:
            seconds = 0
            sender = self.agent.names.get(str(message.sender).partition("/")[0])
            if sender is not None:  # nobody else has a say
                self.agent.mind.hear(sender, message.get_metadata(_PERFORMATIVE) or "", message.body or "")
