"""What the clients of a campaign know together: which runs they submitted, and what they have seen of them."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass

from mosaic_host.process_sweep import RunMarks, processes_of
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.process_identity import ProcessIdentity, boot_id
from mosaic_protocol.proto import trainer_pb2 as pb
from tools.nemesis.history import History
from tools.nemesis.plans import MIX, Plan, plan


@dataclass
class Submission:
    """A run that a client asked for. Only its owner deletes, restores and purges it, one thing after the other."""

    plan: Plan
    owner: str
    request: str
    run_id: str = ""
    refused: bool = False
    acknowledged_at: float = float("inf")
    over_at: float = float("inf")
    outcome: str = ""
    in_trash: bool | None = False
    """None when no answer came to the last delete or restore."""
    purging: bool = False
    purged: bool = False


class Ledger:
    """Thread-safe."""

    def __init__(self, paths: MosaicPaths, history: History, seed: int) -> None:
        self.paths, self.history = paths, history
        self.submissions: list[Submission] = []
        self._by_id: dict[str, Submission] = {}
        self._plans = random.Random(f"plans {seed}")
        self._turn = threading.Lock()

    def begin(self, owner: str, request: str) -> Submission:
        """The next run to submit."""
        with self._turn:
            one = Submission(plan(len(self.submissions) + 1, self._plans, MIX), owner, request)
            self.submissions.append(one)
        return one

    def acknowledge(self, one: Submission, run_id: str) -> None:
        """The daemon said that the run exists."""
        with self._turn:
            if one.run_id and one.run_id != run_id:
                self.history.broken(f"request {one.request} made two runs, {one.run_id} and {run_id}")
            one.run_id, one.acknowledged_at = run_id, min(one.acknowledged_at, self.history.now())
            self._by_id[run_id] = one

    def adopt(self, run: pb.Run) -> None:
        """A run whose client had no answer, and which is there: it is judged like the others."""
        for one in self.submissions:
            if one.plan.name == run.name and not one.run_id:
                self.acknowledge(one, run.run_id)

    def acknowledged(self) -> list[Submission]:
        with self._turn:
            return list(self._by_id.values())

    def unfinished(self) -> int:
        return sum(one.over_at == float("inf") for one in self.acknowledged())

    def observe(self, run: pb.Run, asked_at: float) -> None:
        """A client saw a run in an answer to what it asked then: over is over, with one outcome and no process."""
        one = self._by_id.get(run.run_id)
        if one is None or (run.deleted and not run.state):  # the word that a run was purged
            return
        with self._turn:
            first = run.state == "TERM" and one.over_at == float("inf")
            changed = one.over_at < asked_at and (run.state, run.outcome) != ("TERM", one.outcome)
            if first:
                one.over_at, one.outcome = self.history.now(), run.outcome
        if changed:
            self.history.broken(f"{run.run_id} was over ({one.outcome}) and is {run.state} {run.outcome}")
        if first and (left := processes_of_run(self.paths, run)):
            self.history.broken(f"{run.run_id} is over ({run.outcome}), yet processes {left} of it live")

    def check_listing(self, listed: list[str], asked_at: float) -> None:
        """A listing shows each run that was acknowledged before, once."""
        if len(listed) != len(set(listed)):
            self.history.broken("a listing shows a run twice")
        due = {one.run_id for one in self.acknowledged() if one.acknowledged_at < asked_at and not one.purging}
        # Looked at again, because a purge may have begun between the answer and the line above.
        missing = {one.run_id for one in self.acknowledged() if not one.purging and one.run_id in due - set(listed)}
        for run_id in missing:
            self.history.broken(f"{run_id} was acknowledged and is in no listing")


def processes_of_run(paths: MosaicPaths, run: pb.Run) -> list[int]:
    """Living processes that carry the mark or hold the claim of a run, found from outside."""
    leader = ProcessIdentity(run.pid, 0, boot_id())  # since boot: every process with the mark is meant
    marks = RunMarks(run.run_id, paths.run(run.run_id).directory, run.attempt, leader)
    return [process.pid for process in processes_of(marks, leader_was_seen=False)]
