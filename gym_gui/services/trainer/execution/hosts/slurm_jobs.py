"""What is said to Slurm, and what it answers: a job for each run, found by its name. Pure, but for :class:`SlurmJobs`,
which asks."""

from __future__ import annotations

import asyncio
import logging
import shlex
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.hosts.book import Host
from gym_gui.services.trainer.execution.hosts.link import HostAwayError
from mosaic_host.hosting import CommandAnswer
from mosaic_host.job import PREEMPTED
from mosaic_protocol.plain_text import one_line

logger = logging.getLogger(__name__)

WARNING_SECONDS = 120
"""So long before the end of a job its worker is asked to stop."""
_NAME = "mosaic-"
_SHAPE = "%i|%j|%T|%N|%r"
_OVER = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"}
    | {"REVOKED", "TIMEOUT"}
)
_WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD"})
_STORIES = {
    "TIMEOUT": "Slurm ended its job {number} at the job's time limit",
    "DEADLINE": "Slurm ended its job {number} at the job's deadline",
    "PREEMPTED": "Slurm took the place of its job {number} for another one (PREEMPTED)",
    "CANCELLED": "its job {number} was cancelled in Slurm",
    "NODE_FAIL": "the machine of its job {number} failed (NODE_FAIL)",
    "OUT_OF_MEMORY": "Slurm ended its job {number} because it took more memory than it had asked for (OUT_OF_MEMORY)",
    "COMPLETED": "Slurm ended its job {number}, which was near its time limit",
}
Ask = Callable[[list[str], str], Awaitable[CommandAnswer]]


class SlurmError(HostAwayError):
    """Slurm did not do it; the sentence has its own words."""


@dataclass(frozen=True)
class Needs:
    """What a job asks for."""

    cpus: int
    memory_mb: int
    gpus: int


@dataclass(frozen=True)
class Job:
    """As ``squeue`` shows it."""

    number: int
    run_id: str
    state: str
    node: str = ""
    reason: str = ""

    @property
    def is_over(self) -> bool:
        return self.state in _OVER

    @property
    def is_waiting(self) -> bool:
        return self.state in _WAITING

    @property
    def waits_for(self) -> str:
        """A sentence for people who wait."""
        why = f", {self.reason}" if self.reason not in ("", "None") else ""
        return f"waits in Slurm's queue: {self.state}{why} (job {self.number})"

    def story(self, told: str) -> tuple[str, bool] | None:
        """How its end came over a worker, and whether that was for time; None for an end that was the worker's own.
        ``told``: what the agent in it knew of the end before it came, "" for nothing."""
        if self.state == "COMPLETED" and not told:
            return None
        state = "PREEMPTED" if told == PREEMPTED else self.state
        usual = "Slurm's job {number} of it ended as {state}"
        sentence = _STORIES.get(state, usual).format(number=self.number, state=state)
        return sentence, state in ("TIMEOUT", "DEADLINE", "COMPLETED")


def name_of(run_id: str) -> str:
    return f"{_NAME}{run_id}"


def submission(host: Host, run_id: str, home: str, log: str, needs: Needs) -> list[str]:
    """The command that queues a job; its script is given on its standard input."""
    asked = {
        "job-name": name_of(run_id),
        "comment": "MOSAIC",
        "signal": f"B:TERM@{WARNING_SECONDS}",
        "chdir": home,
        "output": log,
        "open-mode": "append",
        "cpus-per-task": str(max(1, needs.cpus)),
        "mem": f"{needs.memory_mb}M" if needs.memory_mb else "",
        "gres": f"gpu:{needs.gpus}" if needs.gpus else "",
        "partition": host.partition,
        "account": host.account,
        "time": host.time,
    }
    words = [f"--{name}={value}" for name, value in asked.items() if value]
    return ["sbatch", "--parsable", "--nodes=1", "--ntasks=1", "--no-requeue", *words]


def script(environment: Iterable[str], command: Iterable[str]) -> str:
    """The agent takes the place of the shell, so Slurm's signal reaches it."""
    return f"#!/bin/sh\nexec /usr/bin/env {shlex.join([*environment, *command])}\n"


def step(job: Job, environment: Iterable[str], command: Iterable[str]) -> list[str]:
    """The command that runs another one beside the agent of a job, with its standard streams here."""
    where = [f"--jobid={job.number}", "--overlap", "--nodes=1", "--ntasks=1", "--mem=0", "--quiet", "--export=NONE"]
    return ["srun", *where, "/usr/bin/env", *environment, *command]


def parsed(out: str) -> list[Job]:
    """The jobs of runs among those that ``squeue`` lists."""
    found = []
    for line in out.splitlines():
        number, _, rest = line.partition("|")
        name, state, node, reason = [*rest.split("|", 3), "", "", "", ""][:4]
        if number.isdecimal() and name.startswith(_NAME):
            found.append(Job(int(number), name.removeprefix(_NAME), state.split(" ")[0], node, one_line(reason)[:200]))
    return found


def newest(jobs: Iterable[Job]) -> dict[str, Job]:
    """The job of each run: the first that lives, where a submission was made twice, else the one that ended last."""
    best: dict[str, Job] = {}
    for job in sorted(jobs, key=lambda one: one.number):
        before = best.get(job.run_id)
        if before is None or before.is_over:
            best[job.run_id] = job
    return best


class SlurmJobs:
    """The jobs of one account on one cluster. Belongs to the daemon's event loop."""

    def __init__(self, host: str, ask: Ask) -> None:
        self._host, self._ask = host, ask
        self._known: dict[str, Job] = {}
        self._twins: list[Job] = []
        self.problem = ""
        """Why Slurm does not answer, "" when it does."""
        self.looked_at = 0.0
        self._turn = asyncio.Lock()

    def of(self, run_id: str) -> Job | None:
        """As it was at the last look."""
        return self._known.get(run_id)

    @property
    def living(self) -> list[Job]:
        return [job for job in self._known.values() if not job.is_over]

    async def look(self) -> None:
        """Ask for all of them. Raises :class:`SlurmError`, and ConnectionError where its login node is away."""
        async with self._turn:
            out = await self._said(["squeue", "--me", "--noheader", "--states=all", f"--format={_SHAPE}"])
            jobs = parsed(out)
            self._known = newest(jobs)
            self._twins = [job for job in jobs if not job.is_over and self._known[job.run_id] != job]
            self.looked_at = time.monotonic()
        for twin in self._twins:  # a daemon that was killed while it submitted, and the next one, both did
            await self.cancel(twin)

    async def submit(self, words: list[str], text: str) -> None:
        """Raises :class:`SlurmError` with the reason for a refusal."""
        await self._said(words, text)
        await self.look()

    async def cancel(self, job: Job) -> None:
        """No error when it is over."""
        await self._said(["scancel", "--quiet", str(job.number)])

    async def last_state(self, job: Job) -> Job:
        """What the accounting says of a job that ``squeue`` lists no more, where there is accounting."""
        try:
            answer = await self._ask(
                ["sacct", "--noheader", "--parsable2", "--allocations", "--format=State", f"--jobs={job.number}"], ""
            )
        except OSError:
            return job
        state = answer.out.split()[:1] if answer.status == 0 else []
        return Job(job.number, job.run_id, state[0], job.node, job.reason) if state else job

    async def _said(self, words: list[str], given: str = "") -> str:
        try:
            answer = await self._ask(words, given)
        except ConnectionError:
            raise
        except OSError as error:
            self._trouble(f"{words[0]}: {error.strerror or error}")
            raise SlurmError(self.problem) from error
        if answer.status:
            lines = [one_line(line) for line in answer.err.splitlines() if line.strip()]
            if words[0] == "squeue":
                self._trouble(lines[-1][:300] if lines else f"squeue ended with status {answer.status}")
                raise SlurmError(self.problem)
            raise SlurmError(f"Slurm of {self._host} refuses: {lines[-1][:300] if lines else answer.status}")
        self.problem = ""
        return answer.out

    def _trouble(self, words: str) -> None:
        sentence = f"Slurm of {self._host} does not answer: {words}"
        if sentence != self.problem:
            log_event(logger, codes.LOG_HOST_AWAY, host=self._host, reason=sentence)
        self.problem = sentence
