"""Which workers there are, what each is called, which lane it runs in and what it can do. No Qt here.

The daemon's word is the authority: it knows the manifests and whether each worker could start now. What a manifest does
not name is not offered.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pydantic

from gym_gui.services.external_services import ServiceState
from gym_gui.services.run_words import PLAY
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.worker_manifest import Algorithm, Lane, RunnerCapabilities, WorkerManifest

HUMAN_TYPE = "human"
Mode = Literal["human", "hybrid", "agent"]


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
    has_extras: bool = False
    """Whether it has optional sets of requirements that can be installed."""
    needs: frozenset[str] = frozenset()
    """What every run must name: ``env``, ``dataset``. Empty where the manifest does not say."""
    choices: frozenset[str] = frozenset()
    """The settings that express what the manifest lets one choose besides the algorithm."""
    services: tuple[ServiceState, ...] = ()
    """How it stands with the services it needs; empty until somebody looked."""

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
        """A few words about whether it could start now: it itself, and the services it needs."""
        words = ["ready" if self.ready else "not ready"]
        if self.capabilities.gpu_required:
            words.append("needs a GPU")
        looked = {service.name: service.answers for service in self.services}
        for name in (label.partition("@")[0] for label in self.capabilities.external_services):
            answers = looked.get(name)
            words.append(f"needs {name}" if answers is None else f"{name} answers" if answers else f"{name} away")
        return " · ".join(words)

    @property
    def away(self) -> str:
        """Which service does not answer, "" when none is known to be away."""
        return "; ".join(str(service) for service in self.services if service.answers is False)

    @property
    def details(self) -> str:
        """Everything about its readiness, for a tooltip."""
        parts = [self.summary, self.reason if not self.ready else "", *map(str, self.services)]
        return "\n".join(filter(None, parts))

    @property
    def mode(self) -> Mode:
        return "human" if self.is_human else "agent"


HUMAN_ONLY = WorkerEntry(
    type=HUMAN_TYPE,
    name="Human-Only",
    summary="You play, by keyboard; every step is recorded and can be replayed.",
    lane="telemetry",
    ready=False,
    reason="no worker with live sessions is installed",
)


@dataclass(frozen=True)
class Catalog:
    """The workers by type, Human-Only first, and what is wrong with manifests that could not be read."""

    entries: dict[str, WorkerEntry] = field(default_factory=lambda: {HUMAN_TYPE: HUMAN_ONLY})
    problems: tuple[str, ...] = ()

    @classmethod
    def from_daemon(cls, answer: pb.ListWorkersResponse, also: Iterable[str] = ()) -> Catalog:
        """``also``: what is wrong besides the manifests, such as presenters that cannot be loaded."""
        found = {HUMAN_TYPE: HUMAN_ONLY}
        for worker in answer.workers:
            found[worker.type] = entry_of(worker)
        catalog = cls(found, (*answer.problems, *also))
        if (sessions := catalog.sessions) is not None:
            found[HUMAN_TYPE] = replace(HUMAN_ONLY, ready=sessions.ready, reason=sessions.reason)
        return catalog

    @property
    def sessions(self) -> WorkerEntry | None:
        """The worker whose runs are live sessions; None where there is none."""
        offering = [one for one in self.entries.values() if PLAY in one.algorithms]
        return next((one for one in offering if one.type == PLAY), offering[0] if offering else None)

    def services_wanted(self) -> dict[str, tuple[str, ...]]:
        """The services to look for, by worker type."""
        named = {entry.type: entry.capabilities.external_services for entry in self.entries.values()}
        return {worker_type: labels for worker_type, labels in named.items() if labels}

    def with_services(self, found: Mapping[str, tuple[ServiceState, ...]]) -> Catalog:
        """The same with what is known of services, by worker type."""
        entries = {
            worker_type: replace(entry, services=found.get(worker_type, entry.services))
            for worker_type, entry in self.entries.items()
        }
        return replace(self, entries=entries)

    def for_mode(self, mode: str) -> list[WorkerEntry]:
        """Those to choose from in a mode; hybrid sessions need both a person and an agent."""
        if mode == "hybrid":
            return list(self.entries.values())
        return [entry for entry in self.entries.values() if entry.mode == mode]


def entry_of(worker: pb.WorkerInfo) -> WorkerEntry:
    """What the daemon says of a worker; a manifest that is not valid leaves what the wire itself says."""
    lane: Lane = "analytics"  # until the manifest says otherwise: no live tabs for what may not stream
    plain = WorkerEntry(
        type=worker.type,
        name=worker.name,
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
        has_extras=manifest.extras_module is not None,
        needs=_needs(worker.manifest_json),
        choices=manifest.choice_settings,
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
        raise ValueError(f"the manifest is not valid: {error.error_count()} problem(s)") from error


def _needs(text: str) -> frozenset[str]:
    told = json.loads(text).get("needs")
    return frozenset(map(str, told)) if isinstance(told, list) else frozenset()
