"""What a worker's process can import is decided in one place, for the daemon and for every tool."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import mosaic_protocol
from mosaic_protocol.worker_manifest import WorkerManifest, load_manifest
from mosaic_protocol.worker_packages import PACKAGE_VARIABLE, SHARED, shared_folders, sources, worker_environment

ROOT = Path(mosaic_protocol.__file__).resolve().parents[1]
MANIFEST = """
schema = 1
[worker]
type = "far"
name = "Far away"
version = "1"
summary = "For tests."
lane = "analytics"
module = "far_worker.cli"
"""


@pytest.fixture
def manifest(tmp_path: Path) -> WorkerManifest:
    package = tmp_path / "elsewhere" / "far_worker"
    (package / "tests").mkdir(parents=True)
    (package / "worker.toml").write_text(MANIFEST)
    for file in ("__init__.py", "cli.py", "tests/test_cli.py"):
        (package / file).touch()
    return load_manifest(package)


def test_every_shared_package_is_there() -> None:
    assert set(shared_folders()) == set(SHARED)
    assert [name for name, folder in shared_folders().items() if not (folder / name / "__init__.py").is_file()] == []


def test_a_worker_finds_its_own_package_first_then_the_shared_ones_then_what_was_inherited(
    manifest: WorkerManifest, tmp_path: Path
) -> None:
    inherited = {"PYTHONPATH": "/inherited", "MOSAIC_TRAINER_TOKEN": "secret", "PATH": "/bin"}
    found = worker_environment(manifest, inherited, tmp_path / "home")
    assert found["PYTHONPATH"].split(os.pathsep) == [str(tmp_path / "elsewhere"), str(ROOT), "/inherited"]
    assert found[PACKAGE_VARIABLE] == str(tmp_path / "elsewhere" / "far_worker")
    assert found["MOSAIC_HOME"] == str(tmp_path / "home")
    assert found["PATH"] == "/bin"
    assert "MOSAIC_TRAINER_TOKEN" not in found


def test_the_sources_are_those_of_the_worker_and_of_the_shared_packages_without_tests(
    manifest: WorkerManifest, tmp_path: Path
) -> None:
    path = worker_environment(manifest, {}, tmp_path)["PYTHONPATH"]
    found = set(sources("far_worker", path))
    own = tmp_path / "elsewhere" / "far_worker"
    assert {own / "__init__.py", own / "cli.py"} == {file for file in found if file.is_relative_to(own)}
    assert ROOT / "mosaic_protocol" / "worker_packages.py" in found
    assert ROOT / "mosaic_worker" / "training" / "session.py" in found
    assert [file for file in found if "tests" in file.relative_to(tmp_path.anchor).parts] == []
