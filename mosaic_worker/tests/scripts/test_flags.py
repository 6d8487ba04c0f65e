"""A script's flags are read from its source, and values are fitted to them before anything starts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from mosaic_worker.scripts.flags import Flag, FlagError, checked, command_line, read_flags

SOURCE = '''
"""A script that must never be executed to be read."""
import module_that_does_not_exist
from dataclasses import dataclass, field

raise SystemExit("executed!")

@dataclass
class Args:
    """What this script takes."""
    num_envs: int = 4
    """How many environments
    are stepped side by side."""
    learning_rate: float = 2.5e-4
    anneal_lr: bool = True
    """Lower it."""
    exp_name: str = "mine"
    target_kl: float | None = None
    hidden: "list[int]" = field(default_factory=list)
    teacher: Optional[str] = None
    device: str = pick_device()

    def helper(self) -> None: ...
'''


@pytest.fixture
def flags(tmp_path: Path) -> dict[str, Flag]:
    script = tmp_path / "script.py"
    script.write_text(SOURCE)
    return read_flags(script)


def test_flags_are_read_in_order_without_running_the_script(flags: dict[str, Flag]) -> None:
    assert list(flags) == [
        "num_envs",
        "learning_rate",
        "anneal_lr",
        "exp_name",
        "target_kl",
        "hidden",
        "teacher",
        "device",
    ]


def test_a_flag_has_its_type_default_and_sentence(flags: dict[str, Flag]) -> None:
    assert flags["num_envs"] == Flag("num_envs", "int", 4, "How many environments are stepped side by side.")
    assert flags["learning_rate"] == Flag("learning_rate", "float", 2.5e-4, "")
    assert flags["anneal_lr"].help == "Lower it."
    assert flags["num_envs"].option == "--num-envs"


def test_a_computed_default_is_not_guessed(flags: dict[str, Flag]) -> None:
    assert flags["device"].default is None
    assert flags["hidden"].default is None


def test_plain_types_are_known_also_when_they_may_be_none(flags: dict[str, Flag]) -> None:
    kinds = {name: (flag.plain_type, flag.optional) for name, flag in flags.items()}
    assert kinds["num_envs"] == (int, False)
    assert kinds["target_kl"] == (float, True)
    assert kinds["teacher"] == (str, True)
    assert kinds["hidden"] == (None, False)


@pytest.mark.parametrize("annotation", ["None | int", "int | None", "Optional[int]", "typing.Optional[int]"])
def test_every_spelling_of_an_optional_type_is_understood(annotation: str) -> None:
    flag = Flag("n", annotation, None, "")
    assert (flag.plain_type, flag.optional) == (int, True)


def test_a_script_without_args_has_no_known_flags(tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.write_text("print('hello')\n")
    assert read_flags(script) == {}


@pytest.mark.parametrize(
    ("name", "value", "fitted"),
    [
        ("num_envs", 8, 8),
        ("num-envs", "8", 8),
        ("num_envs", "-8", -8),
        ("learning_rate", 1, 1.0),
        ("learning_rate", "-1", -1.0),
        ("learning_rate", "3e-4", 3e-4),
        ("learning_rate", "-1e-3", -1e-3),
        ("learning_rate", "inf", float("inf")),
        ("anneal_lr", False, False),
        ("anneal_lr", "False", False),
        ("anneal_lr", "true", True),
        ("exp_name", "007", "007"),
        ("exp_name", "1e3", "1e3"),
        ("exp_name", "true", "true"),
        ("exp_name", "none", "none"),
        ("exp_name", 7, "7"),
        ("target_kl", None, None),
        ("target_kl", "None", None),
        ("target_kl", "0.01", 0.01),
        ("hidden", [64, 64], [64, 64]),
    ],
)
def test_a_value_is_read_as_its_flag_says(flags: dict[str, Flag], name: str, value: Any, fitted: Any) -> None:
    found = checked(flags, name, value, "script")
    assert (found, type(found)) == (fitted, type(fitted))


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("num_envs", "eight", "--num-envs must be a whole number, got 'eight'"),
        ("num_envs", 8.5, "--num-envs must be a whole number, got 8.5"),
        ("num_envs", "1e6", "--num-envs must be a whole number, got '1e6'"),
        ("num_envs", True, "--num-envs needs a value: it is no switch but a whole number"),
        ("no_anneal_lr", "3", "--no-anneal-lr takes no value, got '3'"),
        ("num_envs", None, "--num-envs must be a whole number, got None"),
        ("num_envs", [8], "--num-envs must be a whole number, got [8]"),
        ("learning_rate", "fast", "--learning-rate must be a number, got 'fast'"),
        ("learning_rate", "nan", "--learning-rate must be a number, got 'nan'"),
        ("learning_rate", True, "--learning-rate needs a value: it is no switch but a number"),
        ("anneal_lr", 1, "--anneal-lr must be a switch, got 1"),
        ("anneal_lr", "maybe", "--anneal-lr must be a switch, got 'maybe'"),
        ("exp_name", True, "--exp-name needs a value: it is no switch but a text"),
        ("num_env", 8, "script has no flag --num-env; did you mean '--num-envs'?"),
        ("learningrate", 8, "script has no flag --learningrate; did you mean '--learning-rate'?"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_a_sentence(
    flags: dict[str, Flag], name: str, value: Any, sentence: str
) -> None:
    with pytest.raises(FlagError) as refused:
        checked(flags, name, value, "script")
    assert str(refused.value) == sentence


def test_an_unknown_flag_far_from_all_others_is_answered_with_the_choices(flags: dict[str, Flag]) -> None:
    with pytest.raises(FlagError, match=r"has no flag --zzz; choices are --anneal-lr, --device, "):
        checked(flags, "zzz", 1, "script")


def test_a_command_line_is_written_as_scripts_take_it() -> None:
    values = {"num_envs": 8, "anneal_lr": True, "norm_adv": False, "exp_name": "a b", "hidden": [64, 32]}
    assert command_line(values) == [
        *("--num-envs", "8"),
        *("--anneal-lr", "--no-norm-adv"),
        *("--exp-name", "a b"),
        *("--hidden", "64", "32"),
    ]


@pytest.mark.parametrize("value", [-1, -0.5, -1e-05, 1e-300, 0.1, 3e-4, 10**15, 1e22])
def test_numbers_survive_the_command_line_exactly(value: float) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--learning-rate", type=type(value))
    assert parser.parse_args(command_line({"learning_rate": value})).learning_rate == value


def test_a_text_that_looks_like_a_flag_stays_a_value() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--notes")
    assert parser.parse_args(command_line({"notes": "--seed"})).notes == "--seed"
    assert parser.parse_args(command_line({"notes": ""})).notes == ""


def test_none_is_passed_on_and_not_left_to_the_default() -> None:
    assert command_line({"target_kl": None}) == ["--target-kl", "None"]
