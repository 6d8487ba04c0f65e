"""Options that were meant for `mosaic train` and not for the script, and what a worker cannot tell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gym_gui.cli.errors import ExitCode
from gym_gui.tests.support.command_line import CommandLine

_MANIFEST = """
schema = 1
[worker]
type = "plain"
name = "Plain"
version = "1"
summary = "For tests."
lane = "analytics"
module = "plain_worker.cli"
[algorithms.walk]
summary = "Walks."
"""
_CLI = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--config")
parser.parse_args()
"""


@pytest.fixture
def mosaic(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "home")


@pytest.fixture
def plain(tmp_path: Path, mosaic: CommandLine) -> CommandLine:
    """With a worker that knows no questions."""
    package = tmp_path / "workers" / "plain_worker"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "cli.py").write_text(_CLI)
    (package / "worker.toml").write_text(_MANIFEST)
    mosaic.environment["MOSAIC_WORKER_PATH"] += os.pathsep + str(package.parent)
    return mosaic


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--detatch"], "there is no option '--detatch'; did you mean '--detach'?"),
        (["--jsn"], "there is no option '--jsn'; did you mean '--json'?"),
        (["--num-env", "8"], "ppo has no flag --num-env; did you mean '--num-envs'?"),
        (["--home", "x"], "--home stands before the command: `mosaic --home DIR train`"),
        (["--no-anneal-lr", "3"], "--no-anneal-lr takes no value, got 3"),
        (["--num-envs"], "--num-envs needs a value: it is no switch but a whole number"),
    ],
)
def test_a_flag_that_was_meant_for_mosaic_or_lacks_its_value_is_reported_as_that(
    mosaic: CommandLine, words: list[str], sentence: str
) -> None:
    answer = mosaic("train", "ppo", "--env-id", "CartPole-v1", "--dry-run", *words)
    assert answer.code == ExitCode.REFUSED
    assert answer.err == f"mosaic: {sentence}\n"


def test_an_option_does_not_take_another_one_for_its_value(mosaic: CommandLine) -> None:
    answer = mosaic("train", "ppo", "--env-id", "--seed", "3")
    assert answer.code == ExitCode.REFUSED
    assert answer.err == "mosaic: --env-id needs a value, and --seed is an option. See `mosaic train --help`.\n"


def test_a_worker_that_does_not_know_the_question_for_flags_is_reported_as_that(plain: CommandLine) -> None:
    sentence = "he worker 'plain' does not tell the flags of its scripts"
    answer = plain("flags", "walk")
    assert (answer.code, answer.err) == (ExitCode.REFUSED, f"mosaic: t{sentence}\n")
    answer = plain("train", "walk", "--help")
    assert answer.code == 0 and answer.out.endswith(f"\n\nT{sentence}.\n")


def test_a_missing_bundle_is_reported_with_the_command_that_installs_it_and_nothing_else(
    mosaic: CommandLine,
) -> None:
    answer = mosaic("train", "ppo", "--env-id", "CartPole-v1", "--upstream", "--dry-run")
    assert answer.code == ExitCode.FAILED
    assert "mosaic bundles install cleanrl_upstream" in answer.err
    assert "--no-preflight" not in answer.err and ".;" not in answer.err


def test_a_script_whose_flags_cannot_be_read_is_given_what_was_typed_and_the_dry_run_says_so(
    mosaic: CommandLine, tmp_path: Path
) -> None:
    script = tmp_path / "own.py"
    script.write_text("import click\n\n@click.command()\n@click.option('--lr')\ndef main(lr): pass\n\nmain()\n")
    answer = mosaic("train", "--script", str(script), "--dry-run", "--", "--lr", "1")
    assert answer.code == 0, answer.err
    assert "--lr 1" in answer.out
    assert "--seed" not in answer.out
    assert "The flags of the script could not be read" in answer.out
