"""A host agent for daemons elsewhere: the agent of this machine, and the calls of :mod:`mosaic_host.hosting`."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from mosaic_host.agent import HostAgent
from mosaic_host.capacity import HostCapacity, disk_free
from mosaic_host.executor import LaunchSpec, StartedWorker, WorkerHandle, locator_of
from mosaic_host.hosting import (
    BATCH_COMMANDS,
    CONFIGS,
    INPUTS,
    LOGS,
    PIECE_BYTES,
    PROTOCOL,
    RUN,
    STAGED,
    CommandAnswer,
    FileState,
    HostFacts,
    Hosting,
)
from mosaic_host.staging import Staging, digest_of
from mosaic_host.telling import Tell, to_plain_log
from mosaic_host.warm_pool import WarmPool
from mosaic_protocol import claims
from mosaic_protocol.paths import MosaicPaths, checked_run_id
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.regular_files import open_regular

CODE_VARIABLE = "MOSAIC_HOST_CODE"
"""Which code an agent was started from."""
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
_INHERITED_BEGINNINGS = ("LC_", "CUDA", "NVIDIA_", "OMP_", "MKL_", "OPENBLAS_", "XDG_")
_OF_SLURM = ("SLURM_CONF",)
"""What Slurm's commands need of the environment beside what workers inherit."""
_COMMAND_SECONDS = 30.0
_BUILT = ".mosaic-bundle.json"
_MOST_FILES = 100_000
_ANSWER_SECONDS = 0.1
"""From the answer that it leaves until it does."""


class HostedAgent(HostAgent, Hosting):
    """Belongs to one event loop, like the agent it is."""

    def __init__(self, paths: MosaicPaths, warm_pool: WarmPool, tell: Tell = to_plain_log) -> None:
        super().__init__(paths, warm_pool, tell)
        self._starting: dict[tuple[str, int], asyncio.Task[StartedWorker]] = {}
        self._staging = Staging(paths.trainer / "staged")
        self.leave: Callable[[], None] = lambda: None
        """What ends the server in front of the agent."""

    # ---- the host ------------------------------------------------------------------------------------------------

    async def describe(self) -> HostFacts:
        capacity = await self.capacity(None, None)
        return await asyncio.to_thread(self._described, capacity)

    def _described(self, capacity: HostCapacity) -> HostFacts:
        return HostFacts(
            protocol=PROTOCOL,
            code=os.environ.get(CODE_VARIABLE, ""),
            home=str(self._paths.root),
            python=sys.executable,
            pythons=_built_environments(self._paths.venvs),
            environ=inherited(os.environ),
            wall_time=time.time(),
            free_bytes=disk_free(self._paths.root),
            capacity=capacity,
        )

    async def retire(self) -> bool:
        if await asyncio.to_thread(self.has_workers):
            return False
        asyncio.get_running_loop().call_later(_ANSWER_SECONDS, self.leave)
        return True

    def has_workers(self) -> bool:
        """Whether a worker of any run lives here. Blocks."""
        return any(self.is_alive_here(folder.name) for folder in _folders(self._paths.runs))

    def is_alive_here(self, run_id: str) -> bool:
        """Whether a worker of this run lives here. Blocks."""
        folder = self._paths.runs / run_id / "claims"
        found = [claims.claimant(folder, attempt) for attempt in _attempts(folder)]
        return any(process is not None and process.is_alive() for process in found)

    # ---- files ---------------------------------------------------------------------------------------------------

    async def runs(self) -> list[str]:
        return await asyncio.to_thread(lambda: sorted(folder.name for folder in _folders(self._paths.runs)))

    async def make_run(self, run_id: str) -> None:
        its, logs = self._paths.run(run_id), self._paths.run_logs(run_id)
        for folder in (self._paths.configs, its.outbox, its.claims, logs):
            await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)

    async def put(self, run_id: str, area: str, name: str, offset: int, content: bytes) -> None:
        await asyncio.to_thread(_put, self._file(run_id, area, name), offset, content)

    async def files(self, run_id: str) -> list[FileState]:
        return await asyncio.to_thread(self._files, run_id)

    def _files(self, run_id: str) -> list[FileState]:
        folder = self._paths.run(run_id).directory
        folder.lstat()  # one that is away is no run without files
        found = [*_states(RUN, folder), *_states(LOGS, self._paths.run_logs(run_id))]
        if len(found) > _MOST_FILES:
            raise OSError(errno.EFBIG, f"the run has more than {_MOST_FILES:,} files", str(folder))
        return found

    async def read_piece(self, run_id: str, area: str, name: str, offset: int, most: int) -> bytes:
        return await asyncio.to_thread(_piece, self._file(run_id, area, name), offset, min(most, PIECE_BYTES))

    async def digest(self, run_id: str, area: str, name: str) -> str:
        return await asyncio.to_thread(digest_of, self._file(run_id, area, name))

    async def stage(self, run_id: str, name: str, sha256: str) -> bool:
        return await asyncio.to_thread(self._staging.give, self._file(run_id, INPUTS, name), run_id, sha256)

    async def forget_run(self, run_id: str) -> None:
        await asyncio.to_thread(self._forget, run_id)
        await asyncio.to_thread(self._staging.prune)

    def _forget(self, run_id: str) -> None:
        paths = self._paths
        for file in (paths.run_config(run_id), paths.worker_config(run_id)):
            file.unlink(missing_ok=True)
        for folder in (self._inputs(run_id), paths.run_logs(run_id), paths.run(run_id).directory):
            with suppress(FileNotFoundError):
                shutil.rmtree(folder)
        self._starting = {key: task for key, task in self._starting.items() if key[0] != run_id}

    def _inputs(self, run_id: str) -> Path:
        return inputs_of(self._paths, run_id)

    def _file(self, run_id: str, area: str, name: str) -> Path:
        """Inside of what belongs to the run, whatever was asked for."""
        parts = PurePosixPath(name).parts
        if not parts or parts[0] == "/" or ".." in parts or "\0" in name:
            raise OSError(errno.EINVAL, "that is no file of a run", name)
        match area:
            case "run":
                return self._paths.run(run_id).directory.joinpath(*parts)
            case "logs":
                return self._paths.run_logs(run_id).joinpath(*parts)
            case "inputs":
                return self._inputs(run_id).joinpath(*parts)
            case "staged":
                return self._staging.arriving(checked_run_id(run_id), name)
            case "configs":
                for file in (self._paths.run_config(run_id), self._paths.worker_config(run_id)):
                    if name == file.name:
                        return file
        raise OSError(errno.EINVAL, f"there are {RUN}, {LOGS}, {CONFIGS}, {INPUTS} and {STAGED}, not", area[:60])

    # ---- processes -----------------------------------------------------------------------------------------------

    async def start_once(self, spec: LaunchSpec) -> StartedWorker:
        key = (spec.run_id, spec.attempt)
        if (begun := self._starting.get(key)) is not None and not (begun.done() and _went_wrong(begun)):
            return await asyncio.shield(begun)
        # Not ended with the call: the one who asks may be gone for a while, and asks again.
        self._starting[key] = asyncio.create_task(self._start_unless_there(spec))
        return await asyncio.shield(self._starting[key])

    async def _start_unless_there(self, spec: LaunchSpec) -> StartedWorker:
        """What an agent before this one may have started has the claim by now, or carries the marks of the launch."""
        found = await self.claimant(WorkerHandle(spec.run_id, spec.attempt))
        if found is not None:
            return StartedWorker(found.locator, found.pid, "adopted")
        there = await asyncio.to_thread(_launched, spec.run_id, spec.attempt)
        if there is not None:
            return StartedWorker(locator_of(there), there.pid, "adopted")
        return await self.start(spec)

    async def end_run(self, run_id: str) -> None:
        for attempt in await asyncio.to_thread(self.attempts, run_id):
            if (claimant := await self.claimant(WorkerHandle(run_id, attempt))) is not None:
                await self.kill_all(WorkerHandle(run_id, attempt, claimant.locator))

    def attempts(self, run_id: str) -> list[int]:
        """The launches of a run that were claimed, or revoked. Blocks."""
        return _attempts(self._paths.run(run_id).claims)

    # ---- a batch system ------------------------------------------------------------------------------------------

    async def batch_command(self, words: list[str], given: str) -> CommandAnswer:
        if not words or words[0] not in BATCH_COMMANDS:
            raise OSError(errno.EINVAL, f"there are {', '.join(BATCH_COMMANDS)}, not", *words[:1])
        return await asyncio.to_thread(_answered, words, given)


def inputs_of(paths: MosaicPaths, run_id: str) -> Path:
    """Where a run over there finds what it begins from."""
    return paths.trainer / "inputs" / checked_run_id(run_id)


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """What workers inherit: how programs are found and how they speak. Nothing that may be a secret travels."""
    return {
        name: value for name, value in environ.items() if name in _INHERITED or name.startswith(_INHERITED_BEGINNINGS)
    }


def _built_environments(venvs: Path) -> dict[str, str]:
    found = {}
    for link in sorted(venvs.glob("*")) if venvs.is_dir() else ():
        python = link / "bin" / "python"
        if link.is_symlink() and (link / _BUILT).is_file() and python.exists():
            found[link.name] = str(python)
    return found


def _folders(runs: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError):
        yield from runs.iterdir()


def _attempts(folder: Path) -> list[int]:
    names = os.listdir(folder) if folder.is_dir() else []
    attempts = [name.removeprefix("attempt-") for name in names]
    return sorted(int(attempt) for attempt in attempts if attempt.isdecimal())


def _answered(words: list[str], given: str) -> CommandAnswer:
    environ = {**inherited(os.environ), **{name: os.environ[name] for name in _OF_SLURM if name in os.environ}}
    try:
        done = subprocess.run(
            words, input=given, env=environ, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise OSError(errno.ETIMEDOUT, f"did not answer within {_COMMAND_SECONDS:.0f} s", words[0]) from None
    return CommandAnswer(done.returncode, done.stdout, done.stderr)


def _launched(run_id: str, attempt: int) -> ProcessIdentity | None:
    """The oldest living process that was executed for this launch."""
    marks = {f"MOSAIC_RUN_ID={run_id}".encode(), f"MOSAIC_ATTEMPT={attempt}".encode()}
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        with suppress(OSError):
            environment = set((Path("/proc") / entry / "environ").read_bytes().split(b"\0"))
            if marks <= environment and (process := ProcessIdentity.of(int(entry))) is not None:
                found.append(process)
    return min(found, key=lambda process: process.start_ticks, default=None)


def _went_wrong(task: asyncio.Task[StartedWorker]) -> bool:
    return task.cancelled() or task.exception() is not None


def _states(area: str, folder: Path) -> Iterator[FileState]:
    """Regular files, without links and without hidden ones, which are drafts."""
    for directory, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            file = Path(directory) / name
            if name.startswith("."):
                continue
            with suppress(FileNotFoundError):
                found = file.lstat()
                if stat.S_ISREG(found.st_mode):
                    relative = file.relative_to(folder).as_posix()
                    if relative.isprintable():
                        yield FileState(area, relative, found.st_size, found.st_mtime_ns, found.st_ino)


def _put(file: Path, offset: int, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (0 if offset else os.O_TRUNC)
    descriptor = os.open(file, flags, 0o600)
    try:
        os.pwrite(descriptor, content, offset)
    finally:
        os.close(descriptor)


def _piece(file: Path, offset: int, most: int) -> bytes:
    with open_regular(file) as stream:
        stream.seek(offset)
        return stream.read(most)
