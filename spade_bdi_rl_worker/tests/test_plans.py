"""Plans decide, and say why; they recover, keep deadlines, and fail loudly."""

from __future__ import annotations

from typing import Any

import pytest

from mosaic_protocol.live.messages import Tell
from spade_bdi_rl_worker.agent import reasoner
from spade_bdi_rl_worker.agent.learner import LearningAgent
from spade_bdi_rl_worker.agent.program import ProgramError
from spade_bdi_rl_worker.agent.reasoner import PlanError
from spade_bdi_rl_worker.tests.alone import believed, live, make_agent


def reasons(agent: LearningAgent) -> dict[str, str]:
    assert agent.reasoner.choice is not None
    return {label: why for label, _, why in agent.reasoner.choice.considered}


def test_the_shipped_plans_explore_then_rely_on_what_was_learned() -> None:
    agent = live(make_agent(episodes=2000))
    plans = [span[1] for span in agent.mind._spans]
    assert plans[0] == "explore" and {"exploit", "cache", "reuse", "renew"} <= set(plans)
    assert agent.runtime.episodes == 2000 and agent.runtime.success_rate > 0.95
    assert {"policy(cached)", "outcome(reached)"} <= believed(agent)


def test_a_choice_says_why_the_others_were_not_chosen() -> None:
    agent = make_agent(episodes=2000)
    live(agent, lambda: agent.runtime.episodes >= 1)
    said = reasons(agent)
    assert said["explore"] == "" and said["reuse"] == "policy(cached) is not believed"
    assert said["cache"].startswith("confidence(C) & C >= 0.6: confidence is 0")
    live(agent, lambda: "policy(cached)" in believed(agent) and agent.seen().mind.plan == "reuse")
    said = reasons(agent)
    assert said["explore"] == "listed after reuse, which applied first"
    assert said["repair"] == "policy(failing) is not believed; policy(cached) is"


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("not wet", "wet is believed"),
        ("wet & cold", "cold is not believed"),
        ("level(L) & L > 5", "level(L) & L > 5: level is 3"),
        ("level(5)", "level(5) is not believed; level(3) is"),
        ("level(L) & M = L + 1 & M > 9", "M > 9: it is 4"),
        ("cold | icy", "cold | icy does not hold"),
        ("false", "its condition is false"),
        ("deep", "deep is not believed"),
        (".episodes(7)", ".episodes(7) did not succeed"),
        ("not (wet & level(3))", "not (wet & level(3)) does not hold"),
    ],
)
def test_the_part_of_a_condition_that_fails_is_named(condition: str, why: str) -> None:
    agent = live(make_agent(f"wet. level(3). deep :- level(L) & L > 8. !go. @a +!go : {condition} <- .done. @b +!go."))
    assert reasons(agent) == {"a": why, "b": ""}


def test_a_choice_follows_beliefs_although_it_is_remembered() -> None:
    agent = live(
        make_agent("!go. @warm +!go : warm <- +seen; .done. @cold +!go <- .run_episode(explore); +warm; !!go.")
    )
    assert "seen" in believed(agent) and agent.runtime.episodes == 1


def test_an_unchanged_choice_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make_agent("!go. @rare +!go : never <- .done. @usual +!go <- .run_episode(explore); !!go.", episodes=50)
    looked: list[Any] = []

    def holds(plan: Any, purpose: Any) -> bool:
        looked.append(plan)
        return not plan.conjuncts

    monkeypatch.setattr(agent.reasoner, "_holds", holds)
    live(agent)
    assert agent.runtime.episodes == 50 and not looked, "nothing that they ask for ever changed"


def test_a_failed_goal_is_recovered_from_and_its_caller_goes_on() -> None:
    agent = live(
        make_agent(
            "!go. +!go <- !risky(4); +after. +!risky(N) <- +tried(N); .fail."
            " @rescue -!risky(N)[error(E)] <- +saved(N, E)."
        )
    )
    assert {"tried(4)", "after", 'saved(4, ".fail did not succeed")'} <= believed(agent)
    assert agent.reasoner.problem == "!risky(4) failed: .fail did not succeed; rescue deals with it"


def test_the_nearest_recovery_on_the_way_up_is_taken() -> None:
    agent = live(
        make_agent("!go. +!go <- !middle; +after. +!middle <- !deep; +never. +!deep <- .fail. -!middle <- +saved.")
    )
    assert {"after", "saved"} <= believed(agent) and "never" not in believed(agent)


def test_a_goal_without_an_applicable_plan_is_recovered_from() -> None:
    agent = live(make_agent("!go. +!go <- !enter; +after. +!enter : key <- +inside. -!enter <- +outside."))
    assert {"after", "outside"} <= believed(agent)


def test_a_recovery_that_fails_itself_does_not_begin_again() -> None:
    with pytest.raises(PlanError, match=r"mine\.asl:1"):
        live(make_agent("!go. +!go <- .fail. -!go <- .fail."))


def test_a_goal_fails_when_its_episodes_are_used_up() -> None:
    agent = live(
        make_agent(
            "!go. +!go <- !forever[within(7)]; +after. +!forever <- while (true) { .run_episode(explore) }. "
            "-!forever[error(E)] <- .episodes(N); +late(N, E).",
            episodes=500,
        )
    )
    assert {'late(7, "its episodes are used up")', "after"} <= believed(agent)


def test_a_goal_fails_when_its_deadline_has_passed() -> None:
    agent = live(make_agent('!go. +!go <- !wait[deadline(0.05)]; +after. +!wait <- .wait("+never"). -!wait <- +late.'))
    assert {"late", "after"} <= believed(agent)


def test_an_error_in_a_plan_has_its_file_and_line() -> None:
    with pytest.raises(PlanError) as failed:
        live(make_agent("!go.\n+!go : true\n  <- +begun;\n     .run_episode(quickly).\n"))
    assert str(failed.value) == ("mine.asl:4:6: .run_episode knows no quickly: use explore, exploit, cached, repair")
    assert failed.value.mistake.drawn().splitlines()[1:] == ["     .run_episode(quickly).", "     ^"]


def test_a_plan_that_turns_in_circles_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasoner, "MOST_IDLE_CYCLES", 2000)
    with pytest.raises(PlanError, match=r"mine.asl:2:\d+: the plan round turns in circles: 2,000 formulas"):
        live(make_agent("!go.\n@round +!go <- while (true) { +a; -a }.\n"))
    with pytest.raises(PlanError, match="turns in circles"):
        live(make_agent("!go. +!go <- !!go."))
    with pytest.raises(PlanError, match="without end"):
        live(make_agent("a :- b. b :- a. !go. +!go : a <- .done. +!go <- ?a."))


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("!go.\n+!go <- .run_episde(explore).\n", "mine.asl:2:9", "there is no action .run_episde"),
        ("!go.\n+!go <- .run_episode.\n", "mine.asl:2:9", ".run_episode takes 1 arguments, not 0"),
        ("!go.\n+!go <- foo(.\n", "mine.asl:2:13", "expected term"),
        ("!go.\n+!go <- bar.\n", "mine.asl:2:9", "bar is no action"),
        ("!go.\n+!go <- !walk.\n", "mine.asl:2:9", "there is no plan for !walk/0"),
        ("!run.\n+!go <- .done.\n", "mine.asl:1:1", "there is no plan for !run/0"),
        ("!go.\n+!go : .near(X) <- .done.\n", "mine.asl:2:8", "there is no action .near"),
        ("!go.\n+!go <- if (.x(1)) { .done }.\n", "mine.asl:2:13", "there is no action .x"),
        ("!go.\n+!go <- .done", "mine.asl:2:9", "unexpected end of file"),
        ("!go.\n+!go <- § .\n", "mine.asl:2:9", "illegal character"),
    ],
)
def test_a_program_that_cannot_run_is_refused_with_a_caret(text: str, place: str, what: str) -> None:
    with pytest.raises(ProgramError) as refused:
        make_agent(text)
    mistake = refused.value.mistakes[0]
    assert mistake.place == place and mistake.what.startswith(what)
    line, caret = mistake.drawn().splitlines()[1:]
    assert line == text.splitlines()[mistake.line - 1] and caret == " " * (mistake.column - 1) + "^"


def test_what_a_person_says_becomes_a_belief_or_a_goal() -> None:
    agent = make_agent(episodes=100_000)
    live(agent, lambda: agent.runtime.episodes > 10)
    assert agent.tell(Tell("slippery")) == ""
    live(agent, lambda: len(agent.runtime.strategy.fixed) == 2)
    assert agent.runtime.strategy.fixed == {"exploration": 0.8, "alpha": 0.2}
    assert ("slippery", "person") in {(one.text, one.source) for one in agent.mind.distinct_beliefs().values()}
    assert agent.tell(Tell("learn", "goal")) == ""
    assert "no plan for !rest/1; it has plans for !episode, !learn" in agent.tell(Tell("rest(5)", "goal"))
    assert agent.tell(Tell("slip(")).splitlines()[1:] == ["slip(", "     ^"]
    assert "begins with a small letter" in agent.tell(Tell("Slippery"))
    assert "variable" in agent.tell(Tell("at(X)"))


def test_a_goal_of_somebody_else_that_no_plan_applies_to_ends_nothing() -> None:
    agent = make_agent("+!rest(N) : tired <- .wait(N). !go. +!go <- .run_episode(explore); !!go.", episodes=20)
    assert agent.tell(Tell("rest(5)", "goal")) == ""
    live(agent)
    assert agent.runtime.episodes == 20
    assert agent.reasoner.problem == "person wants rest(5), but no plan applies to +!rest(5)"


def test_agents_tell_each_other_what_they_learned() -> None:
    sent: list[tuple[str, str, str]] = []
    scout = make_agent(
        "!go. +!go <- .run_episodes(300); .q_values(Q); .send(learner, tell, q_values(Q));"
        " .send(learner, achieve, use).",
        name="scout",
        peers=("learner",),
        send=lambda *message: sent.append(message),
    )
    live(scout)
    learner = make_agent(
        "+!use <- +used. +q_values(Q)[source(S)] <- .merge_q_values(Q); -q_values(Q)[source(S)]; +heard_of(S).",
        peers=("scout",),
    )
    for _, performative, text in sent:
        learner.hear("scout", performative, text)
    live(learner)
    assert believed(learner) == {"used", "heard_of(scout)"}
    for mine, other in zip(learner.runtime.learner.q, scout.runtime.learner.q, strict=True):
        assert mine == pytest.approx(other, abs=1e-5)
    learner.hear("scout", "tell", "nonsense(")
    assert "cannot be read" in learner.reasoner.problem


def test_replacing_a_belief_leaves_one() -> None:
    agent = live(make_agent("mode(a). !go. +!go <- -+mode(b); -+mode(c)."))
    assert believed(agent) == {"mode(c)"}
