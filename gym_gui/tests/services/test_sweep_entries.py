"""Ranges as they are typed beside a field, and sweeps as they are asked for beside a run. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from gym_gui.services.run_request import RunRequest
from gym_gui.services.sweeps.entries import EntryError, as_toml, problems_of, space_of, space_text, suggested
from gym_gui.services.sweeps.space import Dimension, read_space
from gym_gui.services.sweeps.wish import SweepWish, WishError, outermost, rungs_for, spec_of, sweep_command

FLAGS: list[dict[str, Any]] = [
    {"name": "learning_rate", "type": "float"},
    {"name": "num_steps", "type": "int"},
    {"name": "anneal_lr", "type": "bool"},
    {"name": "mode", "type": "", "choices": ["up", "down"]},
]


@pytest.mark.parametrize(
    ("entry", "toml"),
    [
        ("1e-5 to 1e-2 log", "{ low = 1e-5, high = 1e-2, log = true }"),
        ("1 to 10", "{ low = 1, high = 10 }"),
        ("1..10", "{ low = 1, high = 10 }"),
        ("0.8 TO 1. step .05", "{ low = 0.8, high = 1.0, step = 0.05 }"),
        ("-1 to +1", "{ low = -1, high = 1 }"),
        ("32, 64,128", "[32, 64, 128]"),
        ("True, false", "[true, false]"),
        ("up, it's", '["up", "it\'s"]'),
    ],
)
def test_an_entry_becomes_a_line_of_a_space_file(entry: str, toml: str) -> None:
    assert as_toml(entry) == toml
    read_space(f"x = {as_toml(entry)}\n", "file")


@pytest.mark.parametrize("entry", ["", "  ", "1 to", "1 to x", "1e-5 to 1e-2 lgo"])
def test_what_is_no_range_is_refused(entry: str) -> None:
    with pytest.raises(EntryError):
        as_toml(entry)


def test_the_same_judge_as_of_a_file_says_what_is_wrong_at_its_field() -> None:
    wrong = problems_of(
        {
            "learning_rate": "0 to 1 log",
            "num_steps": "10 to 5",
            "anneal_lr": "1 to 2",
            "mode": "up, dwon",
        },
        FLAGS,
    )
    assert wrong["learning_rate"] == "has a logarithmic range through zero: low must be above 0 (got 0)"
    assert wrong["num_steps"] == "is empty (low 10, high 5)"
    assert "has no ranges" in wrong["anneal_lr"]
    assert "did you mean" in wrong["mode"] and "down" in wrong["mode"]
    assert problems_of({"learning_rate": "1e-4 to 1e-2 log", "mode": "up, down"}, FLAGS) == {}


def test_a_space_of_entries_is_the_space_of_its_file() -> None:
    entries = {"learning_rate": "1e-4 to 1 log", "num_steps": "32, 64"}
    space = space_of(entries, FLAGS)
    assert space == read_space(space_text(entries), "sweep.toml", FLAGS)
    assert space.searched["learning_rate"] == Dimension("float", 1e-4, 1.0, log=True)


@pytest.mark.parametrize(
    ("kind", "default", "choices", "wanted"),
    [
        ("float", 2.5e-4, (), "2.5e-05 to 0.0025 log"),
        ("float", 0.99, (), "0.96 to 1.0"),
        ("float", 0.0, (), "0.0 to 1.0"),
        ("int", 128, (), "64 to 256"),
        ("bool", True, (), "true, false"),
        ("choice", "a", ("a", "b"), "a, b"),
        ("float", None, (), ""),
    ],
)
def test_a_suggestion_lies_around_the_default(
    kind: str, default: object, choices: tuple[str, ...], wanted: str
) -> None:
    assert suggested(kind, default, choices) == wanted
    if wanted:
        read_space(f"x = {as_toml(wanted)}\n", "file")


# ---- the wish ----------------------------------------------------------------------------------------------------


def request(**settings: object) -> RunRequest:
    given = {"algo": "ppo", "env_id": "CartPole-v1", "seed": 3, "params": {"gamma": 0.9, "num_steps": 64}, **settings}
    return RunRequest("toy", "toy", "name", given, tags=("paper",))


def test_a_wish_becomes_what_the_daemon_is_asked_for() -> None:
    space = space_of({"learning_rate": "1e-4 to 1e-2 log"}, FLAGS)
    spec = spec_of(request().config(), space, SweepWish(trials=5, seeds=2, pruner="asha"), 4000)
    assert (spec.trials, spec.seeds, spec.rungs, spec.total_steps) == (5, (3, 4), (1000, 2000), 4000)
    ends = {word: config["metadata"]["worker"]["config"]["params"] for word, config in outermost(spec)}
    assert ends["lowest"] == {"gamma": 0.9, "num_steps": 64, "learning_rate": 1e-4}
    assert ends["highest"]["learning_rate"] == 1e-2


def test_a_pruner_without_a_length_and_a_grid_without_a_step_are_refused_at_their_field() -> None:
    space = space_of({"learning_rate": "1e-4 to 1e-2 log"}, FLAGS)
    for wish, field in ((SweepWish(pruner="asha"), "pruner"), (SweepWish(sampler="grid"), "sampler")):
        with pytest.raises(WishError) as refused:
            spec_of(request().config(), space, wish, 0)
        assert refused.value.field == field
    assert rungs_for("median", 400) == (100, 200, 300) and rungs_for("asha", 810, 3) == (202, 606)


def test_a_population_has_rungs_at_its_interval_and_is_refused_at_the_field_that_is_wrong() -> None:
    space = space_of({"learning_rate": "1e-4 to 1e-2 log"}, FLAGS)
    wish = SweepWish(trials=4, pruner="pbt", interval=1000, quantile=0.5)
    spec = spec_of(request().config(), space, wish, 4000)
    assert (spec.is_population, spec.rungs, spec.quantile, spec.seeds) == (True, (1000, 2000, 3000), 0.5, (3,))
    assert spec_of(request().config(), space, SweepWish(pruner="pbt"), 4000).rungs == tuple(range(400, 3800, 400))
    for wrong, total, field in (
        (SweepWish(pruner="pbt", seeds=2), 4000, "seeds"),
        (SweepWish(pruner="pbt", trials=1), 4000, "trials"),
        (SweepWish(pruner="pbt", interval=5000), 4000, "interval"),
        (SweepWish(pruner="pbt"), 0, "pruner"),
    ):
        with pytest.raises(WishError) as refused:
            spec_of(request().config(), space, wrong, total)
        assert refused.value.field == field
    command = sweep_command(["ppo"], request(), wish, [])
    assert "--trials 4 --parallel 1 --pruner pbt --interval 1000 --quantile 0.5 --tag" in command


def test_the_command_says_the_same() -> None:
    wish = SweepWish(trials=8, parallel=2, seeds=2, pruner="asha", minimize=True)
    assert sweep_command(["ppo"], request(), wish, ["num_steps"]) == (
        "mosaic sweep ppo --env-id CartPole-v1 --seed 3 --space sweep.toml --trials 8 --parallel 2 --seeds 2 "
        "--pruner asha --minimize --tag paper -- --gamma 0.9"
    )
