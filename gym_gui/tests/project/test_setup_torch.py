"""Set-up takes torch from the index that the user names, and says beforehand what comes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gym_gui.tests.project.test_project_files import Steps, home, steps
from gym_gui.tests.support.wheels import make_index, make_wheel
from tools import setup_environment
from tools.setup_environment import Home, SetupError, set_up

__all__ = ["home", "steps"]

BACKEND = """\
import pathlib, shutil
def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return pathlib.Path(shutil.copy(next(pathlib.Path("built").glob("*.whl")), wheel_directory)).name
"""
PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "mosaic-rl"
version = "0.1.0"
[project.optional-dependencies]
cleanrl = ["torch==2.13.0"]
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project as small as one can be, with the real set-up in it."""
    root = tmp_path / "small"
    (root / "built").mkdir(parents=True)
    (root / "tools").mkdir()
    shutil.copy(str(setup_environment.__file__), root / "tools")
    (root / "pyproject.toml").write_text(PROJECT)
    (root / "requirements").mkdir()
    (root / setup_environment.CONSTRAINTS).write_text("mosaic-tiny==1.0\ntorch==2.13.0\n")
    (root / "backend.py").write_text(BACKEND)
    requires = 'Provides-Extra: cleanrl\nRequires-Dist: torch==2.13.0; extra == "cleanrl"\n'
    make_wheel(root / "built", "mosaic-rl", "0.1.0", requires)
    return root


def test_torch_alone_comes_from_the_index_named_for_it(tree: Path, tmp_path: Path) -> None:
    alone = make_index(tmp_path / "torch-builds", ("torch", "2.13.0+small", "Requires-Dist: mosaic-tiny\n"))
    tiny = [("mosaic-tiny", version, "") for version in ("1.0", "2.0")]
    other = make_index(tmp_path / "packages", ("torch", "2.13.0", ""), *tiny)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    done = subprocess.run(
        [sys.executable, str(tree / "tools" / "setup_environment.py")],
        env={**plain, "PIP_INDEX_URL": other, "PIP_CONFIG_FILE": os.devnull, "MOSAIC_TORCH_INDEX": alone},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "PyTorch comes from the index that you name" in done.stdout
    question = "import mosaic_tiny, torch; print(mosaic_tiny.version, torch.version)"
    shown = subprocess.run([tree / ".venv/bin/python", "-c", question], check=True, capture_output=True, text=True)
    assert shown.stdout.split() == ["1.0", "2.13.0+small"]


def test_without_an_index_of_its_own_torch_comes_as_pip_is_configured(steps: Steps, home: Home) -> None:
    set_up(home, "demo")
    assert steps.settings == [{}, {}, {}]
    assert not any("--no-deps" in command for command in steps.commands)


def test_the_index_is_neither_on_the_command_line_nor_in_the_stamp(
    steps: Steps, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAIC_TORCH_INDEX", "https://me:s3cret@index.example/simple")
    set_up(home, "demo")
    assert {"PIP_INDEX_URL": "https://me:s3cret@index.example/simple"} in steps.settings
    assert "s3cret" not in str(steps.commands)
    assert "s3cret" not in home.stamp.read_text()


def test_another_index_builds_the_environment_again_and_none_keeps_it(
    steps: Steps, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(home, "demo")
    monkeypatch.setenv("MOSAIC_TORCH_INDEX", "https://small.example/simple")
    set_up(home, "demo")
    assert steps.made_environments() == 2, "pip would leave the large build: its version is the same"
    set_up(home, "demo")
    monkeypatch.delenv("MOSAIC_TORCH_INDEX")
    set_up(home, "dev")
    monkeypatch.setenv("MOSAIC_TORCH_INDEX", "https://small.example/simple")
    set_up(home, "dev")
    assert steps.made_environments() == 2


def test_a_word_that_is_no_address_is_refused_before_anything_is_made(
    steps: Steps, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAIC_TORCH_INDEX", "cpu")
    with pytest.raises(SetupError, match="TORCH_INDEX=cpu is not an address"):
        set_up(home, "demo")
    assert not home.venv.exists()


def test_make_hands_the_index_over() -> None:
    makefile = Path(__file__).resolve().parents[3] / "Makefile"
    probe = f"include {makefile}\nshow:\n\t@echo $$MOSAIC_TORCH_INDEX\n"
    command = ["make", "-s", "-f", "-", "show", "TORCH_INDEX=file:///builds"]
    shown = subprocess.run(command, input=probe, check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "file:///builds"


@pytest.mark.parametrize("gpu", [True, False])
def test_without_a_gpu_both_sizes_and_the_way_to_the_small_one_come_first(
    steps: Steps, home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], gpu: bool
) -> None:
    monkeypatch.setattr(setup_environment, "has_gpu", lambda: gpu)
    set_up(home, "demo")
    before, _, _ = capsys.readouterr().out.partition("1/2 installing torch")
    told = all(words in before for words in (*setup_environment.SIZES.values(), "TORCH_INDEX=URL"))
    assert told is not gpu


def test_sizes_are_not_printed_again_where_torch_is_there(
    steps: Steps, home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup_environment, "has_gpu", lambda: False)
    set_up(home, "demo")
    (home.venv / "lib/python3.11/site-packages/torch-2.13.0+cpu.dist-info").mkdir(parents=True)
    capsys.readouterr()
    set_up(home, "dev")
    assert "to fetch" not in capsys.readouterr().out


def test_a_python_named_in_the_call_is_the_one_that_is_used(steps: Steps, home: Home) -> None:
    set_up(home, "demo")
    here: tuple[int, int] = sys.version_info[:2]
    set_up(Home(home.root, wanted=here), "demo")
    assert steps.made_environments() == 1
    steps.version = (here[0], here[1] + 1)
    set_up(Home(home.root, wanted=steps.version), "demo")
    assert steps.made_environments() == 2


@pytest.mark.parametrize(("call", "exact"), [(["PYTHON=python3"], True), ([], False)])
def test_make_asks_for_the_version_that_was_named(call: list[str], exact: bool) -> None:
    root = Path(__file__).resolve().parents[3]
    shown = subprocess.run(["make", "-n", "setup", *call], cwd=root, check=True, capture_output=True, text=True)
    assert ("--this-python" in shown.stdout) is exact


def test_a_pin_that_disagrees_with_the_constraints_is_answered_with_both_files(tree: Path, tmp_path: Path) -> None:
    (tree / setup_environment.CONSTRAINTS).write_text("torch==2.12.0\n")
    index = make_index(tmp_path / "packages", ("torch", "2.13.0", ""), ("torch", "2.12.0", ""))
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    done = subprocess.run(
        [sys.executable, str(tree / "tools" / "setup_environment.py")],
        env={**plain, "PIP_INDEX_URL": index, "PIP_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "pyproject.toml and requirements/constraints.txt name different versions" in done.stderr
