"""A host agent in a process of its own, reached through a socket, passes the suite of the one in this process."""

from __future__ import annotations

import asyncio
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

pytest.register_assert_rewrite("gym_gui.tests.host.executor_conformance")

from gym_gui.tests.host.executor_conformance import (  # noqa: E402
    AT_ONCE,
    HANG_GUARD,
    ROOT,
    ExecutorConformance,
    Lab,
    Place,
)
from gym_gui.tests.support.run_records import new_run_id  # noqa: E402
from mosaic_host import wire  # noqa: E402
from mosaic_host.client import AgentClient  # noqa: E402
from mosaic_host.executor import WorkerHandle  # noqa: E402
from mosaic_host.process_sweep import send_signal  # noqa: E402
from mosaic_protocol.process_identity import ProcessIdentity, stat_fields  # noqa: E402


class Agent:
    """An agent that leaves when its last client does."""

    def __init__(self, place: Place, name: str, *options: str) -> None:
        self.socket = place.paths.root / name
        command = [sys.executable, "-m", "mosaic_host", "--home", str(place.paths.root), "--socket", str(self.socket)]
        told = subprocess.run(
            [*command, "--linger", "0", *options], cwd=ROOT, check=True, timeout=HANG_GUARD, stdout=subprocess.PIPE
        )
        found = ProcessIdentity.of(int(told.stdout))
        assert found is not None
        self.process = found

    async def gone(self, lab: Lab) -> None:
        await lab.until("the agent to leave", lambda: not self.process.is_alive() and not self.socket.exists())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.clean_up()


@pytest.fixture
async def lab(place: Place) -> AsyncIterator[Lab]:
    made = Lab(place)
    yield made
    await made.clean_up()


@pytest.fixture
async def agent(place: Place) -> AsyncIterator[Agent]:
    made = Agent(place, "agent.sock", "--cold")
    yield made
    if made.process.is_alive():  # a test that met it with no client
        send_signal(made.process, signal.SIGKILL)


@pytest.fixture
async def client(agent: Agent) -> AsyncIterator[AgentClient]:
    made = await AgentClient.connect(agent.socket)
    yield made
    await made.close()


class AgentPlace(Place):
    """Reads the files of runs through the agent, as one who has no other way to them would."""

    client: AgentClient | None = None

    async def read(self, file: Path) -> bytes | None:
        if self.client is None or not file.is_relative_to(self.paths.runs):
            return await super().read(file)
        run_id, *name = file.relative_to(self.paths.runs).parts
        try:
            return await self.client.read_file(run_id, "/".join(name))
        except (FileNotFoundError, wire.PipeError):
            return await super().read(file)


class TestColdSpawn(ExecutorConformance):
    mode = "cold"

    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[AgentPlace]:
        made = AgentPlace(tmp_path)
        yield made
        made.clean_up()

    @pytest.fixture
    async def agent(self, place: AgentPlace, lab: Lab) -> AsyncIterator[Agent]:
        made = Agent(place, "agent.sock", "--cold")
        yield made
        await made.gone(lab)

    @pytest.fixture
    async def executor(self, agent: Agent, place: AgentPlace) -> AsyncIterator[AgentClient]:
        made = place.client = await AgentClient.connect(agent.socket)
        yield made
        await made.close()

    @pytest.fixture
    async def later_executor(self, place: AgentPlace, lab: Lab) -> AsyncIterator[AgentClient]:
        another = Agent(place, "later.sock", "--cold")
        made = await AgentClient.connect(another.socket)
        yield made
        await made.close()
        await another.gone(lab)

    @pytest.fixture
    def without_descriptors(self, agent: Agent) -> Callable[[], AbstractContextManager[None]]:
        pid = agent.process.pid

        @contextmanager
        def shortage() -> Iterator[None]:
            soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, hard))
            yield
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))

        return shortage


# ---- the pipe itself -----------------------------------------------------------------------------


async def test_an_agent_belongs_to_no_session_of_the_one_who_started_it(agent: Agent, client: AgentClient) -> None:
    fields = stat_fields(agent.process.pid)
    assert fields is not None
    parent, session, terminal = int(fields[1]), int(fields[3]), int(fields[4])
    assert session not in (agent.process.pid, 0) and terminal == 0
    assert ProcessIdentity.of(parent) != ProcessIdentity.current()
    assert (agent.socket.stat().st_mode & 0o077) == 0


async def test_an_agent_starts_workers_warm_once_it_is_prepared(place: Place, lab: Lab) -> None:
    agent = Agent(place, "agent.sock")
    client = await AgentClient.connect(agent.socket)
    spec = await lab.spec("leave", "3")
    await client.prepare(spec)

    async def ready() -> bool:
        return list((await client.warm_servers()).values()) == ["ready"]

    await lab.until("the fork server to be ready", ready)
    started = await client.start(spec)
    assert started.mode == "warm"
    assert await client.wait(WorkerHandle(spec.run_id, spec.attempt, started.locator)) == 3
    await client.close()
    await agent.gone(lab)


async def test_calls_are_made_side_by_side(lab: Lab, client: AgentClient) -> None:
    handle = await lab.holding(client)
    waiting = asyncio.ensure_future(client.wait(handle))
    for _ in range(20):
        assert await asyncio.wait_for(client.is_alive(handle), AT_ONCE)
    assert not waiting.done()
    await client.kill_all(handle)
    assert await asyncio.wait_for(waiting, AT_ONCE) == -signal.SIGKILL


async def test_a_client_that_comes_back_learns_how_a_worker_ended_meanwhile(
    lab: Lab, agent: Agent, client: AgentClient
) -> None:
    """The agent is the parent, and outlives the one who asks."""
    another = await AgentClient.connect(agent.socket)
    handle = await lab.start(client, await lab.spec("leave", "3"))
    await client.close()
    assert await another.wait(handle) == 3
    await another.close()
    await agent.gone(lab)


async def test_when_the_agent_dies_calls_fail_and_workers_live(lab: Lab, agent: Agent, client: AgentClient) -> None:
    handle = await lab.holding(client)
    (pid,) = (await lab.relatives(handle)).values()
    waiting = asyncio.ensure_future(client.wait(handle))
    await client.is_alive(handle)
    send_signal(agent.process, signal.SIGKILL)
    with pytest.raises(OSError, match="hung up"):
        await asyncio.wait_for(waiting, HANG_GUARD)
    with pytest.raises(OSError, match="hung up"):
        await client.is_alive(handle)
    assert await lab.place.locator(pid) == handle.locator


async def test_what_an_agent_reports_reaches_its_clients(place: Place, lab: Lab) -> None:
    told: list[tuple[str, object]] = []
    agent = Agent(place, "agent.sock")
    client = await AgentClient.connect(agent.socket, lambda event, fields: told.append((event, fields["reason"])))
    await client.prepare(await lab.spec(python=Path("/no/such/python")))
    await lab.until("the agent to report", lambda: told)
    await client.close()
    await agent.gone(lab)
    ((event, reason),) = told
    assert event == "warm_start_failed"
    assert "/no/such/python" in str(reason)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"id": 1, "call": "close", "args": []}, "'close' is no call"),
        ({"id": 1, "call": "__init__", "args": []}, "is no call"),
        ({"id": 1, "call": "hindrance", "args": []}, "takes 1 argument"),
        ({"id": 1, "call": "hindrance", "args": [7]}, "Expected `str`"),
        ({"id": 1, "call": "hindrance", "args": ["../../etc"]}, "is not a run id"),
    ],
    ids=["not offered", "private", "too few", "of another type", "no run"],
)
async def test_a_call_that_cannot_be_is_answered_with_the_reason(
    agent: Agent, client: AgentClient, call: dict[str, object], said: str
) -> None:
    reader, writer = await asyncio.open_unix_connection(agent.socket)
    writer.write(wire.encode(call))
    answer = wire.decode(await reader.readline())
    assert said in answer["error"]["sentence"]
    writer.close()
    await writer.wait_closed()


async def test_a_client_that_sends_nonsense_is_disconnected_and_harms_no_other(
    agent: Agent, client: AgentClient
) -> None:
    for nonsense in (b"no json\n", b"[]\n", b'{"id": 1}\n', b"\xff\n"):
        reader, writer = await asyncio.open_unix_connection(agent.socket)
        writer.write(nonsense)
        assert await asyncio.wait_for(reader.read(), HANG_GUARD) == b""
        writer.close()
        await writer.wait_closed()
    assert "is not there" in await client.hindrance(new_run_id())


# ---- the socket --------------------------------------------------------------------------------------------------


def refusal(place: Place, socket: Path) -> str:
    """What an agent says that cannot have a socket."""
    words = [sys.executable, "-m", "mosaic_host", "--home", str(place.paths.root), "--socket", str(socket)]
    refused = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=HANG_GUARD, check=False)
    assert refused.returncode == 1
    return refused.stderr


async def test_an_agent_takes_the_place_of_one_that_was_killed(place: Place, lab: Lab, agent: Agent) -> None:
    send_signal(agent.process, signal.SIGKILL)
    await lab.until("the agent to be gone", lambda: not agent.process.is_alive())
    assert agent.socket.exists(), "what was killed takes nothing away"
    later = Agent(place, agent.socket.name, "--cold")
    client = await AgentClient.connect(later.socket)
    assert (await client.capacity(None, None)).cpus > 0
    await client.close()
    await later.gone(lab)


async def test_an_agent_takes_nothing_from_one_that_lives(place: Place, lab: Lab, agent: Agent) -> None:
    assert f"another agent has {agent.socket}" in await asyncio.to_thread(refusal, place, agent.socket)
    client = await AgentClient.connect(agent.socket)
    assert (await client.capacity(None, None)).cpus > 0
    await client.close()
    await agent.gone(lab)


def test_an_agent_removes_no_file_that_is_no_socket(place: Place) -> None:
    file = place.paths.root / "notes.txt"
    file.write_text("mine")
    assert "Address already in use" in refusal(place, file)
    assert file.read_text() == "mine"
