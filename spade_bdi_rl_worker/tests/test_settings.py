"""What a run's parameters mean, and what they cannot mean."""

from __future__ import annotations

import pytest

from mosaic_worker.errors import UsageError
from spade_bdi_rl_worker.settings import AgentSettings, agents_of


def test_agents_have_plans_of_their_own_or_those_of_the_run() -> None:
    found = agents_of({"agents": "scout=scout, learner", "plans": "mine.asl"})
    assert found == [AgentSettings("scout", "scout"), AgentSettings("learner", "mine.asl")]


@pytest.mark.parametrize(
    ("agents", "why"),
    [
        ("Scout", "is no name"),
        ("a,a", "the same name"),
        (",".join(f"a{number}" for number in range(17)), "at most 16"),
        ("learner,person", "an agent called person would be taken for something else"),
        ("self=scout", "an agent called self"),
    ],
)
def test_names_that_say_something_else_are_refused(agents: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        agents_of({"agents": agents, "plans": "learner"})
