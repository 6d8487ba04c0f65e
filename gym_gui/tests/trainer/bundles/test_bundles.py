"""Bundles: a run starts only with what it needs, and a build that fails or dies costs nothing.

The packages are tiny, made and served here, so no network is needed. A real environment is built once; tests that
change it work on a copy.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from gym_gui.services.trainer.bundles import manager as bundles
from gym_gui.services.trainer.bundles.build import MARKER_NAME, BundleCancelled, EnvironmentBuild
from gym_gui.services.trainer.bundles.manager import BundleManager
from gym_gui.services.trainer.bundles.requirements import BundleError, finder_in, read_bundle, unmet
from gym_gui.tests.support.wheels import make_index, make_wheel
from mosaic_protocol.paths import MosaicPaths

HANG_GUARD = 120.0
FIRST = "mosaic-tiny==1.0\ntorch==2.13.0\n"
SECOND = "mosaic-tiny==2.0\n"
ENDLESS = "mosaic-endless==1.0\n"


class Home:
    """A data root, a directory of requirements and an index of wheels."""

    def __init__(self, directory: Path) -> None:
        self.paths = MosaicPaths(directory / "var")
        self.requirements = directory / "requirements"
        self.requirements.mkdir(parents=True, exist_ok=True)

    def manager(self, in_use: Callable[[Path], bool] = lambda directory: False) -> BundleManager:
        return BundleManager(self.paths, [self.requirements], in_use=in_use)

    def write(self, text: str, name: str = "tiny") -> Path:
        file = self.requirements / f"{name}.txt"
        file.write_text(text)
        return file

    @property
    def link(self) -> Path:
        return self.paths.venvs / "tiny"

    def environments(self) -> list[str]:
        return sorted(entry.name for entry in self.paths.venvs.glob("tiny-*"))

    def status(self) -> str:
        return next(info.status for info in self.manager().list() if info.name == "tiny")


def make_endless_source(directory: Path) -> None:
    """A source package whose build tells its process id and then goes on for longer than any test."""
    tell = "open(os.environ['BUILD_PID_FILE'], 'w').write(f'{os.getpid()}\\n')"
    backend = f"import os, time\n{tell}\ntime.sleep(3600)\n"
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "endless"\nbackend-path = ["."]\n',
        "endless.py": backend,
        "PKG-INFO": "Metadata-Version: 2.1\nName: mosaic-endless\nVersion: 1.0\n",
    }
    with tarfile.open(directory / "mosaic_endless-1.0.tar.gz", "w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"mosaic_endless-1.0/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheels")
    for name, version in (("mosaic-tiny", "1.0"), ("mosaic-tiny", "2.0"), ("torch", "2.13.0+cpu")):
        make_wheel(directory, name, version)
    make_wheel(directory, "mosaic-picky", "1.0", "Requires-Python: <3\nRequires-Dist: nobody-has-this\n")
    make_endless_source(directory)
    return directory


class Shelf(SimpleHTTPRequestHandler):
    """Serves a folder the way a package index does: what has a tag may be cached."""

    def end_headers(self) -> None:
        self.send_header("ETag", '"never changes"')
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is inherited
        pass


@pytest.fixture(scope="module")
def shelf(wheels: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Shelf, directory=str(wheels))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True, scope="module")
def offline(wheels: Path, shelf: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setenv("no_proxy", "127.0.0.1")
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", shelf)
        patch.setenv("PIP_TRUSTED_HOST", "127.0.0.1")  # pip caches nothing that it does not trust
        patch.setenv("PIP_TARGET", str(wheels / "elsewhere"))  # this and the next must not lead pip astray
        patch.setenv("PIP_NO_CACHE_DIR", "1")
        patch.setattr(bundles, "BYTES_NEEDED_WITH_TORCH", 0)  # the torch of these tests is tiny
        yield


class Built(Home):
    """A home whose bundle ``tiny`` was installed for real, with what the installation said."""

    said: list[str]
    directory: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, offline: None) -> Built:
    home = Built(tmp_path_factory.mktemp("built"))
    home.write(FIRST)
    home.said = []
    home.directory = home.manager().install("tiny", home.said.append)
    return home


@pytest.fixture
def copy(built: Built, tmp_path: Path) -> Home:
    shutil.copytree(built.paths.root.parent, tmp_path, symlinks=True, dirs_exist_ok=True)
    return Home(tmp_path)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def ask(python: Path, code: str) -> str:
    return subprocess.run(
        [python, "-c", code], check=True, capture_output=True, text=True, timeout=HANG_GUARD
    ).stdout.strip()


def processes_under(directory: Path) -> list[str]:
    found = []
    for command_line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = command_line.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in text:
            found.append(text)
    return found


# --- requirement files ---


def test_includes_are_resolved_relative_to_the_file_that_names_them(home: Home) -> None:
    (home.requirements / "parts").mkdir()
    (home.requirements / "parts" / "more.txt").write_text("beta==2  # why\n-r deep.txt\n")
    (home.requirements / "parts" / "deep.txt").write_text("gamma==3\n")
    file = home.write("# a comment\nalpha==1\n-r parts/more.txt\n\n")
    assert read_bundle("tiny", file).lines == ("alpha==1", "beta==2", "gamma==3")


def test_files_that_include_each_other_are_each_read_once(home: Home) -> None:
    home.write("beta==2\n-r tiny.txt\n", "other")
    file = home.write("alpha==1\n--requirement=other.txt\n")
    assert read_bundle("tiny", file).lines == ("alpha==1", "beta==2")


def test_layout_and_order_do_not_change_the_hash_but_a_pin_does(home: Home) -> None:
    first = read_bundle("tiny", home.write("alpha==1\nbeta == 2\n")).hash
    assert read_bundle("tiny", home.write("# new\nbeta==2\n\nalpha == 1\n")).hash == first
    assert read_bundle("tiny", home.write("alpha==1\nbeta==3\n")).hash != first


def test_the_hash_depends_on_python_and_platform(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = read_bundle("tiny", home.write("alpha==1\n"))
    before = bundle.hash
    monkeypatch.setattr("sysconfig.get_platform", lambda: "another-platform")
    assert bundle.hash != before


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("--index-url=somewhere\n", "--index-url: put options into pip's own configuration"),
        ("-e .\n", "-e: put options"),
        ("not a requirement!\n", "not a requirement"),
        ("-r nowhere.txt\n", "nowhere.txt cannot be read"),
        ("x @ https://me:secret@host/x.whl\n", "has a password in the address of x"),
    ],
)
def test_a_line_that_cannot_be_honoured_is_refused_with_a_sentence(home: Home, text: str, sentence: str) -> None:
    with pytest.raises(BundleError) as caught:
        read_bundle("tiny", home.write(text))
    assert sentence in str(caught.value)
    assert "secret" not in str(caught.value)


STEPS = """\
mosaic-tiny==2.0
# mosaic: step --no-deps --ignore-requires-python
mosaic-picky==1.0
# mosaic: step --beside mosaic_tiny
mosaic-tiny==1.0
"""


def test_steps_are_read_with_their_options_and_are_part_of_the_hash(home: Home) -> None:
    bundle = read_bundle("tiny", home.write(STEPS))
    assert list(map(str, bundle.requirements)) == ["mosaic-tiny==2.0"]
    picky, beside = bundle.steps
    assert (picky.lines, picky.options, picky.beside) == (
        ["mosaic-picky==1.0"],
        ("--no-deps", "--ignore-requires-python"),
        "",
    )
    assert (beside.lines, beside.options, beside.beside) == (["mosaic-tiny==1.0"], (), "mosaic_tiny")
    other = read_bundle("tiny", home.write(STEPS.replace("--no-deps ", "")))
    assert other.hash != bundle.hash
    plain = read_bundle("tiny", home.write("mosaic-tiny==2.0\n# mosaic is not a step\n"))
    assert plain.steps == ()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# mosaic: step --index-url x\na==1\n", "has a step with '--index-url'; a step knows --no-deps"),
        ("# mosaic: step --beside ../up\na==1\n", "has a step with --beside '../up': name the package"),
        ("# mosaic: step\n", "has a step without requirements"),
    ],
)
def test_a_step_that_cannot_be_honoured_is_refused(home: Home, text: str, sentence: str) -> None:
    with pytest.raises(BundleError, match=re.escape(sentence)):
        read_bundle("tiny", home.write(text))


def test_steps_are_installed_in_order_and_what_lies_beside_stays_apart(home: Home) -> None:
    home.write(STEPS)
    assert home.status() == "missing"
    told: list[str] = []
    directory = home.manager().install("tiny", told.append)
    titles = [line for line in told if line.startswith("Installing ") and "collected" not in line]
    assert titles == [
        "Installing the requirements of tiny",
        "Installing mosaic-picky==1.0",
        "Installing mosaic-tiny==1.0",
    ]
    python, beside = directory / "bin" / "python", directory / "beside" / "mosaic_tiny"
    program = "import mosaic_tiny, mosaic_picky; print(mosaic_tiny.version)"
    for path, version in (("", "2.0"), (str(beside), "1.0")):
        environment = {**os.environ, "PYTHONPATH": path}
        told_version = subprocess.run(
            [python, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        assert told_version.stdout == f"{version}\n"
    assert home.status() == "ready"
    assert home.manager().bundle_record("tiny")["requirements"] == ["mosaic-picky==1.0", "mosaic-tiny==2.0"]


def test_an_unreadable_bundle_is_listed_with_its_problem_beside_the_others(home: Home) -> None:
    home.write("packaging\n", "good")
    home.write("-e .\n", "bad")
    home.write("packaging\n", "Not_A_Name")
    listed = {info.name: info for info in home.manager().list()}
    assert sorted(listed) == ["bad", "good"]
    assert listed["good"].status == "current"
    assert "put options" in listed["bad"].problem


def test_an_unknown_bundle_offers_the_nearest_one(home: Home) -> None:
    home.write("packaging\n", "atari")
    with pytest.raises(BundleError, match="did you mean atari"):
        home.manager().preflight("attari")


@pytest.mark.parametrize("name", ["../tiny", "a/b", "", ".hidden", "UPPER"])
def test_a_name_that_is_no_name_never_becomes_a_path(home: Home, name: str) -> None:
    with pytest.raises(ValueError, match="plain name"):
        home.manager().preflight(name)
    with pytest.raises(ValueError, match="plain name"):
        home.manager().install(name, lambda line: None)


def test_the_first_directory_that_has_a_bundle_provides_it(home: Home, tmp_path: Path) -> None:
    other = tmp_path / "worker" / "requirements"
    other.mkdir(parents=True)
    (other / "tiny.txt").write_text("never-published-package\n")
    (other / "extra.txt").write_text("packaging\n")
    home.write("packaging\n")
    manager = BundleManager(home.paths, [home.requirements, other])
    listed = [(info.name, info.status) for info in manager.list()]
    assert listed == [("extra", "current"), ("tiny", "current")]


# --- what is satisfied ---


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An environment directory whose distributions can be judged without an interpreter."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = tmp_path / "env" / "lib" / version / "site-packages"
    wheels = tmp_path / "some-wheels"
    packages.mkdir(parents=True)
    wheels.mkdir()
    make_wheel(wheels, "torch", "2.13.0+cpu")
    requires = 'Requires-Dist: sound==9 ; extra == "audio"\nRequires-Dist: base>=1\n'
    make_wheel(wheels, "game-kit", "1.4.0", requires)
    for wheel in wheels.iterdir():
        zipfile.ZipFile(wheel).extractall(packages)
    return tmp_path / "env"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("torch==2.13.0", []),
        ("Torch>=2,<3", []),
        ("torch==2.12.0", ["torch==2.12.0 (not 2.13.0+cpu)"]),
        ("torch==2.13.0+cu130", ["torch==2.13.0+cu130 (not 2.13.0+cpu)"]),
        ("game_kit==1.4.0", []),
        ("game-kit[audio]==1.4.0", ["sound==9"]),
        ("absent==1; python_version < '3'", []),
        ("absent==1; python_version >= '3'", ["absent==1"]),
    ],
)
def test_pins_markers_extras_and_local_versions_are_honoured(site: Path, line: str, found: list[str]) -> None:
    assert unmet([Requirement(line)], finder_in(site)) == found


def test_the_running_interpreter_is_used_when_it_satisfies_the_bundle(home: Home) -> None:
    home.write(f"packaging\npytest=={pytest.__version__}\n")
    assert home.manager().preflight("tiny") == bundles.Preflight(Path(sys.executable))
    assert home.status() == "current"
    record = home.manager().bundle_record("tiny")
    assert record["python"] == sys.executable
    assert f"pytest=={pytest.__version__}" in record["requirements"]


def test_advice_names_at_most_five_missing_packages_and_the_command(home: Home) -> None:
    home.write("".join(f"never-published-{index}==1\n" for index in range(7)))
    found = home.manager().preflight("tiny")
    assert found.python is None
    assert len(found.missing) == 7
    assert found.advice.count("never-published-") == 5
    assert "and 2 more" in found.advice
    assert "`mosaic bundles install tiny`" in found.advice
    assert home.status() == "missing"
    assert home.manager().bundle_record("tiny")["requirements"] == []


# --- refused before anything is built ---


@pytest.mark.parametrize("line", ["torch", "torch>=2", "torch==2.*"])
def test_a_torch_without_an_exact_pin_is_not_installed(home: Home, line: str) -> None:
    home.write(line + "\n")
    with pytest.raises(BundleError, match="pin it"):
        home.manager().install("tiny", lambda text: None)
    assert home.environments() == []


def test_too_little_disk_space_is_reported_before_anything_is_built(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "disk_free", lambda path: 100_000_000)
    home.write(SECOND)
    with pytest.raises(BundleError, match=r"needs 0\.5 GB free .* 0\.1 GB"):
        home.manager().install("tiny", lambda text: None)
    assert home.environments() == []


def test_torch_needs_more_disk_space(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "BYTES_NEEDED_WITH_TORCH", 4 * 1024**3)
    monkeypatch.setattr(bundles, "disk_free", lambda path: 1_000_000_000)
    home.write(FIRST)
    with pytest.raises(BundleError, match=r"needs 4\.3 GB"):
        home.manager().install("tiny", lambda text: None)


def test_two_installations_of_one_bundle_exclude_each_other(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "_LOCK_PATIENCE", 0.1)
    home.write(SECOND)
    home.paths.venvs.mkdir(parents=True)
    with (home.paths.venvs / ".tiny.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(BundleError, match="Another process is installing tiny"):
            home.manager().install("tiny", lambda text: None)


# --- a real environment ---


def test_an_installed_bundle_is_ready_and_its_interpreter_imports_it(built: Built) -> None:
    assert built.status() == "ready"
    python = built.manager().preflight("tiny").python
    assert python == built.directory / "bin" / "python"
    shown = ask(python, "import mosaic_tiny, torch; print(mosaic_tiny.version, torch.version)")
    assert shown == "1.0 2.13.0+cpu"


def test_the_link_points_to_the_environment_named_by_its_hash(built: Built) -> None:
    expected = read_bundle("tiny", built.requirements / "tiny.txt").hash
    assert os.readlink(built.link) == built.directory.name == f"tiny-{expected[:12]}"
    marker = json.loads((built.directory / MARKER_NAME).read_text())
    assert marker["hash"] == expected
    assert marker["installed"] == ["mosaic-tiny==1.0", "torch==2.13.0+cpu"]


def test_torch_is_installed_before_the_rest(built: Built) -> None:
    titles = ("Creating", "Installing torch==", "Installing the")
    steps = [line for line in built.said if line.startswith(titles)]
    assert [step.split()[:2] for step in steps] == [
        ["Creating", str(built.directory)],
        ["Installing", "torch==2.13.0"],
        ["Installing", "the"],
    ]
    log = (built.paths.logs / "bundle-tiny.log").read_text()
    assert log.index("Successfully installed torch-2.13.0+cpu") < log.index("mosaic-tiny")
    assert any(line.startswith("Successfully installed") for line in built.said)


def test_torch_alone_comes_from_the_index_named_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = make_index(tmp_path / "torch-builds", ("torch", "2.13.0+small", "Requires-Dist: mosaic-tiny\n"))
    other = make_index(tmp_path / "packages", ("torch", "2.13.0", ""), ("mosaic-tiny", "1.0", ""))
    monkeypatch.setenv("MOSAIC_TORCH_INDEX", alone)
    monkeypatch.setenv("PIP_INDEX_URL", other)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    home = Home(tmp_path)
    home.write(FIRST)
    home.manager().install("tiny", lambda text: None)
    assert home.manager().bundle_record("tiny")["requirements"] == ["mosaic-tiny==1.0", "torch==2.13.0+small"]


def test_downloads_are_kept_in_the_cache_of_the_data_root(built: Built) -> None:
    assert any(entry.is_file() for entry in built.paths.pip_cache.rglob("*"))


def test_the_manifest_record_names_what_is_installed(built: Built) -> None:
    record = built.manager().bundle_record("tiny")
    assert record["name"] == "tiny"
    assert record["hash"].startswith(built.directory.name.removeprefix("tiny-"))
    assert record["python"] == str(built.directory / "bin" / "python")
    assert record["requirements"] == ["mosaic-tiny==1.0", "torch==2.13.0+cpu"]


def test_installing_again_builds_nothing(built: Built) -> None:
    before = (built.directory / MARKER_NAME).stat()
    said: list[str] = []
    assert built.manager().install("tiny", said.append) == built.directory
    assert (built.directory / MARKER_NAME).stat().st_mtime_ns == before.st_mtime_ns
    assert "already built" in said[0]


def test_a_crash_between_marker_and_link_is_made_good_without_a_build(copy: Home) -> None:
    copy.link.unlink()
    assert copy.status() == "missing"
    copy.manager().install("tiny", lambda line: None)
    assert copy.status() == "ready"


def test_an_environment_without_its_marker_does_not_count(copy: Home) -> None:
    (copy.link / MARKER_NAME).unlink()
    assert copy.status() == "missing"
    assert copy.manager().preflight("tiny").python is None


def test_a_removal_that_is_cut_short_leaves_nothing_that_counts(copy: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def power_cut(directory: Path, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", power_cut)
    with pytest.raises(KeyboardInterrupt):
        bundles._discard(copy.link.resolve())
    assert copy.link.is_dir()
    assert copy.status() == "missing"


def test_an_environment_whose_interpreter_is_gone_does_not_count(copy: Home) -> None:
    python = copy.link / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python")
    assert copy.status() == "missing"


def test_changed_requirements_make_it_stale_and_the_next_install_replaces_it(copy: Home) -> None:
    old = os.readlink(copy.link)
    copy.write(SECOND)
    assert copy.status() == "stale"
    assert "older requirements" in copy.manager().preflight("tiny").advice
    (copy.paths.venvs / "tiny-0123456789ab" / "bin").mkdir(parents=True)  # what a killed build leaves

    new = copy.manager(in_use=lambda directory: directory.name == old).install("tiny", lambda line: None)

    assert copy.status() == "ready"
    assert ask(new / "bin" / "python", "import mosaic_tiny; print(mosaic_tiny.version)") == "2.0"
    assert copy.environments() == sorted([old, new.name])
    copy.manager().install("tiny", lambda line: None)
    assert copy.environments() == [new.name]


def test_a_failed_installation_keeps_the_old_environment_and_says_why(copy: Home) -> None:
    old = os.readlink(copy.link)
    copy.write("mosaic-tiny==9.9\n")
    with pytest.raises(BundleError, match=r"mosaic-tiny==9\.9.*bundle-tiny\.log") as caught:
        copy.manager().install("tiny", lambda line: None)
    assert "`mosaic bundles install tiny`" in str(caught.value)
    assert os.readlink(copy.link) == old
    assert copy.environments() == [old]


@pytest.fixture
def build_pid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Waits until the endless build has begun, and returns its process id."""
    file = tmp_path / "build.pid"
    monkeypatch.setenv("BUILD_PID_FILE", str(file))

    def wait() -> int:
        deadline = time.monotonic() + HANG_GUARD
        while not (file.exists() and file.read_text().endswith("\n")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return int(file.read_text())

    return wait


def wait_until_ended(pid: int) -> None:
    deadline = time.monotonic() + HANG_GUARD
    while (state := process_state(pid)) not in ("", "Z"):
        assert time.monotonic() < deadline, state
        time.sleep(0.02)


def process_state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_a_cancelled_installation_leaves_no_process_and_keeps_the_old_environment(
    copy: Home, build_pid: Callable[[], int]
) -> None:
    old = os.readlink(copy.link)
    copy.write(ENDLESS)
    cancel, begun = threading.Event(), []

    def cancel_in_mid_build() -> None:
        begun.append(build_pid())
        cancel.set()

    canceller = threading.Thread(target=cancel_in_mid_build)
    canceller.start()
    with pytest.raises(BundleCancelled):
        copy.manager().install("tiny", lambda line: None, cancel)
    canceller.join()
    wait_until_ended(begun[0])
    assert processes_under(copy.paths.venvs) == []
    assert os.readlink(copy.link) == old
    assert copy.environments() == [old]


WAITING = "import os, time; print('Collecting', os.getpid(), flush=True); time.sleep(3600)"


def run_step(home: Home, listener: Callable[[str], None], lock: int, code: str) -> None:
    """One step of a build, with a command of the test's choice in place of pip."""
    bundle = read_bundle("tiny", home.write(SECOND))
    log = home.requirements / "log"
    log.touch()
    build = EnvironmentBuild(bundle, home.link, home.link, log, listener, threading.Event(), lock)
    build._step("Waiting", [sys.executable, "-c", code])


def test_a_listener_that_fails_stops_what_was_started(home: Home) -> None:
    def listener(line: str) -> None:
        if line.startswith("Collecting"):
            raise RuntimeError(line)

    with (home.requirements / "lock").open("w") as lock, pytest.raises(RuntimeError) as caught:
        run_step(home, listener, lock.fileno(), WAITING)
    wait_until_ended(int(str(caught.value).split()[1]))


def test_the_lock_is_held_as_long_as_what_a_dead_installer_started(home: Home) -> None:
    lock_file = home.requirements / "lock"
    lock = os.open(lock_file, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)

    def listener(line: str) -> None:
        if line.startswith("Collecting"):
            os.close(lock)  # as the death of the installer would
            with lock_file.open() as other:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

    with pytest.raises(BlockingIOError):
        run_step(home, listener, lock, WAITING)
    with lock_file.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


INSTALLER = """
import sys
from pathlib import Path
from gym_gui.services.trainer.bundles.manager import BundleManager
from mosaic_protocol.paths import MosaicPaths
manager = BundleManager(MosaicPaths(Path(sys.argv[1])), [Path(sys.argv[2])])
manager.install("tiny", lambda line: print(line, flush=True))
"""


def start_installer(home: Home) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", INSTALLER, str(home.paths.root), str(home.requirements)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_an_installer_killed_while_pip_builds_takes_all_that_it_started_along(
    copy: Home, build_pid: Callable[[], int]
) -> None:
    old = os.readlink(copy.link)
    copy.write(ENDLESS)
    with start_installer(copy) as installer:
        pid = build_pid()
        installer.send_signal(signal.SIGKILL)
    wait_until_ended(pid)
    assert os.readlink(copy.link) == old
    assert copy.status() == "stale"


def test_after_a_killed_installer_the_old_environment_is_in_use_and_the_next_succeeds(copy: Home) -> None:
    old = os.readlink(copy.link)
    copy.write(SECOND)
    half_built = read_bundle("tiny", copy.requirements / "tiny.txt").hash[:12]
    with start_installer(copy) as installer:
        deadline = time.monotonic() + HANG_GUARD
        while not (copy.paths.venvs / f"tiny-{half_built}" / "bin" / "python").exists():
            assert time.monotonic() < deadline
            time.sleep(0.005)
        installer.send_signal(signal.SIGKILL)
    assert os.readlink(copy.link) == old
    assert ask(copy.link / "bin" / "python", "import mosaic_tiny; print(mosaic_tiny.version)") == "1.0"
    # At once, while what the dead installer started may still be ending.
    new = copy.manager().install("tiny", lambda line: None)
    assert ask(new / "bin" / "python", "import mosaic_tiny; print(mosaic_tiny.version)") == "2.0"
    assert copy.environments() == [new.name]


def test_an_environment_that_a_process_runs_from_is_known_to_be_in_use(built: Built) -> None:
    python = built.directory / "bin" / "python"
    assert not bundles.runs_from(built.directory)
    with subprocess.Popen([python, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert bundles.runs_from(built.directory)
        process.communicate(b"\n")
    assert not bundles.runs_from(built.directory)


@pytest.mark.parametrize("started_through_the_link", [True, False])
def test_a_link_to_the_data_root_hides_no_process_that_runs_from_an_environment(
    built: Built, tmp_path: Path, started_through_the_link: bool
) -> None:
    link = tmp_path / "link"
    link.symlink_to(built.directory.parent)
    linked = link / built.directory.name
    seen, asked = (linked, built.directory) if started_through_the_link else (built.directory, linked)
    with subprocess.Popen(
        [seen / "bin" / "python", "-c", "print(flush=True); input()"], stdin=-1, stdout=-1
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert bundles.runs_from(asked)
        process.communicate(b"\n")
    assert not bundles.runs_from(asked)


def test_a_process_started_by_a_relative_name_is_known_too(built: Built) -> None:
    command = ["bin/python", "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, cwd=built.directory, stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert bundles.runs_from(built.directory)
        process.communicate(b"\n")
