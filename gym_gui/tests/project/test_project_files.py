"""The files that build the project: pins agree, front doors exist, the environment mends itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any

import pytest

from cleanrl_worker.tools.extras import SETS
from gym_gui.services.trainer.bundles.manager import PROJECT_REQUIREMENTS, bundle_files
from mosaic_protocol.worker_packages import SHARED
from tools import generate_proto, pin_closure, setup_environment

ROOT = Path(__file__).resolve().parents[3]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, TOOLS = PYPROJECT["project"], PYPROJECT["tool"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
BUNDLES = {
    "base.txt": PROJECT["dependencies"],
    "gui.txt": EXTRAS["gui"],
    "cleanrl_worker.txt": EXTRAS["cleanrl"],
    "corl_worker.txt": EXTRAS["corl"],
    "dev.txt": EXTRAS["dev"],
    "llm_worker.txt": EXTRAS["llm"],
    "spade_bdi_worker.txt": EXTRAS["spade-bdi"],
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


def test_every_extra_is_one_that_something_installs() -> None:
    by_setup = {extra for extras in setup_environment.EXTRAS.values() for extra in extras}
    assert set(EXTRAS) == by_setup | set(SETS) | {"webengine"}, "an extra for code that is not there promises it"


def test_every_package_that_is_declared_is_there() -> None:
    declared = [name.rstrip("*") for name in TOOLS["setuptools"]["packages"]["find"]["include"] if name[0] != "*"]
    workers = PROJECT["entry-points"]["mosaic.workers"].values()
    assert [name for name in (*declared, *workers) if not (ROOT / name / "__init__.py").is_file()] == []


def test_every_worker_of_the_tree_is_packaged_and_can_be_found() -> None:
    found = {file.parent.name for file in ROOT.glob("*/worker.toml")}
    assert found == set(PROJECT["entry-points"]["mosaic.workers"].values()), "name it in the entry points"
    patterns = TOOLS["setuptools"]["packages"]["find"]["include"]
    assert [name for name in found | set(SHARED) if not any(fnmatch(name, one) for one in patterns)] == []


def test_the_supported_pythons_are_the_same_everywhere() -> None:
    prefix = "Programming Language :: Python :: 3."
    stated = [int(one.removeprefix(prefix)) for one in PROJECT["classifiers"] if one.startswith(prefix)]
    oldest, newest = setup_environment.OLDEST_PYTHON, setup_environment.NEWEST_PYTHON
    assert stated == list(range(oldest[1], newest[1] + 1))
    assert PROJECT["requires-python"] == ">={}.{}".format(*oldest)
    assert list(setup_environment.OTHER_INTERPRETERS) == [f"python3.{minor}" for minor in reversed(stated)]
    named = ", ".join(f"3.{minor}" for minor in stated[:-1]) + f" or 3.{stated[-1]}"
    assert [page for page in ("README.md", "CONTRIBUTING.md") if named not in (ROOT / page).read_text()] == []


SCRIPT_BUNDLES = {"cleanrl_upstream.txt", "cleanrl_upstream_jax.txt", "corl_upstream.txt", "corl_upstream_jax.txt"}
"""Environments for scripts only: no worker runs in them, and nothing of them can be installed beside MOSAIC."""


MODEL_BUNDLES = {"llm_local.txt"}
"""A model in a process of its own, which imports nothing of MOSAIC."""


def test_every_requirements_file_is_compared_with_an_extra() -> None:
    assert {path.name for path in bundle_files(PROJECT_REQUIREMENTS)} == set(BUNDLES) | SCRIPT_BUNDLES | MODEL_BUNDLES


def constraints() -> dict[str, str]:
    return dict(line.split("==", 1) for line in lines_of(ROOT / setup_environment.CONSTRAINTS))


def test_the_constraints_have_every_pin_at_the_same_version() -> None:
    assert pin_closure.direct_pins(PROJECT).items() <= constraints().items(), "write the version into both files"


def test_the_constraints_pin_everything_that_the_environment_consists_of() -> None:
    missing = set(pin_closure.closure(PROJECT)) - set(constraints())
    assert missing == set(), "`make constraints` pins them"


def test_what_a_cuda_build_brings_along_is_not_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = {"torch": ["nvidia-cublas", "triton", "cuda-bindings", "wheel-of-all"], "nvidia-cublas": []}
    for name, needs in build.items():
        folder = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        folder.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", *(f"Requires-Dist: {one}" for one in needs)]
        (folder / "METADATA").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    extras = {extra: list[str]() for extra in setup_environment.EXTRAS["dev"]}
    with pytest.raises(pin_closure.ClosureError, match="not installed: wheel-of-all;"):
        pin_closure.closure({"dependencies": ["torch==1.0"], "optional-dependencies": extras})


def test_the_constraints_name_no_build() -> None:
    assert [line for line in lines_of(ROOT / setup_environment.CONSTRAINTS) if not EXACT_PIN.fullmatch(line)] == []
    assert not [name for name in constraints() if name.startswith(("cuda-", "nvidia-", "triton"))]


def test_the_constraints_are_no_bundle() -> None:
    file = ROOT / setup_environment.CONSTRAINTS
    assert file.is_file() and file not in bundle_files(PROJECT_REQUIREMENTS)


def test_the_local_model_is_pinned() -> None:
    assert [pin for pin in lines_of(ROOT / "requirements" / "llm_local.txt") if not EXACT_PIN.fullmatch(pin)] == []


@pytest.mark.parametrize("name", sorted(SCRIPT_BUNDLES))
def test_an_environment_for_scripts_is_pinned_and_has_what_the_harness_needs(name: str) -> None:
    pins = lines_of(ROOT / "requirements" / name)
    assert [pin for pin in pins if not EXACT_PIN.fullmatch(pin)] == []
    shared = {pin for pin in all_pins() if pin.startswith(("msgspec==", "safetensors==", "torch=="))}
    assert len(shared) == 3
    assert shared <= set(pins)


def test_the_root_requirements_give_the_cockpit_and_the_mosaic_command() -> None:
    bundles = ["-r requirements/base.txt", "-r requirements/gui.txt"]
    assert lines_of(ROOT / "requirements.txt") == [f"-c {setup_environment.CONSTRAINTS}", *bundles, "-e ."]


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


def test_packages_that_others_program_against_bring_their_types() -> None:
    typed = {path.parent.name for path in ROOT.glob("*/py.typed")}
    assert typed == {"mosaic_protocol", "mosaic_host", "mosaic_worker", "gym_gui"}
    assert "py.typed" in TOOLS["setuptools"]["package-data"]["*"]
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_torch_stands_first_wherever_it_is_pinned() -> None:
    positions = [pins.index(pin) for pins in EXTRAS.values() for pin in pins if pin.startswith("torch==")]
    assert positions
    assert set(positions) == {0}


def test_make_alone_lists_every_front_door() -> None:
    listing = subprocess.run(["make", "-s"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    doors = {
        "demo",
        "test",
        "test-fast",
        "coverage",
        "docs",
        "constraints",
        "nemesis",
        "nightly",
        "check",
        "bench",
        "gui",
        "setup",
        "setup-gui",
        "setup-dev",
        "coverage-matrix",
        "cockpit-walk",
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
        self.settings: list[dict[str, str]] = []
        self.version = sys.version_info[:2]
        self.before: Callable[[Sequence[str]], None] = lambda command: None

    def run(self, command: Sequence[str], home: setup_environment.Home, lock: IO[str], **settings: str) -> None:
        self.before(command)
        self.commands.append(list(command))
        self.settings.append(settings)
        if "venv" in command:
            home.python.parent.mkdir(parents=True)
            home.python.write_text("#!/bin/sh\necho {} {}\n".format(*self.version), encoding="utf-8")
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
    (root / "requirements").mkdir()
    shutil.copy(ROOT / setup_environment.CONSTRAINTS, root / setup_environment.CONSTRAINTS)
    return setup_environment.Home(root)


def test_torch_is_installed_by_its_pin_before_everything_else(steps: Steps, home: setup_environment.Home) -> None:
    setup_environment.set_up(home, "demo")
    installed = [command[-1] for command in steps.commands if "pip" in command]
    assert installed == [EXTRAS["cleanrl"][0], ".[cleanrl]"]


def test_pip_is_held_to_the_constraints(steps: Steps, home: setup_environment.Home) -> None:
    setup_environment.set_up(home, "demo")
    installs = [command for command in steps.commands if "pip" in command]
    assert all(command[command.index("--constraint") + 1] == setup_environment.CONSTRAINTS for command in installs)


def test_a_changed_constraint_is_installed_into_the_same_venv(steps: Steps, home: setup_environment.Home) -> None:
    setup_environment.set_up(home, "demo")
    steps.commands.clear()
    with (home.root / setup_environment.CONSTRAINTS).open("a", encoding="utf-8") as file:
        file.write("one-more==1.0\n")
    setup_environment.set_up(home, "demo")
    assert steps.commands
    assert steps.made_environments() == 0


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


def test_an_environment_half_made_is_built_again(steps: Steps, home: setup_environment.Home) -> None:
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


def test_with_an_old_python_alone_the_error_says_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    with pytest.raises(setup_environment.SetupError, match=r"needs Python 3\.11"):
        setup_environment.choose_interpreter()
