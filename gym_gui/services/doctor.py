"""What an operator checks first when something does not work, as data. No Qt, no printing, no torch."""

from __future__ import annotations

import os
import resource
import shlex
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from gym_gui.services.trainer.bundles import NAMED_IN_ADVICE, BundleInfo, BundleManager
from gym_gui.services.trainer.errors import TrainerError
from gym_gui.services.trainer.gpu import GpuProbe, probe_gpus
from gym_gui.services.trainer.host import disk_free
from mosaic_protocol.paths import MosaicPaths

MINIMUM_PYTHON = (3, 11)
DISK_WARN_BYTES = 2 * 1024**3
DISK_FAIL_BYTES = 200 * 1024**2
OPEN_FILES_WANTED = 1024
TORCH_BUNDLE = "cleanrl_worker"

Status = Literal["ok", "warn", "fail"]
DaemonProbe = Callable[[], "str | Exception"]


@dataclass(frozen=True)
class Check:
    """One finding. ``fix`` is a command to paste; it is empty if and only if the status is ok."""

    id: str
    title: str
    status: Status
    detail: str
    fix: str = ""


def run_checks(
    paths: MosaicPaths,
    bundles: BundleManager,
    daemon_probe: DaemonProbe,
    *,
    gpu_probe: Callable[[], GpuProbe] = probe_gpus,
) -> list[Check]:
    """Every check, in the order a reader wants them. Leaves nothing on disk and never raises.

    ``daemon_probe`` returns a sentence about a healthy daemon, or returns or raises the reason why there is
    none. It and the GPU probe may block for seconds.
    """
    return list(_all_checks(paths, bundles, daemon_probe, gpu_probe))


def _all_checks(
    paths: MosaicPaths, bundles: BundleManager, daemon_probe: DaemonProbe, gpu_probe: Callable[[], GpuProbe]
) -> Iterator[Check]:
    yield _python(sys.version_info[:3])
    yield _data_root(paths.root)
    yield _disk(paths.root)
    yield _open_files()
    yield _token(paths.token_file)
    yield _gpu(gpu_probe())
    yield _torch(bundles)
    yield _atari()
    yield from map(_bundle, bundles.list())
    yield _daemon(daemon_probe)


def _python(version: tuple[int, ...]) -> Check:
    said = ".".join(map(str, version))
    if version >= MINIMUM_PYTHON:
        return Check("python", "Python", "ok", f"Python {said} at {sys.executable}")
    wanted = ".".join(map(str, MINIMUM_PYTHON))
    detail = f"Python {said} is too old: MOSAIC needs {wanted} or newer"
    return Check("python", "Python", "fail", detail, f"python{wanted} -m venv .venv")


def _data_root(root: Path) -> Check:
    title = "Data root"
    existing = _nearest_existing(root)
    try:
        _try_to_write(existing)
    except OSError as error:
        detail = f"{root} cannot be written: {error.strerror or error}"
        return Check("data-root", title, "fail", detail, 'export MOSAIC_HOME="$HOME/.mosaic"')
    note = "" if existing == root else " (made when it is first used)"
    return Check("data-root", title, "ok", f"{root} is writable{note}")


def _disk(root: Path) -> Check:
    title = "Disk space"
    fix = f"du -xh --max-depth=2 {shlex.quote(str(root))} | sort -h | tail -n 20"
    try:
        free = disk_free(root)
    except OSError as error:
        return Check("disk", title, "fail", f"The free space for {root} cannot be read: {error}", fix)
    detail = f"{free / 1e9:.1f} GB free for {root}"
    if free < DISK_FAIL_BYTES:
        return Check("disk", title, "fail", f"{detail}: too little to store a run", fix)
    if free < DISK_WARN_BYTES:
        return Check("disk", title, "warn", f"{detail}: too little for long runs or a new environment", fix)
    return Check("disk", title, "ok", detail)


def _open_files() -> Check:
    title = "Open files"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return Check("open-files", title, "ok", "No limit for one process")
    if soft >= OPEN_FILES_WANTED:
        return Check("open-files", title, "ok", f"{soft} for one process")
    detail = f"{soft} for one process; {OPEN_FILES_WANTED} or more let many runs log at once"
    reachable = OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else min(OPEN_FILES_WANTED, hard)
    return Check("open-files", title, "warn", detail, f"ulimit -n {reachable}")


def _token(token_file: Path) -> Check:
    title = "Daemon token"
    try:
        mode = stat.S_IMODE(token_file.stat().st_mode)
    except FileNotFoundError:
        return Check("token", title, "ok", "None yet: made when the daemon first starts")
    except OSError as error:
        fix = f"ls -ld {shlex.quote(str(token_file.parent))}"
        return Check("token", title, "fail", f"{token_file} cannot be read: {error.strerror or error}", fix)
    if mode == 0o600:
        return Check("token", title, "ok", "Readable by its owner only")
    detail = f"{token_file} has mode {mode:04o} where it must be 0600: others could use the daemon"
    return Check("token", title, "fail", detail, f"chmod 600 {shlex.quote(str(token_file))}")


def _gpu(probe: GpuProbe) -> Check:
    title = "GPU"
    if not probe.gpus:
        return Check("gpu", title, "ok", f"CPU only: {probe.reason}")
    names = ", ".join(f"{gpu.index}: {gpu.name} ({gpu.memory_mb} MB)" for gpu in probe.gpus)
    if probe.reason:
        return Check("gpu", title, "warn", f"{names}; {probe.reason}", "nvidia-smi")
    return Check("gpu", title, "ok", names)


def _torch(bundles: BundleManager) -> Check:
    title = "PyTorch"
    version, place = _torch_version(bundles)
    if version:
        return Check("torch", title, "ok", f"torch {version} in {place}")
    detail = f"No usable environment with torch for the {TORCH_BUNDLE} bundle"
    return Check("torch", title, "fail", detail, f"mosaic bundles install {TORCH_BUNDLE}")


def _torch_version(bundles: BundleManager) -> tuple[str, str]:
    try:
        record = bundles.bundle_record(TORCH_BUNDLE)
    except TrainerError:
        record = {"python": None, "requirements": []}
    for line in record["requirements"]:
        name, _, version = line.partition("==")
        if name == "torch":
            return version, str(record["python"])
    try:
        return metadata.version("torch"), sys.executable
    except metadata.PackageNotFoundError:
        return "", ""


def _atari() -> Check:
    """The games come with the emulator; both are looked for without being loaded."""
    title = "Atari games"
    spec = find_spec("ale_py")
    folder = Path(spec.origin).parent / "roms" if spec is not None and spec.origin else None
    games = len(list(folder.glob("*.bin"))) if folder is not None else 0
    if games:
        return Check("atari", title, "ok", f"{games} ROMs in {folder}")
    what = "ale-py has no ROMs" if spec is not None else "Not installed; only Atari's environments need them"
    return Check("atari", title, "warn", what, "python -m cleanrl_worker.tools.install_extras --set atari")


def _bundle(info: BundleInfo) -> Check:
    identity, title = f"bundle-{info.name}", f"Bundle {info.name}"
    if info.problem:
        return Check(identity, title, "fail", info.problem, f"${{EDITOR:-vi}} {shlex.quote(str(info.file))}")
    if info.status == "current":
        return Check(identity, title, "ok", "Satisfied by this interpreter")
    if info.status == "ready":
        return Check(identity, title, "ok", f"Its environment is ready: {info.python}")
    fix = f"mosaic bundles install {info.name}"
    if info.status == "missing":  # what this interpreter lacks of it says nothing: it was never meant to go in there
        return Check(identity, title, "warn", "Not installed; only the runs and workers that name it need it", fix)
    named = ", ".join(info.missing[:NAMED_IN_ADVICE])
    more = len(info.missing) - NAMED_IN_ADVICE
    detail = f"Its environment is out of date: it lacks {named}" + (f" and {more} more" if more > 0 else "")
    return Check(identity, title, "warn", detail, fix)


def _daemon(probe: DaemonProbe) -> Check:
    title = "Trainer daemon"
    try:
        answer = probe()
    except Exception as error:  # noqa: BLE001 - whatever a client library raises is the finding
        answer = error
    if isinstance(answer, str):
        return Check("daemon", title, "ok", answer)
    return Check("daemon", title, "fail", str(answer) or type(answer).__name__, "mosaic daemon start")


def _nearest_existing(path: Path) -> Path:
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _try_to_write(directory: Path) -> None:
    descriptor, name = tempfile.mkstemp(prefix=".mosaic-doctor-", dir=directory)
    os.close(descriptor)
    Path(name).unlink()
