"""Messages of agents reach the agent, whoever else uses its account."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from spade_bdi_rl_worker.agent.learner import LearningAgent
from spade_bdi_rl_worker.agent.program import parse_term
from spade_bdi_rl_worker.tests.alone import believed, make_agent
from spade_bdi_rl_worker.tests.xmpp.agents_for_tests import GUARD, in_a_loop
from spade_bdi_rl_worker.xmpp import XmppSettings, choose_server, connect, leave
from spade_bdi_rl_worker.xmpp.knock import trust
from spade_bdi_rl_worker.xmpp.prosody import find_prosody

pytestmark = pytest.mark.skipif(not find_prosody(), reason="prosody is not installed")


class Turns:
    """Each agent has its turn as soon as it asks for one."""

    async def take(self, agent: LearningAgent) -> bool:
        return agent.turn()

    def fail(self, error: BaseException) -> None:
        raise AssertionError(error)


async def chat_client(server: Any, jid: str, password: str) -> Any:
    """A person's own client under an account, which wants its messages more than anybody else."""
    from slixmpp import ClientXMPP

    client = ClientXMPP(jid, password)
    client.loop, client.ssl_context = asyncio.get_running_loop(), trust(server.certificate)
    client.enable_direct_tls = client.enable_plaintext = False
    ready = asyncio.Event()
    client.add_event_handler("session_start", lambda _: ready.set())
    client.connect(host=server.host, port=server.port)
    await asyncio.wait_for(ready.wait(), GUARD)
    client.send_presence(ppriority=100)
    client.register_plugin("xep_0199")
    await client["xep_0199"].send_ping(client.boundjid.domain, timeout=GUARD)
    return client


def test_a_persons_chat_client_takes_no_messages_from_the_agent(tmp_path: Path) -> None:
    from spade_bdi_rl_worker.network.spade_agent import SpadeLearner, introduce

    scout = make_agent("idle. +!go.", name="scout", peers=("learner",))
    learner = make_agent("idle. +!go.", name="learner", peers=("scout",))
    taken: list[str] = []

    async def main() -> None:
        with choose_server(XmppSettings(server="prosody"), tmp_path) as server:
            accounts = {one.name: server.account(one.name) for one in (scout, learner)}
            spades = []
            for one in (scout, learner):
                spade = SpadeLearner(accounts[one.name].jid, accounts[one.name].password, one, Turns())
                one.connect(spade.send)
                await connect(spade, server)
                spades.append(spade)
            introduce(spades)
            client = await chat_client(server, accounts["learner"].jid, accounts["learner"].password)
            client.add_event_handler("message", lambda message: taken.append(message["body"]))
            scout.send("learner", "tell", parse_term("slippery"))
            for _ in range(int(GUARD / 0.02)):
                if "slippery" in believed(learner) or taken:
                    break
                await asyncio.sleep(0.02)
            client.abort()
            for spade in spades:
                await leave(spade)

    in_a_loop(main)
    assert "slippery" in believed(learner) and not taken
