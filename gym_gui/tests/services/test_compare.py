"""Groups of runs side by side: who is in them, what counts, and what is said about it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from gym_gui.services.compare import report
from gym_gui.services.compare.comparison import Comparison, Question, compared
from gym_gui.services.compare.groups import CompareError, Wanted, groups_by, groups_of
from gym_gui.services.compare.measures import Measured, recent_means, why_left_out
from gym_gui.services.compare.statistics import Reference
from gym_gui.services.run_filter import FilterError
from mosaic_protocol.proto import trainer_pb2 as pb


def made(number: int, *, algo: str = "ppo", env: str = "CartPole-v1", seed: int | None = None, **more: Any) -> pb.Run:
    about = {"state": "TERM", "outcome": "completed", "last_step": 1000, **more}
    run = pb.Run(run_id=f"R{number}", name=f"{algo}-{number}", algo=algo, env_id=env, **about)
    if seed is not None:
        run.seed = seed
    return run


def scored(scores: Iterable[float], **about: Any) -> list[Measured]:
    return [Measured(made(number, seed=number, **about), score) for number, score in enumerate(scores)]


def listing(*runs: pb.Run) -> Any:
    """A daemon that knows these runs and one kind of expression, in pages of two."""

    def page(*, size: int, token: str, where: str) -> pb.ListRunsResponse:
        wanted = where.removeprefix("algo=")
        found = [run for run in runs if wanted in ("", run.algo)]
        begin = int(token or 0)
        rest = str(begin + 2) if begin + 2 < len(found) else ""
        return pb.ListRunsResponse(runs=found[begin : begin + 2], next_page_token=rest)

    return page


# ---- groups ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "where", "label"),
    [
        ("algo=ppo", "algo=ppo", "algo=ppo"),
        ('algo=ppo env=Cart* as "PPO"', "algo=ppo env=Cart*", "PPO"),
        ("algo=ppo as 'a b'", "algo=ppo", "a b"),
        ("algo=ppo as mine", "algo=ppo", "mine"),
        ("", "", "all runs"),
        ("algo=ppo as \x1b[31mred", "algo=ppo", "?[31mred"),
    ],
)
def test_an_expression_may_name_its_group(text: str, where: str, label: str) -> None:
    assert Wanted.read(text) == Wanted(where, label, is_named=" as " in text)


def test_an_empty_name_and_a_wrong_expression_are_refused() -> None:
    with pytest.raises(FilterError, match="as needs a name"):
        Wanted.read('algo=ppo as ""')
    with pytest.raises(FilterError, match="no closing quote"):
        Wanted.read('algo=ppo as "PPO')
    with pytest.raises(FilterError, match="is not a number"):
        Wanted.read("seed=one as x")


def test_each_expression_is_a_group_over_all_pages() -> None:
    runs = [made(n) for n in range(5)] + [made(n, algo="dqn") for n in range(5, 8)]
    groups = groups_of(listing(*runs), [Wanted("algo=ppo", "PPO"), Wanted("algo=dqn", "DQN")])
    assert [(group.label, len(group.runs)) for group in groups] == [("PPO", 5), ("DQN", 3)]
    assert [group.label for group in groups_by(listing(*runs), "", "algorithm")] == ["dqn", "ppo"]


def test_groups_by_a_setting_need_one_run_that_was_given_it() -> None:
    config = {"metadata": {"worker": {"config": {"extras": {"algo_params": {"learning_rate": 0.001}}}}}}
    given, left = made(0, config_json=json.dumps(config)), made(1)
    groups = groups_by(listing(given, left), "", "learning_rate")
    assert [group.label for group in groups] == ["learning_rate=0.001", "no learning_rate"]
    with pytest.raises(CompareError, match="'learning_rat'; did you mean 'learning_rate'"):
        groups_by(listing(given, left), "", "learning_rat")
    with pytest.raises(CompareError, match="each has the default"):
        groups_by(listing(left), "", "gamma")


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ([Wanted("algo=ppo", "A"), Wanted("algo=sac", "B")], "no run matches 'algo=sac'"),
        ([Wanted("algo=ppo", "A"), Wanted("", "B")], "ppo-0 is in 'A' and in 'B'"),
        ([Wanted("algo=ppo", "A"), Wanted("algo=dqn", "A")], "two groups are called 'A'"),
    ],
)
def test_groups_that_are_none_are_refused(wanted: Sequence[Wanted], sentence: str) -> None:
    with pytest.raises(CompareError, match=sentence):
        groups_of(listing(made(0), made(1, algo="dqn")), wanted)


# ---- what a run reached ------------------------------------------------------------------------------------------


def test_a_curve_is_the_mean_of_the_newest_hundred_returns() -> None:
    returns = [float(n) for n in range(250)]
    curve = recent_means(range(10, 2510, 10), returns)
    assert curve.at(np.array([0.0, 10.0, 15.0, 1000.0, math.inf])).tolist()[1:] == [0.0, 0.0, 49.5, 199.5]
    assert math.isnan(curve.at(np.array([9.0]))[0])


def test_a_return_that_is_no_number_spoils_only_the_means_that_hold_it() -> None:
    curve = recent_means(range(300), [1.0] * 100 + [math.nan] + [1.0] * 199)
    values = curve.values
    assert values[99] == 1.0 and np.isnan(values[100:200]).all() and (values[201:] == 1.0).all()


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ({}, ""),
        ({"outcome": "failed", "reason": "exited with status 1"}, "failed: exited with status 1"),
        ({"outcome": "canceled", "reason": "canceled: looked wrong"}, "canceled: looked wrong"),
        ({"outcome": "timed_out"}, "timed out"),
        ({"state": "EXEC", "outcome": ""}, "not over yet"),
    ],
)
def test_runs_that_did_not_complete_do_not_count_unless_wanted(about: dict[str, Any], reason: str) -> None:
    assert why_left_out(made(1, **about), unfinished=False) == reason
    assert why_left_out(made(1, **about), unfinished=True) == ""


def test_a_program_of_several_seeds_does_not_count_beside_them() -> None:
    config = {"metadata": {"worker": {"config": {"algo": "ppo_jax", "seed": 1, "params": {"seeds": 16}}}}}
    program = made(1, algo="ppo_jax", config_json=json.dumps(config))
    for unfinished in (True, False):
        assert why_left_out(program, unfinished=unfinished) == "its 16 seeds are runs of their own"


# ---- side by side ------------------------------------------------------------------------------------------------


def two_groups(**question: Any) -> Comparison:
    return compared(
        {"PPO": scored([500, 480, 490, 495, 470]), "DQN": scored([400, 410, 390, 405, 300])}, Question(**question)
    )


def test_who_is_better_is_told_with_intervals() -> None:
    found = two_groups()
    ppo, dqn = found.groups
    assert ppo.estimates["iqm"].value == pytest.approx((480 + 490 + 495) / 3)
    assert ppo.estimates["iqm"].low > dqn.estimates["iqm"].high  # type: ignore[operator]
    assert found.improvements["PPO", "DQN"].value == 1.0 and found.improvements["DQN", "PPO"].value == 0.0
    assert not found.notes and not found.is_normalised and "optimality_gap" not in ppo.estimates


def test_several_environments_need_references() -> None:
    runs = {"PPO": [*scored([500, 500]), *scored([-100, -90], env="Acrobot-v1")]}
    with pytest.raises(CompareError, match="--reference Acrobot-v1=LOW:HIGH"):
        compared(runs, Question())
    references = {"CartPole-v1": Reference(0, 500), "Acrobot-v1": Reference(-500, -90)}
    found = compared(runs, Question(references=references))
    assert found.groups[0].estimates["optimality_gap"].value == pytest.approx((0 + (1 - 405 / 410) / 2) / 2, abs=0.01)


def test_groups_of_different_environments_are_refused_unless_wanted() -> None:
    runs = {"PPO": [*scored([500, 490]), *scored([-90], env="Acrobot-v1")], "DQN": scored([400, 410])}
    with pytest.raises(CompareError, match="'DQN' has no runs of Acrobot-v1, others have: --mixed"):
        compared(runs, Question())
    assert compared(runs, Question(is_mixed=True)).environments == ["CartPole-v1"]
    apart = {"A": scored([1, 2]), "B": scored([1, 2], env="Acrobot-v1")}
    for question in (Question(), Question(is_mixed=True)):
        with pytest.raises(CompareError, match=r"no environment in common.*: 'A' CartPole-v1; 'B' Acrobot-v1"):
            compared(apart, question)


def test_what_weakens_a_comparison_is_said() -> None:
    short = [Measured(made(1, seed=1, last_step=500), 1.0), Measured(made(2, seed=1, last_step=1000), 2.0)]
    left = Measured(made(3, outcome="failed"), why_not="failed: exited with status 1")
    found = compared({"A": [*short, left], "B": [Measured(made(4), 3.0)]}, Question())
    assert list(found.notes) == [
        "A: 1 run left out (1 failed)",
        "A has 2 runs: intervals of fewer than 5 are rough",
        "A has seed 1 more than once: those runs may be the same one again",
        "B has one run: no interval can be given",
        "B: 1 run without a seed",
        "runs have different lengths, 500 to 1,000 steps: `mosaic compare --at 500` compares them at the same step",
        "groups have different numbers of runs: A 2, B 1",
    ]


def test_a_group_of_which_nothing_counts_is_named_and_left_out() -> None:
    left = Measured(made(3, outcome="failed"), why_not="failed: exited with status 1")
    found = compared({"A": [left], "B": scored([1, 2, 3, 4, 5])}, Question())
    assert [group.label for group in found.groups] == ["B"] and found.notes == ["nothing of 'A' counts: 1 failed"]
    with pytest.raises(CompareError, match="nothing of 'A' counts: 1 failed"):
        compared({"A": [left]}, Question())


# ---- reports -----------------------------------------------------------------------------------------------------


def test_reports_hold_every_run_and_no_text_that_steers_a_reader() -> None:
    left = Measured(made(9, outcome="failed"), why_not="failed")
    found = compared({r"50 % & more_\x": [*scored([1, 2]), left]}, Question())
    assert len(list(report.rows(found))) == 3 and list(report.rows(found))[-1][-2:] == ("", "failed")
    table = report.latex(found)
    assert r"50 \% \& more\_\textbackslash{}x & 2 & 1.5 [1, 2]" in table
    (group,) = report.as_object(found)["groups"]
    assert [one["score"] for one in group["runs"]] == [1.0, 2.0] and group["left_out"][0]["reason"] == "failed"
