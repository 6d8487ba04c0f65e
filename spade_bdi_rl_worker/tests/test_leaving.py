"""The agents of a run leave their server together, however it is."""

from __future__ import annotations

import asyncio

from spade_bdi_rl_worker.runner import leave_together


class Leaving:
    """Its server answers when all agents have said goodbye, which one after the other they never would have."""

    client = None

    def __init__(self, all_left: asyncio.Barrier) -> None:
        self.all_left, self.is_gone = all_left, False

    async def stop(self) -> None:
        await self.all_left.wait()
        self.is_gone = True


def test_agents_leave_together() -> None:
    async def leaving() -> list[bool]:
        all_left = asyncio.Barrier(6)
        agents = [Leaving(all_left) for _ in range(6)]
        await leave_together(agents)
        return [agent.is_gone for agent in agents]

    assert asyncio.run(leaving()) == [True] * 6
