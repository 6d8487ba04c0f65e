"""What a script refuses of its own arguments is refused before it starts, and without importing what it trains with."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mosaic_worker.errors import UsageError
from mosaic_worker.scripts.argument_check import check_arguments

SCRIPT = """
from dataclasses import dataclass
import a_library_that_is_not_there
from some.session import UsageError

LEAST = 2

@dataclass
class Args:
    num_envs: int = 4
    resume: str | None = None

def at_least(value, least):
    if value < least:
        raise UsageError(f"--num-envs must be at least {least}, got {value}.")

def check(args):
    at_least(args.num_envs, LEAST)

raise SystemExit("executed!")
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    return file


def test_the_sentence_is_the_one_of_the_script_and_nothing_else_of_it_is_executed(script: Path) -> None:
    check_arguments(script, {"num_envs": 2, "a_flag_of_the_harness": 1})
    with pytest.raises(UsageError, match="--num-envs must be at least 2, got 1"):
        check_arguments(script, {"num_envs": 1})
    assert "_arguments_of_a_script" not in sys.modules


def test_a_checkpoint_that_cannot_be_read_is_refused_as_well(script: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        check_arguments(script, {"resume": str(tmp_path)})


def test_a_script_without_a_check_is_not_asked(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text("raise RuntimeError('nobody may run this')\n")
    check_arguments(script, {"num_envs": 0})
