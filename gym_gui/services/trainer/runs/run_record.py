"""One run as the registry keeps it. Immutable: lifecycle decisions make new ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gym_gui.services.run_labels import NO_LABELS, RunLabels
from gym_gui.services.trainer.runs.run_queue import Reservation
from mosaic_protocol.states import Desired, Outcome, RunState


@dataclass(frozen=True)
class Verdict:
    """The outcome a run is going to have, decided before its last process is gone."""

    outcome: Outcome
    sentence: str


@dataclass(frozen=True)
class LastWord:
    """The closing event of the worker."""

    event: str
    sentence: str
    step: int | None = None


@dataclass(frozen=True)
class ActiveClock:
    """Time spent in EXEC by the monotonic clock, which means something only within one boot."""

    seconds: float = 0.0
    since: float | None = None
    boot: str = ""

    def total(self, now: float, boot: str) -> float:
        if self.since is None or self.boot != boot:
            return self.seconds
        return self.seconds + max(0.0, now - self.since)

    def started(self, now: float, boot: str) -> ActiveClock:
        return replace(self, since=now, boot=boot)

    def stopped(self, now: float, boot: str) -> ActiveClock:
        return ActiveClock(self.total(now, boot))


@dataclass(frozen=True)
class RunRecord:
    """Everything durable about a run. Tokens appear as hashes only."""

    run_id: str
    name: str
    worker_type: str
    config_json: str
    created_at: float
    algo: str = ""
    env_id: str = ""
    agent_id: str = ""
    worker_id: str = ""
    labels: RunLabels = NO_LABELS
    script_file: str = ""
    script_sha256: str = ""
    """The script that is not the worker's own, as it was when the run was submitted; empty where there is none."""
    total_steps: int = 0
    interactive: bool = False
    """Whether a person sits before it, by what its worker's manifest said when it was submitted."""
    queue_key: str = ""
    """Where it stands among the runs that wait: see :mod:`gym_gui.services.trainer.runs.queue_keys`."""
    state: RunState = RunState.INIT
    outcome: Outcome | None = None
    reason: str = ""
    desired: Desired = Desired.RUN
    verdict: Verdict | None = None
    last_word: LastWord | None = None
    attempt: int = 0
    locator: str = ""
    """Where its leading process is, for the executor; empty while no launch is known to have happened."""
    pid: int = 0
    """Of the leading process, for people."""
    start_mode: str = ""
    exit_status: int | None = None
    reservation: Reservation | None = None
    host: str = ""
    """The machine that it was last started on; empty for this one."""
    away: str = ""
    """Why its host cannot be reached; empty while it can."""
    launch_token_hash: str = ""
    session_token_hash: str = ""
    capabilities_json: str = ""
    started_at: float = 0.0
    ended_at: float = 0.0
    active: ActiveClock = ActiveClock()
    last_step: int = 0
    heard: Mapping[str, int] = field(default_factory=dict)
    """Number of the last lifecycle record that was acted on, by stream."""
    throttled: str = ""
    """What the output of its worker waits for; empty while it waits for nothing."""
    journal_unread: str = ""
    """Why the journal of a run that is over is not read to its end; empty when it is."""
    deleted_at: float = 0.0
    revision: int = 0

    @property
    def is_over(self) -> bool:
        return self.state is RunState.TERM

    @property
    def is_queued(self) -> bool:
        return self.state is RunState.INIT

    @property
    def short(self) -> str:
        """How a person refers to it."""
        return f"{self.name} ({self.run_id[-6:]})"
