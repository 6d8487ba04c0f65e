"""The doctor: every finding is data, and whatever is wrong comes with a command that helps."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from gym_gui.services import doctor
from gym_gui.services.doctor import Check, run_checks
from gym_gui.services.trainer.bundles.build import MARKER_NAME
from gym_gui.services.trainer.bundles.manager import BundleManager
from mosaic_host.capacity import DiskRoom
from mosaic_host.gpu import Gpu, GpuProbe
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.worker_manifest import Discovery

GIB = 1024**3
NO_GPU = GpuProbe((), "nvidia-smi is not on PATH")


class Patient:
    """A data root and requirement files, healthy unless a test spoils them."""

    def __init__(self, directory: Path) -> None:
        self.paths = MosaicPaths(directory / "var")
        self.requirements = directory / "requirements"
        self.requirements.mkdir()
        self.write("cleanrl_worker", "packaging\n")
        self.gpu = NO_GPU

    def write(self, name: str, text: str) -> None:
        (self.requirements / f"{name}.txt").write_text(text)

    def checks(self, daemon: str | Exception = "Answers on 127.0.0.1:50055") -> dict[str, Check]:
        manager = BundleManager(self.paths, [self.requirements])
        found = run_checks(self.paths, manager, lambda: daemon, gpu_probe=lambda: self.gpu)
        return {check.id: check for check in found}


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    monkeypatch.setattr(doctor, "disk_room", lambda path: DiskRoom(path, 0, 100 * GIB))
    monkeypatch.setattr(resource, "getrlimit", lambda which: (4096, 4096))
    monkeypatch.setattr(doctor, "find_here", lambda name: torch_in(tmp_path / "site", "2.13.0+cpu"))
    monkeypatch.setattr(doctor, "find_spec", lambda name: ModuleSpec(name, None, origin=str(ale_py(tmp_path))))
    return Patient(tmp_path)


def torch_in(site: Path, version: str, says: str = "cuda: Optional[str] = None") -> metadata.Distribution:
    """An installed torch, as far as its files show which build it is."""
    information = site / f"torch-{version}.dist-info"
    information.mkdir(parents=True, exist_ok=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    (site / "torch").mkdir(exist_ok=True)
    (site / "torch" / "version.py").write_text(f"__all__ = ['cuda', 'hip']\n__version__ = {version!r}\n{says}\n")
    return metadata.Distribution.at(information)


def ale_py(directory: Path, games: int = 2) -> Path:
    """A package as ale-py is one, with its games."""
    roms = directory / "ale_py" / "roms"
    roms.mkdir(parents=True, exist_ok=True)
    for number in range(games):
        (roms / f"game{number}.bin").touch()
    return roms.parent / "__init__.py"


def test_a_worker_that_claims_anothers_type_is_reported(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    clash = "/x/worker.toml: is ignored, because /y already provides the worker type 'cleanrl'"
    monkeypatch.setattr(doctor, "discover", lambda: Discovery({}, [clash, "another"]))
    check = patient.checks()["workers"]
    assert (check.status, check.fix) == ("warn", "mosaic workers")
    assert check.detail == f"{clash} (1 more)"


def test_a_healthy_host_has_no_finding_but_ok(patient: Patient) -> None:
    found = patient.checks()
    assert list(found) == [
        "python",
        "data-root",
        "disk",
        "open-files",
        "token",
        "gpu",
        "torch",
        "atari",
        "workers",
        "bundle-cleanrl_worker",
        "daemon",
    ]
    assert {check.status for check in found.values()} == {"ok"}
    assert not patient.paths.root.exists()


def test_every_finding_that_is_not_ok_has_a_fix_and_every_ok_one_has_none(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "disk_room", lambda path: DiskRoom(path, 0, 1))
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 4096))
    patient.write("missing", "never-published-package\n")
    patient.write("broken", "-e .\n")
    found = patient.checks(ConnectionError("nobody listens")).values()
    assert {check.status for check in found} == {"ok", "warn", "fail"}
    assert [check.id for check in found if bool(check.fix) == (check.status == "ok")] == []


@pytest.mark.parametrize(("free", "status"), [(100 * GIB, "ok"), (2 * GIB - 1, "warn"), (200 * 1024**2 - 1, "fail")])
def test_little_disk_space_warns_and_hardly_any_fails(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, free: int, status: str
) -> None:
    monkeypatch.setattr(doctor, "disk_room", lambda path: DiskRoom(path, 0, free))
    assert patient.checks()["disk"].status == status


def test_a_disk_that_is_nearly_full_warns_however_large_it_is(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "disk_room", lambda path: DiskRoom(path, 910 * GIB, 90 * GIB))
    check = patient.checks()["disk"]
    assert (check.status, check.fix) == ("warn", "mosaic storage plan")
    assert "91 % full" in check.detail


def test_a_disk_that_cannot_be_asked_is_a_finding(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> DiskRoom:
        raise OSError("stale file handle")

    monkeypatch.setattr(doctor, "disk_room", fail)
    assert "stale file handle" in patient.checks()["disk"].detail


@pytest.mark.parametrize(
    ("limits", "status", "fix"),
    [
        ((1024, 1024), "ok", ""),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), "ok", ""),
        ((256, 4096), "warn", "ulimit -n 1024"),
        ((256, 512), "warn", "ulimit -n 512"),
        ((256, resource.RLIM_INFINITY), "warn", "ulimit -n 1024"),
    ],
)
def test_few_open_files_warn_with_a_limit_that_can_be_reached(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], status: str, fix: str
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits)
    check = patient.checks()["open-files"]
    assert (check.status, check.fix) == (status, fix)


def test_a_data_root_that_cannot_be_written_fails(patient: Patient) -> None:
    patient.paths.root.write_text("a file where a directory belongs")
    check = patient.checks()["data-root"]
    assert check.status == "fail"
    assert "MOSAIC_HOME" in check.fix


def test_the_data_root_is_left_as_it_was(patient: Patient) -> None:
    patient.paths.root.mkdir()
    assert patient.checks()["data-root"].status == "ok"
    assert list(patient.paths.root.iterdir()) == []


@pytest.mark.parametrize(("mode", "status"), [(0o600, "ok"), (0o640, "fail"), (0o604, "fail")])
def test_a_token_that_others_can_read_fails(patient: Patient, mode: int, status: str) -> None:
    patient.paths.trainer.mkdir(parents=True)
    patient.paths.token_file.write_text("s3cret-token")
    patient.paths.token_file.chmod(mode)
    check = patient.checks()["token"]
    assert check.status == status
    assert check.fix == ("" if status == "ok" else "mosaic daemon status")
    assert "s3cret-token" not in check.detail


def test_no_gpu_is_fine_and_says_cpu_only(patient: Patient) -> None:
    check = patient.checks()["gpu"]
    assert (check.status, check.detail) == ("ok", "CPU only: nvidia-smi is not on PATH")


def test_gpus_are_named_and_trouble_with_one_warns(patient: Patient) -> None:
    gpus = (Gpu(0, "NVIDIA L4", "GPU-0", 23034),)
    patient.gpu = GpuProbe(gpus)
    assert patient.checks()["gpu"].detail == "0: NVIDIA L4 (23034 MB)"
    patient.gpu = GpuProbe(gpus, "GPU 1 is lost")
    assert patient.checks()["gpu"].status == "warn"


def test_an_old_python_fails(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MINIMUM_PYTHON", (99, 0))
    check = patient.checks()["python"]
    assert check.status == "fail"
    assert check.fix == "python99.0 -m venv .venv"


def test_torch_of_the_managed_environment_comes_first(
    patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv = tmp_path / "venv"
    site = venv / "lib" / "python{}.{}".format(*sys.version_info) / "site-packages"
    torch_in(site, "2.13.0", "cuda: Optional[str] = '13.0'")
    record = {"python": str(venv / "bin" / "python"), "requirements": []}
    monkeypatch.setattr(BundleManager, "bundle_record", lambda self, bundle: record)
    assert patient.checks()["torch"].detail == f"torch 2.13.0 (CUDA 13.0 build) in {venv}/bin/python"


def test_torch_of_this_interpreter_is_found_without_a_bundle(patient: Patient) -> None:
    (patient.requirements / "cleanrl_worker.txt").unlink()
    assert patient.checks()["torch"].detail == f"torch 2.13.0+cpu (CPU build) in {sys.executable}"


@pytest.mark.parametrize(
    ("says", "build"),
    [
        ("cuda: Optional[str] = None\nhip: Optional[str] = None", "CPU build"),
        ("cuda: Optional[str] = '13.0'\nhip: Optional[str] = None", "CUDA 13.0 build"),
        ("cuda = '11.8'", "CUDA 11.8 build"),
        ("cuda: Optional[str] = None\nhip: Optional[str] = '6.4'", "ROCm 6.4 build"),
    ],
)
def test_the_build_of_torch_is_shown_whatever_its_version_is_called(
    patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, build: str
) -> None:
    found = torch_in(tmp_path / "other", "2.13.0", says)
    monkeypatch.setattr(doctor, "find_here", lambda name: found)
    assert patient.checks()["torch"].detail == f"torch 2.13.0 ({build}) in {sys.executable}"


def test_a_cpu_build_beside_a_gpu_says_that_it_cannot_use_it(patient: Patient) -> None:
    patient.gpu = GpuProbe((Gpu(0, "NVIDIA L4", "GPU-0", 23034),))
    assert "(CPU build; it cannot use the GPU)" in patient.checks()["torch"].detail


def test_a_missing_torch_fails_with_the_command_that_installs_it(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "find_here", lambda name: None)
    check = patient.checks()["torch"]
    assert (check.status, check.fix) == ("fail", "mosaic bundles install cleanrl_worker")


def test_atari_s_games_are_counted_and_missing_ones_are_no_failure(
    patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert patient.checks()["atari"].detail.startswith("2 ROMs in ")
    bare = ModuleSpec("ale_py", None, origin=str(ale_py(tmp_path / "bare", games=0)))
    for found in (bare, None):
        monkeypatch.setattr(doctor, "find_spec", lambda name, found=found: found)
        check = patient.checks()["atari"]
        assert check.status == "warn" and check.fix.endswith("install_extras --set atari")


def test_a_bundle_that_is_not_installed_warns_and_a_broken_one_fails(patient: Patient) -> None:
    patient.write("atari", "never-published-package==1\n")
    patient.write("broken", "-e .\n")
    found = patient.checks()
    atari = found["bundle-atari"]
    assert (atari.status, atari.fix) == ("warn", "mosaic bundles install atari")
    assert "Not installed" in atari.detail
    assert found["bundle-broken"].status == "fail"


def test_the_cockpit_is_installed_where_it_is_looked_for(patient: Patient) -> None:
    patient.write("gui", "never-published-package==1\n")
    check = patient.checks()["bundle-gui"]
    assert (check.status, check.fix) == ("warn", "make gui")


def test_an_outdated_environment_warns(patient: Patient) -> None:
    patient.write("atari", "never-published-package==1\n")
    environment = patient.paths.venvs / "atari-0123456789ab"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").symlink_to(sys.executable)
    (environment / MARKER_NAME).write_text(json.dumps({"hash": "older"}))
    (patient.paths.venvs / "atari").symlink_to(environment.name)
    assert "out of date" in patient.checks()["bundle-atari"].detail


def test_a_daemon_that_does_not_answer_fails_in_its_own_words(patient: Patient) -> None:
    check = patient.checks(ConnectionError("nobody listens on 127.0.0.1:50055"))["daemon"]
    assert (check.status, check.detail) == ("fail", "nobody listens on 127.0.0.1:50055")
    assert check.fix == "mosaic daemon start"


def test_a_daemon_probe_that_raises_is_a_finding_too(patient: Patient) -> None:
    def probe() -> str:
        raise TimeoutError

    manager = BundleManager(patient.paths, [patient.requirements])
    last = run_checks(patient.paths, manager, probe, gpu_probe=lambda: NO_GPU)[-1]
    assert (last.id, last.status, last.detail) == ("daemon", "fail", "TimeoutError")


def test_the_doctor_imports_neither_qt_nor_torch() -> None:
    code = "import sys, gym_gui.services.doctor\nprint({'PyQt6', 'torch', 'gymnasium', 'numpy'} & sys.modules.keys())"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "set()"
