"""Which workers there are and whether they could start now. Manifests are read again when somebody asks, but not for
every one of a burst of requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from gym_gui.services.external_services import ServiceState, look_for
from gym_gui.services.trainer.bundles.manager import BundleManager
from gym_gui.services.trainer.bundles.requirements import BundleError
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.worker_manifest import Discovery, WorkerManifest, discover

_FRESH_SECONDS = 5.0


class WorkerRoster:
    """Thread-safe: its methods may be called from the loop and from the dispatcher's threads."""

    def __init__(self, bundles: BundleManager) -> None:
        self._bundles = bundles
        self._found: Discovery | None = None
        self._looked_at = 0.0

    def registered_runners(self) -> Mapping[str, WorkerManifest]:
        """The workers by type."""
        return self._discovery().workers

    async def manifests(self) -> Mapping[str, WorkerManifest]:
        if self._is_fresh():
            return self._discovery().workers
        return await asyncio.to_thread(self.registered_runners)

    async def describe(self) -> pb.ListWorkersResponse:
        return await asyncio.to_thread(self._describe)

    def _is_fresh(self) -> bool:
        return self._found is not None and time.monotonic() - self._looked_at < _FRESH_SECONDS

    def _discovery(self) -> Discovery:
        found = self._found
        return found if found is not None and self._is_fresh() else self._look()

    def _look(self) -> Discovery:
        found = self._found = discover()
        self._looked_at = time.monotonic()
        return found

    def _describe(self) -> pb.ListWorkersResponse:
        found = self._look()
        answer = pb.ListWorkersResponse(problems=found.problems)
        for manifest in found.workers.values():
            missing = self._missing(manifest)
            answer.workers.add(
                type=manifest.type,
                name=manifest.name,
                version=manifest.version,
                summary=manifest.summary,
                lane=manifest.lane,
                manifest_json=manifest.to_json(),
                ready=not missing,
                readiness=missing or "ready",
            )
        return answer

    def _missing(self, manifest: WorkerManifest) -> str:
        """What keeps a worker from starting a run now, "" for nothing: its packages, and services it needs."""
        packages = self._missing_packages(manifest)
        states = look_for(manifest.capabilities.external_services) if manifest.capabilities.external_services else ()
        away = [f"{state.name} does not answer at {state.address}: start it" for state in states if _is_away(state)]
        return "; ".join(filter(None, [packages, *away]))

    def _missing_packages(self, manifest: WorkerManifest) -> str:
        if not manifest.bundle:
            return ""
        try:
            found = self._bundles.preflight(manifest.bundle)
        except BundleError as error:
            return str(error)
        return "" if found.python is not None else found.advice


def _is_away(state: ServiceState) -> bool:
    """One that cannot be checked may well be there."""
    return state.answers is False
