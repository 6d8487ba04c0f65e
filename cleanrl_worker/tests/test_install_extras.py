"""The sets of extras of this worker: each is pinned, and what pip cannot bring is named."""

from __future__ import annotations

import subprocess
import sys

from cleanrl_worker.tools.extras import EXTRAS, SETS


def test_every_set_has_its_requirements_pinned_in_the_project() -> None:
    pins = EXTRAS.pins()
    assert {"torch", "numpy", "gymnasium", "grpcio"} <= {requirement.name for requirement in pins.core}
    for name in SETS:
        assert all(str(requirement.specifier).startswith("==") for requirement in pins.extras[name]), name


def test_procgen_needs_a_library_that_pip_does_not_have() -> None:
    plan = EXTRAS.plan(["procgen", "mujoco"], EXTRAS.pins(), {})
    assert [package.name for package in plan.debian] == ["libqt5gui5", "libegl1"]


def test_the_command_that_the_pages_name_lists_the_sets() -> None:
    command = [sys.executable, "-m", EXTRAS.module, "--help"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert told.startswith("usage: python -m cleanrl_worker.tools.install_extras ")
    assert [name for name in SETS if f"  {name} " not in told] == []
