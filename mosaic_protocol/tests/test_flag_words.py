"""Script flags on a command line: what people type is what the script gets."""

from __future__ import annotations

from typing import Any

import pytest

from mosaic_protocol.flag_words import FlagWordError, split_flags


def parse_script_flags(words: list[str]) -> dict[str, str | bool]:
    return {name: value for _, name, value in split_flags(words)}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", {}),
        ("--num-envs 8", {"num_envs": "8"}),
        ("--num_envs=8", {"num_envs": "8"}),
        ("--anneal-lr", {"anneal_lr": True}),
        ("--no-anneal-lr", {"anneal_lr": False}),
        ("--no_anneal_lr --total_timesteps 9", {"anneal_lr": False, "total_timesteps": "9"}),
        ("--anneal-lr --num-envs 8", {"anneal_lr": True, "num_envs": "8"}),
        ("--num-envs 8 --no-norm-adv", {"num_envs": "8", "norm_adv": False}),
        ("--learning-rate -1", {"learning_rate": "-1"}),
        ("--learning-rate -1e-3 --seed 3", {"learning_rate": "-1e-3", "seed": "3"}),
        ("--learning-rate=-.5", {"learning_rate": "-.5"}),
        ("--no-such-flag 3", {"no_such_flag": "3"}),
        ("--exp-name 007", {"exp_name": "007"}),
        ("--exp-name=", {"exp_name": ""}),
        ("--exp-name=a=b", {"exp_name": "a=b"}),
        ("--exp-name=--odd", {"exp_name": "--odd"}),
        ("-- --num-envs 8", {"num_envs": "8"}),
        ("--num-envs 8 -- --gamma 0.9", {"num_envs": "8", "gamma": "0.9"}),
    ],
)
def test_flags_are_taken_as_they_are_typed(words: str, found: dict[str, Any]) -> None:
    assert parse_script_flags(words.split()) == found


def test_of_a_repeated_flag_the_last_one_counts() -> None:
    assert parse_script_flags(["--num-envs", "8", "--num-envs=2"]) == {"num_envs": "2"}
    assert parse_script_flags(["--anneal-lr", "--no-anneal-lr"]) == {"anneal_lr": False}


@pytest.mark.parametrize("words", ["8", "-n 8", "--num-envs 8 9", "-- ppo"])
def test_a_word_that_belongs_to_no_flag_is_refused_by_name(words: str) -> None:
    with pytest.raises(FlagWordError, match="stands alone: flags of the script begin with --"):
        parse_script_flags(words.split())


def test_values_with_blanks_stay_whole() -> None:
    assert parse_script_flags(["--notes", "two words"]) == {"notes": "two words"}
