"""Flags of scripts in argparse's manner, read from the source: nothing of the script is executed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
import yaml

from mosaic_worker.scripts.flags import Flag, FlagError, checked, command_line, read_flags

SOURCE = """
import argparse, os
from no_such_package import strtobool
raise SystemExit("executed!")

def parse_args():
    parser = argparse.ArgumentParser()
    group = parser.add_argument_group("all")
    parser.add_argument("--exp-name", type=str, default=os.path.basename(__file__).rstrip(".py"), help="its   name")
    parser.add_argument("--seed", type=int, default=1,
        help="seed of "
             "everything")
    parser.add_argument("--cuda", type=lambda x: bool(strtobool(x)), default=True, nargs="?", const=True)
    group.add_argument("--buffer-size", type=int, default=int(1e6))
    group.add_argument("--batch", type=int, default=4 * 128)
    parser.add_argument("-t", "--target-kl", type=float, default=None)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--quiet", action="store_false", dest="loud")
    parser.add_argument("--pair", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--under_score", type=float, default=0.5)
    parser.add_argument("--kind", choices=["a", "b"], default="a")
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 64])
    parser.add_argument("--device", default=pick())
    parser.add_argument("place")
    return parser.parse_args()
"""


@pytest.fixture
def flags(tmp_path: Path) -> dict[str, Flag]:
    script = tmp_path / "my_script.py"
    script.write_text(SOURCE)
    return read_flags(script)


def test_types_defaults_and_sentences_are_read(flags: dict[str, Flag]) -> None:
    told = {name: (flag.type, flag.default) for name, flag in flags.items()}
    assert told == {
        "exp_name": ("str", "my_script"),
        "seed": ("int", 1),
        "cuda": ("bool", True),
        "buffer_size": ("int", 1_000_000),
        "batch": ("int", 512),
        "target_kl": ("float | None", None),
        "fast": ("bool | None", False),
        "loud": ("bool | None", True),
        "pair": ("bool", False),
        "under_score": ("float", 0.5),
        "kind": ("str", "a"),
        "sizes": ("list[int]", [64, 64]),
        "device": ("str | None", None),
    }
    assert (flags["exp_name"].help, flags["seed"].help) == ("its name", "seed of everything")


def test_options_are_spelled_as_the_script_spells_them(flags: dict[str, Flag]) -> None:
    spelled = [flags[name].option for name in ("exp_name", "under_score", "target_kl", "loud")]
    assert spelled == ["--exp-name", "--under_score", "--target-kl", "--quiet"]


def test_a_command_line_of_such_flags_is_read_back_by_argparse(flags: dict[str, Flag]) -> None:
    values: dict[str, Any] = {
        "seed": 3,
        "cuda": False,
        "target_kl": None,
        "fast": True,
        "loud": False,
        "pair": True,
        "under_score": -1e-5,
        "kind": "b",
        "sizes": [1, 2],
    }
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    parser.add_argument("--cuda", type=lambda x: x == "True", nargs="?", const=True)
    parser.add_argument("--target-kl", type=float)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--quiet", action="store_false", dest="loud")
    parser.add_argument("--pair", action=argparse.BooleanOptionalAction)
    parser.add_argument("--under_score", type=float)
    parser.add_argument("--kind")
    parser.add_argument("--sizes", type=int, nargs="+")
    assert vars(parser.parse_args(command_line(values, flags))) == values


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("kind", "c", "--kind must be one of a, b, got 'c'"),
        ("seed", "many", "--seed must be a whole number, got 'many'"),
        ("under_scor", 1, "s has no flag --under-scor; did you mean '--under_score'?"),
    ],
)
def test_a_wrong_value_or_name_is_refused_in_a_sentence(
    flags: dict[str, Flag], name: str, value: Any, sentence: str
) -> None:
    with pytest.raises(FlagError) as refused:
        checked(flags, name, value, "s")
    assert str(refused.value) == sentence


def test_flags_that_are_computed_are_not_guessed(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text("for name in names:\n    parser.add_argument(f'--{name}')\nparser.add_argument('--seed')\n")
    assert read_flags(script) == {}


def test_a_dataclass_of_arguments_goes_before_a_parser(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text("class Args:\n    depth: int = 2 * 3\nparser.add_argument('--seed')\n")
    assert {name: flag.default for name, flag in read_flags(script).items()} == {"depth": 6}


def test_every_flag_has_a_json_form_for_programs(flags: dict[str, Flag]) -> None:
    assert flags["kind"].as_json() == {
        "name": "kind",
        "option": "--kind",
        "type": "str",
        "default": "a",
        "help": "",
        "choices": ["a", "b"],
        "required": False,
    }


# ---- pyrallis ----------------------------------------------------------------------------------------------------

WRAPPED = """
from dataclasses import dataclass
from typing import Optional, Tuple
import pyrallis
raise SystemExit("executed!")

@dataclass
class Settings:
    # what it is called
    project: str = "mine"
    steps: int = int(1e6)  # how long
    # a rate,
    # and more of it
    rate: float = 3e-4
    fast: bool = True
    clip: Optional[float] = None
    betas: Tuple[float, float] = (0.9, 0.999)
    low: float = -np.inf

    def __post_init__(self):
        self.project += "!"

@pyrallis.wrap()
def train(config: Settings):
    pass
"""


@pytest.fixture
def wrapped(tmp_path: Path) -> dict[str, Flag]:
    script = tmp_path / "wrapped.py"
    script.write_text(WRAPPED)
    return read_flags(script)


def test_the_class_that_pyrallis_reads_is_found_by_the_function_it_wraps(wrapped: dict[str, Flag]) -> None:
    told = {name: (flag.option, flag.default, flag.help) for name, flag in wrapped.items()}
    assert told == {
        "project": ("--project", "mine", "what it is called"),
        "steps": ("--steps", 1_000_000, "how long"),
        "rate": ("--rate", 3e-4, "a rate, and more of it"),
        "fast": ("--fast", True, ""),
        "clip": ("--clip", None, ""),
        "betas": ("--betas", (0.9, 0.999), ""),
        "low": ("--low", None, ""),
        "config_path": ("--config_path", None, "A YAML file with flags; those of the command line win."),
    }


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("fast", False, "--fast=false"),
        ("rate", -1e-05, "--rate=-1e-05"),
        ("clip", None, "--clip=null"),
        ("betas", [0.5, 0.9], "--betas=[0.5, 0.9]"),
        ("betas", "[0.5, 0.9]", "--betas=[0.5, 0.9]"),
        ("project", "hopper-medium-v2", "--project=hopper-medium-v2"),
        ("project", "true", '--project="true"'),
        ("project", "12", '--project="12"'),
        ("project", "a: b", '--project="a: b"'),
    ],
)
def test_values_are_words_that_yaml_reads_back(wrapped: dict[str, Flag], name: str, value: Any, word: str) -> None:
    assert command_line({name: value}, wrapped) == [word]
    again = yaml.safe_load(word.partition("=")[2])
    if name == "betas":
        assert again == [0.5, 0.9]
    else:
        assert (float(again) if isinstance(value, float) else again) == value
