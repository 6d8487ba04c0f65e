"""The records that travel from a worker to the store: one JSON object a line, versioned, typed at both ends.

A record is written once by its worker (:mod:`mosaic_protocol.outbox`), travels verbatim and is decoded here. Readers
accept every version up to :data:`RECORD_VERSION`; unknown fields are ignored, so that an older daemon survives a newer
worker, while an unknown *kind* is refused with a sentence.

msgspec rather than json + checks by hand: decoding validates types in the same pass and is an order of magnitude
faster, which telemetry workers need.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias

import msgspec

from mosaic_protocol.steps.columns import StepSchema

RECORD_VERSION = 1
_SEED = re.compile(r"-?[0-9]{1,1000}")

Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What a database column and a message field can hold."""


class RecordError(ValueError):
    """A journal line that is not a valid record."""


class _Record(msgspec.Struct, tag_field="kind", kw_only=True, omit_defaults=True):
    """Fields that every record has, assigned when the record is appended to an outbox.

    A line without ``v`` is version 1, which saves the field on every line written today.
    """

    seq: Int64 = 0
    t: float = 0.0
    v: Int64 = 1


class RunLifecycleEvent(_Record, tag="lifecycle"):
    """A worker's word about the run: ``run_started``, ``run_paused``, ``run_completed``, …"""

    event: str
    sentence: str = ""
    step: Int64 | None = None
    stdout_tail: str = ""
    detail: dict[str, Any] = {}


class MetricRow(_Record, tag="metric"):
    """Scalars logged together at one global step. ``None`` stands for a value that is not finite."""

    step: Int64
    values: dict[str, float | None]


class TrainingStep(_Record, tag="step"):
    """One environment step as an agent saw it. ``observation`` is what it saw before it acted, ``actor`` who chose the
    action, ``final_observation`` what the last step of an episode led to."""

    episode: Int64
    step: Int64
    agent_id: str = ""
    observation: Any = None
    action: Any = None
    reward: float | None = 0.0
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = {}
    actor: str = ""
    value: float | None = None
    final_observation: Any = None


class EndedEpisode(msgspec.Struct, array_like=True, gc=False):
    """An episode that ends within a chunk. ``first_step`` is that of the episode, perhaps in an earlier chunk."""

    episode: Int64
    agent_id: str
    length: Int64
    total_reward: float | None
    outcome: str
    seed: Int64 | str | None = None
    """In digits where it has more than 63 bits."""
    first_step: Int64 = 0

    def summary(self, t: float) -> EpisodeSummary:
        """As readers of episodes get it; ``t`` is when it ended."""
        return EpisodeSummary(
            episode=self.episode,
            agent_id=self.agent_id,
            length=self.length,
            total_reward=self.total_reward,
            outcome=self.outcome,
            seed=seed_number(self.seed),
            info={"first_step": self.first_step},
            t=t,
        )


def seed_number(seed: object) -> int | None:
    """A recorded seed as a number; None for what is none."""
    if isinstance(seed, str):
        return int(seed) if _SEED.fullmatch(seed) else None
    return seed if isinstance(seed, int) else None


class StepChunk(_Record, tag="steps"):
    """Consecutive steps in one record, made and read by :mod:`mosaic_protocol.steps.chunk`."""

    first_step: Int64
    count: Int64
    first_episode: Int64
    last_episode: Int64
    schema: StepSchema
    heap_bytes: Int64
    raw_bytes: Int64
    crc: Int64
    body: bytes
    episodes: list[EndedEpisode] = []
    """Those that ended, unless a later step of the chunk undid the end."""
    undone: list[Int64] = []
    """Episodes that go on here after steps of theirs were undone: an end in an earlier chunk does not stand."""
    next_episode: Int64 = 0
    """The number that the next episode of the run gets; 0 where the recorder did not say."""
    times: list[tuple[Int64, float]] = []
    """Of a chunk that was made of several: from which row on which time holds."""


class EpisodeSummary(_Record, tag="episode"):
    """One finished episode."""

    episode: Int64
    length: Int64
    total_reward: float | None
    agent_id: str = ""
    seed: int | None = None
    outcome: str = ""
    info: dict[str, Any] = {}


class ArtifactRecord(_Record, tag="artifact"):
    """A file or folder the run produced, named relative to its run directory."""

    name: str
    path: str
    type: str
    step: Int64 | None = None
    detail: dict[str, Any] = {}


class LogRecord(_Record, tag="log"):
    """A structured log line with a code of ``log_constants``, re-emitted by the daemon."""

    code: str
    message: str
    level: str = "INFO"
    fields: dict[str, Any] = {}


Record: TypeAlias = RunLifecycleEvent | MetricRow | StepChunk | EpisodeSummary | ArtifactRecord | LogRecord
"""What a journal holds. A single step is none: steps are recorded, travel and are stored in chunks alone."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)

RUN_STARTED = "run_started"
RUN_PAUSED = "run_paused"
RUN_RESUMED = "run_resumed"
RUN_STOPPING = "run_stopping"
RUN_STOPPED = "run_stopped"
RUN_COMPLETED = "run_completed"
RUN_FAILED = "run_failed"
HEARTBEAT = "heartbeat"

LIFECYCLE_EVENTS = frozenset(
    {RUN_STARTED, RUN_PAUSED, RUN_RESUMED, RUN_STOPPING, RUN_STOPPED, RUN_COMPLETED, RUN_FAILED, HEARTBEAT}
)
CLOSING_EVENTS = frozenset({RUN_COMPLETED, RUN_FAILED, RUN_STOPPED})
"""The last word of a worker about its run."""


def encode(record: Record) -> bytes:
    """One line without its newline."""
    return _encoder.encode(record)


def decode(line: bytes) -> Record:
    """Read one line back, raising :class:`RecordError` when it is not a record this version knows."""
    try:
        if not line.isascii():
            line.decode()  # the decoder does not look at the text of fields that it does not know
        record = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"not a record: {error}") from error
    if record.v > RECORD_VERSION:
        raise RecordError(f"record version {record.v} is newer than {RECORD_VERSION}: update the trainer daemon")
    return record
