"""What every executor does: one suite, run by each implementation.

Inherit from :class:`ExecutorConformance` in a test module and give it an ``executor`` fixture, and one for a
``later_executor`` that takes its workers up::

    class TestMine(ExecutorConformance):
        mode = "cold"

        @pytest.fixture
        async def executor(self, place: Place) -> AsyncIterator[Executor]:
            yield MyExecutor(place.paths)

The suite starts ``support/probe_worker``, a worker that shows how it was started and misbehaves on request. What it
looks at beside the executor's answers, files and processes, it looks at through a :class:`Place`: this machine, unless
the implementation overrides the ``place`` fixture with the one where its workers run.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gym_gui.tests.support.run_records import new_run_id
from mosaic_host.errors import Refusal, StartError
from mosaic_host.executor import Claimant, Executor, LaunchSpec, LogPart, WorkerHandle, locator_of
from mosaic_host.process_sweep import send_signal
from mosaic_protocol import claims
from mosaic_protocol import events as ev
from mosaic_protocol.outbox import OutboxWriter
from mosaic_protocol.paths import MosaicPaths, RunPaths
from mosaic_protocol.process_identity import ProcessIdentity

ROOT = Path(__file__).resolve().parents[3]
PROBE = Path(__file__).resolve().parents[1] / "support"
HANG_GUARD = 60.0
AT_ONCE = 10.0
"""Far less than any probe lives; only to distinguish "at once" from "when it ends"."""
RELATIVES = (
    "child",
    "bare_child",
    "session",
    "orphan",
    "orphan_session",
    "fork",
    "fork_session",
    "daemonized",
    "stopped",
)

ENDINGS = {
    "leave 0": 0,
    "leave 3": 3,
    "leave 255": 255,
    "leave -1": 255,
    "speak": 0,
    "fall": 1,
    "signal_itself 9": -9,
    "signal_itself 15": -15,
    "signal_itself 11": -11,
}
"""What the probe can be asked to do, and the status that follows."""
SOURCES = ("stdout", "stderr")


class Place:
    """Files and processes where the workers run, which is here."""

    def __init__(self, root: Path) -> None:
        self.paths = MosaicPaths(root)
        self._bystanders: list[subprocess.Popen[bytes]] = []

    # ---- files ----

    async def make_run(self, run_id: str) -> None:
        """The folders that a dispatcher makes before a launch."""
        run = self.paths.run(run_id)
        for folder in (self.paths.configs, run.directory, run.outbox, run.claims, self.paths.run_logs(run_id)):
            await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)

    async def read(self, file: Path) -> bytes | None:
        """None when it is not there."""
        try:
            return await asyncio.to_thread(file.read_bytes)
        except FileNotFoundError:
            return None

    async def write(self, file: Path, content: bytes) -> None:
        await asyncio.to_thread(file.write_bytes, content)

    async def names(self, folder: Path) -> list[str]:
        return [entry.name for entry in await asyncio.to_thread(lambda: list(folder.glob("*")))]

    # ---- processes ----

    async def locator(self, pid: int) -> str:
        """The locator of the living process with this number, "" when there is none."""
        identity = ProcessIdentity.of(pid)
        return locator_of(identity) if identity is not None else ""

    async def former_locator(self, pid: int) -> str:
        """That of a process which had this number before the one that has it now."""
        identity = ProcessIdentity.of(pid)
        assert identity is not None
        return locator_of(replace(identity, start_ticks=identity.start_ticks - 100))

    async def signal(self, pid: int, number: signal.Signals) -> None:
        if (identity := ProcessIdentity.of(pid)) is not None:
            send_signal(identity, number)

    async def bystander(self, *command: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> int:
        """The number of a process that has nothing to do with any run."""
        line = command or (sys.executable, "-c", "import time; time.sleep(600)")
        child = await asyncio.to_thread(
            lambda: subprocess.Popen(
                line, env={**os.environ, **(env or {})}, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        )
        self._bystanders.append(child)
        return child.pid

    def clean_up(self) -> None:
        for child in self._bystanders:
            child.kill()
            child.wait()


class Lab:
    """Specs for workers, and the certainty that none outlives its test."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._runs: dict[str, str] = {}
        self._started: list[int] = []

    @property
    def folder(self) -> Path:
        return self.place.paths.root

    def run(self, worker: WorkerHandle | LaunchSpec) -> RunPaths:
        return self.place.paths.run(worker.run_id)

    async def spec(self, *argv: str, run_id: str = "", attempt: int = 1, **changes: Any) -> LaunchSpec:
        run_id = run_id or new_run_id()
        await self.place.make_run(run_id)
        run_dir, logs = self.place.paths.run(run_id).directory, self.place.paths.run_logs(run_id)
        env = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
            "LAB": str(self.folder),
            "PYTHONPATH": os.pathsep.join([str(PROBE), str(ROOT)]),
            "MOSAIC_RUN_ID": run_id,
            "MOSAIC_RUN_DIR": str(run_dir),
            "MOSAIC_ATTEMPT": str(attempt),
            **changes.pop("env", {}),
        }
        spec = LaunchSpec(
            run_id=run_id,
            attempt=attempt,
            python=Path(sys.executable),
            module="probe_worker.cli",
            argv=argv,
            env=env,
            run_dir=run_dir,
            stdout=logs / "stdout.log",
            stderr=logs / "stderr.log",
            warm_module="probe_worker.warm_up",
        )
        return replace(spec, **changes)

    async def start(self, executor: Executor, spec: LaunchSpec) -> WorkerHandle:
        started = await executor.start(spec)
        self._started.append(started.pid)
        self._runs[spec.run_id] = str(spec.argv)
        return WorkerHandle(spec.run_id, spec.attempt, started.locator)

    async def holding(self, executor: Executor, *relatives: str, behaviour: str = "hold", **more: Any) -> WorkerHandle:
        """A worker that has started relatives and waits."""
        handle = await self.start(executor, await self.spec(behaviour, *relatives, **more))
        await self.ready(handle)
        return handle

    async def ready(self, handle: WorkerHandle) -> None:
        await self.until("the probe to be ready", lambda: self.has(handle, "ready"))

    async def has(self, handle: WorkerHandle, name: str) -> bool:
        return await self.place.read(self.run(handle).directory / name) is not None

    async def text(self, handle: WorkerHandle, name: str) -> str:
        content = await self.place.read(self.run(handle).directory / name)
        assert content is not None, f"{name} is not there"
        return content.decode()

    async def log(self, handle: WorkerHandle | LaunchSpec, source: str) -> str:
        return (await self.place.read(self.place.paths.run_logs(handle.run_id) / f"{source}.log") or b"").decode()

    async def relatives(self, handle: WorkerHandle) -> dict[str, int]:
        """The living processes that a probe started, by kind; itself is the "leader"."""
        pids = self.run(handle).directory / "pids"
        notes = {kind: int(await self.place.read(pids / kind) or b"0") for kind in await self.place.names(pids)}
        return {kind: pid for kind, pid in notes.items() if await self.place.locator(pid)}

    async def until(self, what: str, probe: Callable[[], Any]) -> None:
        deadline = time.monotonic() + HANG_GUARD
        while not await _settled(probe()):
            assert time.monotonic() < deadline, f"waited in vain for {what}: {await self.words()}"
            await asyncio.sleep(0.005)

    async def words(self) -> str:
        """What the workers printed."""
        logs = [self.place.paths.run_logs(run_id) / f"{source}.log" for run_id in self._runs for source in SOURCES]
        return "\n".join([(await self.place.read(log) or b"").decode(errors="replace") for log in logs])

    async def clean_up(self) -> None:
        pids = [self.place.paths.run(run_id).directory / "pids" for run_id in self._runs]
        notes = [folder / name for folder in pids for name in await self.place.names(folder)]
        noted = [int(await self.place.read(note) or b"0") for note in notes]
        for pid in [*self._started, *noted]:
            await self.place.signal(pid, signal.SIGKILL)


async def _settled(found: Any) -> Any:
    return await found if isinstance(found, Awaitable) else found


class ExecutorConformance:
    """The contract of :class:`Executor`, as tests."""

    mode = ""
    """What the executor under test says of how it started a worker."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[Place]:
        """Where the workers run. Override it for workers that run elsewhere."""
        made = Place(tmp_path)
        yield made
        made.clean_up()

    @pytest.fixture
    def without_descriptors(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
        """A while in which the process that watches workers can open nothing."""

        def short(*_: object) -> int:
            raise OSError(errno.EMFILE, "Too many open files")

        @contextmanager
        def shortage() -> Iterator[None]:
            with monkeypatch.context() as machine:
                machine.setattr(os, "pidfd_open", short)
                yield

        return shortage

    @pytest.fixture
    async def lab(self, place: Place) -> AsyncIterator[Lab]:
        made = Lab(place)
        yield made
        await made.clean_up()

    # ---- starting ----

    async def test_a_started_worker_lives_and_is_the_process_that_the_handle_names(
        self, executor: Executor, lab: Lab
    ) -> None:
        spec = await lab.spec("hold")
        started = await executor.start(spec)
        handle = WorkerHandle(spec.run_id, spec.attempt, started.locator)
        try:
            assert started.mode == self.mode
            assert await lab.place.locator(started.pid) == started.locator
            assert await executor.is_alive(handle)
            await lab.ready(handle)
            assert await lab.relatives(handle) == {"leader": started.pid}
            assert await executor.claimant(handle) == Claimant(started.locator, started.pid, alive=True)
        finally:
            await executor.kill_all(handle)

    async def test_a_worker_is_started_as_its_spec_says_and_with_nothing_else(
        self, executor: Executor, lab: Lab
    ) -> None:
        spec = await lab.spec("report", env={"EMPTY": "", "ODD": "a=b\nc ünï"})
        handle = await lab.start(executor, spec)
        assert await executor.wait(handle) == 0, await lab.words()
        told = json.loads(await lab.text(handle, "report.json"))
        assert told["argv"] == [str(PROBE / "probe_worker" / "cli.py"), "report"]
        assert (told["name"], told["main"]) == ("__main__", "probe_worker.cli")
        assert told["env"] == dict(spec.env)
        assert told["cwd"] == told["path"] == str(spec.run_dir)
        assert told["stdin"] == ""
        assert told["session"], "a worker leads a session and a group of its own"
        assert told["threads"] == 1
        assert told["children"].strip() == spec.run_id
        assert told["descriptors"][:3] == [0, 1, 2]
        assert len(told["descriptors"]) == 4, "standard streams and the claim"
        assert told["signals"] == {
            "SIGTERM": str(signal.SIG_DFL),
            "SIGINT": str(signal.default_int_handler).partition(" at ")[0],
            "SIGCHLD": str(signal.SIG_DFL),
        }

    async def test_arguments_arrive_as_they_were_given(self, executor: Executor, lab: Lab) -> None:
        odd = ["leave_with_words", "spaces, ünï, \"quotes\", 'quotes', $HOME, *, \\, \n, "]
        handle = await lab.start(executor, await lab.spec(*odd))
        assert await executor.wait(handle) == 1
        assert await lab.log(handle, "stderr") == odd[1] + "\n"

    async def test_what_a_worker_writes_is_appended_to_its_logs(self, executor: Executor, lab: Lab) -> None:
        spec = await lab.spec("speak")
        for file in (spec.stdout, spec.stderr):
            await lab.place.write(file, b"earlier\n")
        await executor.wait(await lab.start(executor, spec))
        assert await lab.log(spec, "stdout") == "earlier\nto stdout\n"
        assert await lab.log(spec, "stderr") == "earlier\nto stderr\n"

    async def test_workers_start_side_by_side(self, executor: Executor, lab: Lab) -> None:
        specs = [await lab.spec("leave", str(number)) for number in range(4)]
        handles = await asyncio.gather(*(lab.start(executor, spec) for spec in specs))
        assert len({handle.locator for handle in handles}) == 4
        assert await asyncio.gather(*map(executor.wait, handles)) == [0, 1, 2, 3]

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"python": Path("/no/such/python")}, "/no/such/python"),
            ({"argv": ("leave", "nul\0")}, "null"),
        ],
        ids=["interpreter", "argument"],
    )
    async def test_a_worker_that_cannot_start_is_reported_with_the_reason(
        self, executor: Executor, lab: Lab, changes: dict[str, Any], told: str
    ) -> None:
        spec = replace(await lab.spec("hold"), **changes)
        with pytest.raises(StartError, match="never started") as refused:
            await executor.start(spec)
        assert told in str(refused.value)
        assert refused.value.refusal is Refusal.NEVER

    @pytest.mark.parametrize(
        "changes",
        [{"run_dir": Path("/no/such/folder")}, {"stdout": Path("/no/such/folder/stdout.log")}],
        ids=["folder", "log"],
    )
    async def test_a_folder_of_a_run_that_is_missing_for_now_is_no_failure(
        self, executor: Executor, lab: Lab, changes: dict[str, Any]
    ) -> None:
        with pytest.raises(StartError, match="/no/such/folder") as refused:
            await executor.start(replace(await lab.spec("hold"), **changes))
        assert refused.value.refusal is Refusal.LATER

    # ---- ending by itself ----

    async def test_the_way_a_worker_ended_is_known(self, executor: Executor, lab: Lab) -> None:
        handles = {argv: await lab.start(executor, await lab.spec(*argv.split())) for argv in ENDINGS}
        assert {argv: await executor.wait(handle) for argv, handle in handles.items()} == ENDINGS
        assert not any([await executor.is_alive(handle) for handle in handles.values()])

    async def test_a_worker_that_fails_leaves_its_traceback(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.start(executor, await lab.spec("fall"))
        await executor.wait(handle)
        lines = (await lab.log(handle, "stderr")).splitlines()
        assert lines[0] == "Traceback (most recent call last):"
        assert lines[-1] == await executor.last_error_line(handle.run_id) == "RuntimeError: the probe fell"

    async def test_a_worker_hears_an_interrupt_as_a_program_does(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.start(executor, await lab.spec("interrupt_itself"))
        assert await executor.wait(handle) == 0
        assert await lab.log(handle, "stdout") == "interrupted, as by a person\n"

    async def test_a_worker_ends_after_its_threads_and_its_exit_handlers(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.start(executor, await lab.spec("end_slowly"))
        assert await executor.wait(handle) == 0
        assert await lab.log(handle, "stdout") == "thread finished\nexit handler ran\n"

    async def test_waiting_lasts_until_the_end(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.holding(executor)
        waiting = asyncio.ensure_future(executor.wait(handle))
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done
        await executor.kill_all(handle)
        assert await asyncio.wait_for(waiting, AT_ONCE) == -signal.SIGKILL

    async def test_a_waiter_that_gives_up_does_not_keep_the_next_from_knowing(
        self, executor: Executor, lab: Lab
    ) -> None:
        handle = await lab.holding(executor)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(executor.wait(handle), 0.05)
        await executor.kill_all(handle)
        assert await asyncio.wait_for(executor.wait(handle), AT_ONCE) == -signal.SIGKILL

    # ---- processes of somebody else ----

    async def test_waiting_for_what_is_gone_returns_at_once(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.start(executor, await lab.spec("leave", "0"))
        await executor.wait(handle)
        assert await asyncio.wait_for(executor.wait(handle), AT_ONCE) is None

    async def test_a_worker_that_cannot_be_looked_at_is_not_taken_for_gone(
        self, executor: Executor, lab: Lab, without_descriptors: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """A process without a descriptor to spare cannot know."""
        handle = await lab.start(executor, await lab.spec("hold"))
        with without_descriptors(), pytest.raises(OSError, match="Too many"):
            await executor.wait(handle)
        await executor.kill_all(handle)
        assert await asyncio.wait_for(executor.wait(handle), AT_ONCE) == -signal.SIGKILL

    async def test_a_pid_that_belongs_to_somebody_else_is_neither_waited_for_nor_touched(
        self, executor: Executor, lab: Lab
    ) -> None:
        pid = await lab.place.bystander()
        now = await lab.place.locator(pid)
        handle = await _formerly(lab, pid)
        assert not await executor.is_alive(handle)
        assert await asyncio.wait_for(executor.wait(handle), AT_ONCE) is None
        await executor.ask_to_stop(handle)
        await asyncio.wait_for(executor.kill_all(handle), AT_ONCE)
        assert await executor.survivors(handle) == []
        assert await lab.place.locator(pid) == now

    async def test_a_pid_that_belongs_to_a_later_worker_is_not_confused_with_it(
        self, executor: Executor, lab: Lab
    ) -> None:
        later = await lab.holding(executor)
        earlier = await _formerly(lab, (await lab.relatives(later))["leader"])
        assert earlier.locator != later.locator
        assert await asyncio.wait_for(executor.wait(earlier), AT_ONCE) is None
        await executor.ask_to_stop(earlier)
        await asyncio.wait_for(executor.kill_all(earlier), AT_ONCE)
        assert await executor.is_alive(later)
        await executor.kill_all(later)
        assert await asyncio.wait_for(executor.wait(later), AT_ONCE) == -signal.SIGKILL

    # ---- stopping ----

    async def test_asking_to_stop_reaches_the_leader_alone(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.holding(executor, "child", behaviour="hold_until_asked")
        child = (await lab.relatives(handle))["child"]
        await executor.ask_to_stop(handle)
        assert await asyncio.wait_for(executor.wait(handle), HANG_GUARD) == 0
        assert await lab.relatives(handle) == {"child": child}
        assert await executor.survivors(handle) == [child]

    async def test_asking_what_is_gone_is_no_error(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.start(executor, await lab.spec("leave", "0"))
        await executor.wait(handle)
        await executor.ask_to_stop(handle)

    async def test_survivors_are_all_processes_of_the_run(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.holding(executor, *RELATIVES)
        family = await lab.relatives(handle)
        assert set(family) == {"leader", *RELATIVES}
        assert set(await executor.survivors(handle)) == set(family.values())
        await executor.kill_all(handle)

    async def test_killing_ends_every_process_of_the_run(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.holding(executor, *RELATIVES)
        await asyncio.wait_for(executor.kill_all(handle), HANG_GUARD)
        assert await lab.relatives(handle) == {}
        assert await executor.survivors(handle) == []
        assert await executor.wait(handle) == -signal.SIGKILL

    async def test_what_a_dead_leader_left_behind_is_found_and_ended(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.start(executor, await lab.spec("abandon", *RELATIVES))
        assert await executor.wait(handle) == 0, await lab.words()
        left = await lab.relatives(handle)
        assert set(left) == set(RELATIVES)
        assert set(await executor.survivors(handle)) == set(left.values())
        await asyncio.wait_for(executor.kill_all(handle), HANG_GUARD)
        assert await lab.relatives(handle) == {}

    async def test_killing_what_is_gone_returns_at_once(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.start(executor, await lab.spec("leave", "0"))
        await executor.wait(handle)
        await asyncio.wait_for(executor.kill_all(handle), AT_ONCE)

    async def test_a_handle_without_a_locator_names_no_process(self, executor: Executor, lab: Lab) -> None:
        pid = await lab.place.bystander()
        now, handle = await lab.place.locator(pid), await lab.holding(executor)
        nobody = WorkerHandle(handle.run_id, handle.attempt, "")
        assert await executor.survivors(nobody) == []
        await asyncio.wait_for(executor.kill_all(nobody), AT_ONCE)
        assert await executor.is_alive(handle)
        assert await lab.place.locator(pid) == now
        await executor.kill_all(handle)

    async def test_a_stopped_leader_is_ended_too(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.holding(executor)
        await lab.place.signal((await lab.relatives(handle))["leader"], signal.SIGSTOP)
        await asyncio.wait_for(executor.kill_all(handle), HANG_GUARD)
        assert await executor.wait(handle) == -signal.SIGKILL

    async def test_bystanders_are_never_touched(self, executor: Executor, lab: Lab) -> None:
        run_id, place = new_run_id(), lab.place
        before = await place.bystander(env={"MOSAIC_RUN_ID": run_id})  # marked, but it was there before the run
        await asyncio.sleep(0.02)  # start times have a resolution of a hundredth of a second
        handle = await lab.holding(executor, "child", run_id=run_id)
        other = await lab.holding(executor, "session", "fork_session")
        run = lab.run(handle)
        reading = [
            await place.bystander("tail", "-f", str(place.paths.run_logs(run_id) / "stdout.log")),
            await place.bystander("tail", "-f", str(claims.path_of(run.claims, 1))),
            await place.bystander(cwd=run.directory, env={"MOSAIC_RUN_ID": run_id[:-1]}),
            await place.bystander(env={"X_MOSAIC_RUN_ID": run_id, "OTHER": f"MOSAIC_RUN_ID={run_id}"}),
        ]
        await executor.kill_all(handle)
        assert await lab.relatives(handle) == {}
        assert set(await lab.relatives(other)) == {"leader", "session", "fork_session"}
        assert all([await place.locator(pid) for pid in [before, *reading]])
        await executor.kill_all(other)

    # ---- claims ----

    async def test_a_launch_that_was_revoked_starts_no_worker(self, executor: Executor, lab: Lab) -> None:
        spec = await lab.spec("report")
        recorded = WorkerHandle(spec.run_id, spec.attempt)
        assert await executor.claimant(recorded) is None
        assert await executor.revoke(recorded) is None
        assert await executor.revoke(recorded) is None, "it may be repeated"
        await executor.wait(await lab.start(executor, spec))
        assert not await lab.has(recorded, "report.json")
        assert await executor.claimant(recorded) is None

    async def test_a_launch_that_was_claimed_cannot_be_revoked_and_names_its_worker(
        self, executor: Executor, lab: Lab
    ) -> None:
        handle = await lab.holding(executor)
        recorded = WorkerHandle(handle.run_id, handle.attempt)
        (pid,) = (await lab.relatives(handle)).values()
        assert await executor.revoke(recorded) == Claimant(handle.locator, pid, alive=True)
        assert await executor.revoke(replace(recorded, attempt=2)) is None, "attempts are apart"
        await executor.kill_all(handle)
        assert await executor.claimant(recorded) == Claimant(handle.locator, pid, alive=False)

    async def test_a_launch_is_not_revoked_while_its_worker_lives_and_its_folder_is_away(
        self, executor: Executor, lab: Lab
    ) -> None:
        """The claim is in the folder; without it a second worker would be started beside the first."""
        handle = await lab.holding(executor)
        recorded, run = WorkerHandle(handle.run_id, handle.attempt), lab.run(handle)
        away = run.directory.with_name("away")
        await asyncio.to_thread(run.directory.rename, away)
        with pytest.raises(FileNotFoundError):
            await executor.revoke(recorded)
        assert not await asyncio.to_thread(run.directory.exists)
        await asyncio.to_thread(away.rename, run.directory)
        claimant = await executor.revoke(recorded)
        assert claimant is not None and claimant.locator == handle.locator

    async def test_what_keeps_a_worker_from_beginning_is_reported(self, executor: Executor, lab: Lab) -> None:
        spec = await lab.spec("hold")
        assert await executor.hindrance(spec.run_id) == ""
        assert "is not there" in await executor.hindrance(new_run_id())

    # ---- what a run wrote ----

    async def test_a_journal_is_read_to_its_end_line_by_line_as_it_was_written(
        self, executor: Executor, lab: Lab, tmp_path: Path
    ) -> None:
        spec = await lab.spec()
        written = await _journal(lab, spec, tmp_path, records=12_000)
        assert await executor.streams(spec.run_id) == ["worker"]
        assert await _read_journal(executor, spec.run_id, after_seq=0) == written
        later = await _read_journal(executor, spec.run_id, after_seq=11_990)
        assert written[-10:] == later[-10:], "lines before it may come too: their numbers show it"

    async def test_damage_in_a_journal_is_read_as_it_is(self, executor: Executor, lab: Lab, tmp_path: Path) -> None:
        spec = await lab.spec()
        written = await _journal(lab, spec, tmp_path, records=20)
        first = lab.run(spec).outbox / "worker-000000000001.jsonl"
        lines = (await lab.place.read(first) or b"").split(b"\n")
        lines[1] = b"\xff\x00 no record"
        await lab.place.write(first, b"\n".join(lines))
        assert await _read_journal(executor, spec.run_id, after_seq=0) == [written[0], lines[1], *written[2:]]

    async def test_a_run_without_a_journal_has_no_streams(self, executor: Executor, lab: Lab) -> None:
        assert await executor.streams((await lab.spec()).run_id) == []
        with pytest.raises(FileNotFoundError):  # it may be away for a while, with a journal in it
            await executor.streams(new_run_id())
        emptied = lab.run(await lab.spec())
        await asyncio.to_thread(emptied.outbox.rmdir)
        with pytest.raises(FileNotFoundError):
            await executor.streams(emptied.directory.name)

    async def test_a_log_is_read_from_its_tail_and_followed_across_rotations(
        self, executor: Executor, lab: Lab
    ) -> None:
        spec = await lab.spec()
        await lab.place.write(spec.stdout, b"one\ntwo\nthree\n")
        place = await executor.log_place(spec.run_id, "stdout", 2, follow=True)
        ending = await executor.log_place(spec.run_id, "stdout", 0, follow=False)
        part = await _read_log(executor, await executor.read_log(place))
        assert part.chunks == [b"two\nthree\n"]
        await executor.rotate_logs(spec.run_id, 5)
        assert await lab.place.read(spec.stdout) == b""
        await lab.place.write(spec.stdout, b"four \xff\n")
        later = await _read_log(executor, await executor.read_log(part.place))
        assert later.chunks == [b"four \xff\n"]
        ended = await _read_log(executor, await executor.read_log(ending))
        assert b"".join(ended.chunks).startswith(b"one\ntwo\nthree\n")

    async def test_a_place_in_no_log_of_a_run_is_not_read(self, executor: Executor, lab: Lab) -> None:
        spec = await lab.spec()
        await lab.place.write(spec.stdout, b"one\n")
        place = await executor.log_place(spec.run_id, "stdout", 0, follow=False)
        secret = lab.run(spec).directory / "stdout.log"
        await lab.place.write(secret, b"secret")
        beside, climbing = spec.stdout.with_name("stdout.log.1"), spec.stdout.parent / ".." / spec.run_id / "stdout.log"
        for outside in (secret, Path("/etc/hostname"), beside, climbing, Path("stdout.log")):
            with pytest.raises(OSError, match="no log of a run"):
                await executor.read_log(replace(place, path=outside, until=1000))
        assert (await executor.read_log(place)).chunks == [b"one\n"]

    async def test_files_of_a_run_are_read_by_name_and_no_others(self, executor: Executor, lab: Lab) -> None:
        spec = await lab.spec()
        await lab.place.write(lab.run(spec).claims / "note", b"\x00\xffcontent")
        assert await executor.read_file(spec.run_id, "claims/note") == b"\x00\xffcontent"
        with pytest.raises(FileNotFoundError):
            await executor.read_file(spec.run_id, "claims/nothing")
        for outside in ("../x", "/etc/passwd", ""):
            with pytest.raises(OSError, match="no file of a run"):
                await executor.read_file(spec.run_id, outside)

    async def test_the_manifest_of_a_run_says_how_it_ended(self, executor: Executor, lab: Lab) -> None:
        spec = await lab.spec()
        await executor.write_ending(spec.run_id, "TERM", "failed", "it fell")
        told = json.loads(await executor.read_file(spec.run_id, "analytics.json"))
        assert (told["state"], told["outcome"], told["reason"]) == ("TERM", "failed", "it fell")
        await executor.write_ending(new_run_id(), "TERM", "failed", "a run whose folder is gone")

    # ---- the host ----

    async def test_a_host_says_what_it_has_to_give(self, executor: Executor) -> None:
        found = await executor.capacity(None, None)
        assert found.cpus >= 1
        assert found.memory_mb > 0
        chosen = await executor.capacity(7, 1234)
        assert (chosen.cpus, chosen.memory_mb, chosen.gpus) == (7, 1234, found.gpus)

    # ---- letting go ----

    async def test_closing_leaves_workers_running(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.holding(executor, "child", "fork")
        await executor.close()
        assert set(await lab.relatives(handle)) == {"leader", "child", "fork"}

    async def test_a_later_executor_takes_up_what_an_earlier_one_started(
        self, executor: Executor, later_executor: Executor, lab: Lab
    ) -> None:
        handle = await lab.holding(executor, "child", "fork_session")
        await executor.close()
        waiting = asyncio.ensure_future(later_executor.wait(handle))
        assert len(await later_executor.survivors(handle)) == 3
        await later_executor.kill_all(handle)
        assert await asyncio.wait_for(waiting, AT_ONCE) is None, "only a parent learns how a process ended"
        assert await lab.relatives(handle) == {}


async def _formerly(lab: Lab, pid: int) -> WorkerHandle:
    """The handle of a run whose leader once had the pid that another process has now."""
    return WorkerHandle(new_run_id(), 1, await lab.place.former_locator(pid))


async def _journal(lab: Lab, spec: LaunchSpec, drafts: Path, records: int) -> list[bytes]:
    """Write a journal of several segments where the workers run; its lines."""
    writer = OutboxWriter(drafts / "draft", "worker", segment_bytes=400 * records // 10)
    for step in range(records):
        writer.append(ev.MetricRow(step=step, values={"a metric with a name of some length": float(step)}))
    writer.close()
    segments = sorted((drafts / "draft").iterdir())
    assert len(segments) > 1
    for segment in segments:
        await lab.place.write(lab.run(spec).outbox / segment.name, segment.read_bytes())
    return [line for segment in segments for line in segment.read_bytes().splitlines()]


async def _read_journal(executor: Executor, run_id: str, after_seq: int) -> list[bytes]:
    lines: list[bytes] = []
    part = await executor.read_outbox(run_id, "worker", after_seq, None)
    assert part.oldest_seq == 1
    while part.lines:
        assert not lines or part.first_seq > 1
        lines += part.lines
        part = await executor.read_outbox(run_id, "worker", after_seq, part.place)
    return lines


async def _read_log(executor: Executor, part: LogPart) -> LogPart:
    """All that is there now."""
    chunks: list[bytes] = []
    while part.chunks:
        chunks += part.chunks
        part = await executor.read_log(part.place)
    return replace(part, chunks=chunks)
