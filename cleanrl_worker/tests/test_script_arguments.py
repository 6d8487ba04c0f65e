"""The flags of our scripts, and what the scripts refuse of them before they start."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cleanrl_worker.config import PACKAGE
from mosaic_protocol.worker_manifest import load_manifest
from mosaic_worker.errors import UsageError
from mosaic_worker.scripts.argument_check import check_arguments
from mosaic_worker.scripts.flags import read_flags

SCRIPTS = sorted(PACKAGE / one.script for one in load_manifest(PACKAGE).algorithms.values() if one.script)
PPO = PACKAGE / "cleanrl" / "ppo.py"

ASK_ALL = """
import sys
from pathlib import Path
from mosaic_worker.scripts.argument_check import check_arguments
from mosaic_worker.errors import UsageError
for script in map(Path, sys.argv[1:]):
    check_arguments(script, {})
    try:
        check_arguments(script, {"seed": -1})
    except UsageError as error:
        print(error)
print(sorted({"torch", "gymnasium"} & set(sys.modules)))
"""


def test_every_script_of_the_worker_is_asked_without_importing_what_it_trains_with() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ASK_ALL, *map(str, SCRIPTS)], capture_output=True, text=True, check=False
    )
    *refusals, imported = ended.stdout.splitlines()
    assert refusals == ["--seed must be 0 or more, got -1."] * len(SCRIPTS), ended.stderr
    assert imported == "[]"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"num_minibatches": 513}, r"--num-minibatches must be at most num-envs times num-steps \(512\), got 513"),
        ({"num_envs": 1, "num_steps": 2}, r"at most num-envs times num-steps \(2\), got 4"),
        ({"learning_rate": float("nan")}, "--learning-rate must be more than 0, got nan"),
        ({"gamma": 1.5}, "--gamma must be from 0 to 1"),
    ],
)
def test_values_that_do_not_go_together_are_refused_in_the_words_of_the_script(
    values: dict[str, float], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        check_arguments(PPO, values)


def test_every_flag_of_the_workers_scripts_has_a_sentence_and_a_plain_type() -> None:
    scripts = [path for path in (PACKAGE / "cleanrl").glob("*.py") if path.name != "__init__.py"]
    assert scripts
    for script in scripts:
        found = read_flags(script)
        assert {"seed", "env_id", "total_timesteps"} <= set(found), script.name
        for flag in found.values():
            assert flag.help.endswith("."), f"{script.name} --{flag.name}"
            assert flag.plain_type is not None, f"{script.name} --{flag.name}: {flag.type}"
