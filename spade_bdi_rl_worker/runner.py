"""One run: a server, its agents, their turns, and what becomes of them.

Everything happens in one event loop. An agent has a turn of a few milliseconds, then the session is attended to, then
the next agent has one. What may take long (a pause, a checkpoint, pictures) is done in a thread while no agent has a
turn, so that the loop goes on answering the server.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar

import uvloop

from mosaic_protocol.live.messages import Tell
from mosaic_protocol.mind import AgentMind
from mosaic_protocol.plain_text import clean_line
from mosaic_worker.errors import UsageError
from mosaic_worker.settings import Settings
from mosaic_worker.training.session import TrainingSession
from spade_bdi_rl_worker.agent.learner import LearningAgent, tell_all
from spade_bdi_rl_worker.agent.reasoner import PlanError
from spade_bdi_rl_worker.crew import Crew
from spade_bdi_rl_worker.network.spade_agent import SpadeLearner, forget_agents, introduce
from spade_bdi_rl_worker.settings import xmpp_of
from spade_bdi_rl_worker.telling import ScalarRows
from spade_bdi_rl_worker.xmpp import Pulse, ServerError, XmppServer, choose_server, connect, leave

REST_SECONDS = 2.0
"""How long agents may take to come to rest before a checkpoint is written as they are."""
TURNS_ALONE = 4
"""That an agent has one after the other where no other one waits: what is done between two turns takes as long as ten
episodes. What was played is handed over after each of them."""
_YOUNG_OBJECTS = 50_000
_GRACE_SECONDS = 1.0
"""How long all agents must be idle before the run is over: a message may be on its way."""

T = TypeVar("T")


class SpadeBDIRunner:
    """Owns the run's agents, its server and the loop in which they meet. :meth:`run` returns when the run is over."""

    def __init__(self, session: TrainingSession, settings: Settings) -> None:
        """Raises UsageError for what cannot run."""
        self._session, self._settings = session, settings
        self.crew = Crew(session, settings, self._note_episodes)
        self._rows = ScalarRows(session, self.crew)
        self._thread = ThreadPoolExecutor(1, "session")
        self._one_at_a_time = asyncio.Lock()
        self._began = asyncio.Event()
        self._over: asyncio.Future[None] | None = None
        self._idle_since: float | None = None
        self._rest_until: float | None = None
        self._more_turns = TURNS_ALONE - 1 if len(self.crew.agents) == 1 else 0
        self._waits = settings.params["when_idle"] == "wait"
        self._has_said_inexact = False

    def run(self) -> None:
        """Raises UsageError with what went wrong, in one sentence."""
        crew, session = self.crew, self._session
        session.restore(crew.state, self._settings.resume, self._settings.warm_start, crew.fixed)
        if crew.seed is not None:
            session.note_origin(crew.seed.origin)
            print(f"The table begins with {crew.seed}.", flush=True)
        crew.wake(resumed=bool(self._settings.resume), warm=bool(self._settings.warm_start))
        try:
            with choose_server(xmpp_of(self._settings.params), session.run_dir.absolute()) as server:
                print(server.description, flush=True)
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
                    loop.run(self._live(server))
        except ServerError as error:
            raise UsageError(str(error)) from error
        finally:
            self._thread.shutdown()
        self._save(required=True)

    # ---- the loop ------------------------------------------------------------------------------------------------

    async def _live(self, server: XmppServer) -> None:
        forget_agents()
        self._over = asyncio.get_running_loop().create_future()
        accounts = {agent.name: await asyncio.to_thread(server.account, agent.name) for agent in self.crew.agents}
        async with AsyncExitStack() as living:
            present: list[SpadeLearner] = []
            living.push_async_callback(leave_together, present)
            for agent in self.crew.agents:
                account = accounts[agent.name]
                spade = SpadeLearner(account.jid, account.password, agent, self)
                agent.connect(spade.send)
                await connect(spade, server)
                present.append(spade)
                await living.enter_async_context(Pulse(spade, server, self._lose_server))
            introduce(present)
            await self._aside(lambda: self._session.begin(self.crew.total_steps))
            self._session.show(self.crew.picture, self)
            _look_at_new_objects_alone()
            self._began.set()
            try:
                await self._over
            except Exception:  # whatever ends the run, an environment too: what was learned until then is kept
                await self._aside(self._save_what_is_there)
                raise

    async def take(self, agent: LearningAgent) -> bool:
        """One turn of one agent; False when there is nothing to do for it now."""
        await self._began.wait()
        async with self._one_at_a_time:
            if self._over is None or self._over.done():
                await asyncio.sleep(0.01)
                return False
            busy = agent.turn()
            for _ in range(self._more_turns):
                if not busy or self._session.is_asked:
                    break
                busy = agent.turn()
            await self._attend()
            return busy

    async def _attend(self) -> None:
        """What the session wants, between two turns."""
        session, crew = self._session, self.crew
        self._rows.write_now_and_then()
        if session.is_asked:
            await self._aside(lambda: session.safe_point(crew.steps))
        else:
            session.safe_point(crew.steps)
        wants = session.is_checkpoint_due(crew.steps) or crew.wants_checkpoint
        ends = session.stop_requested or crew.is_over
        if (wants or ends) and self._has_come_to_rest():
            if ends:
                self._end()
            else:
                await self._aside(lambda: self._save(required=False))
                crew.rest(False)
        elif self._is_idle_for_good():
            self._end()

    def _has_come_to_rest(self) -> bool:
        """Whether nobody is in the middle of a plan; agents that cannot come to rest are not waited for."""
        now = time.monotonic()
        if self._rest_until is None:
            self._rest_until = now + REST_SECONDS
            self.crew.rest(True)
        if not self.crew.is_at_rest and now < self._rest_until:
            return False
        self._rest_until = None
        return True

    def _is_idle_for_good(self) -> bool:
        if self._waits or not self.crew.is_idle:
            self._idle_since = None
            return False
        now = time.monotonic()
        if self._idle_since is None:
            self._idle_since = now
        return now - self._idle_since >= _GRACE_SECONDS

    def _end(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def fail(self, error: BaseException) -> None:
        """The run cannot go on."""
        if isinstance(error, PlanError):
            print("\n".join(map(clean_line, error.mistake.drawn().split("\n"))), file=sys.stderr, flush=True)
            error = UsageError(str(error))
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)

    def _lose_server(self, sentence: str) -> None:
        self.fail(ServerError(sentence))

    async def _aside(self, work: Callable[[], T]) -> T:
        """In the session's thread, while no agent has a turn."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # ---- what is kept --------------------------------------------------------------------------------------------

    def _note_episodes(self, agent: LearningAgent, totals: list[float], lengths: list[int]) -> None:
        self._rows.note(totals, lengths)

    def _save(self, *, required: bool) -> None:
        session, crew = self._session, self.crew
        self._rows.write()
        if required and session.has_saved(crew.steps):
            return
        if not crew.is_at_rest and not self._has_said_inexact:
            self._has_said_inexact = True
            print("A plan is in the middle of its work: a run resumed from here begins its goals again.", flush=True)
        session.save_checkpoint(crew.steps, *crew.capture(), crew.spaces, required=required)
        crew.note_saved()
        if required:
            crew.publish(session.run_dir)

    def _save_what_is_there(self) -> None:
        with suppress(Exception):  # what ended the run is what is told
            self._save(required=True)

    # ---- for those who watch -------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(agent.name for agent in self.crew.agents)

    def seen(self) -> tuple[AgentMind, ...]:
        return tuple(agent.seen() for agent in self.crew.agents)

    def tell(self, told: Tell) -> str:
        """Called in another thread."""
        return tell_all(self.crew.agents, told)


def _look_at_new_objects_alone() -> None:
    """What is there before the first episode stays to the end: the garbage collector need not go through it each time
    that some thousand terms of plans came and went."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS)


async def leave_together(agents: Sequence[Any]) -> None:
    """A server that answers nobody is waited for once, not once for each agent."""
    await asyncio.gather(*(leave(agent) for agent in agents))
