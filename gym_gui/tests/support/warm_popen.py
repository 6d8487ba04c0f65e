"""Has :class:`subprocess.Popen` fork programs from a process that has imported what they import.

It is what it was for everyone who uses it: the fork is a child of the process that asked, with streams, descriptors,
folder, environment, session, command line and exit status of its own. Only ``python -m MODULE`` of :data:`LIGHT` and
:data:`HEAVY` is forked. What asks for more than a fork can give (variables that are read when an interpreter starts,
packages of its own, limits, coverage) is executed.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from gym_gui.tests.support import warm_parent

DAEMON = "gym_gui.services.trainer"
LIGHT = frozenset({DAEMON, "gym_gui.cli", "mosaic_protocol.fork_server"})
"""Programs that do without PyTorch; and so does every worker (``….cli``) that is not named below."""
HEAVY = frozenset(
    {
        "cleanrl_worker.cli",
        "cleanrl_worker.evaluate",
        "cleanrl_worker.import_checkpoint",
        "mosaic_worker.harness.__main__",
        "mosaic_worker.policies.act",
        "mosaic_worker.policies.evaluate",
        "mosaic_worker.replay",
        "mosaic_worker.supervision.launcher",
        "play_worker.cli",
        "sb3_worker.cli",
        "skrl_worker.cli",
        "spade_bdi_rl_worker.cli",
    }
)
"""Programs that import it, or start one that does."""
TRAINS = "PYTEST_DAEMON_TRAINS"
"""Set for a daemon whose workers are of the heavy kind."""
COLD = "PYTEST_COLD"
"""Set to have everything executed, by a session or for one process."""

_ROOT = Path(__file__).resolve().parents[3]
_KNOWN_FOLDERS = frozenset(("", str(_ROOT), str(_ROOT / "gym_gui" / "tests" / "workers")))
"""Folders of modules that hold nothing of what was imported already, or the very same."""
_READ_AT_START = ("PYTHON", "LD_", "COV", "MALLOC_", "GLIBC_", "TZ", "LC_", "LANG")
_MOST_BYTES = 100_000
_ANSWER_SECONDS = 120.0
_execute: Callable[..., None] = subprocess.Popen._execute_child  # type: ignore[attr-defined]


class WarmParent:
    """A warm process that is a child of this one, and the conversation with it. Any thread may call."""

    def __init__(self, connection: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self._connection, self._process = connection, process
        connection.settimeout(_ANSWER_SECONDS)
        self.started_with = _read_at_start(os.environ)
        self._lock = threading.Lock()

    @classmethod
    def start(cls, kind: str) -> WarmParent:
        """Only the main thread may: what dies with its parent dies with the thread that made it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [warm_parent.__name__, kind, str(theirs.fileno()), "x" * warm_parent.ROOM_BYTES]
        room = {warm_parent.ROOM: "x" * warm_parent.ROOM_BYTES}
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", *words],
                cwd=_ROOT,
                env={**os.environ, **warm_parent.SINGLE_THREADED, **room},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        return cls(ours, process)

    def fork(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> int:
        """The pid of a new child of this process. Raises OSError when there is none."""
        with self._lock:
            socket.send_fds(self._connection, [json.dumps(request).encode()], list(descriptors))
            answer = json.loads(self._connection.recv(4096) or b"{}")
        if "pid" not in answer:
            raise OSError(f"the warm parent does not fork: {answer.get('error', 'it ended')}")
        return int(answer["pid"])

    def close(self) -> None:
        self._connection.close()
        if self._process is not None:  # killed: taking apart what it imported would take a second
            self._process.kill()
            self._process.wait(_ANSWER_SECONDS)


class _Here:
    """What this process forks from: by kind, made when it is first needed; or one that it was given; or itself."""

    parents: ClassVar[dict[str, WarmParent]] = {}
    given: WarmParent | None = None
    may_start = False


def install(given: WarmParent | None = None, *, may_start: bool = False) -> None:
    """Fork from now on: from a given parent, from parents that are started here, or directly while this process, which
    is warm itself then, has one thread."""
    _Here.given, _Here.may_start = given, may_start
    subprocess.Popen._execute_child = _start  # type: ignore[attr-defined]


def uninstall() -> None:
    subprocess.Popen._execute_child = _execute  # type: ignore[attr-defined]
    for parent in _Here.parents.values():
        parent.close()
    _Here.parents.clear()


def _start(self: Any, args: Any, executable: Any, preexec_fn: Any, close_fds: bool, *more: Any) -> None:
    """In the place of ``Popen._execute_child``, with its arguments."""
    pass_fds, cwd, env, *rest = more
    (_, _, shell, p2cread, _, _, c2pwrite, _, errwrite, signals, gid, gids, uid, umask, session, group) = rest
    plain = not (executable or preexec_fn or shell or gid or gids or uid) and umask < 0 and group < 0
    request = _request(args, cwd, env, pass_fds, session) if plain and close_fds and signals else None
    theirs = (p2cread, c2pwrite, errwrite)
    streams = [number if given == -1 else given for number, given in enumerate(theirs)]
    pid = None if request is None else _forked(request, [*streams, *pass_fds])
    if pid is None:
        _execute(self, args, executable, preexec_fn, close_fds, *more)
        return
    self.pid, self._child_created = pid, True
    devnull = getattr(self, "_devnull", -1)
    for number in {*theirs, devnull} - {-1}:
        if number == devnull or number in _made_here(self, theirs):
            os.close(number)


def _made_here(popen: Any, theirs: Sequence[int]) -> set[int]:
    """Ends of pipes that only the new process uses; a stream that the caller gave stays open."""
    pipes = (popen.stdin, popen.stdout, popen.stderr)
    return {number for number, pipe in zip(theirs, pipes, strict=True) if pipe is not None}


def _request(args: Any, cwd: Any, env: Any, pass_fds: Sequence[int], new_session: bool) -> dict[str, Any] | None:
    """What is to be forked; None when it is to be executed."""
    if not isinstance(args, (list, tuple)) or len(args) < 3:
        return None
    words = [os.fspath(word) for word in args]
    if words[0] != sys.executable or words[1] != "-m" or not _is_known(words[2]):
        return None
    folder = os.fspath(cwd) if cwd is not None else os.getcwd()  # noqa: PTH109 - as given
    environment = dict(os.environ if env is None else env)
    if COLD in environment or not os.access(folder, os.X_OK) or not _adds_no_other_packages(environment):
        return None
    request = {"argv": words, "cwd": folder, "env": environment, "fds": list(pass_fds), "new_session": new_session}
    request["umask"] = _umask()
    size = sum(len(name) + len(value) + 2 for name, value in environment.items())
    fits = size < warm_parent.ROOM_BYTES and sum(map(len, words)) < warm_parent.ROOM_BYTES // 2
    return request if fits and len(json.dumps(request)) < _MOST_BYTES else None


def _umask() -> int:
    """Of this process. Asking the system call for it would change it, for other threads too."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["Umask"], 8)


def _is_known(module: str) -> bool:
    return module in LIGHT | HEAVY or module.endswith("_worker.cli")


def _adds_no_other_packages(env: Mapping[str, str]) -> bool:
    """What is found on the search path of modules may be another version of what is imported already."""
    folders = [Path(entry) for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry not in _KNOWN_FOLDERS]
    return not any((folder / name).exists() for folder in folders for name in warm_parent.FILES_OF_PRELOADED)


def _forked(request: dict[str, Any], descriptors: Sequence[int]) -> int | None:
    """The pid; None when it has to be executed."""
    env = request["env"]
    if any(name.startswith("COV") for name in env):
        return None
    if _Here.given is None and not _Here.may_start:
        return _forked_from_here(request, descriptors)
    parent = _Here.given or _parent_for(request)
    if parent is None or _read_at_start(env) != parent.started_with:
        return None
    try:
        return parent.fork(request, descriptors)
    except OSError:
        return None  # a test ended it


def _forked_from_here(request: dict[str, Any], descriptors: Sequence[int]) -> int | None:
    if len(os.listdir("/proc/self/task")) > 1 or _read_at_start(request["env"]) != _read_at_start(os.environ):
        return None
    sys.stdout.flush()
    sys.stderr.flush()
    if (pid := os.fork()) == 0:
        warm_parent.become(request, [os.dup(number) for number in descriptors])
    return pid


def _parent_for(request: Mapping[str, Any]) -> WarmParent | None:
    kind = "heavy" if request["argv"][2] in HEAVY or TRAINS in request["env"] else "light"
    if kind not in _Here.parents and threading.current_thread() is threading.main_thread():
        _Here.parents[kind] = WarmParent.start(kind)
    return _Here.parents.get(kind)


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    """Without the search path of modules, which a fork is given like any other."""
    return {name: env[name] for name in env if name.startswith(_READ_AT_START) and name != "PYTHONPATH"}
