"""What a surface asks before it starts training or a session, and how it brings a checkpoint into one.

Everything here is without Qt. What is marked as blocking belongs into a thread.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from gym_gui.services.agent_service import AgentService, Done, PolicyLoad
from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.errors import UnusableCheckpointError
from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.external_services import look_for
from gym_gui.services.play_sessions import SessionWish, play_worker_of
from gym_gui.services.run_names import taken_names
from gym_gui.services.run_request import fresh_name
from gym_gui.services.start_point import placed
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.services.worker_tools import ToolError
from gym_gui.validations.dry_run import dry_run
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.worker_manifest import discover

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb
    from mosaic_protocol.worker_manifest import WorkerManifest

LEAST_FREE_MB = 200
"""With less on the disk a run would soon wait for space."""
Mode: TypeAlias = Literal["human", "hybrid", "agent"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at before a start."""

    name: str
    ok: bool
    sentence: str = ""
    """What is wrong and what to do, or what was found."""


@dataclass(frozen=True)
class Preflight:
    """What came of looking before a start."""

    checks: tuple[Check, ...]
    text: str = ""
    """What would run, in lines for people; why it would not, when it would not."""
    told: Mapping[str, Any] = field(default_factory=dict)
    """The worker's own summary of what would run."""
    asked: bool = True
    """False when the worker could not be asked: then there is no verdict on the settings."""

    @property
    def ok(self) -> bool:
        return all(one.ok for one in self.checks)

    @property
    def reason(self) -> str:
        """Why it cannot start; "" when it can."""
        return "; ".join(one.sentence for one in self.checks if not one.ok)


class SessionController:
    """Between a surface and what runs: preflights, sessions, and policies that take their seat."""

    def __init__(self, queries: WorkerQueries, agents: AgentService | None = None) -> None:
        """Without ``agents`` there is no session, and no checkpoint can be activated."""
        self._queries, self._paths = queries, queries.paths
        self.agents = agents or AgentService(queries.paths)

    # ---- training ------------------------------------------------------------------------------------------------

    def prepare_training(self, agent_id: str, mode: Mode, config: Mapping[str, Any]) -> Preflight:
        """Look whether a run config of an agent (the type of its worker) could start. Blocking; raises nothing.

        In Human mode nothing is trained, and a config for it is refused.
        """
        if mode == "human":
            return _refused("mode", "in Human mode you act yourself: choose Agent to train")
        try:
            manifest = self._queries.manifest(agent_id)
        except ToolError as error:
            return _refused("worker", str(error), asked=False)
        found = dry_run(self._queries, agent_id, config)
        checks = [Check("settings", found.ok, found.text), _disk(self._paths), *_services(manifest)]
        whole = Preflight(tuple(checks), found.text, found.told, found.asked)
        return whole if whole.ok else replace(whole, text=whole.reason)

    # ---- sessions ------------------------------------------------------------------------------------------------

    def prepare_session(self, wish: SessionWish) -> dict[str, Any]:
        """The config of a session's run, as its worker accepts it. Blocking.

        Raises NoPlayWorkerError, CheckpointsError and ToolError with the sentence that says why not.
        """
        manifest = play_worker_of(discover().workers.values())
        config = placed(wish.request(manifest).config(), manifest, self._paths)
        self._queries.dry_run(manifest.type, config)
        return config

    def start_session(self, client: TrainerClient, wish: SessionWish, request_id: str = "") -> pb.Run:
        """Submit a session's run, called as no other run is. Blocking; raises what :meth:`prepare_session` does, and
        TrainerError."""
        config = self.prepare_session(wish)
        config["run_name"] = fresh_name(wish.name, taken_names(client, wish.name))
        return client.submit(config, request_id).run

    # ---- policies ------------------------------------------------------------------------------------------------

    def activate_checkpoint(self, agent_id: str, run_id: str, done: Done = lambda load: None) -> PolicyLoad:
        """Have the session's seat given to what an agent learned in a run: its best checkpoint, or where none was
        scored the last. Returns at once and reports to ``done``, as :meth:`AgentService.load_policy` does."""
        return self.agents.load_policy(agent_id, run_id, done, find=lambda: self.checkpoint_of(agent_id, run_id))

    def checkpoint_of(self, agent_id: str, run_id: str) -> CheckpointEntry:
        """Blocking. Raises CheckpointsError."""
        whole = [one for one in TrainingRegistry(self._paths).of_run(run_id) if one.integrity.state != "damaged"]
        own = [one for one in whole if agent_id in ("", one.agent_id, one.worker, one.algo)]
        if not own:
            whose = f" of {agent_id}" if agent_id else ""
            raise UnusableCheckpointError(f"the run {run_id} has no checkpoint{whose} that can be used")
        return next((one for one in own if one.is_best), own[0])


def _refused(name: str, sentence: str, *, asked: bool = True) -> Preflight:
    return Preflight((Check(name, False, sentence),), sentence, asked=asked)


def _disk(paths: MosaicPaths) -> Check:
    try:
        free = shutil.disk_usage(paths.root).free // 2**20
    except OSError as error:
        return Check("disk", False, f"{paths.root} cannot be used: {error.strerror}")
    enough = free >= LEAST_FREE_MB
    return Check("disk", enough, "" if enough else f"only {free} MB are free on the disk: make room first")


def _services(manifest: WorkerManifest) -> list[Check]:
    """Services that the worker needs and that were looked for."""
    found = look_for(manifest.capabilities.external_services)
    return [Check(one.name, one.answers is not False, str(one)) for one in found]
