"""The files that build the project: pins agree, front doors exist, the environment mends itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from tools import generate_proto, setup_environment

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
BUNDLES = {
    "base.txt": PROJECT["dependencies"],
    "cleanrl_worker.txt": EXTRAS["cleanrl"],
    "spade_bdi_worker.txt": EXTRAS["spade"],
    "dev.txt": EXTRAS["dev"],
}
EXACT_PIN = re.compile(r"[A-Za-z0-9_.-]+==[0-9][0-9A-Za-z.]*")


def lines_of(path: Path) -> list[str]:
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def all_pins() -> list[str]:
    return [*PROJECT["dependencies"], *(pin for pins in EXTRAS.values() for pin in pins)]


@pytest.mark.parametrize("name", BUNDLES)
def test_a_requirements_file_has_the_pins_of_its_extra(name: str) -> None:
    pins = [line for line in lines_of(ROOT / "requirements" / name) if not line.startswith("-r ")]
    assert pins == BUNDLES[name]


SCRIPT_BUNDLES = {"cleanrl_upstream.txt"}
"""Environments for scripts only: no worker runs in them, and nothing of them can be installed beside MOSAIC."""


def test_every_requirements_file_is_compared_with_an_extra() -> None:
    assert {path.name for path in (ROOT / "requirements").glob("*.txt")} == set(BUNDLES) | SCRIPT_BUNDLES


@pytest.mark.parametrize("name", sorted(SCRIPT_BUNDLES))
def test_an_environment_for_scripts_is_pinned_and_has_what_the_harness_needs(name: str) -> None:
    pins = lines_of(ROOT / "requirements" / name)
    assert [pin for pin in pins if not EXACT_PIN.fullmatch(pin)] == []
    shared = {pin for pin in all_pins() if pin.startswith(("msgspec==", "safetensors==", "torch=="))}
    assert len(shared) == 3
    assert shared <= set(pins)


def test_the_root_requirements_are_the_base_bundle() -> None:
    assert lines_of(ROOT / "requirements.txt") == ["-r requirements/base.txt"]


@pytest.mark.parametrize("name", sorted(set(BUNDLES) - {"base.txt"}))
def test_every_bundle_includes_the_base(name: str) -> None:
    included = [line.removeprefix("-r ") for line in lines_of(ROOT / "requirements" / name) if line.startswith("-r ")]
    assert included in (["base.txt"], ["cleanrl_worker.txt"])


def test_every_dependency_is_an_exact_pin() -> None:
    assert [pin for pin in all_pins() if not EXACT_PIN.fullmatch(pin)] == []


def test_no_package_is_pinned_at_two_versions() -> None:
    versions: dict[str, set[str]] = {}
    for pin in all_pins():
        name, version = pin.split("==")
        versions.setdefault(name.lower(), set()).add(version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_the_base_installs_neither_torch_nor_qt() -> None:
    names = {pin.split("==")[0].lower() for pin in PROJECT["dependencies"]}
    assert not names & {"torch", "gymnasium", "numpy", "pyqt6", "pyside6"}


def test_torch_stands_first_wherever_it_is_pinned() -> None:
    positions = [pins.index(pin) for pins in EXTRAS.values() for pin in pins if pin.startswith("torch==")]
    assert positions
    assert set(positions) == {0}


def test_make_alone_lists_every_front_door() -> None:
    listing = subprocess.run(["make", "-s"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    doors = {
        "demo",
        "test",
        "check",
        "bench",
        "gui",
        "setup",
        "setup-gui",
        "setup-dev",
        "coverage-matrix",
        "screenshots",
        "proto",
        "clean",
        "distclean",
        "help",
    }
    assert {line.split()[1] for line in listing.splitlines()} == doors


def test_the_gate_can_be_executed() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_generated_code_is_fresh() -> None:
    assert generate_proto.stale_files(ROOT) == []


def test_a_changed_proto_makes_the_generated_code_stale(tmp_path: Path) -> None:
    folder = tmp_path / generate_proto.PROTO.parent
    shutil.copytree(ROOT / generate_proto.PROTO.parent, folder)
    with (folder / generate_proto.PROTO.name).open("a", encoding="utf-8") as proto:
        proto.write("message AddedLater { string note = 1; }\n")
    with pytest.raises(generate_proto.GenerationError, match="make proto"):
        generate_proto.check(tmp_path)


class Steps:
    """Stands in for venv and pip: notes each command, and makes a python that answers as a real one would."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.before: Callable[[Sequence[str]], None] = lambda command: None

    def run(self, command: Sequence[str], home: setup_environment.Home, lock: IO[str]) -> None:
        self.before(command)
        self.commands.append(list(command))
        if "venv" in command:
            home.python.parent.mkdir(parents=True)
            home.python.write_text("#!/bin/sh\necho {} {}\n".format(*sys.version_info[:2]), encoding="utf-8")
            home.python.chmod(0o755)

    def made_environments(self) -> int:
        return sum("venv" in command for command in self.commands)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    steps = Steps()
    monkeypatch.setattr(setup_environment, "run_logged", steps.run)
    monkeypatch.setattr(setup_environment, "offer_libraries", lambda profile: None)
    return steps


@pytest.fixture
def home(tmp_path: Path) -> setup_environment.Home:
    root = tmp_path / "tree"
    root.mkdir()
    shutil.copy(ROOT / "pyproject.toml", root)
    return setup_environment.Home(root)


def test_torch_is_installed_by_its_pin_before_everything_else(steps: Steps, home: setup_environment.Home) -> None:
    setup_environment.set_up(home, "demo")
    installed = [command[-1] for command in steps.commands if "pip" in command]
    assert installed == [EXTRAS["cleanrl"][0], ".[cleanrl]"]


def test_a_second_setup_does_nothing(steps: Steps, home: setup_environment.Home) -> None:
    setup_environment.set_up(home, "dev")
    steps.commands.clear()
    setup_environment.set_up(home, "dev")
    setup_environment.set_up(home, "demo")
    assert steps.commands == []


def test_the_demo_environment_is_not_taken_for_the_dev_one(steps: Steps, home: setup_environment.Home) -> None:
    setup_environment.set_up(home, "demo")
    setup_environment.set_up(home, "dev")
    assert steps.commands[-1][-1] == f".[{','.join(setup_environment.EXTRAS['dev'])}]"
    assert steps.made_environments() == 1


def test_a_changed_pin_is_installed_into_the_same_environment(steps: Steps, home: setup_environment.Home) -> None:
    setup_environment.set_up(home, "demo")
    steps.commands.clear()
    config = home.root / "pyproject.toml"
    config.write_text(config.read_text(encoding="utf-8").replace("click==8.", "click==7."), encoding="utf-8")
    setup_environment.set_up(home, "demo")
    assert steps.commands
    assert steps.made_environments() == 0


def test_an_environment_half_made_is_built_afresh(steps: Steps, home: setup_environment.Home) -> None:
    def cut_short(command: Sequence[str]) -> None:
        if "pip" in command:
            raise KeyboardInterrupt

    steps.before = cut_short
    with pytest.raises(KeyboardInterrupt):
        setup_environment.set_up(home, "demo")
    steps.before = lambda command: None
    leftover = home.venv / "leftover"
    leftover.touch()
    setup_environment.set_up(home, "demo")
    assert not leftover.exists()
    assert setup_environment.is_current(home, "demo")


def test_a_copied_tree_gets_an_environment_of_its_own(
    steps: Steps, home: setup_environment.Home, tmp_path: Path
) -> None:
    setup_environment.set_up(home, "demo")
    copy = setup_environment.Home(tmp_path / "copy")
    shutil.copytree(home.root, copy.root)
    setup_environment.set_up(copy, "demo")
    assert steps.made_environments() == 2


def test_a_failed_step_shows_the_tail_of_its_output_and_what_to_do(home: setup_environment.Home) -> None:
    home.venv.mkdir()
    failing = [sys.executable, "-c", "print('tensor.whl: No space left on device'); raise SystemExit(3)"]
    with (
        setup_environment.exclusive(home.lock) as lock,
        pytest.raises(setup_environment.SetupError) as failure,
    ):
        setup_environment.run_logged(failing, home, lock)
    assert "ended with status 3" in str(failure.value)
    assert "| tensor.whl: No space left on device" in str(failure.value)
    assert "Free about 2 GB" in str(failure.value)


def test_without_root_a_missing_venv_module_is_answered_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(setup_environment, "has_module", lambda name: name != "ensurepip")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(setup_environment.SetupError, match=r"sudo apt-get install -y python3(\.\d+)?-venv"):
        setup_environment.require_venv_module()


def test_an_old_python_hands_over_to_a_newer_one_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead, alive = tmp_path / "python3.13", tmp_path / "python3.12"
    dead.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    alive.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    for interpreter in (dead, alive):
        interpreter.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    assert setup_environment.choose_interpreter() == str(alive)


def test_an_old_python_alone_is_told_what_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    with pytest.raises(setup_environment.SetupError, match=r"needs Python 3\.11"):
        setup_environment.choose_interpreter()
