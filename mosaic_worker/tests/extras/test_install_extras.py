"""The extras installer: against a real environment with wheels made here, and against a pip that can be held."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pip
import pytest
from packaging.requirements import Requirement

from mosaic_worker.extras import install, sets, target
from mosaic_worker.extras.kit_sets import KIT_EXTRAS
from mosaic_worker.extras.record import RECORD_NAME, applied_sets
from mosaic_worker.extras.sets import (
    DebianPackage,
    ExtrasError,
    ExtraSet,
    Pins,
    WorkerExtras,
    constraints,
    pins_of_metadata,
    pins_of_project,
)

PATIENCE = 60.0
PROJECT: dict[str, Any] = {
    "dependencies": ["tiny-core==1.5"],
    "optional-dependencies": {
        "needed": ["torch==2.13.0"],
        "games": ["tiny-sim==1.0", "tiny-core-tools==1"],
        "wrong": ["tiny-absent==9"],
        "mover": ["tiny-mover==1.0"],
    },
}


TOYS = WorkerExtras(
    "toy_worker.extras", {name: ExtraSet(name) for name in ("games", "wrong", "mover", "unlisted")}, core="needed"
)


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> WorkerExtras:
    """The sets of a worker in a checkout with the project above."""
    checkout = tmp_path_factory.mktemp("checkout")
    extras = "".join(f"{name} = {json.dumps(pins)}\n" for name, pins in PROJECT["optional-dependencies"].items())
    project = f"[project]\ndependencies = {json.dumps(PROJECT['dependencies'])}\n"
    (checkout / "pyproject.toml").write_text(f"{project}[project.optional-dependencies]\n{extras}")
    return dataclasses.replace(TOYS, checkout=checkout)


def make_wheel(folder: Path, name: str, version: str, requires: tuple[str, ...] = ()) -> None:
    """A wheel with one module in it."""
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    files = {
        f"{module}.py": f"version = {version!r}\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)


def _digest(content: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    make_wheel(folder, "tiny-core", "1.5")
    make_wheel(folder, "tiny-core", "2.0")
    make_wheel(folder, "tiny-core-tools", "1")
    make_wheel(folder, "tiny-sim", "1.0", ("tiny-core>=1",))
    make_wheel(folder, "tiny-mover", "1.0", ("tiny-core>=2",))
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Path:
    """An environment with pip and the core in it."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=False)
    python = str(folder / "bin" / "python")
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "pip").symlink_to(Path(pip.__file__).parent)  # in an instant, where installing it takes seconds
    command = [python, "-I", "-m", "pip", "install", "-q", "--no-index", "--find-links", str(wheels), "tiny-core==1.5"]
    subprocess.run(command, check=True, env={**os.environ, "PIP_CONFIG_FILE": os.devnull})
    return folder


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, wheels: Path, tmp_path: Path) -> None:
    """The wheels of these tests, and no network."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull}
    for name, value in (settings | {"PIP_CACHE_DIR": str(tmp_path / "cache")}).items():
        monkeypatch.setenv(name, value)


def run(
    toys: WorkerExtras, environment: Path, capsys: pytest.CaptureFixture, *arguments: str
) -> tuple[int, dict[str, Any], str]:
    """(exit status, the JSON answer, what was printed)."""
    status = install.main(toys, ["--python", str(environment / "bin" / "python"), "--json", "--yes", *arguments])
    told = capsys.readouterr()
    return status, json.loads(told.out), told.err


def versions(environment: Path) -> dict[str, str]:
    found = target.Target.probe(str(environment / "bin" / "python")).installed
    return {name: version for name, version in found.items() if name.startswith("tiny")}


@pytest.mark.usefixtures("here")
def test_sets_are_planned_installed_and_recorded(
    toys: WorkerExtras, environment: Path, capsys: pytest.CaptureFixture
) -> None:
    status, report, told = run(toys, environment, capsys, "--set", "games", "--dry-run")
    assert (status, report["status"]) == (0, "dry-run")
    assert report["to_install"] == ["tiny-sim==1.0", "tiny-core-tools==1"] and report["megabytes"] > 0
    assert versions(environment) == {"tiny-core": "1.5"} and applied_sets(environment) == {}

    status, report, told = run(toys, environment, capsys, "--set", "games,games")
    assert (status, report["status"], report["prefix"]) == (0, "ready", str(environment))
    # The index offers tiny-core 2.0, which would satisfy tiny-sim as well.
    assert versions(environment) == {"tiny-core": "1.5", "tiny-core-tools": "1", "tiny-sim": "1.0"}
    assert "s  Putting 2 packages in place" in told and told.endswith("Ready: games.\n")
    applied = applied_sets(environment)
    assert applied["games"]["installed"] == {"tiny-sim": "1.0", "tiny-core-tools": "1"}

    status, report, told = run(toys, environment, capsys, "--set", "games")
    assert (status, report["to_install"]) == (0, []) and "Already there: tiny-sim==1.0" in told

    status, report, _ = run(toys, environment, capsys, "--set", "mover")
    assert status == 1 and "pip failed" in report["problem"] and "The environment is as it was" in report["problem"]
    status, report, _ = run(toys, environment, capsys, "--set", "wrong")
    assert status == 1 and "No matching distribution found for tiny-absent==9" in report["problem"]
    assert versions(environment)["tiny-core"] == "1.5" and list(applied_sets(environment)) == ["games"]


@pytest.mark.usefixtures("here")
def test_too_little_room_is_refused_before_anything_happens(
    toys: WorkerExtras, environment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(sets, "_UNKNOWN_SIZE", (10**9, 10**8))
    status, report, _ = run(toys, environment, capsys, "--set", "wrong")
    assert status == 1
    assert report["problem"].startswith("The disk is too full: needs 1,")
    assert f"MB at {environment}" in report["problem"]


@pytest.mark.usefixtures("here")
def test_a_second_installation_into_the_same_environment_is_refused(
    toys: WorkerExtras, environment: Path, capsys: pytest.CaptureFixture
) -> None:
    with target.only_one(environment):
        status, report, _ = run(toys, environment, capsys, "--set", "wrong")
    assert status == 1 and "Another process is installing extras" in report["problem"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--set", "gamse"], "There is no set 'gamse'; did you mean 'games'?"),
        (["--set", " , "], "--set names nothing"),
        (["--set", "games", "--python", "/no/such/python"], "/no/such/python is not a Python interpreter"),
        (["--set", "games", "--python", "/bin/false"], "it ended with status 1"),
    ],
)
@pytest.mark.usefixtures("here")
def test_wrong_usage_is_one_sentence_and_status_two(
    toys: WorkerExtras, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture
) -> None:
    assert install.main(toys, [*arguments, "--yes"]) == 2
    told = capsys.readouterr().err
    assert sentence in told and told.count("\n") == 1


@pytest.mark.usefixtures("here")
def test_a_set_without_requirements_says_so(
    toys: WorkerExtras, environment: Path, capsys: pytest.CaptureFixture
) -> None:
    status, report, _ = run(toys, environment, capsys, "--set", "unlisted")
    assert status == 1 and "The set 'unlisted' lists no requirements" in report["problem"]


@pytest.mark.usefixtures("here")
def test_a_set_lists_its_own_requirements(toys: WorkerExtras, environment: Path, capsys: pytest.CaptureFixture) -> None:
    """A worker that is not part of MOSAIC has no extra in MOSAIC's project."""
    plots = ExtraSet("plots of what was learned", requirements=("tiny-sim>=1", "tiny-absent>=3"))
    mine = dataclasses.replace(toys, sets={"plots": plots, "core": ExtraSet("core", requirements=("tiny-core==1.5",))})
    status, report, _ = run(mine, environment, capsys, "--list")
    assert (status, [(one["name"], one["installed"]) for one in report["sets"]]) == (
        0,
        [("plots", False), ("core", True)],
    )
    status, report, _ = run(mine, environment, capsys, "--set", "plots", "--dry-run")
    assert status == 0 and "tiny-absent>=3" in report["to_install"]
    assert (plots.is_there, ExtraSet("pip", requirements=("pip>=1",)).is_there) == (False, True)


def test_every_set_of_the_kit_has_its_requirements_pinned_in_the_project() -> None:
    pins = KIT_EXTRAS.pins()
    for name in KIT_EXTRAS.sets:
        assert all(str(requirement.specifier).startswith("==") for requirement in pins.extras[name]), name


def test_the_installed_distribution_says_the_same_as_a_checkout() -> None:
    lines = ["tiny-core==1.5", "torch==2.13.0; extra == 'needed'", 'tiny-sim==1.0; extra == "games"']
    project = {"dependencies": ["tiny-core==1.5"], "optional-dependencies": {}}
    project["optional-dependencies"] = {"needed": ["torch==2.13.0"], "games": ["tiny-sim==1.0"]}
    assert pins_of_metadata(lines, "needed") == pins_of_project(project, "needed")


def test_sets_are_named_once_in_any_case() -> None:
    assert TOYS.parse(" Games,mover,,games ") == ["games", "mover"]
    with pytest.raises(ExtrasError, match="did you mean 'mover'"):
        TOYS.parse("games,mvoer")


def test_a_build_of_the_right_version_counts_and_is_kept_as_the_version() -> None:
    torch, numpy = Requirement("torch==2.13.0"), Requirement("numpy==2.4.6")
    pins = Pins({"games": (torch,)}, (torch, numpy))
    assert TOYS.plan(["games"], pins, {"torch": "2.13.0+cpu"}).missing == ()
    assert constraints(pins, {"torch": "2.13.0+cpu"}) == ["torch==2.13.0", "numpy==2.4.6"]
    assert constraints(pins, {"numpy": "2.5.0"}) == ["torch==2.13.0", "numpy==2.5.0"]


@pytest.mark.parametrize("content", [None, "{", "[]", '{"sets": 3}'])
def test_an_environment_without_a_usable_record_has_no_sets(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / RECORD_NAME).write_text(content)
    assert applied_sets(tmp_path) == {}


ABSENT = [DebianPackage("libnothing7", "nothing-of-this-name")]


def test_debian_packages_are_named_with_their_command_to_one_who_is_not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/apt-get")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert target.missing_debian(ABSENT) == ABSENT
    left = target.install_debian(ABSENT, lambda line: None)
    assert left == "Run `sudo apt-get install -y --no-install-recommends libnothing7`: that needs root."


def test_root_gets_debian_packages_installed_and_hears_when_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "apt-get"
    fake.write_text('#!/bin/sh\necho "$@" > "$0.called"\n[ -e "$0.good" ] || { echo "E: no room" >&2; exit 100; }\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    told: list[str] = []
    assert "apt-get failed (no room)" in target.install_debian(ABSENT, told.append)
    (tmp_path / "apt-get.good").touch()
    assert target.install_debian(ABSENT, told.append) == ""
    assert (tmp_path / "apt-get.called").read_text() == "install -y --no-install-recommends libnothing7\n"


FAKE_PYTHON = f"""#!{sys.executable} -I
import json, os, sys, time
from pathlib import Path
folder = Path(__file__).parent
if "-c" in sys.argv:
    installed = {{"tiny-sim": "1.0", "tiny-core-tools": "1"}} if (folder / "done").exists() else {{}}
    print(json.dumps({{"prefix": str(folder), "packages": str(folder), "pip": True, "managed_by_system": False,
                      "installed": installed}}))
    sys.exit()
print((folder / "first-line").read_text(), flush=True)
(folder / "pid").write_text(str(os.getpid()))
while not (folder / "go").exists():
    time.sleep(0.01)
(folder / "done").touch()
"""


@pytest.fixture
def held_pip(tmp_path: Path, toys: WorkerExtras) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start the installer with a pip that says one line and then waits for the file `go`."""
    started: list[subprocess.Popen[str]] = []
    python = tmp_path / "python"
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)
    program = (
        "import pathlib, sys\nfrom mosaic_worker.extras import install\n"
        "from mosaic_worker.extras.sets import ExtraSet, WorkerExtras\n"
        f"checkout = pathlib.Path({str(toys.checkout)!r})\n"
        "toys = WorkerExtras('toys', {'games': ExtraSet('games')}, core='needed', checkout=checkout)\n"
        f"sys.exit(install.main(toys, ['--set', 'games', '--python', {str(python)!r}]))\n"
    )

    def start(first_line: str) -> subprocess.Popen[str]:
        (tmp_path / "first-line").write_text(first_line)
        environ = {**os.environ, "TMPDIR": str(tmp_path / "scratch")}
        (tmp_path / "scratch").mkdir()
        command = [sys.executable, "-c", program]
        one = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environ)
        started.append(one)
        deadline = time.monotonic() + PATIENCE
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert time.monotonic() < deadline and one.poll() is None
            time.sleep(0.01)
        return one

    yield start
    (tmp_path / "go").touch()
    for one in started:
        one.kill()
        one.communicate()


def test_ctrl_c_during_a_download_ends_pip_and_changes_nothing(
    tmp_path: Path, held_pip: Callable[[str], subprocess.Popen[str]]
) -> None:
    installer = held_pip("Downloading tiny_sim-1.0.whl (9 MB)")
    installer.send_signal(signal.SIGINT)
    _, told = installer.communicate(timeout=PATIENCE)
    assert installer.returncode == 1 and told.endswith("Interrupted; the environment is as it was.\n")
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()
    assert not (tmp_path / "done").exists() and list((tmp_path / "scratch").iterdir()) == []
    assert applied_sets(tmp_path) == {}


def test_ctrl_c_while_files_are_put_in_place_waits_for_the_end(
    tmp_path: Path, held_pip: Callable[[str], subprocess.Popen[str]]
) -> None:
    installer = held_pip("Installing collected packages: tiny-sim")
    installer.send_signal(signal.SIGINT)
    assert installer.stderr is not None
    told: list[str] = []
    while "finishing that" not in (told[-1] if told else ""):
        told.append(installer.stderr.readline())
        assert told[-1], "the installer ended"
    (tmp_path / "go").touch()
    _, rest = installer.communicate(timeout=PATIENCE)
    assert installer.returncode == 0 and rest.endswith("Ready: games.\n")
    assert list(applied_sets(tmp_path)) == ["games"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("Downloading av-18.1.0-cp311-abi3-manylinux_2_28_x86_64.whl (35.8 MB)", "Downloading av 18.1.0 (35.8 MB)"),
        ("Downloading glfw-2.11.0-py2.py3-none-any.whl (248 kB)", ""),
        ("Collecting mujoco==4.0.0", ""),
        ("Installing collected packages: a, b, c", "Putting 3 packages in place"),
        ("Building wheel for box2d (setup.py): started", "Building wheel for box2d (setup.py): started"),
    ],
)
def test_pips_lines_are_condensed_to_what_takes_time(line: str, told: str) -> None:
    assert target._condensed(line) == told


def test_a_silent_pip_gives_a_sign_of_life(tmp_path: Path, environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "SILENCE_SECONDS", 0.0)
    told: list[str] = []
    run = target.PipRun(target.Target.probe(str(environment / "bin" / "python")), told.append)
    with (tmp_path / "log").open("w+b") as log:
        status = run._follow([sys.executable, "-c", "import time; time.sleep(0.5)"], log, log, dict(os.environ))
    assert status == 0 and any(line.endswith("still working") for line in told)
