"""Plans decide, and say why; they recover, keep deadlines, and fail loudly."""

from __future__ import annotations

import time
import tracemalloc
from contextlib import suppress
from typing import Any

import agentspeak as asp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic_protocol.live.messages import Tell
from spade_bdi_rl_worker.agent import reasoner
from spade_bdi_rl_worker.agent.learner import AT_A_TIME, LearningAgent, tell_all
from spade_bdi_rl_worker.agent.program import ProgramError, parse_term
from spade_bdi_rl_worker.agent.reasoner import PlanError
from spade_bdi_rl_worker.learning.strategy import Strategy
from spade_bdi_rl_worker.learning.worlds import SteppedWorld
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
    live(agent, lambda: agent.runtime.episodes >= 2)
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


def test_a_long_action_leaves_others_their_turns() -> None:
    plans = "!go. +!go <- .run_episodes(explore, 20000). +slippery <- .episodes(N); +heard_at(N)."
    agent = make_agent(plans, episodes=100_000)
    live(agent, lambda: agent.runtime.episodes > 50)
    told_at = agent.runtime.episodes
    assert agent.tell(Tell("slippery")) == ""
    live(agent, lambda: agent.runtime.episodes > 1000)
    (heard_at,) = [text for text in believed(agent) if text.startswith("heard_at")]
    assert heard_at in [f"heard_at({told_at + turns * AT_A_TIME})" for turns in range(3)]


@pytest.mark.parametrize("goal", ["!go[within(30)]", "!go"])
def test_how_fast_the_machine_is_decides_nothing(goal: str) -> None:
    """Turns are as long as they are; what the agent does is the same."""

    def lived(seconds: float) -> tuple[set[str], int, Any]:
        plans = (
            f"!start. +!start <- {goal}. +!go <- .run_episodes(explore, 700). -!go <- .episodes(N); +late(N)."
            " +confidence(C) : C > 0.1 & C < 0.3 <- .episodes(N); +unsure(N); .strategy(epsilon, C)."
        )
        agent = make_agent(plans, episodes=5000)
        while not agent.is_idle:
            agent.turn(seconds)
        return believed(agent), agent.runtime.steps, agent.runtime.learner.q

    slow, fast = lived(1e-6), lived(1.0)
    assert slow == fast
    assert ("late(44)" in slow[0]) == ("within" in goal), "at most a few episodes later"


def test_a_goal_fails_when_its_deadline_has_passed() -> None:
    agent = live(make_agent('!go. +!go <- !wait[deadline(0.05)]; +after. +!wait <- .wait("+never"). -!wait <- +late.'))
    assert {"late", "after"} <= believed(agent)


def test_an_error_in_a_plan_has_its_file_and_line() -> None:
    with pytest.raises(PlanError) as failed:
        live(make_agent("!go(quickly).\n+!go(How) : true\n  <- +begun;\n     .run_episode(How).\n"))
    assert str(failed.value) == ("mine.asl:4:6: .run_episode knows no quickly: use explore, exploit, cached, repair")
    assert failed.value.mistake.drawn().splitlines()[1:] == ["     .run_episode(How).", "     ^"]


@pytest.mark.parametrize(
    ("program", "what"),
    [
        ("!go.\n+!go <- .nth(5, [1, 2], X).", "2:9: .nth(5, [1, 2], X) cannot be done: tuple index out of range"),
        ("!go.\n+!go <- .min([], X).", "2:9: .min([], X) cannot be done: min()"),
        ("zero(0). !go.\n+!go <- ?zero(Z); +y(1 / Z).", "2:19: +y(1 / Z) cannot be done: float division by zero"),
        ("a(b). !go.\n+!go <- ?a(X);\n  if (X > 3) { +y }.", "3:9: X > 3 cannot be done: '>'"),
        ("a(b). !go.\n+!go <- ?a(X);\n  while (X > 3) { +y }.", "3:12: X > 3 cannot be done: '>'"),
        (
            "level(a). !go.\n+!go : level(L) & L > 3 <- .done.",
            "2:21: the condition L > 3 of +!go cannot be decided: '>'",
        ),
        ('!go.\n+!go <- .wait("seen").', '2:9: .wait does not know the event "seen": expected plan trigger'),
        ('!go.\n+!go <- .wait("").', "2:9: .wait does not know the event"),
        ("!go.\n+!go <- .wait(soon).", "2:9: .wait takes milliseconds"),
        ("!go.\n+!go <- .run_episode(explore).\n+outcome(O) : O > 3 <- .done.", "3:17: the condition O > 3 of"),
        ("!go.\n+!go <- .fail.\n-!go : 1 / 0 > 2 <- .done.", "3:"),
    ],
)
def test_a_value_that_does_not_fit_fails_the_plan_at_its_place(program: str, what: str) -> None:
    with pytest.raises((PlanError, ProgramError)) as failed:
        live(make_agent(program))
    assert str(failed.value).startswith(f"mine.asl:{what}")


def test_a_plan_recovers_from_a_value_that_does_not_fit() -> None:
    agent = live(make_agent("!go. +!go <- !pick; +after. +!pick <- .nth(7, [1], X). -!pick[error(E)] <- +why(E)."))
    assert {"after", 'why(".nth(7, [1], X) cannot be done: tuple index out of range")'} <= believed(agent)


def test_what_an_environment_raises_is_no_mistake_of_a_plan() -> None:
    agent = make_agent("!go. +!go <- !play. +!play <- .run_episode(explore). -!play <- .done.")

    def broken(seed: int) -> int:
        raise ValueError("the environment is broken")

    agent.runtime.world.begin = broken  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="the environment is broken"):
        live(agent)


@pytest.mark.parametrize(("text", "kind"), [("level(deep)", "belief"), ("lift(deep)", "goal")])
def test_what_a_person_says_cannot_end_a_run(text: str, kind: Any) -> None:
    plans = "+level(L) : L > 3 <- +high. +!lift(L) : L > 3 <- +high. !go. +!go <- .run_episode(explore); !!go."
    agent = make_agent(plans, episodes=20)
    assert agent.tell(Tell(text, kind)) == ""
    live(agent)
    assert agent.runtime.episodes == 20
    assert f"{text}, but " in agent.reasoner.problem and "L > 3 of" in agent.reasoner.problem


def test_a_plan_waits_for_what_happens_or_until_it_is_late() -> None:
    agent = live(
        make_agent(
            '!go. !tell. +!go <- .wait("+seen(3)"); +woke; .wait("+never", 5); +late; .wait(5); +over.'
            " +!tell <- +seen(2); .random(X); +seen(3)."
        )
    )
    assert {"woke", "late", "over"} <= believed(agent)


def test_a_plan_that_turns_in_circles_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasoner, "MOST_IDLE_CYCLES", 2000)
    with pytest.raises(PlanError, match=r"mine.asl:2:\d+: the plan round turns in circles: 2,000 formulas"):
        live(make_agent("!go.\n@round +!go <- while (true) { +a; -a }.\n"))
    with pytest.raises(PlanError, match="turns in circles"):
        live(make_agent("!go. +!go <- !!go."))
    with pytest.raises(PlanError, match="without end"):
        live(make_agent("a :- b. b :- a. !go. +!go : a <- .done. +!go <- ?a."))


@pytest.mark.parametrize(
    ("program", "what"),
    [
        ("!go.\n+!go : .range(1000, X) & .range(1000, Y) & X + Y < 0 <- .done.", "2:1: its condition has no end"),
        ("!go.\n+!go : .range(9e9, X) & X < 0 <- .done.", "2:8: the condition .range(9000000000, X) of +!go cannot"),
        (
            "!go.\n+!go <- .findall(X, many(X), L).\nmany(X) :- .range(1000, X) & .range(1000, Y) & Y < 0.",
            "2:9: it has no end",
        ),
        (
            f"{'a(1). a(2). a(3). ' * 1}!go.\n+!go : {' & '.join(f'a(X{n})' for n in range(14))} & false.",
            "2:1: its condition",
        ),
    ],
)
def test_a_formula_without_end_fails(program: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasoner, "MOST_QUESTIONS", 20_000, raising=False)
    with pytest.raises(PlanError) as failed:
        live(make_agent(program))
    assert str(failed.value).startswith(f"mine.asl:{what}")


@pytest.mark.parametrize(
    ("program", "what"),
    [
        ('!grow("a").\n+!grow(X) <- .concat(X, X, Y); !!grow(Y).', "2:14: .concat would make"),
        ("!grow([1]).\n+!grow(X) <- .concat(X, X, Y); !!grow(Y).", "2:14: .concat would make"),
        ("!grow(1).\n+!grow(X) <- !!grow([X, X]).", "2:14: the goal grow has more than 100,000 parts"),
        ("!grow(1).\n+!grow(X) <- !!grow(f(X, X)).", "2:14: the goal grow has more than 100,000 parts"),
        ("big(1). !go.\n+!go <- ?big(X); -+big([X, X]); !!go.", "2:20: the belief big has more than 100,000 parts"),
    ],
)
def test_what_grows_without_end_fails_before_it_fills_the_memory(program: str, what: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(PlanError) as failed:
            live(make_agent(program))
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()
    assert str(failed.value).startswith(f"mine.asl:{what}")


def test_limits_of_goals_that_failed_are_forgotten() -> None:
    plans = (
        "!go. +!go <- !outer[within(3)]; +after. +!outer <- !inner[within(50)]. "
        "+!inner <- while (true) { .run_episode(explore) }. -!outer <- +late."
    )
    agent = live(make_agent(plans, episodes=100))
    assert {"late", "after"} <= believed(agent)
    assert agent.reasoner._limits == 0, "nothing is to be looked after any more"


def test_an_agent_that_waits_again_and_again_does_not_turn_in_circles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasoner, "MOST_IDLE_CYCLES", 40)
    plans = "waits(0). !go. +!go : waits(100) <- +patient. +!go <- .wait(1); ?waits(N); -+waits(N + 1); !!go."
    assert "patient" in believed(live(make_agent(plans)))


def test_a_clock_that_is_set_changes_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make_agent("!go. +!go <- .wait(20); +woke.")
    live(agent, lambda: agent.next_deadline is not None)
    late = time.time() - 3600
    monkeypatch.setattr(time, "time", lambda: late)
    assert agent.next_deadline is not None and agent.next_deadline < 1
    assert "woke" in believed(live(agent))


def test_a_plan_that_calls_its_own_goal_for_ever_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = live(make_agent("!down(900). +!down(0) <- +bottom. +!down(N) <- !down(N - 1); +back(N)."))
    assert {"bottom", "back(900)"} <= believed(agent), "deep is allowed"
    monkeypatch.setattr(reasoner, "MOST_DEEP", 50, raising=False)
    with pytest.raises(PlanError, match=r"mine\.asl:2:32: !go would be goal 51 of a stack: .* use while or !!"):
        live(make_agent("!go.\n+!go <- .run_episode(explore); !go.", episodes=500))


@pytest.mark.parametrize("plans", ["learner", "careful", "scout", "partner"])
def test_shipped_plans_come_to_rest_also_where_nothing_can_be_learned(plans: str) -> None:
    blind = Strategy(alpha=0.0, alpha_end=0.0)
    agent = make_agent(plans, episodes=100_000, peers=("learner",), strategy=blind)
    live(agent, lambda: agent.runtime.episodes > 2000)
    assert max(map(len, agent.reasoner.intentions)) <= 2, "no goal deeper with each attempt"
    agent.rests = True
    live(agent, lambda: agent.is_at_rest)
    assert agent.runtime.episodes < 3000


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
    assert agent.tell(Tell("slip(")).splitlines() == ["expected term, and it ends there", "slip(", "     ^"]
    assert "begins with a small letter" in agent.tell(Tell("Slippery"))
    assert "variable" in agent.tell(Tell("at(X)"))
    assert "begins with a small letter" in agent.tell(Tell(".print"))
    assert "Numerical result out of range" in agent.tell(Tell("at(10 ** 10 ** 10)"))


@pytest.mark.parametrize("text", ['note("Größe,  à 5 €")', 'note("C:\\\\new \\"x\\"")', "~cold", "at(-1.5, [a, b])"])
def test_what_is_said_is_believed_to_the_letter(text: str) -> None:
    agent = make_agent(episodes=5)
    assert agent.tell(Tell(text)) == ""
    live(agent)
    assert text in believed(agent)
    assert parse_term(asp.asl_repr(parse_term(text))) == parse_term(text), "and so is what agents say, and a checkpoint"


@given(st.text())
def test_texts_of_any_letters_come_through(text: str) -> None:
    assert parse_term(asp.asl_repr(asp.Literal("note", (text,)))).args == (text,)


@given(st.text(alphabet=st.sampled_from('ab(),.[]|"\\x1e9*/-+ X_~\n#')))
def test_nonsense_is_refused_in_one_sentence(text: str) -> None:
    with suppress(ProgramError):  # and nothing else
        parse_term(text)


def test_a_program_speaks_any_language(capsys: pytest.CaptureFixture[str]) -> None:
    live(make_agent('!go. +!go <- .print("Größe: 5 €").'))
    assert capsys.readouterr().out == "learner: Größe: 5 €\n"


def test_each_agent_that_is_meant_is_told_or_nobody() -> None:
    both = [make_agent("+!rest. +!go <- .done.", name="scout"), make_agent("+!go <- .done.", name="learner")]
    assert tell_all(both, Tell("rest", "goal")).startswith("learner has no plan for !rest")
    assert tell_all(both, Tell("rest", "goal", "nobody")) == "there is no agent 'nobody'; this run has scout, learner"
    assert all(agent.is_idle for agent in both), "nobody was told"
    assert tell_all(both, Tell("rest", "goal", "scout")) == "" and tell_all(both, Tell("cold")) == ""
    for agent in both:
        assert "cold" in believed(live(agent))
    assert [len(agent.seen().mind.messages) for agent in both] == [2, 1]
    for _ in range(2000):
        why = tell_all(both[1:], Tell("cold"))
    assert "has not listened yet" in why and "has not listened yet" in tell_all(both, Tell("cold"))
    live(both[0])
    assert len(both[0].seen().mind.messages) == 2


def test_what_a_person_says_is_not_pushed_out_by_messages_of_others() -> None:
    agent = make_agent("calm. +!wait.", peers=("scout",))
    agent.tell(Tell("slippery"))
    live(agent)
    for number in range(500):
        agent.hear("scout", "tell", f"seen({number})")
    live(agent)
    messages = agent.seen().mind.messages
    assert messages[0].text == "slippery" and messages[-1].text == "seen(499)" and len(messages) < 100


def test_what_a_plan_prints_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    live(make_agent('!go. +!go <- .print("\\x1b]0;title\\x07red \\x1b[31malert\\nnext\\rline").'))
    assert capsys.readouterr().out == "learner: red alert\nlearner: line\n"


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


def test_a_broadcast_reaches_each_other_agent_and_nobody_where_there_is_none() -> None:
    sent: list[tuple[str, str, str]] = []
    program = "!go. +!go <- .broadcast(tell, at(3)); +said."
    together = live(make_agent(program, peers=("left", "right"), send=lambda *message: sent.append(message)))
    assert sent == [("left", "tell", "at(3)"), ("right", "tell", "at(3)")]
    assert believed(together) == believed(live(make_agent(program))) == {"said"}
    wrong = "!go(shout). +!go(How) <- .broadcast(How, at(3)). -!go(How)[error(E)] <- +failed."
    assert believed(live(make_agent(wrong, peers=("left",)))) == {"failed"}


def test_an_agent_of_a_pair_knows_what_the_other_found() -> None:
    few: dict[str, Any] = {"episodes": 40, "strategy": Strategy(exploration=0.0), "seed": 3}
    left = make_agent("pair", name="left", peers=("right",), **few)

    def send(_: str, performative: str, text: str) -> None:
        left.hear("right", performative, text)

    right = live(make_agent("pair", name="right", peers=("left",), episodes=400, send=send))
    live(left)
    assert "heard_from(right)" in believed(left) and "heard_from(right)" not in believed(right)
    assert left.runtime.success_rate > 0.5
    assert live(make_agent("pair", **few)).runtime.success_rate < 0.5, "alone it would not have found the way so soon"


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "Blackjack-v1"])
def test_values_of_others_go_to_the_states_that_they_are_of(env_id: str) -> None:
    """Each agent numbers the states of some worlds in the order in which it sees them."""
    sent: list[str] = []
    world: dict[str, Any] = {"env_id": env_id, "params": {}}
    scout = make_agent(
        "!go. +!go <- .run_episodes(200); .q_values(Q); .send(learner, tell, q_values(Q)).",
        name="scout",
        peers=("learner",),
        send=lambda peer, performative, text: sent.append(text),
        **world,
    )
    live(scout)
    learner = make_agent("+q_values(Q) <- .merge_q_values(Q).", peers=("scout",), seed=2, **world)
    for seed in range(1000, 1100):  # it has seen other states first, and learned nothing yet
        learner.runtime.world.begin(seed)
    learner.hear("scout", "tell", sent[0])
    live(learner)
    there, here = scout.runtime, learner.runtime
    known = sorted(range(there.world.states), key=lambda state: -there.learner.visits[state])[:50]
    for state in known:
        same = here.world.number_of(there.seen[state]) if isinstance(here.world, SteppedWorld) else state
        assert here.learner.q[same] == pytest.approx(there.learner.q[state], abs=1e-5)


def test_values_of_another_world_are_refused() -> None:
    with pytest.raises(PlanError, match="a state of this world is the list of numbers"):
        live(make_agent("!go. +!go <- .merge_q_values([[3, 5, [0, 1]]]).", env_id="Blackjack-v1", params={}))
    with pytest.raises(PlanError, match="there is no state"):
        live(make_agent("!go. +!go <- .merge_q_values([[[1, 2, 3], 5, [0, 1, 0, 0]]])."))


def test_a_plan_changes_the_beliefs_that_it_goes_through() -> None:
    agent = live(make_agent("a(1). a(2). a(3). !go. +!go <- for (a(X)) { -a(X); +b(X) }; for (b(X)) { +b(X + 10) }."))
    assert believed(agent) == {"b(1)", "b(2)", "b(3)", "b(11)", "b(12)", "b(13)"}


def test_a_message_of_an_unknown_kind_changes_nothing() -> None:
    agent = make_agent("!go. +!go <- .run_episode(explore); !!go.", episodes=20, peers=("scout",))
    agent.hear("scout", "askOne", "go")
    agent.hear("scout", "", "go")
    live(agent)
    assert agent.runtime.episodes == 20, "the goal was not given up"
    assert agent.reasoner.problem == "a message from scout is of no known kind: ''"


def test_replacing_a_belief_leaves_one() -> None:
    agent = live(make_agent("mode(a). !go. +!go <- -+mode(b); -+mode(c)."))
    assert believed(agent) == {"mode(c)"}
