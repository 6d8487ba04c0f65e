"""What every executor does: one suite, run by each implementation.

Inherit from :class:`ExecutorConformance` in a test module and give it an ``executor`` fixture::

    class TestMine(ExecutorConformance):
        mode = "cold"

        @pytest.fixture
        async def executor(self, lab: Lab) -> AsyncIterator[Executor]:
            yield MyExecutor()

The suite starts ``support/probe_worker``, a worker that shows how it was started and misbehaves on request.
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
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.trainer.errors import LaunchError
from gym_gui.services.trainer.executor import Executor, LaunchSpec, WorkerHandle
from gym_gui.services.trainer.process_sweep import send_signal
from gym_gui.tests.support.run_records import new_run_id
from mosaic_protocol import claims
from mosaic_protocol.process_identity import ProcessIdentity

ROOT = Path(__file__).resolve().parents[2]
PROBE = Path(__file__).resolve().parent / "support"
HANG_GUARD = 60.0
AT_ONCE = 10.0
"""Far less than any probe lives; only to tell "at once" from "when it ends"."""
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
"""What the probe can be told to do, and the status that follows."""


class Lab:
    """A place for workers: specs for them, and the certainty that none outlives its test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[ProcessIdentity] = []
        self._bystanders: list[subprocess.Popen[bytes]] = []

    def spec(self, *argv: str, name: str = "run", **changes: Any) -> LaunchSpec:
        run_dir = self.folder / name
        run_dir.mkdir(exist_ok=True)
        run_id, attempt = changes.pop("run_id", new_run_id()), changes.pop("attempt", 1)
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
            stdout=run_dir / "stdout.log",
            stderr=run_dir / "stderr.log",
            warm_module="probe_worker.warm_up",
        )
        return replace(spec, **changes)

    async def start(self, executor: Executor, spec: LaunchSpec) -> WorkerHandle:
        started = await executor.start(spec)
        self._started.append(started.process)
        return WorkerHandle(spec.run_id, spec.run_dir, spec.attempt, started.process)

    async def holding(self, executor: Executor, *relatives: str, behaviour: str = "hold", **more: Any) -> WorkerHandle:
        """A worker that has started relatives and waits."""
        handle = await self.start(executor, self.spec(behaviour, *relatives, **more))
        await self.until("the probe to be ready", (handle.run_dir / "ready").exists)
        return handle

    def relatives(self, handle: WorkerHandle) -> dict[str, ProcessIdentity]:
        """The living processes that a probe started, by kind; itself is the "leader"."""
        notes = {note.name: int(note.read_text()) for note in (handle.run_dir / "pids").glob("*")}
        found = {kind: ProcessIdentity.of(pid) for kind, pid in notes.items()}
        return {kind: identity for kind, identity in found.items() if identity is not None}

    def bystander(self, *command: str, **options: Any) -> ProcessIdentity:
        """A process that has nothing to do with any run."""
        line = command or (sys.executable, "-c", "import time; time.sleep(600)")
        child = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
        self._bystanders.append(child)
        identity = ProcessIdentity.of(child.pid)
        assert identity is not None
        return identity

    async def until(self, what: str, probe: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + HANG_GUARD
        while not (found := probe()):
            assert time.monotonic() < deadline, f"waited in vain for {what}: {self.words()}"
            await asyncio.sleep(0.005)
        return found

    def words(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in self.folder.glob("*/std*.log"))

    def clean_up(self) -> None:
        noted = [int(note.read_text() or 0) for note in self.folder.glob("*/pids/*")]
        for identity in [*self._started, *filter(None, map(ProcessIdentity.of, noted))]:
            send_signal(identity, signal.SIGKILL)
        for child in self._bystanders:
            child.kill()
            child.wait()


class ExecutorConformance:
    """The contract of :class:`Executor`, as tests."""

    mode = ""
    """What the executor under test says of how it started a worker."""

    @pytest.fixture
    def lab(self, tmp_path: Path) -> Iterator[Lab]:
        made = Lab(tmp_path)
        yield made
        made.clean_up()

    # ---- starting ----

    async def test_a_started_worker_lives_and_is_the_process_it_is_said_to_be(
        self, executor: Executor, lab: Lab
    ) -> None:
        spec = lab.spec("hold")
        started = await executor.start(spec)
        handle = WorkerHandle(spec.run_id, spec.run_dir, spec.attempt, started.process)
        try:
            assert started.mode == self.mode
            assert started.process.is_alive()
            await lab.until("the probe to be ready", (spec.run_dir / "ready").exists)
            assert lab.relatives(handle) == {"leader": started.process}
            assert claims.claimant(spec.run_dir / "claims", spec.attempt) == started.process
        finally:
            await executor.kill_all(handle)

    async def test_a_worker_is_started_as_its_spec_says_and_with_nothing_else(
        self, executor: Executor, lab: Lab
    ) -> None:
        spec = lab.spec("report", env={"EMPTY": "", "ODD": "a=b\nc ünï"})
        handle = await lab.start(executor, spec)
        assert await executor.wait(handle) == 0, lab.words()
        told = json.loads((spec.run_dir / "report.json").read_text())
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
        handle = await lab.start(executor, lab.spec(*odd))
        assert await executor.wait(handle) == 1
        assert (handle.run_dir / "stderr.log").read_text() == odd[1] + "\n"

    async def test_what_a_worker_writes_is_appended_to_its_logs(self, executor: Executor, lab: Lab) -> None:
        spec = lab.spec("speak")
        spec.stdout.write_text("earlier\n")
        spec.stderr.write_text("earlier\n")
        await executor.wait(await lab.start(executor, spec))
        assert spec.stdout.read_text() == "earlier\nto stdout\n"
        assert spec.stderr.read_text() == "earlier\nto stderr\n"

    async def test_workers_start_side_by_side(self, executor: Executor, lab: Lab) -> None:
        specs = [lab.spec("leave", str(number), name=f"run-{number}") for number in range(4)]
        handles = await asyncio.gather(*(lab.start(executor, spec) for spec in specs))
        assert len({handle.process.pid for handle in handles}) == 4
        assert await asyncio.gather(*map(executor.wait, handles)) == [0, 1, 2, 3]

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"python": Path("/no/such/python")}, "/no/such/python"),
            ({"run_dir": Path("/no/such/folder")}, "/no/such/folder"),
            ({"stdout": Path("/no/such/folder/stdout.log")}, "/no/such/folder/stdout.log"),
            ({"argv": ("leave", "nul\0")}, "null"),
        ],
        ids=["interpreter", "folder", "log", "argument"],
    )
    async def test_a_worker_that_cannot_start_is_told_with_the_reason(
        self, executor: Executor, lab: Lab, changes: dict[str, Any], told: str
    ) -> None:
        spec = replace(lab.spec("hold"), **changes)
        with pytest.raises(LaunchError, match="never started") as refused:
            await executor.start(spec)
        assert told in str(refused.value)

    # ---- ending by itself ----

    async def test_the_way_a_worker_ended_is_known(self, executor: Executor, lab: Lab) -> None:
        handles = {
            argv: await lab.start(executor, lab.spec(*argv.split(), name=argv.replace(" ", "_"))) for argv in ENDINGS
        }
        assert {argv: await executor.wait(handle) for argv, handle in handles.items()} == ENDINGS
        assert not any(handle.process.is_alive() for handle in handles.values())

    async def test_a_worker_that_falls_leaves_its_traceback(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.start(executor, lab.spec("fall"))
        await executor.wait(handle)
        lines = (handle.run_dir / "stderr.log").read_text().splitlines()
        assert lines[0] == "Traceback (most recent call last):"
        assert lines[-1] == "RuntimeError: the probe fell"

    async def test_a_worker_hears_an_interrupt_as_a_program_does(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.start(executor, lab.spec("interrupt_itself"))
        assert await executor.wait(handle) == 0
        assert (handle.run_dir / "stdout.log").read_text() == "interrupted, as by a person\n"

    async def test_a_worker_ends_after_its_threads_and_its_exit_handlers(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.start(executor, lab.spec("end_slowly"))
        assert await executor.wait(handle) == 0
        assert (handle.run_dir / "stdout.log").read_text() == "thread finished\nexit handler ran\n"

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
        handle = await lab.start(executor, lab.spec("leave", "0"))
        await executor.wait(handle)
        assert await asyncio.wait_for(executor.wait(handle), AT_ONCE) is None

    async def test_a_worker_that_cannot_be_looked_at_is_not_taken_for_gone(
        self, executor: Executor, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process without a descriptor to spare cannot know."""

        def short(*_: object) -> int:
            raise OSError(errno.EMFILE, "Too many open files")

        handle = await lab.start(executor, lab.spec("hold"))
        with monkeypatch.context() as machine:
            machine.setattr(os, "pidfd_open", short)
            with pytest.raises(OSError, match="Too many"):
                await executor.wait(handle)
        await executor.kill_all(handle)
        assert await asyncio.wait_for(executor.wait(handle), AT_ONCE) == -signal.SIGKILL

    async def test_a_pid_that_belongs_to_somebody_else_is_neither_waited_for_nor_touched(
        self, executor: Executor, lab: Lab
    ) -> None:
        now = lab.bystander()
        handle = _formerly(lab, now)
        assert await asyncio.wait_for(executor.wait(handle), AT_ONCE) is None
        await executor.ask_to_stop(handle)
        await asyncio.wait_for(executor.kill_all(handle), AT_ONCE)
        assert await executor.survivors(handle) == []
        assert now.is_alive()

    async def test_a_pid_that_belongs_to_a_later_worker_is_not_confused_with_it(
        self, executor: Executor, lab: Lab
    ) -> None:
        later = await lab.holding(executor)
        earlier = _formerly(lab, later.process)
        assert await asyncio.wait_for(executor.wait(earlier), AT_ONCE) is None
        await executor.ask_to_stop(earlier)
        await asyncio.wait_for(executor.kill_all(earlier), AT_ONCE)
        assert later.process.is_alive()
        await executor.kill_all(later)
        assert await asyncio.wait_for(executor.wait(later), AT_ONCE) == -signal.SIGKILL

    # ---- stopping ----

    async def test_asking_to_stop_reaches_the_leader_alone(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.holding(executor, "child", behaviour="hold_until_asked")
        child = lab.relatives(handle)["child"]
        await executor.ask_to_stop(handle)
        assert await asyncio.wait_for(executor.wait(handle), HANG_GUARD) == 0
        assert child.is_alive()
        assert await executor.survivors(handle) == [child]

    async def test_asking_what_is_gone_is_no_error(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.start(executor, lab.spec("leave", "0"))
        await executor.wait(handle)
        await executor.ask_to_stop(handle)

    async def test_survivors_are_all_processes_of_the_run(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.holding(executor, *RELATIVES)
        family = lab.relatives(handle)
        assert set(family) == {"leader", *RELATIVES}
        assert set(await executor.survivors(handle)) == set(family.values())
        await executor.kill_all(handle)

    async def test_killing_ends_every_process_of_the_run(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.holding(executor, *RELATIVES)
        await asyncio.wait_for(executor.kill_all(handle), HANG_GUARD)
        assert lab.relatives(handle) == {}
        assert await executor.survivors(handle) == []
        assert await executor.wait(handle) == -signal.SIGKILL

    async def test_what_a_dead_leader_left_behind_is_found_and_ended(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.start(executor, lab.spec("abandon", *RELATIVES))
        assert await executor.wait(handle) == 0, lab.words()
        left = lab.relatives(handle)
        assert set(left) == set(RELATIVES)
        assert set(await executor.survivors(handle)) == set(left.values())
        await asyncio.wait_for(executor.kill_all(handle), HANG_GUARD)
        assert lab.relatives(handle) == {}

    async def test_killing_what_is_gone_returns_at_once(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.start(executor, lab.spec("leave", "0"))
        await executor.wait(handle)
        await asyncio.wait_for(executor.kill_all(handle), AT_ONCE)

    async def test_a_stopped_leader_is_ended_too(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.holding(executor)
        send_signal(handle.process, signal.SIGSTOP)
        await asyncio.wait_for(executor.kill_all(handle), HANG_GUARD)
        assert await executor.wait(handle) == -signal.SIGKILL

    async def test_bystanders_are_never_touched(self, executor: Executor, lab: Lab) -> None:
        run_id = new_run_id()
        marked = {**os.environ, "MOSAIC_RUN_ID": run_id}
        before = lab.bystander(env=marked)  # carries the mark, but was there before the run
        await asyncio.sleep(0.02)  # start times have a resolution of a hundredth of a second
        handle = await lab.holding(executor, "child", run_id=run_id)
        other = await lab.holding(executor, "session", "fork_session", name="another")
        reading = [
            lab.bystander("tail", "-f", str(handle.run_dir / "stdout.log")),
            lab.bystander("tail", "-f", str(claims.path_of(handle.run_dir / "claims", 1))),
            lab.bystander(cwd=handle.run_dir, env={**os.environ, "MOSAIC_RUN_ID": run_id[:-1]}),
            lab.bystander(env={**os.environ, "X_MOSAIC_RUN_ID": run_id, "OTHER": f"MOSAIC_RUN_ID={run_id}"}),
        ]
        await executor.kill_all(handle)
        assert lab.relatives(handle) == {}
        assert set(lab.relatives(other)) == {"leader", "session", "fork_session"}
        assert all(identity.is_alive() for identity in [before, *reading])
        await executor.kill_all(other)

    # ---- letting go ----

    async def test_closing_leaves_workers_running(self, executor: Executor, lab: Lab) -> None:
        handle = await lab.holding(executor, "child", "fork")
        await executor.close()
        assert set(lab.relatives(handle)) == {"leader", "child", "fork"}

    async def test_a_later_executor_takes_up_what_an_earlier_one_started(
        self, executor: Executor, later_executor: Executor, lab: Lab
    ) -> None:
        handle = await lab.holding(executor, "child", "fork_session")
        await executor.close()
        waiting = asyncio.ensure_future(later_executor.wait(handle))
        assert len(await later_executor.survivors(handle)) == 3
        await later_executor.kill_all(handle)
        assert await asyncio.wait_for(waiting, AT_ONCE) is None, "only a parent learns how a process ended"
        assert lab.relatives(handle) == {}


def _formerly(lab: Lab, process: ProcessIdentity) -> WorkerHandle:
    """The handle of a run whose leader once had the pid that another process has now."""
    leader = replace(process, start_ticks=process.start_ticks - 100)
    return WorkerHandle(new_run_id(), lab.folder / "former", 1, leader)
