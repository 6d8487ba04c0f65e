"""Flags of the training script, as people type them behind the command's own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.script_flags import parse_script_flags, show, typed


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        ("", {}),
        ("--num-envs 8 --anneal-lr --no-norm-adv", {"num_envs": 8, "anneal_lr": True, "norm_adv": False}),
        ("--learning-rate=3e-4", {"learning_rate": 3e-4}),
        ("--clip-coef -0.2 --seed-offset -3", {"clip_coef": -0.2, "seed_offset": -3}),
        ("--exp-name=a=b", {"exp_name": "a=b"}),
        ("--cuda false --track True", {"cuda": False, "track": True}),
        ("-- --num-envs 8 -- --cuda", {"num_envs": 8, "cuda": True}),
        ("--no-such-flag 3", {"no_such_flag": 3}),
        ("--nominal", {"nominal": True}),
        ("--empty=", {"empty": ""}),
        ("--num_envs 4", {"num_envs": 4}),
    ],
)
def test_flags_are_read_as_typed(line: str, flags: dict[str, Any]) -> None:
    found = parse_script_flags(line.split())
    assert found == flags
    assert [type(value) for value in found.values()] == [type(value) for value in flags.values()]


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("8", 8),
        ("1_000", 1000),
        ("1e3", 1000.0),
        ("-1.5", -1.5),
        ("inf", "inf"),
        ("nan", "nan"),
        ("007", "007"),
        ("00", "00"),
        ("1_", "1_"),
        ("1__0", "1__0"),
        ("9" * 5000, "9" * 5000),
        ("0", 0),
        ("0.5", 0.5),
        ("CartPole-v1", "CartPole-v1"),
        ("[64,64]", "[64,64]"),
    ],
)
def test_a_word_becomes_what_it_looks_like_unless_json_would_change_it(word: str, value: Any) -> None:
    assert typed(word) == value
    assert type(typed(word)) is type(value)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("8", "'8' stands alone"),
        ("--num-envs 8 9", "'9' stands alone"),
        ("-n 8", "'-n' stands alone"),
        ("--=3", "stands alone"),
        ("--num-envs 8 --num_envs 9", "--num_envs is given twice"),
        ("--cuda --no-cuda", "--no-cuda is given twice"),
        ("-- --seed 3", "--seed is an option of mosaic itself"),
    ],
)
def test_what_is_not_a_flag_is_refused_with_the_word(line: str, part: str) -> None:
    with pytest.raises(CliError) as refusal:
        parse_script_flags(line.split(), reserved={"seed"})
    assert part in str(refusal.value)
    assert refusal.value.code is ExitCode.REFUSED


@given(st.lists(st.text(max_size=20), max_size=8))
def test_no_words_make_it_fail_in_another_way(words: list[str]) -> None:
    try:
        found = parse_script_flags(words)
    except CliError:
        return
    assert all(name and not name.startswith("-") for name in found)


def test_flags_can_be_shown_as_they_were_typed() -> None:
    line = "--num-envs 8 --anneal-lr --no-norm-adv"
    assert show(parse_script_flags(line.split())) == line
