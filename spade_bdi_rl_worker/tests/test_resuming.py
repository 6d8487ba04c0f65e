"""An agent that goes on from a checkpoint does what it would have done, wherever it came to rest."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from mosaic_worker.errors import UsageError
from spade_bdi_rl_worker.agent.learner import LearningAgent
from spade_bdi_rl_worker.tests.alone import believed, live, make_agent

EPISODES = 120
PROGRAMS = {
    "a reaction that comes after the choice": """
        !go.
        @known +!go : been(T) <- .run_episode(exploit); -been(T); !!go.
        @new +!go <- .run_episode(explore); .episodes(N); -+tick(N); !!go.
        +tick(N) <- .random(X); +been(N).""",
    "chance decides": """
        !go.
        @often +!go : .random(R) & R < 0.7 <- .run_episode(explore); !!go.
        @seldom +!go <- .run_episode(exploit); !!go.""",
    "values from head and condition": """
        level(1). !go(1).
        @up +!go(N) : level(L) & L < 5 <- .run_episode(explore); -+level(L + 1); !!go(N + L).
        @down +!go(N) : level(L) <- .run_episodes(exploit, 3); -+level(1); +sum(N, L); !!go(0).""",
    "a goal that is open": """
        !go. +!go <- .run_episode(explore); !!find(X, "a  b").
        +!find(X, T) <- .run_episode(explore); X = 5; !!go.""",
    "several intentions": """
        !a. !b. +!a <- .run_episode(explore); !!a. +!b <- .run_episode(exploit); !!b2.
        @x +!b2 : success_rate(S) & S > 0.1 <- .run_episode(explore); !!b. @y +!b2 <- !!b.""",
    "limits": """
        !go. +!go <- .run_episode(explore); !!try[within(20)].
        +!try <- .run_episodes(explore, 30); !!go. -!try <- .run_episode(exploit); !!go.""",
    "a recovery": """
        !go. +!go <- .run_episode(explore); .fail. -!go[error(E)] <- .run_episode(exploit); +why(E); !!go.""",
    "half of an action": "!go. +!go <- .run_episodes(explore, 50); .run_episodes(exploit, 3); !!go.",
    "shipped": "learner",
}


def parts_of(agent: LearningAgent) -> dict[str, Any]:
    """As a checkpoint has them."""
    found = {"counted": agent.runtime.counted, "chance": agent.runtime.chance_state, "thoughts": agent.thoughts}
    return dict(json.loads(json.dumps(found)))


def rested(plans: str, episodes: int) -> LearningAgent:
    random.seed(5)
    agent = make_agent(plans, EPISODES)
    live(agent, lambda: agent.runtime.episodes >= episodes)
    agent.rests = True
    return live(agent, lambda: agent.is_at_rest)


def resumed(plans: str, halfway: LearningAgent) -> LearningAgent:
    chance, parts = random.getstate(), parts_of(halfway)
    agent = make_agent(plans, EPISODES)
    agent.runtime.learner.tables = halfway.runtime.learner.tables
    agent.runtime.counted, agent.runtime.chance_state = parts["counted"], parts["chance"]
    random.setstate(chance)
    agent.thoughts = parts["thoughts"]
    agent.note_progress()
    return agent


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_resumed_agent_does_what_it_would_have_done(name: str) -> None:
    plans = PROGRAMS[name]
    random.seed(5)
    whole = live(make_agent(plans, EPISODES))
    for episodes in range(3, 80, 13):
        halfway = rested(plans, episodes)
        assert halfway.thoughts["is_exact"]
        agent = live(resumed(plans, halfway))
        assert agent.runtime.steps == whole.runtime.steps, f"stopped at {episodes}"
        assert agent.runtime.learner.q == whole.runtime.learner.q and believed(agent) == believed(whole)
        chosen, wanted = agent.seen().mind, whole.seen().mind
        assert (chosen.plan, chosen.goal) == (wanted.plan, wanted.goal)


def test_an_agent_that_is_done_stays_done() -> None:
    plans = "!go. +!go <- .run_episodes(explore, 5); .done; !!more. +!more <- .run_episode(explore); !!more."
    halfway = live(make_agent(plans, EPISODES))
    assert halfway.runtime.episodes == 5
    assert live(resumed(plans, halfway)).runtime.episodes == 5


def test_goals_that_the_plans_do_not_know_any_more_are_named() -> None:
    halfway = rested("!go. +!go <- .run_episode(explore); !!go.", 5)
    with pytest.raises(UsageError, match=r"learner pursued !go then, but no plan applies to \+!go"):
        resumed("+!other <- .done.", halfway)


def test_plans_that_were_changed_choose_again() -> None:
    halfway = rested("!go. @a +!go <- .run_episode(explore); !!go.", 5)
    agent = live(resumed("@b +!go : outcome(O) <- +seen(O); .done.", halfway))
    assert any(text.startswith("seen(") for text in believed(agent))


def test_a_choice_that_depends_on_chance_has_one_plan_that_was_chosen() -> None:
    agent = make_agent("!go. @a +!go : .random(R) & R < 0.5 <- .run_episode(explore); !!go. @b +!go <- !!go.", 200)
    seen = set()
    while not agent.is_over:
        agent.turn(1e-6)
        if (choice := agent.reasoner.choice) is not None and choice.chosen is not None:
            chosen = [label for label, _, why in choice.considered if not why]
            assert chosen == [choice.chosen.label]
            seen.add(choice.chosen.label)
    assert seen == {"a", "b"}
