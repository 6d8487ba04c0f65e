"""The runs that pictures show: each is asked for by what it is here for, begun once, and found again in a data root
that is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gym_gui.services.run_request import RunRequest
from gym_gui.services.trainer.client import TrainerClient
from gym_gui.ui.context import Cockpit
from mosaic_protocol.proto import trainer_pb2 as pb
from tools.screenshot_camera import Camera

ENV_ID = "CartPole-v1"
LEARNING_STEPS, LIVE_STEPS = 25_000, 5_000_000
SEEDS = (1, 2, 3)
LEARNERS = (*(f"ppo-{seed}" for seed in SEEDS), "dqn")
WAITING = ("queued", "queued-next", "queued-last")
TAG = "screenshots"


@dataclass(frozen=True)
class Wish:
    """A run, and in which state a picture wants it."""

    name: str
    settings: Mapping[str, Any]
    worker: str = "cleanrl"
    entry_point: str = "cleanrl_worker.cli"
    state: str = "TERM"
    cpus: int = 1
    tags: tuple[str, ...] = (TAG,)
    notes: str = ""

    def request(self) -> RunRequest:
        return RunRequest(self.worker, self.entry_point, self.name, dict(self.settings), cpus=self.cpus, tags=self.tags)


def _cleanrl(algo: str, seed: int, steps: int, flags: Mapping[str, Any] | None = None) -> dict[str, Any]:
    settings: dict[str, Any] = {"algo": algo, "env_id": ENV_ID, "seed": seed, "total_timesteps": steps}
    return {**settings, "extras": {"algo_params": dict(flags)}} if flags else settings


def _wishes() -> dict[str, Wish]:
    wishes = {}
    for seed in SEEDS:
        tracked = {"track": True} if seed == SEEDS[0] else None
        settings = _cleanrl("ppo", seed, LEARNING_STEPS, tracked)
        wishes[f"ppo-{seed}"] = Wish(f"ppo-cartpole-v1-s{seed}", settings, tags=(TAG, "baseline"))
    slow = {"learning_starts": 1000, "train_frequency": 4}
    wishes["dqn"] = Wish("dqn-cartpole-v1-s1", _cleanrl("dqn", 1, 12_000, slow))
    too_fast = _cleanrl("ppo", 5, LEARNING_STEPS, {"learning_rate": 1e30})
    wishes["failed"] = Wish("ppo-learning-rate-1e30", too_fast)
    wishes["live"] = Wish("ppo-cartpole-long", _cleanrl("ppo", 4, LIVE_STEPS), state="EXEC")
    wishes["paused"] = Wish("dqn-cartpole-long", _cleanrl("dqn", 5, LIVE_STEPS), state="EXEC")
    wishes["cancelled"] = Wish("c51-cartpole-long", _cleanrl("c51", 6, LIVE_STEPS), state="EXEC")
    # What waits first lets nothing pass: these are asked for when no other run is wanted any more.
    for place, name in enumerate(WAITING):
        settings = _cleanrl("ppo", 7 + place, LEARNING_STEPS)
        wishes[name] = Wish(f"ppo-waits-{place + 1}", settings, state="INIT", cpus=4)
    return wishes


@dataclass
class Runs:
    """Begins them and waits for them. ``ids`` by what a run is here for."""

    cockpit: Cockpit
    camera: Camera
    ids: dict[str, str] = field(default_factory=dict)
    wishes: dict[str, Wish] = field(default_factory=_wishes)

    def __contains__(self, what: str) -> bool:
        return what in self.ids

    def __getitem__(self, what: str) -> str:
        return self.ids[what]

    def begin(self, names: Iterable[str]) -> None:
        """Begin what is not there yet, and wait for nothing."""
        missing = [name for name in dict.fromkeys(names) if name not in self.ids]
        for name in missing:
            found = next((run for run in self.cockpit.runs if run.name == self.wishes[name].name), None)
            if found is not None:
                self.ids[name] = found.run_id
        missing = [name for name in missing if name not in self.ids]
        if missing:
            with TrainerClient.connect(self.cockpit.bridge.paths) as client:
                for name in missing:
                    self.ids[name] = client.submit(self.wishes[name].request().config()).run.run_id

    def need(self, *names: str) -> None:
        """Begin them, and wait until each is as it is wanted."""
        self.begin(names)
        for name in names:
            wanted = self.wishes[name].state
            self.camera.until(f"{name} to be {wanted}", partial(self._is_in, name, wanted))

    def _is_in(self, what: str, wanted: str) -> bool:
        return self.state(what) in ((wanted, "PAUSE") if wanted == "EXEC" else (wanted,))

    def add(self, what: str, wish: Wish) -> str:
        """Another run, begun at once."""
        self.wishes[what] = wish
        self.begin([what])
        return self.ids[what]

    def state(self, what: str) -> str:
        run = self.run(what)
        return run.state if run is not None else ""

    def run(self, what: str) -> pb.Run | None:
        return self.cockpit.runs.get(self.ids[what])

    def steps(self, what: str) -> int:
        run = self.run(what)
        return run.last_step if run is not None else 0

    def ask(self, verb: str, what: str, state: str, *words: str) -> None:
        """Cancel, pause or resume one, unless it is so already."""
        if self.state(what) != state:
            self.cockpit.bridge.call(lambda client: getattr(client, verb)(self.ids[what], *words))
            self.camera.until(f"{what} to be {state}", lambda: self.state(what) == state)

    def forget(self, *names: str) -> None:
        """Take runs out of the list for good, as if they had never been."""
        for name in names:
            if name in self.ids:
                self.ask("cancel", name, "TERM", "not needed any more")
                run_id = self.ids.pop(name)
                self.cockpit.bridge.call(partial(_purge, run_id))
                self.camera.until("a run to be gone", partial(self._is_gone, run_id))

    def _is_gone(self, run_id: str) -> bool:
        return self.cockpit.runs.get(run_id) is None and run_id not in self.cockpit.runs.trash


def _purge(run_id: str, client: TrainerClient) -> None:
    client.delete(run_id, purge=True)
