"""What an operator checks first when something does not work, as data. No Qt, no printing, no torch."""

from __future__ import annotations

import os
import re
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

from gym_gui.services.external_services import look_for
from gym_gui.services.storage.disk import disk_warning
from gym_gui.services.trainer.bundles.manager import NAMED_IN_ADVICE, BundleInfo, BundleManager
from gym_gui.services.trainer.bundles.requirements import find_here, finder_in
from gym_gui.services.trainer.errors import TrainerError
from gym_gui.services.trainer.settings import TrainerSettings
from mosaic_host.capacity import disk_room
from mosaic_host.gpu import GpuProbe, probe_gpus
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.worker_manifest import Discovery, discover

MINIMUM_PYTHON = (3, 11)
DISK_WARN_BYTES = 2 * 1024**3
DISK_FAIL_BYTES = 200 * 1024**2
OPEN_FILES_WANTED = 1024
COCKPIT_BUNDLE = "gui"
"""The cockpit runs in the interpreter of the command line, never in a bundle's environment."""

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
    gpu = gpu_probe()
    yield _gpu(gpu)
    found = discover()
    yield _torch(bundles, found, has_gpu=bool(gpu.gpus))
    yield _atari(found)
    yield _workers(found)
    yield from _services(found)
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
    fix = "mosaic storage plan"
    try:
        room = disk_room(root)
    except OSError as error:
        return Check("disk", title, "fail", f"The free space for {root} cannot be read: {error}", fix)
    free = room.free
    detail = f"{free / 1e9:.1f} GB free for {root}"
    if free < DISK_FAIL_BYTES:
        return Check("disk", title, "fail", f"{detail}: too little to store a run", fix)
    if free < DISK_WARN_BYTES:
        return Check("disk", title, "warn", f"{detail}: too little for long runs or a new environment", fix)
    if disk_warning(room, TrainerSettings.disk_warn_percent):
        return Check("disk", title, "warn", f"{detail}: it is {room.percent:.0f} % full", fix)
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
        return Check("token", title, "ok", "None: the daemon makes one whenever it starts")
    except OSError as error:
        fix = f"ls -ld {shlex.quote(str(token_file.parent))}"
        return Check("token", title, "fail", f"{token_file} cannot be read: {error.strerror or error}", fix)
    if mode == 0o600:
        return Check("token", title, "ok", "Readable by its owner only")
    detail = f"{token_file} has mode {mode:04o} where it must be 0600: others could have read it. A daemon that runs "
    detail += "replaces it within a second; without one it opens nothing"
    return Check("token", title, "fail", detail, "mosaic daemon status")


def _gpu(probe: GpuProbe) -> Check:
    title = "GPU"
    if not probe.gpus:
        return Check("gpu", title, "ok", f"CPU only: {probe.reason}")
    names = ", ".join(f"{gpu.index}: {gpu.name} ({gpu.memory_mb} MB)" for gpu in probe.gpus)
    if probe.reason:
        return Check("gpu", title, "warn", f"{names}; {probe.reason}", "nvidia-smi")
    return Check("gpu", title, "ok", names)


def _torch(bundles: BundleManager, found: Discovery, *, has_gpu: bool) -> Check:
    """The torch of the first worker that has a bundle: built-in ones come first."""
    title = "PyTorch"
    bundle = next((one.bundle for one in found.workers.values() if one.bundle), None)
    torch, place = _installed_torch(bundles, bundle)
    if torch is None and bundle is None:
        return Check("torch", title, "warn", "Not installed here, and no worker has a bundle for it", "mosaic workers")
    if torch is None:
        detail = f"No usable environment with torch for the {bundle} bundle"
        return Check("torch", title, "fail", detail, f"mosaic bundles install {bundle}")
    build = _torch_build(torch)
    idle = "; it cannot use the GPU" if has_gpu and build == "CPU build" else ""
    return Check("torch", title, "ok", f"torch {torch.version} ({build}{idle}) in {place}")


def _installed_torch(bundles: BundleManager, bundle: str | None) -> tuple[metadata.Distribution | None, str]:
    """The torch that runs use, and the interpreter it belongs to."""
    try:
        python = bundles.bundle_record(bundle)["python"] if bundle else None
    except TrainerError:
        python = None
    if python is not None and python != sys.executable:
        return finder_in(Path(python).parent.parent)("torch"), python
    return find_here("torch"), sys.executable


def _torch_build(torch: metadata.Distribution) -> str:
    """Read from its files: importing torch takes seconds. Its version need not name the build."""
    try:
        said = Path(str(torch.locate_file("torch/version.py"))).read_text()
    except OSError:
        return "unknown build"
    named = dict(re.findall(r"^(cuda|hip|xpu)\b[^=\n]*= *['\"]([^'\"]+)", said, re.MULTILINE))
    kinds = {"cuda": "CUDA", "hip": "ROCm", "xpu": "XPU"}
    return next((f"{kinds[kind]} {version} build" for kind, version in named.items()), "CPU build")


def _atari(found: Discovery) -> Check:
    """The games come with the emulator; both are looked for without being loaded."""
    title = "Atari games"
    spec = find_spec("ale_py")
    folder = Path(spec.origin).parent / "roms" if spec is not None and spec.origin else None
    games = len(list(folder.glob("*.bin"))) if folder is not None else 0
    if games:
        return Check("atari", title, "ok", f"{games} ROMs in {folder}")
    what = "ale-py has no ROMs" if spec is not None else "Not installed; only Atari's environments need them"
    return Check("atari", title, "warn", what, _installer_of_games(found))


def _installer_of_games(found: Discovery) -> str:
    for manifest in found.workers.values():
        if manifest.extras_module and any("atari" in one.environments for one in manifest.algorithms.values()):
            return f"python -m {manifest.extras_module} --set atari"
    return "pip install ale-py"


def _workers(found: Discovery) -> Check:
    title = "Workers"
    if not found.problems:
        return Check("workers", title, "ok", f"{', '.join(found.workers)} found" if found.workers else "None found")
    more = f" ({len(found.problems) - 1} more)" if len(found.problems) > 1 else ""
    return Check("workers", title, "warn", f"{found.problems[0]}{more}", "mosaic workers")


def _services(found: Discovery) -> Iterator[Check]:
    """What workers need beside them, such as a chat server; a worker that needs nothing has no line here."""
    for manifest in found.workers.values():
        for state in look_for(manifest.capabilities.external_services):
            identity, title = f"service-{manifest.type}-{state.name}", f"Service {state.name}"
            detail = f"The worker {manifest.type} {state}" if state.answers is None else f"{state} ({manifest.type})"
            if state.answers:
                yield Check(identity, title, "ok", detail)
            else:
                yield Check(identity, title, "warn", detail, "mosaic workers")


def _bundle(info: BundleInfo) -> Check:
    identity, title = f"bundle-{info.name}", f"Bundle {info.name}"
    if info.problem:
        return Check(identity, title, "fail", info.problem, f"${{EDITOR:-vi}} {shlex.quote(str(info.file))}")
    if info.status == "current":
        return Check(identity, title, "ok", "Satisfied by this interpreter")
    if info.name == COCKPIT_BUNDLE:
        detail = f"Not installed for {sys.executable}, where `mosaic gui` looks for it; only the cockpit needs it"
        return Check(identity, title, "warn", detail, "make gui")
    if info.status == "ready":
        return Check(identity, title, "ok", f"Its environment is ready: {info.python}")
    fix = f"mosaic bundles install {info.name}"
    if info.status == "missing":  # what this interpreter lacks of it says nothing: it was never meant to go in there
        return Check(identity, title, "warn", "Not installed; only runs and workers that use it need it", fix)
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
