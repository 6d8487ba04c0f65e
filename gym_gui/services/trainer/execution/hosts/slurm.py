"""The executor of a cluster under Slurm: each run has a job, in which an agent looks after its worker.

Files go to and come from the login node, whose disk the jobs share; processes are reached through a step of the job
(:class:`JobLink`). A job is found by the name of its run, so it keeps its place in Slurm's queue whatever becomes of
the daemon, and each launch of the run is made in it. When it is over no process of the run lives, and that is certain.
"""

from __future__ import annotations

import asyncio
import json
import posixpath
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

from gym_gui.logging_config.structured import log_bug
from gym_gui.services.hosts.book import Host
from gym_gui.services.trainer.execution.hosts import slurm_jobs as slurm
from gym_gui.services.trainer.execution.hosts.job_link import JobLink, words_of
from gym_gui.services.trainer.execution.hosts.link import HostAwayError, HostLink
from gym_gui.services.trainer.execution.hosts.remote import RemoteExecutor
from gym_gui.services.trainer.execution.hosts.slurm_jobs import Job, SlurmError, SlurmJobs
from mosaic_host.capacity import HostCapacity
from mosaic_host.client import AgentClient
from mosaic_host.errors import Refusal, StartError
from mosaic_host.executor import Claimant, Executor, LaunchSpec, PlaceEnd, StartedWorker, WorkerHandle
from mosaic_host.gpu import Gpu
from mosaic_host.hosting import LEFT_NOTE, CommandAnswer
from mosaic_host.job import AGENT, DAEMON, job_folder
from mosaic_protocol.paths import MosaicPaths

T = TypeVar("T")

_OFTEN, _SELDOM = 3.0, 20.0
"""Between two looks at Slurm's queue: while something is waited for, and while all is well."""
_START_PATIENCE = 2.0
_KILL_SECONDS = 15.0
"""How long the agent of a job is asked to end a worker before the job is."""
_OVER_SECONDS = 60.0
_STALE_SECONDS = 1.0
_GPUS = "CUDA_VISIBLE_DEVICES"
_OF_THE_JOB = ("TMPDIR", _GPUS)
"""What a worker inherits of its job and not of the login node."""


def capacity_of(host: Host) -> HostCapacity:
    """What a person lets runs have of a cluster: Slurm itself knows what is free, and lets the others wait."""
    gpus = tuple(Gpu(index, "a GPU of Slurm's", str(index), 0) for index in range(host.gpus))
    return HostCapacity(host.cpus or 4096, host.memory_mb or 2**24, gpus)


def sockets_of(home: str, run_id: str) -> tuple[str, PurePosixPath]:
    """Where a worker in a job finds the daemon and its agent."""
    folder = job_folder(Path(home), run_id)
    return f"unix:{folder / DAEMON}", PurePosixPath(folder / AGENT)


class SlurmExecutor(RemoteExecutor):
    """``link`` leads to the login node. ``changed`` is called when Slurm was lost or is back. ``patience``: how many
    seconds a start waits for a job to begin before it says that it waits."""

    def __init__(
        self,
        paths: MosaicPaths,
        link: HostLink,
        here: Executor,
        changed: Callable[[], None] = lambda: None,
        patience: float = _START_PATIENCE,
    ) -> None:
        super().__init__(paths, link, here)
        self._changed, self._patience = changed, patience
        self.jobs = SlurmJobs(link.host.name, self._ask)
        self._links: dict[str, JobLink] = {}
        self._last: dict[str, Job] = {}
        """The job of each run as it was last seen."""
        self._over: dict[str, asyncio.Event] = {}
        self._starting: set[str] = set()
        """Runs whose launch was not made yet."""
        self._ended_here: set[str] = set()
        """Those whose job was ended because nothing of the run was left to do."""
        self._refused: dict[str, tuple[float, str]] = {}
        self._wake, self._sorted = asyncio.Event(), asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Future[None]] = set()

    # ---- jobs ----------------------------------------------------------------------------------------------------

    async def _ask(self, words: list[str], given: str) -> CommandAnswer:
        return await self.link.client_now().batch_command(words, given)

    @property
    def why_closed(self) -> str:
        return super().why_closed or self.jobs.problem

    def why_away(self, run_id: str) -> str:
        """A run that waits in Slurm's queue is not away, and one whose job is over is nowhere."""
        link = self._links.get(run_id)
        if run_id in self._starting or self._over_event(run_id).is_set():
            return ""
        return self.link.why_away or f"{self.link.what} was not asked yet" if link is None else link.why_away

    def _follow(self, run_id: str) -> None:
        super()._follow(run_id)
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        while True:
            await self.link.client()
            before = self.jobs.problem
            if self._followed - self._home or before:
                try:
                    await self.jobs.look()
                    self._sort_out()
                except ConnectionError:
                    pass  # the sentence is where it is looked for
                except Exception as error:  # noqa: BLE001 - a bug must not leave every run of the cluster unwatched
                    log_bug(error, host=self.link.host.name)
            if self.jobs.problem != before:
                self._changed()
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()

    def _pause(self) -> float:
        is_calm = not self._starting and not any(link.why_away for link in self._links.values())
        return _SELDOM if is_calm and not self.jobs.problem else _OFTEN

    def _sort_out(self) -> None:
        """After a look: a link to each job that runs, and the word that it is over for each that does not live."""
        for run_id in self._followed:
            job = self.jobs.of(run_id)
            if job is not None:
                self._last[run_id] = job
            link = self._links.get(run_id)
            if link is not None and (job is None or job.is_over or job.number != link.job.number):
                self._let_go(run_id)
            if job is None or job.is_over:
                if run_id not in self._starting:
                    self._over_event(run_id).set()
                continue
            self._over_event(run_id).clear()
            if not job.is_waiting and run_id not in self._links:
                link = self._links[run_id] = JobLink(self.link, job, self._paths.socket, self._link_changed)
                link.open()
        self._sorted.set()
        self._sorted = asyncio.Event()

    def _link_changed(self) -> None:
        self._wake.set()

    def _let_go(self, run_id: str) -> None:
        if (link := self._links.pop(run_id, None)) is not None:
            self._over_event(run_id).set()
            task = asyncio.ensure_future(link.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _over_event(self, run_id: str) -> asyncio.Event:
        return self._over.setdefault(run_id, asyncio.Event())

    async def _is_over(self, run_id: str) -> bool:
        """Raises ConnectionError while that cannot be known."""
        self._follow(run_id)
        over = self._over_event(run_id)
        if run_id not in self._links and not over.is_set():
            await self.jobs.look()
            self._sort_out()
        return over.is_set()

    async def _until_over(self, run_id: str) -> None:
        """Raises :class:`HostAwayError` when that takes too long."""
        deadline = time.monotonic() + _OVER_SECONDS
        while (job := self.jobs.of(run_id)) is not None and not job.is_over:
            if time.monotonic() > deadline:
                raise HostAwayError(f"job {job.number} of {self.link.host.name} does not end")
            await asyncio.sleep(0.5)
            await self.jobs.look()
        self._sort_out()

    async def _end_job(self, run_id: str) -> None:
        """Nothing of the run is left to do there. Raises ConnectionError while that cannot be seen to."""
        await self.jobs.look()
        job = self.jobs.of(run_id)
        if job is None or job.is_over:
            return
        self._ended_here.add(run_id)
        link = self._links.get(run_id)
        with suppress(ConnectionError):
            if link is not None and await link.client_now().retire():
                return
        await self.jobs.cancel(job)
        if not job.is_waiting:
            await self._until_over(run_id)

    # ---- starting ------------------------------------------------------------------------------------------------

    async def start(self, spec: LaunchSpec) -> StartedWorker:
        """Its job may wait in Slurm's queue for days: until it runs, this says so and is asked again."""
        run_id = spec.run_id
        self._starting.add(run_id)
        self._follow(run_id)
        try:
            client = await self._client_in_job(spec)
            facts = await client.describe()
            await self._push(self.link.client_now(), spec)
        except ConnectionError as error:
            raise StartError(Refusal.LATER, f"waits: {error}") from None
        except OSError as error:
            raise self._not_taken(error) from error
        started = await self._start_surely(client, replace(spec, inputs=(), env=_in_job(spec, facts.environ)))
        self._starting.discard(run_id)
        return started

    async def _start_surely(self, client: AgentClient | None, spec: LaunchSpec) -> StartedWorker:
        """The launch may have been made when the link breaks: the agent is asked again, or the claim."""
        while client is not None:
            try:
                return await client.start_once(spec)
            except ConnectionError:
                self._starting.discard(spec.run_id)  # from here on the end of its job is news
                client = await self._unless(self._ends(spec.run_id), lambda: self._job_client(spec.run_id), None)
        self._starting.add(spec.run_id)
        found = await super().claimant(WorkerHandle(spec.run_id, spec.attempt))
        if found is None:
            raise StartError(Refusal.LATER, "waits: its job ended before the worker began")
        self._starting.discard(spec.run_id)
        return StartedWorker(found.locator, found.pid, "adopted")

    async def _client_in_job(self, spec: LaunchSpec) -> AgentClient:
        run_id, deadline = spec.run_id, time.monotonic() + self._patience
        self.link.client_now()
        if time.monotonic() - self.jobs.looked_at > _STALE_SECONDS or self.jobs.problem:
            await self.jobs.look()
        job = self.jobs.of(run_id)
        if job is None or job.is_over:
            job = await self._submit(spec, job)
        while job is not None and job.is_waiting and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
            await self.jobs.look()
            job = self.jobs.of(run_id)
        self._sort_out()
        if job is None or job.is_over:
            raise SlurmError("its job ended before the worker began")
        if job.is_waiting:
            raise StartError(Refusal.LATER, job.waits_for)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(self._patience, deadline - time.monotonic())):
                return await self._job_client(run_id)
        raise SlurmError(self._links[run_id].why_away if run_id in self._links else "its job ended")

    async def _submit(self, spec: LaunchSpec, former: Job | None) -> Job | None:
        run_id, facts = spec.run_id, self.link.facts
        last = self._last.get(run_id)
        if former is not None and former.state == "FAILED" and last is not None and last.number == former.number:
            # Its agent did not begin, or not for long: it would not the next time.
            raise StartError(Refusal.NEVER, f"never started: {await self._why_failed(former)}")
        refused_at, refusal = self._refused.get(run_id, (0.0, ""))
        if refusal and time.monotonic() - refused_at < _SELDOM:
            raise SlurmError(refusal)
        assert facts is not None
        await self.link.client_now().make_run(run_id)
        log = posixpath.join(MosaicPaths(Path(facts.home)).run_logs(run_id).as_posix(), "slurm.log")
        needs = slurm.Needs(spec.cpus, spec.memory_mb, spec.gpus)
        words = slurm.submission(self.link.host, run_id, facts.home, log, needs)
        try:
            await self.jobs.submit(words, slurm.script(*words_of(facts, self.link.code_folder, "agent", run_id)))
        except SlurmError as error:
            self._refused[run_id] = (time.monotonic(), str(error))
            raise
        self._refused.pop(run_id, None)
        return self.jobs.of(run_id)

    async def _why_failed(self, job: Job) -> str:
        said = ""
        with suppress(OSError):
            content = await self.link.client_now().read_piece(job.run_id, "logs", "slurm.log", 0, 100_000)
            said = content.decode(errors="replace").strip().rpartition("\n")[2][:300]
        return f"Slurm's job {job.number} ended as {job.state} before its agent could be reached" + (
            f": {said}" if said else ""
        )

    # ---- processes -----------------------------------------------------------------------------------------------

    async def wait(self, worker: WorkerHandle) -> int | None:
        return await self._in_job(worker.run_id, lambda client: client.wait(worker), None)

    async def is_alive(self, worker: WorkerHandle) -> bool:
        if await self._is_over(worker.run_id):
            return False
        return await self._job_client_now(worker.run_id).is_alive(worker)

    async def ask_to_stop(self, worker: WorkerHandle) -> None:
        if not await self._is_over(worker.run_id):
            await self._job_client_now(worker.run_id).ask_to_stop(worker)

    async def kill_all(self, worker: WorkerHandle) -> None:
        """Through the agent, and with the whole job where the agent does not answer."""
        if not worker.locator:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_KILL_SECONDS):
                await self._in_job(worker.run_id, lambda client: client.kill_all(worker), None)
                return
        if self._given_up_event(worker.run_id).is_set():
            return
        await self.jobs.look()
        if (job := self.jobs.of(worker.run_id)) is not None and not job.is_over:
            await self.jobs.cancel(job)
            await self._until_over(worker.run_id)

    async def survivors(self, worker: WorkerHandle) -> list[int]:
        return await self._in_job(worker.run_id, lambda client: client.survivors(worker), [])

    async def claimant(self, worker: WorkerHandle) -> Claimant | None:
        """The claim is a file; whether the one who has it lives is known in the job alone."""
        found = await super().claimant(worker)
        if found is None:
            return None
        there = replace(worker, locator=found.locator)
        return replace(found, alive=await self._in_job(worker.run_id, lambda client: client.is_alive(there), False))

    async def revoke(self, worker: WorkerHandle) -> Claimant | None:
        found = await super().revoke(worker)
        return None if found is None else replace(found, alive=not self._over_event(worker.run_id).is_set())

    async def why_ended(self, run_id: str) -> PlaceEnd | None:
        told = await asyncio.to_thread(_note_in, self._paths.run(run_id).directory / LEFT_NOTE)
        job = self._last.get(run_id)
        if job is None or (run_id in self._ended_here and not told):
            return None
        with suppress(ConnectionError):
            await self._until_over(run_id)
            job = self.jobs.of(run_id) or await self.jobs.last_state(job)
        story = job.story(told)
        return None if story is None else PlaceEnd(*story)

    # ---- files ---------------------------------------------------------------------------------------------------

    async def _end_over_there(self, client: AgentClient, run_id: str) -> None:
        await self._end_job(run_id)

    async def write_ending(self, run_id: str, state: str, outcome: str, reason: str) -> None:
        await super().write_ending(run_id, state, outcome, reason)
        self._starting.discard(run_id)
        if run_id in self._home:
            self._let_go(run_id)
            for known in (self._last, self._refused):
                known.pop(run_id, None)

    async def tidy(self, is_finished: Callable[[str], bool]) -> None:
        await super().tidy(is_finished)
        with suppress(ConnectionError):
            await self.jobs.look()
            for job in self.jobs.living:
                if await asyncio.to_thread(is_finished, job.run_id):
                    await self.jobs.cancel(job)

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        for run_id in list(self._links):
            self._let_go(run_id)
        if self._closing:
            await asyncio.wait(self._closing)
        await super().close()

    # ---- waiting -------------------------------------------------------------------------------------------------

    async def _in_job(self, run_id: str, ask: Callable[[AgentClient], Awaitable[T]], unknown: T) -> T:
        """The answer of the agent in the job; ``unknown`` when the job is over, and each process of the run with it."""
        self._follow(run_id)

        async def asked() -> T:
            return await ask(await self._job_client(run_id))

        return await self._unless(self._ends(run_id), asked, unknown)

    def _ends(self, run_id: str) -> list[asyncio.Event]:
        return [self._given_up_event(run_id), self._over_event(run_id)]

    async def _job_client(self, run_id: str) -> AgentClient:
        while (link := self._links.get(run_id)) is None:
            await self._sorted.wait()
        return await link.client()

    def _job_client_now(self, run_id: str) -> AgentClient:
        link = self._links.get(run_id)
        if link is None:
            raise HostAwayError(self.why_away(run_id) or f"no job of the run runs on {self.link.host.name}")
        return link.client_now()


def _note_in(file: Path) -> str:
    """What the agent of a job wrote about the end of the job."""
    try:
        return str(json.loads(file.read_text())["why"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _in_job(spec: LaunchSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a worker, which was made for the login node and without knowing which GPUs it gets."""
    ours = {name for name in _OF_THE_JOB if name in spec.env} - (set() if spec.gpus else {_GPUS})
    kept = {name: value for name, value in spec.env.items() if name not in ours}
    return {**kept, **{name: environ[name] for name in ours if name in environ}}
