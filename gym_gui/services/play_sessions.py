"""Live sessions as runs: what somebody wants to play, as the request of a run. The command line and the cockpit both
start sessions through here. Starts nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from gym_gui.services.run_request import RunRequest, default_name
from gym_gui.services.run_words import PLAY, is_over
from mosaic_protocol.live.messages import HandOver

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb
    from mosaic_protocol.worker_manifest import WorkerManifest

LARGEST_SEED = 2**31 - 1
MOST_SEATS = 8
"""That play side by side in one session."""
Seated: TypeAlias = Literal["human", "policy", "random", "scripted"]


class NoPlayWorkerError(Exception):
    """No installed worker has live sessions; the text says so in one sentence."""


@dataclass(frozen=True)
class SessionWish:
    """What somebody wants to play.

    ``checkpoint`` is the policy that takes the seat, or that it can be handed over to: a folder, or a name that people
    use. ``params`` are settings of the game and of the session, by the worker's names.
    """

    env_id: str
    seed: int = 1
    actor: Seated = "human"
    checkpoint: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    run_name: str = ""

    @property
    def name(self) -> str:
        """What the run is called; with a number behind it where runs have that name."""
        return self.run_name or default_name(PLAY, {"env_id": self.env_id, "seed": self.seed})

    def request(self, worker: WorkerManifest) -> RunRequest:
        """The run that plays it. Every step is recorded, so there is nothing for TensorBoard to add."""
        params = {**self.params, "actor": self.actor}
        if self.checkpoint:
            params["checkpoint"] = self.checkpoint
        settings = {"algo": PLAY, "env_id": self.env_id, "seed": self.seed, "params": params}
        return RunRequest(worker.type, worker.module, self.name, settings, tensorboard=False)


def play_worker_of(workers: Iterable[WorkerManifest]) -> WorkerManifest:
    """The worker whose runs are sessions. Raises :class:`NoPlayWorkerError`."""
    offering = [one for one in workers if PLAY in one.algorithms]
    if not offering:
        raise NoPlayWorkerError("no installed worker has live sessions: `mosaic doctor` says what is missing")
    return next((one for one in offering if one.type == PLAY), offering[0])


def handed_over_to(params: Mapping[str, Any]) -> HandOver:
    """Who plays when the person of a session with these parameters hands over: its policy, or else chance."""
    seats = (one.strip().partition(":") for one in str(params.get("seats") or "").split(","))
    seated = next((checkpoint for actor, _, checkpoint in seats if actor == "policy"), "")
    if checkpoint := params.get("checkpoint") or seated:
        deterministic = bool(params.get("deterministic", True))
        return HandOver("policy", checkpoint=str(checkpoint), deterministic=deterministic)
    return HandOver("random")


def seats_of(run: pb.Run | None) -> list[str]:
    """Who took which seat of a session when it began, as ``--seats`` spells it; nothing for one with a single seat."""
    try:
        params = json.loads(run.config_json if run is not None else "")["metadata"]["worker"]["config"]["params"]
        return [one.strip() for one in params["seats"].split(",")]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def is_live(run: pb.Run) -> bool:
    """Whether a run is a session that may be joined now."""
    return run.algo == PLAY and not is_over(run)
