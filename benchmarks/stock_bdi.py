"""Episodes a CPU second of an agent of spade_bdi as that package has it: ``python -m benchmarks.stock_bdi EPISODES
[blind]``.

Q-learning on FrozenLake 4x4 that is not slippery, one goal and one AgentSpeak cycle for each step, on a real prosody.
The world and the learning are those of our worker, in their plainest form: the interpreter's loop is what differs. The
agent believes where it is and how its last episode ended, set by ``set_belief`` as the package's own examples do, and
its plan asks for the place; a ``blind`` one believes nothing.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import agentspeak as asp
import gymnasium as gym
from spade_bdi.bdi import BDIAgent

from spade_bdi_rl_worker.xmpp import XmppSettings, choose_server, connect, leave

BLIND = """
!step.
+!step : not over <- .act; !!step.
+!step.
"""
PLANS = """
at(0).
!step.
+!step : at(S) & not over <- .act(S); !!step.
+!step.
"""


class StockAgent(BDIAgent):
    """Steps a table of FrozenLake by an action of its plans."""

    def __init__(self, jid: str, password: str, plans: str, episodes: int) -> None:
        with gym.make("FrozenLake-v1", is_slippery=False) as env:
            inner: Any = env.unwrapped
            self._table = inner.P
        self._left, self._state, self._steps, self._reached = episodes, 0, 0, False
        self._q = [[0.0] * 4 for _ in self._table]
        self._random = random.Random(1)
        self.done = asyncio.Event()
        self.began: float | None = None
        super().__init__(jid, password, plans)

    def add_custom_actions(self, actions: Any) -> None:
        @actions.add(".act", 0)
        def _act(agent: Any, term: Any, intention: Any) -> Any:
            self._step()
            yield

        @actions.add(".act", 1)
        def _act_there(agent: Any, term: Any, intention: Any) -> Any:
            self._state = int(asp.grounded(term.args[0], intention.scope))
            left = self._left
            self._step()
            self.bdi.set_belief("at", self._state)
            if self._left != left:
                self.bdi.set_belief("outcome", "reached" if self._reached else "failed")
            yield

    def _step(self) -> None:
        if self.began is None:
            self.began = time.process_time()
        if not self._left:
            self.done.set()
            return
        row = self._q[self._state]
        action = self._random.randrange(4) if self._random.random() < 0.1 or not any(row) else row.index(max(row))
        ((_, after, reward, over),) = self._table[self._state][action]
        row[action] += 0.5 * (reward + (0.0 if over else 0.99 * max(self._q[after])) - row[action])
        self._steps += 1
        self._state = after
        if over or self._steps == 100:
            self._left, self._state, self._steps, self._reached = self._left - 1, 0, 0, reward > 0


async def _measured(server: Any, plans: Path, episodes: int) -> float:
    account = server.account("stock")
    agent = StockAgent(account.jid, account.password, str(plans), episodes)
    await connect(agent, server)
    await agent.done.wait()
    used = time.process_time() - (agent.began or 0.0)
    await leave(agent)
    return episodes / used


def main(episodes: int, *, blind: bool) -> None:
    with tempfile.TemporaryDirectory() as place:
        plans = Path(place) / "stock.asl"
        plans.write_text(BLIND if blind else PLANS)
        with choose_server(XmppSettings("prosody"), Path(place)) as server:
            print(asyncio.run(_measured(server, plans, episodes)))


if __name__ == "__main__":
    main(int(sys.argv[1]), blind="blind" in sys.argv[2:])
