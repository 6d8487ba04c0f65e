"""The agents of a run, made from its settings, and what a checkpoint holds of them."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from mosaic_protocol.checkpoint_manifest import CheckpointError, list_checkpoints
from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.errors import UsageError
from mosaic_worker.settings import Settings
from mosaic_worker.state import checkpoints
from mosaic_worker.state.checkpoints import describe_space
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.session import TrainingSession
from mosaic_worker.training.watching import drawing
from spade_bdi_rl_worker.agent.actions import make_actions
from spade_bdi_rl_worker.agent.learner import LearningAgent
from spade_bdi_rl_worker.agent.program import build_into, find_program, parse_program, read_program
from spade_bdi_rl_worker.agent.terms import RECORDING, sourced
from spade_bdi_rl_worker.learning.algorithms import make_learner
from spade_bdi_rl_worker.learning.environments import make_env
from spade_bdi_rl_worker.learning.grids import action_names_of, cells_of
from spade_bdi_rl_worker.learning.runtime import QLearningRuntime, new_chance
from spade_bdi_rl_worker.learning.strategy import Budget
from spade_bdi_rl_worker.learning.worlds import SteppedWorld, TableWorld, open_world
from spade_bdi_rl_worker.seeding import Seed, is_wanted, read_seed
from spade_bdi_rl_worker.settings import agents_of, episodes_of, strategy_of

FIXED = ("agents", "map_name", "env_kwargs", "max_episode_steps", "gamma")
"""Parameters that a resumed run must leave as they were."""


class Kept:
    """What a checkpoint holds of one agent. Tables are lists while the agent learns and arrays at rest."""

    def __init__(self, agent: LearningAgent) -> None:
        self.agent = agent
        self.tables: dict[str, NDArray[Any]] = {}
        self.rest()

    def rest(self) -> None:
        """Bring the arrays up to date."""
        self.q = np.array(self.agent.runtime.learner.q)
        self.visits = np.array(self.agent.runtime.learner.visits, np.int64)

    @property
    def rest_of_tables(self) -> dict[str, NDArray[Any]]:
        """What one algorithm has and others do not."""
        found = self.agent.runtime.learner.tables
        return {name: table for name, table in found.items() if name not in ("q", "visits")}

    @rest_of_tables.setter
    def rest_of_tables(self, found: dict[str, NDArray[Any]]) -> None:
        self.tables = found

    def wake(self) -> None:
        """Go on with what the arrays hold."""
        self.agent.runtime.learner.tables = {"q": self.q, "visits": self.visits, **self.tables}


class Crew:
    """Belongs to the thread of the run's loop."""

    def __init__(
        self,
        session: TrainingSession,
        settings: Settings,
        on_episodes: Callable[[LearningAgent, list[float], list[int]], None] = lambda agent, totals, lengths: None,
    ) -> None:
        """Raises UsageError."""
        self._settings = settings
        random.seed(settings.seed)  # the standard library of AgentSpeak draws from it
        np.random.seed(settings.seed % 2**32)
        wanted = agents_of(settings.params)
        names = tuple(one.name for one in wanted)
        found = checkpoints_of(settings)
        seeds = is_wanted(settings, found.manifest if found is not None else None)
        self.seed: Seed | None = None
        actions = make_actions()
        share = settings.total_timesteps
        budget = Budget(None if not share else -(-share // len(wanted)), episodes_of(settings))
        self.agents: list[LearningAgent] = []
        self._trees: list[Any] = []
        self._envs: list[gym.Env[Any, Any]] = []
        for index, one in enumerate(wanted):
            path = find_program(one.plans)
            tree = parse_program(read_program(path), str(path), actions)
            env = make_env(settings.env_id, settings.params)
            world = open_world(env)
            _prepare(world, found, one.name)
            if seeds:
                self.seed = self.seed or read_seed(settings.params, settings.env_id, env, world)
                self.seed.prepare(world)
            lane = session.steps.lane(one.name, "agent")
            agent = LearningAgent(
                one.name,
                _runtime(world, settings, index, lane),
                budget,
                peers=tuple(name for name in names if name != one.name),
                on_episodes=on_episodes,
            )
            if self.seed is not None:
                self.seed.fill(agent.runtime.learner)
            agent.cells, agent.action_names = cells_of(env), action_names_of(env)
            build_into(agent.reasoner, tree, actions)
            self.agents.append(agent)
            self._trees.append(tree)
            self._envs.append(env)
        self.map = "/".join(self.agents[0].cells)
        if found is not None:
            _require_same_map(found, self.map)
        observation, action = self._envs[0].observation_space, self._envs[0].action_space
        self.spaces = {"observation": describe_space(observation), "action": describe_space(action)}
        self.total_steps = share
        self.fixed = FIXED
        self._kept = [Kept(agent) for agent in self.agents]
        self.state = self._make_state()

    def _make_state(self) -> TrainingState:
        state = TrainingState()
        for agent, kept in zip(self.agents, self._kept, strict=True):
            name = agent.name
            state.table(f"{name}.q", kept, "q")
            state.table(f"{name}.visits", kept, "visits")
            state.attributes(f"{name}.tables", kept, "rest_of_tables")
            state.attributes(f"{name}.runtime", agent.runtime, "counted", "chance_state", "seen")
            state.attributes(f"{name}.mind", agent, "thoughts")
        state.attributes("world", self, "map")
        return state

    def wake(self, *, resumed: bool, warm: bool) -> None:
        """Begin, or go on with what was restored."""
        if resumed or warm:
            for kept in self._kept:
                kept.wake()
        for agent in self.agents:
            agent.note_progress()
        if not resumed:
            for agent, tree in zip(self.agents, self._trees, strict=True):
                if self.seed is not None:
                    agent.reasoner.believe(sourced("seeded", (self.seed.steps,), RECORDING))
                agent.reasoner.pursue_initial_goals(tree)

    def capture(self) -> tuple[Any, dict[str, Any]]:
        for kept in self._kept:
            kept.rest()
        return self.state.capture()

    # ---- as one --------------------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        return sum(agent.runtime.steps for agent in self.agents)

    @property
    def is_over(self) -> bool:
        """Whether every agent used up its share, or has nothing to do any more beside those that did."""
        return all(agent.is_over or agent.is_idle for agent in self.agents) and any(one.is_over for one in self.agents)

    @property
    def is_idle(self) -> bool:
        return all(agent.is_over or agent.is_idle for agent in self.agents)

    @property
    def is_at_rest(self) -> bool:
        return all(agent.is_at_rest for agent in self.agents)

    def rest(self, wanted: bool) -> None:
        for agent in self.agents:
            agent.rests = wanted

    @property
    def wants_checkpoint(self) -> bool:
        """Whether a plan asked for one since the last."""
        return any(agent.wants_checkpoint for agent in self.agents)

    def note_saved(self) -> None:
        for agent in self.agents:
            agent.wants_checkpoint = False

    def picture(self) -> Any:
        """The first agent's world, where it is shown to be."""
        agent, env = self.agents[0], self._envs[0]
        for one in self.agents:
            one.look()
        if isinstance(agent.runtime.world, TableWorld) and agent.shown_state is not None:
            inner: Any = env.unwrapped
            inner.s = agent.shown_state
        return drawing(env)()

    # ---- beside the run ------------------------------------------------------------------------------------------

    def publish(self, run_dir: Path) -> None:
        """Put a link to the newest checkpoint where people look for the tables of an environment: below
        ``training/custom/spade_bdi``. The checkpoint itself stays in its run, which lists, exports and purges it."""
        paths = _paths_of(run_dir)
        written = list_checkpoints(run_dir / "checkpoints")
        if paths is None or not written:
            return
        env = re.sub(r"[^A-Za-z0-9._-]+", "-", self._settings.env_id)
        for agent in self.agents:
            folder = paths.custom / "spade_bdi" / env
            with suppress(OSError):  # a convenience: the run does not fail for it
                folder.mkdir(parents=True, exist_ok=True)
                draft = folder / f".{agent.name}.{os.getpid()}"
                draft.unlink(missing_ok=True)
                draft.symlink_to(os.path.relpath(written[-1], folder))
                draft.replace(folder / agent.name)

    def close(self) -> None:
        for env in self._envs:
            env.close()


def _runtime(world: TableWorld | SteppedWorld, settings: Settings, index: int, lane: Any) -> QLearningRuntime:
    params = settings.params
    chance = new_chance(settings.seed, index)
    learner = make_learner(
        settings.algo, world.states, world.actions, float(params["gamma"]), chance, int(params["planning_steps"])
    )
    every_value = params["mind"] == "steps"
    return QLearningRuntime(
        world, learner, strategy_of(params), lane, seed=settings.seed, index=index, every_value=every_value
    )


def checkpoints_of(settings: Settings) -> checkpoints.Checkpoint | None:
    """The one that the run goes on from. Raises UsageError."""
    path = settings.resume or settings.warm_start
    if path is None:
        return None
    try:
        return checkpoints.load(Path(path))
    except CheckpointError as error:
        raise UsageError(f"{path} cannot be used: {error}") from error


def _prepare(world: TableWorld | SteppedWorld, found: checkpoints.Checkpoint | None, name: str) -> None:
    """A world whose states are numbered as they are seen has those of the checkpoint before its table is filled."""
    if found is not None and isinstance(world, SteppedWorld):
        seen = _seen_in(found, name)
        if seen is not None and len(seen):
            world.seen = seen


def _seen_in(found: checkpoints.Checkpoint, name: str) -> NDArray[Any] | None:
    return np.asarray(kept) if (kept := found.tensors.get(f"{name}.runtime.seen")) is not None else None


def _require_same_map(found: checkpoints.Checkpoint, here: str) -> None:
    world = found.manifest.state.get("world")
    there = world.get("map") if isinstance(world, dict) else None
    if isinstance(there, str) and there != here:
        raise UsageError(f"{found.path} cannot be used: it was learned on the map {there}, this run's is {here}")


def _paths_of(run_dir: Path) -> MosaicPaths | None:
    """The data root that a run's folder belongs to; None for a run by hand."""
    return next(
        (paths for root in run_dir.absolute().parents if (paths := MosaicPaths(root)).runs == run_dir.parent), None
    )
