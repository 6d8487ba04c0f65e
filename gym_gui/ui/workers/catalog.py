"""Which workers there are, what each is called, which lane it runs in and what it can do. No Qt here.

The daemon's word is the authority: it knows the manifests and whether each worker could start now. What a manifest does
not name is not offered.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pydantic

from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.worker_manifest import Algorithm, Lane, RunnerCapabilities, WorkerManifest

HUMAN_TYPE = "human"
Mode = Literal["human", "hybrid", "agent"]

ROSTER = {
    "spade_bdi_rl": "Spade BDI Worker",
    "spade_bdi": "Spade BDI Worker",
    "llm": "LLM Multi-Step Worker",
    "cleanrl": "CleanRL Worker",
    "corl": "CORL Worker",
}
"""What the workers of the house are called, whatever their manifests say."""


@dataclass(frozen=True)
class WorkerEntry:
    """One row of the catalog."""

    type: str
    name: str
    summary: str
    lane: Lane
    ready: bool
    reason: str
    """Why it is not ready, "ready" when it is."""
    version: str = ""
    module: str = ""
    capabilities: RunnerCapabilities = field(default_factory=RunnerCapabilities)
    algorithms: dict[str, Algorithm] = field(default_factory=dict)
    problem: str = ""
    """What of its manifest could not be understood."""

    @property
    def requires_live_telemetry(self) -> bool:
        return self.lane in ("telemetry", "hybrid")

    @property
    def provides_fast_analytics(self) -> bool:
        return self.lane in ("analytics", "hybrid")

    @property
    def is_human(self) -> bool:
        return self.type == HUMAN_TYPE

    @property
    def badge(self) -> str:
        """One word about whether it could start now."""
        if self.is_human:
            return "soon"
        return "ready" if self.ready else "not ready"

    @property
    def mode(self) -> Mode:
        return "human" if self.is_human else "agent"


HUMAN_ONLY = WorkerEntry(
    type=HUMAN_TYPE,
    name="Human-Only",
    summary="You play, by keyboard; every step is recorded and can be replayed.",
    lane="telemetry",
    ready=False,
    reason="Play sessions come in a later version. Until then, train an agent and watch its curves.",
    capabilities=RunnerCapabilities(live_telemetry=True),
)


@dataclass(frozen=True)
class Catalog:
    """The workers by type, Human-Only first, and what is wrong with manifests that could not be read."""

    entries: dict[str, WorkerEntry] = field(default_factory=lambda: {HUMAN_TYPE: HUMAN_ONLY})
    problems: tuple[str, ...] = ()

    @classmethod
    def from_daemon(cls, answer: pb.ListWorkersResponse) -> Catalog:
        found = {HUMAN_TYPE: HUMAN_ONLY}
        for worker in answer.workers:
            found[worker.type] = entry_of(worker)
        return cls(found, tuple(answer.problems))

    def for_mode(self, mode: str) -> list[WorkerEntry]:
        """Those to choose from in a mode; hybrid sessions need both a person and an agent."""
        if mode == "hybrid":
            return list(self.entries.values())
        return [entry for entry in self.entries.values() if entry.mode == mode]


def entry_of(worker: pb.WorkerInfo) -> WorkerEntry:
    """What the daemon says of a worker; a manifest that cannot be understood leaves what the wire itself says."""
    lane: Lane = "analytics"  # until the manifest says otherwise: no live tabs for what may not stream
    plain = WorkerEntry(
        type=worker.type,
        name=ROSTER.get(worker.type, worker.name),
        summary=worker.summary,
        lane=lane,
        ready=worker.ready,
        reason=worker.readiness,
        version=worker.version,
    )
    try:
        manifest = manifest_from(worker.manifest_json)
    except ValueError as error:
        return replace(plain, ready=False, reason=str(error), problem=str(error))
    return replace(
        plain,
        lane=manifest.lane,
        module=manifest.module,
        capabilities=manifest.capabilities,
        algorithms=manifest.algorithms,
    )


def manifest_from(text: str) -> WorkerManifest:
    """A manifest as the daemon sends it. Raises ValueError; fields of a newer daemon are left out."""
    told: Any = json.loads(text)
    if not isinstance(told, dict):
        raise ValueError("the manifest is not an object")
    known = {name: value for name, value in told.items() if name in WorkerManifest.model_fields}
    capabilities = known.get("capabilities")
    if isinstance(capabilities, dict):
        # Unknown means hidden: what this cockpit does not know of, it cannot offer.
        fields = RunnerCapabilities.model_fields
        known["capabilities"] = {name: value for name, value in capabilities.items() if name in fields}
    try:
        return WorkerManifest.model_validate_json(json.dumps({**known, "package_dir": str(Path())}))
    except pydantic.ValidationError as error:
        raise ValueError(f"the manifest cannot be understood: {error.error_count()} problem(s)") from error
