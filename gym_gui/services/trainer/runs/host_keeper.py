"""Keeps the queue told of what other hosts have, and reaches those that runs need."""

from __future__ import annotations

import asyncio

from gym_gui.services.trainer.errors import UnknownRunError
from gym_gui.services.trainer.execution.hosts.fleet import Fleet, allowed
from gym_gui.services.trainer.runs.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.runs.run_queue import ANY
from gym_gui.services.trainer.runs.run_record import RunRecord
from mosaic_host.capacity import HostCapacity
from mosaic_protocol.run_config import RunConfigError

_LOOK_SECONDS = 2.0


class HostKeeper:
    """Belongs to the daemon's event loop; :meth:`run` goes on until cancelled."""

    def __init__(self, orchestrator: TrainerOrchestrator, fleet: Fleet) -> None:
        self._orchestrator, self._fleet = orchestrator, fleet
        self._known: dict[str, tuple[HostCapacity | None, bool]] = {}
        self._labels: dict[str, frozenset[str]] = {}
        fleet.where = orchestrator.host_of
        fleet.changed = self.refresh
        orchestrator.before_submit = self.look
        orchestrator.why_it_waits = self.why_it_waits

    async def run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    def look(self) -> None:
        """At the list of hosts, and at which of them are needed."""
        self._fleet.look()
        wanted = self._orchestrator.queue.wanted_hosts
        hosts = self._fleet.hosts
        if ANY in wanted:
            wanted |= {name for name, host in hosts.items() if not host.drained}
        self._fleet.need(wanted - {ANY})
        self.refresh()

    def refresh(self) -> None:
        """Tell the queue what changed, and let it start what fits now."""
        known: dict[str, tuple[HostCapacity | None, bool]] = {}
        for state in self._fleet.states():
            capacity = allowed(state.host, state.facts.capacity) if state.facts else None
            is_open = not state.host.drained and state.is_wanted and not state.why_away
            known[state.host.name] = (capacity, is_open)
        labels = {name: frozenset(host.labels) for name, host in self._fleet.hosts.items()}
        if known != self._known or labels != self._labels:
            for name, (_, is_open) in known.items():
                if is_open and not self._known.get(name, (None, False))[1]:
                    self._orchestrator.spawn(self._fleet.tidy(name, self._is_finished))
            self._known, self._labels = known, labels
            self._orchestrator.queue.set_hosts(known, labels)
            self._orchestrator.start_what_can()
            self._orchestrator.announce()

    def _is_finished(self, run_id: str) -> bool:
        """Whether a run of this daemon is over and read: one that is not known is another daemon's."""
        try:
            run = self._orchestrator.registry.get(run_id)
        except UnknownRunError:
            return False
        return run.is_over and not run.journal_unread and run_id not in self._orchestrator.tracked

    def why_it_waits(self, run: RunRecord) -> str:
        """Of a queued run: why the host that it names takes nobody."""
        try:
            name = self._orchestrator.config_of(run).resources.host
        except RunConfigError:
            return ""
        if name in ("", ANY):
            return ""
        state = next((one for one in self._fleet.states() if one.host.name == name), None)
        if state is None:
            return f"waits: host {name} is not in hosts.toml any more"
        if state.host.drained:
            return f"waits: host {name} is drained; `mosaic hosts drain {name} --off` lets runs start there again"
        return f"waits: {state.why_away}" if state.why_away else ""
