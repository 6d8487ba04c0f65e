"""Warm starts may fail at any time: then workers are spawned instead, and nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("gym_gui.tests.host.executor_conformance")

from gym_gui.tests.host.executor_conformance import AT_ONCE, HANG_GUARD, PROBE, ROOT, Lab, Place  # noqa: E402
from mosaic_host import warm_pool  # noqa: E402
from mosaic_host.agent import HostAgent  # noqa: E402
from mosaic_host.executor import LaunchSpec, process_of  # noqa: E402
from mosaic_host.process_sweep import send_signal  # noqa: E402
from mosaic_host.warm_pool import WarmPool  # noqa: E402
from mosaic_protocol.process_identity import ProcessIdentity, stat_fields  # noqa: E402


def servers(lab: Lab) -> list[ProcessIdentity]:
    """The living fork servers that were started for this lab."""
    candidates = [int(entry) for entry in os.listdir("/proc") if entry.isdecimal()]
    ours = [pid for pid in candidates if (fields := stat_fields(pid)) and int(fields[1]) == os.getpid()]
    found = [ProcessIdentity.of(pid) for pid in ours if _is_server(pid, lab)]
    return [identity for identity in found if identity is not None]


def _is_server(pid: int, lab: Lab) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it has ended meanwhile
        return False
    return b"mosaic_protocol.fork_server" in command and f"LAB={lab.folder}".encode() in environment


def environment_of(process: ProcessIdentity) -> bytes:
    return Path(f"/proc/{process.pid}/environ").read_bytes()


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    made = Lab(Place(tmp_path))
    yield made
    await made.clean_up()


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of the probe's code that a test may change."""
    shutil.copytree(PROBE / "probe_worker", tmp_path / "code" / "probe_worker")
    return tmp_path / "code" / "probe_worker"


@pytest.fixture
async def make_pool(lab: Lab) -> AsyncIterator[Callable[..., WarmPool]]:
    """Make pools; afterwards they are closed, and have left no server."""
    made: list[WarmPool] = []

    def make(**more: Any) -> WarmPool:
        made.append(WarmPool(lab.folder / "fork_server.log", **more))
        return made[-1]

    yield make
    for pool in made:
        await pool.close()
    left = servers(lab)
    for server in left:
        send_signal(server, signal.SIGKILL)
    assert left == []


@pytest.fixture
def pool(make_pool: Callable[..., WarmPool]) -> WarmPool:
    return make_pool()


@pytest.fixture
async def executor(pool: WarmPool, lab: Lab) -> AsyncIterator[HostAgent]:
    made = HostAgent(lab.place.paths, pool)
    yield made
    await made.close()


async def spec_of(lab: Lab, sources: Path, *argv: str, **changes: Any) -> LaunchSpec:
    return await lab.spec(*argv, env={"PYTHONPATH": os.pathsep.join([str(sources.parent), str(ROOT)])}, **changes)


async def warmed(pool: WarmPool, lab: Lab, spec: LaunchSpec) -> ProcessIdentity:
    await pool.prepare(spec)
    assert await pool.wait_ready(spec, HANG_GUARD), pool._log_file.read_text()
    (server,) = servers(lab)
    return server


async def gone(lab: Lab, process: ProcessIdentity) -> None:
    await lab.until(f"process {process.pid} to end", lambda: not process.is_alive())


# ---- having a server -----------------------------------------------------------------------------


async def test_without_a_server_there_is_no_warm_start(pool: WarmPool, lab: Lab) -> None:
    assert await pool.fork(await lab.spec("hold")) is None
    assert not await pool.wait_ready(await lab.spec("hold"))
    assert pool.states() == {}


async def test_a_worker_that_offers_no_warm_up_gets_no_server(pool: WarmPool, lab: Lab) -> None:
    await pool.prepare(replace(await lab.spec("hold"), warm_module=""))
    assert servers(lab) == []


async def test_warm_starts_can_be_switched_off(make_pool: Callable[..., WarmPool], lab: Lab) -> None:
    pool = make_pool(enabled=False)
    await pool.prepare(await lab.spec("hold"))
    assert servers(lab) == []
    assert await pool.fork(await lab.spec("hold")) is None


async def test_preparing_does_not_wait_and_a_start_meanwhile_is_cold(
    pool: WarmPool, executor: HostAgent, lab: Lab, sources: Path
) -> None:
    (sources / "warm_up.py").write_text("import time\ndef warm_up(): time.sleep(600)\n")
    spec = await spec_of(lab, sources, "leave", "4")
    await asyncio.wait_for(pool.prepare(spec), AT_ONCE)
    assert list(pool.states().values()) == ["warming up"]
    started = await executor.start(spec)
    assert started.mode == "cold"


async def test_preparing_many_times_at_once_makes_one_server(pool: WarmPool, lab: Lab) -> None:
    spec = await lab.spec("hold")
    await asyncio.gather(*(pool.prepare(spec) for _ in range(5)))
    server = await warmed(pool, lab, await lab.spec("hold"))
    assert await warmed(pool, lab, await lab.spec("hold")) == server


async def test_a_ready_server_says_so(pool: WarmPool, lab: Lab) -> None:
    spec = await lab.spec("hold")
    await warmed(pool, lab, spec)
    assert pool.states() == {f"probe_worker.warm_up ({spec.python})": "ready"}


async def test_a_server_knows_nothing_of_the_run_that_it_was_prepared_after(pool: WarmPool, lab: Lab) -> None:
    spec = await lab.spec("hold", env={"MOSAIC_LAUNCH_TOKEN": "secret", "OTHER": "kept"})
    server = await warmed(pool, lab, spec)
    environment = environment_of(server)
    assert b"OTHER=kept" in environment
    for private in (b"secret", b"MOSAIC_RUN_ID", b"MOSAIC_RUN_DIR", b"MOSAIC_ATTEMPT"):
        assert private not in environment


async def test_an_interpreter_that_does_not_exist_is_no_error_while_preparing(pool: WarmPool, lab: Lab) -> None:
    await pool.prepare(replace(await lab.spec("hold"), python=Path("/no/such/python")))
    assert servers(lab) == []


# ---- losing it -----------------------------------------------------------------------------------


async def test_closing_ends_the_server_and_not_the_workers(pool: WarmPool, lab: Lab) -> None:
    server = await warmed(pool, lab, await lab.spec())
    handle = await lab.holding(HostAgent(lab.place.paths, pool))
    await pool.close()
    assert not server.is_alive()
    assert process_of(handle.locator).is_alive()


async def test_closing_ends_a_server_that_is_still_warming_up(pool: WarmPool, lab: Lab, sources: Path) -> None:
    (sources / "warm_up.py").write_text("import time\ndef warm_up(): time.sleep(600)\n")
    await pool.prepare(await spec_of(lab, sources))
    await lab.until("the server to begin", lambda: len(servers(lab)) == 1)
    await asyncio.wait_for(pool.close(), HANG_GUARD)
    assert servers(lab) == []


async def test_when_the_server_dies_ends_are_unknown_and_starts_are_cold(
    pool: WarmPool, executor: HostAgent, lab: Lab
) -> None:
    server = await warmed(pool, lab, await lab.spec())
    handle = await lab.holding(executor)
    os.kill(server.pid, signal.SIGKILL)
    await gone(lab, server)
    assert process_of(handle.locator).is_alive()
    await executor.kill_all(handle)
    assert await asyncio.wait_for(executor.wait(handle), HANG_GUARD) is None
    spec = await lab.spec("leave", "3")
    started = await executor.start(spec)
    assert started.mode == "cold"


async def test_a_server_that_died_is_replaced_by_the_next_preparation(
    pool: WarmPool, executor: HostAgent, lab: Lab
) -> None:
    server = await warmed(pool, lab, await lab.spec())
    os.kill(server.pid, signal.SIGKILL)
    await lab.until("the death to be noticed", lambda: "ready" not in pool.states().values())
    assert await warmed(pool, lab, await lab.spec()) != server
    handle = await lab.start(executor, await lab.spec("leave", "3"))
    assert await executor.wait(handle) == 3


async def test_a_server_that_hangs_costs_some_time_and_starts_no_worker_twice(
    pool: WarmPool, executor: HostAgent, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_pool, "_FORK_TIMEOUT", 0.2)
    server = await warmed(pool, lab, await lab.spec())
    os.kill(server.pid, signal.SIGSTOP)
    spec = await lab.spec("leave", "3")
    starting = [executor.start(spec), executor.start(await lab.spec("leave", "4"))]
    started = await asyncio.wait_for(asyncio.gather(*starting), HANG_GUARD)
    assert [one.mode for one in started] == ["cold", "cold"]
    assert not server.is_alive(), "it could still fork the worker that was asked of it"


# ---- stale code ----------------------------------------------------------------------------------


def _edit(sources: Path) -> None:
    (sources / "cli.py").write_text((sources / "cli.py").read_text() + "\n# changed\n")


def _put_back_an_older_file(sources: Path) -> None:
    _edit(sources)
    os.utime(sources / "cli.py", (1e9, 1e9))


def _add(sources: Path) -> None:
    (sources / "more").mkdir()
    (sources / "more" / "module.py").touch()
    os.utime(sources / "more" / "module.py", (1e9, 1e9))


def _remove(sources: Path) -> None:
    (sources / "spare.py").unlink()


@pytest.mark.parametrize("change", [_edit, _put_back_an_older_file, _add, _remove])
async def test_a_server_with_old_code_is_not_used(pool: WarmPool, lab: Lab, sources: Path, change: Any) -> None:
    (sources / "spare.py").touch()
    os.utime(sources / "spare.py", (1e9, 1e9))
    spec = await spec_of(lab, sources, "hold")
    server = await warmed(pool, lab, spec)
    change(sources)
    assert await asyncio.gather(*(pool.fork(spec) for _ in range(4))) == [None] * 4
    await gone(lab, server)
    assert await warmed(pool, lab, spec) != server


async def test_a_preparation_replaces_a_server_with_old_code(pool: WarmPool, lab: Lab, sources: Path) -> None:
    spec = await spec_of(lab, sources, "hold")
    server = await warmed(pool, lab, spec)
    _edit(sources)
    assert await warmed(pool, lab, spec) != server


async def test_a_server_with_old_code_still_reports_how_its_workers_end(
    pool: WarmPool, executor: HostAgent, lab: Lab, sources: Path
) -> None:
    """People edit code while runs go on; those runs must not lose their outcome."""
    server = await warmed(pool, lab, await spec_of(lab, sources))
    handle = await lab.start(executor, await spec_of(lab, sources, "hold"))
    _edit(sources)
    assert await pool.fork(await spec_of(lab, sources, "hold")) is None
    await executor.kill_all(handle)
    assert await executor.wait(handle) == -signal.SIGKILL
    await gone(lab, server)


# ---- servers that cannot be ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import threading\ndef warm_up(): threading.Thread(target=threading.Event().wait, daemon=True).start()\n", ""),
        ("def warm_up(): raise ImportError('no such library')\n", "ImportError: no such library"),
        ("no python at all\n", "SyntaxError"),
    ],
    ids=["threads", "failing", "no code"],
)
async def test_a_warm_up_that_cannot_be_is_tried_once_for_the_same_code(
    pool: WarmPool, executor: HostAgent, lab: Lab, sources: Path, code: str, told: str
) -> None:
    good = (sources / "warm_up.py").read_text()
    (sources / "warm_up.py").write_text(code)
    spec = await spec_of(lab, sources, "leave", "3")
    await pool.prepare(spec)
    assert not await pool.wait_ready(spec, HANG_GUARD)
    assert told in (lab.folder / "fork_server.log").read_text()
    await pool.prepare(spec)
    assert list(pool.states().values()) == ["refused"], "importing it all again would only fail again"
    await lab.until("the server to end", lambda: not servers(lab))
    assert (await executor.start(spec)).mode == "cold"
    (sources / "warm_up.py").write_text(good)
    await warmed(pool, lab, spec)


SAYING = "import os, sys\ndef warm_up(): os.write(int(sys.argv[sys.argv.index('--socket-fd') + 1]), {!r})\n"


@pytest.mark.parametrize(
    "said",
    [
        b'{"id": 424242, "pid": 1}\n',
        b'{"id": [], "pid": {}}\n',
        b'{"id": 1, "error": 5}\n',
        b"[" * 30_000 + b"\n",
        b'"\xff"\n',
        b"x" * 200_000,
    ],
    ids=["an answer to nothing", "an answer of no kind", "an error of nothing", "too deep", "no text", "too long"],
)
async def test_a_warm_up_that_speaks_for_its_server_costs_the_warm_start_and_nothing_else(
    pool: WarmPool, executor: HostAgent, lab: Lab, sources: Path, said: bytes
) -> None:
    """Runs stayed on their way for ever, and could not be stopped: the conversation ended, and nobody was told."""
    (sources / "warm_up.py").write_text(SAYING.format(b'{"ready": true}\n' + said))
    spec = await spec_of(lab, sources, "leave", "3")
    await pool.prepare(spec)
    await pool.wait_ready(spec, HANG_GUARD)
    starting = [executor.start(spec), executor.start(await spec_of(lab, sources, "leave", "4"))]
    started = await asyncio.wait_for(asyncio.gather(*starting), HANG_GUARD)
    assert [one.mode for one in started] == ["cold", "cold"]
    await lab.until("the server to end", lambda: not servers(lab))
    await pool.prepare(spec)
    assert list(pool.states().values()) in ([], ["refused"]), "the same code would only say the same again"


async def test_a_server_that_leaves_its_socket_to_another_process_holds_no_start_up(
    pool: WarmPool, executor: HostAgent, lab: Lab, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_pool, "_FORK_TIMEOUT", 0.2)
    (sources / "warm_up.py").write_text(
        "import os, sys, time\n"
        "def warm_up():\n"
        "    socket = int(sys.argv[sys.argv.index('--socket-fd') + 1])\n"
        "    if os.fork() == 0:\n"
        f"        open({str(lab.folder / 'left')!r}, 'w').write(str(os.getpid()))\n"
        "        time.sleep(600)\n"
        "    os.write(socket, b'{\"ready\": true}\\n')\n"
        "    time.sleep(600)\n"
    )
    spec = await spec_of(lab, sources, "leave", "3")
    await pool.prepare(spec)
    assert await pool.wait_ready(spec, HANG_GUARD)
    await lab.until("the other process", lambda: (lab.folder / "left").exists() and (lab.folder / "left").read_text())
    left = int((lab.folder / "left").read_text())
    try:
        started = await asyncio.wait_for(executor.start(spec), HANG_GUARD)
    finally:
        os.kill(left, signal.SIGKILL)
    assert started.mode == "cold"


async def test_places_that_a_warm_worker_could_not_open_are_reported_by_the_cold_start(
    pool: WarmPool, lab: Lab
) -> None:
    spec = await lab.spec("hold")
    await warmed(pool, lab, spec)
    assert await pool.fork(replace(spec, run_dir=Path("/no/such/folder"))) is None
    assert await pool.fork(replace(spec, stderr=Path("/no/such/folder/log"))) is None
    assert len(servers(lab)) == 1, "nothing is wrong with the server"


async def test_a_folder_that_cannot_be_looked_at_is_left_to_the_cold_start(pool: WarmPool, lab: Lab) -> None:
    spec = await lab.spec("hold")
    server = await warmed(pool, lab, spec)
    assert await pool.fork(replace(spec, run_dir=spec.run_dir / ("x" * 300))) is None
    assert server.is_alive()


# ---- idle servers --------------------------------------------------------------------------------


async def test_an_idle_server_is_ended(make_pool: Callable[..., WarmPool], lab: Lab) -> None:
    pool = make_pool(idle_seconds=0.05)
    server = await warmed(pool, lab, await lab.spec())
    await lab.until("some idle time", lambda: time.monotonic() - pool._servers[_only_key(pool)].used_at > 0.05)
    await pool.drop_idle()
    assert not server.is_alive()
    assert pool.states() == {}
    await warmed(pool, lab, await lab.spec())


async def test_a_server_in_use_is_kept(pool: WarmPool, lab: Lab) -> None:
    server = await warmed(pool, lab, await lab.spec())
    await pool.drop_idle()
    assert server.is_alive()


async def test_an_idle_server_still_reports_how_its_workers_end(make_pool: Callable[..., WarmPool], lab: Lab) -> None:
    """A run may train for days after the last start of another one."""
    pool = make_pool(idle_seconds=0.0)
    executor = HostAgent(lab.place.paths, pool)
    server = await warmed(pool, lab, await lab.spec())
    handle = await lab.holding(executor)
    await pool.drop_idle()
    await executor.kill_all(handle)
    assert await executor.wait(handle) == -signal.SIGKILL
    await gone(lab, server)


def _only_key(pool: WarmPool) -> tuple[str, str]:
    (key,) = pool._servers
    return key


# ---- statuses ------------------------------------------------------------------------------------


async def test_an_end_that_was_never_asked_for_is_not_reported_for_a_later_process_with_the_same_pid(
    pool: WarmPool, executor: HostAgent, lab: Lab
) -> None:
    await warmed(pool, lab, await lab.spec())
    spec = await lab.spec("leave", "3")
    first = await pool.fork(spec)
    assert first is not None
    assert await pool.exit_status(first, HANG_GUARD) == 3
    stale: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
    stale.set_result(99)
    for pid in range(first, first + 2000):  # whatever number comes next has a stale status
        pool._statuses[pid] = stale
    handle = await lab.start(executor, await lab.spec("leave", "4"))
    assert await executor.wait(handle) == 4


async def test_the_end_of_an_unknown_process_is_unknown_at_once(pool: WarmPool) -> None:
    assert await asyncio.wait_for(pool.exit_status(1, HANG_GUARD), AT_ONCE) is None


async def test_each_worker_learns_its_run_after_the_fork_and_writes_where_it_should(
    pool: WarmPool, executor: HostAgent, lab: Lab
) -> None:
    await warmed(pool, lab, await lab.spec())
    handles = [await lab.start(executor, await lab.spec("report")) for number in range(3)]
    assert [await executor.wait(handle) for handle in handles] == [0, 0, 0]
    told = [json.loads(await lab.text(handle, "report.json")) for handle in handles]
    assert [one["env"]["MOSAIC_RUN_ID"] for one in told] == [handle.run_id for handle in handles]


async def test_an_end_that_is_reported_too_late_harms_no_process(pool: WarmPool, executor: HostAgent, lab: Lab) -> None:
    server = await warmed(pool, lab, await lab.spec())
    pid = await pool.fork(await lab.spec("leave", "3"))
    assert pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    early = await pool.exit_status(pid, 0.0)
    os.kill(server.pid, signal.SIGCONT)
    assert early in (None, 3)
    handle = await lab.start(executor, await lab.spec("leave", "4"))
    assert await executor.wait(handle) == 4


async def test_a_start_that_is_given_up_leaves_the_pool_in_order(pool: WarmPool, lab: Lab) -> None:
    server = await warmed(pool, lab, await lab.spec())
    os.kill(server.pid, signal.SIGSTOP)
    starting = asyncio.ensure_future(pool.fork(await lab.spec("leave", "3")))
    await asyncio.wait([starting], timeout=0.2)
    starting.cancel()
    os.kill(server.pid, signal.SIGCONT)
    with pytest.raises(asyncio.CancelledError):
        await starting
    again = await pool.fork(await lab.spec("leave", "4"))
    assert again is not None
    assert await pool.exit_status(again, HANG_GUARD) == 4
