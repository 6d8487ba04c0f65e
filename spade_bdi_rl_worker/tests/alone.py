"""An agent without a network, on a world of its own, as fast as it thinks."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mosaic_worker.recording.step_lane import StepLane
from spade_bdi_rl_worker.agent.actions import make_actions
from spade_bdi_rl_worker.agent.learner import LearningAgent
from spade_bdi_rl_worker.agent.program import build_into, find_program, parse_program, read_program
from spade_bdi_rl_worker.learning.algorithms import make_learner
from spade_bdi_rl_worker.learning.environments import make_env
from spade_bdi_rl_worker.learning.runtime import QLearningRuntime, new_chance
from spade_bdi_rl_worker.learning.strategy import Budget, Strategy
from spade_bdi_rl_worker.learning.worlds import open_world

HANG_SECONDS = 60.0
SURE = {"is_slippery": False}


def make_runtime(
    env_id: str = "FrozenLake-v1",
    params: dict[str, Any] | None = None,
    algo: str = "q_learning",
    seed: int = 1,
    lane: StepLane | None = None,
    strategy: Strategy | None = None,
) -> QLearningRuntime:
    world = open_world(make_env(env_id, SURE if params is None else params))
    learner = make_learner(algo, world.states, world.actions, 0.99, new_chance(seed, 0), 5)
    return QLearningRuntime(world, learner, strategy or Strategy(), lane, seed=seed)


def make_agent(
    plans: str | Path = "learner", episodes: int = 1000, name: str = "learner", **about: Any
) -> LearningAgent:
    """``plans``: a name, or the text of a program."""
    text, file = str(plans), "mine.asl"
    if "." not in text:
        file = str(find_program(text))
        text = read_program(Path(file))
    peers = about.pop("peers", ())
    send = about.pop("send", lambda peer, performative, text: None)
    agent = LearningAgent(name, make_runtime(**about), Budget(None, episodes), peers=peers, send=send)
    actions = make_actions()
    tree = parse_program(text, file, actions)
    build_into(agent.reasoner, tree, actions)
    agent.reasoner.pursue_initial_goals(tree)
    return agent


def live(agent: LearningAgent, until: Callable[[], object] = lambda: False) -> LearningAgent:
    """To the end of its share, until it has nothing to do, or until something is so."""
    ends = time.monotonic() + HANG_SECONDS
    while not (agent.is_over and agent.is_at_rest) and not until():
        assert time.monotonic() < ends, agent.mind.intentions()
        if not agent.turn(1e-6) and agent.is_idle:
            break
    return agent


def believed(agent: LearningAgent) -> set[str]:
    """As AgentSpeak writes it."""
    return {belief.text for belief in agent.mind.distinct_beliefs().values()}
