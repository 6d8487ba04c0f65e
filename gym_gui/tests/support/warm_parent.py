"""The process that :mod:`gym_gui.tests.support.warm_python` forks from: it imports once what programs of tests import.

Run as ``python -m … KIND SOCKET_FD ROOM``. It answers each request (a JSON object and the descriptors of the new
process) with the pid of a fork that is a *sibling* of this process, so that the process that asked is its parent: waits
for it, is seen by ``getppid``, and takes it along with PR_SET_PDEATHSIG. It stays single-threaded, since a fork copies
one thread only.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import fcntl
import gc
import importlib
import io
import json
import os
import platform
import random
import runpy
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from gym_gui.tests.support import warm_popen
from mosaic_worker.supervision.launcher import leave

_NAME = "gym_gui.tests.support.warm_parent"
ROOM = "PYTEST_ROOM_FOR_AN_ENVIRONMENT"
ROOM_BYTES = 65536
"""Space for the environment and the command line of a fork, where the kernel shows them."""
SINGLE_THREADED = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
CAN_FORK_FOR_ITS_PARENT = sys.platform == "linux" and platform.machine() == "x86_64"
_CLONE = 56
_CLONE_PARENT, _CLONE_CHILD_CLEARTID, _CLONE_CHILD_SETTID = 0x8000, 0x200000, 0x1000000
_MOST_OFFSET = 2048
_PR_SET_PDEATHSIG = 1
_HIGH = 300
"""Descriptors from here on are out of the way of those that a fork is to have."""

_LIGHT = (
    "gym_gui.cli.main",
    "gym_gui.services.trainer.__main__",
    "mosaic_protocol.worker_client",
    "mosaic_worker.worker_main",
)
_HEAVY = (
    *("numpy", "torch", "torch.utils.tensorboard", "safetensors.torch", "tyro"),
    *("gymnasium", "gymnasium.vector", "gymnasium.envs.classic_control.cartpole"),
)
_KIT = ("mosaic_worker.supervision.launcher",)
FILES_OF_PRELOADED = (
    *("sitecustomize.py", "usercustomize.py", "grpc", "google", "tensorboard", "PIL", "typing_extensions.py"),
    *(f"{name}{end}" for name in ("numpy", "torch", "safetensors", "tyro", "gymnasium") for end in ("", ".py")),
    *("gym_gui", "mosaic_protocol", "mosaic_worker", "msgspec", "pydantic"),
)
_WITH_A_PARENT_OF_ITS_OWN = ("gym_gui.services.trainer", "play_worker.cli")
"""Programs with several threads that start others."""
_STARTS_OTHERS = (*_WITH_A_PARENT_OF_ITS_OWN, "cleanrl_worker.cli", "mosaic_protocol.fork_server")
"""Programs that calculate nothing themselves."""


def main() -> None:
    _, kind, number, _ = sys.argv
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # as every program of these sets it, before it imports gRPC
    with warnings.catch_warnings(action="ignore"):
        for name in (*_LIGHT, *_KIT, *(_HEAVY if kind == "heavy" else ())):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=int(number)))


def _serve(connection: socket.socket) -> None:
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, 200_000, 64)
        if not message:
            return
        if (threads := len(list(Path("/proc/self/task").iterdir()))) > 1:
            connection.send(json.dumps({"error": f"it has {threads} threads"}).encode())
            continue
        if (pid := _fork_for_my_parent()) == 0:
            connection.detach()
            become(json.loads(message), descriptors)
        for number in descriptors:
            os.close(number)
        connection.send(json.dumps({"pid": pid}).encode())


def _fork_for_my_parent() -> int:
    """As :func:`os.fork`, for a sibling: its parent is the parent of this process."""
    python = ctypes.PyDLL(None)
    flags = _CLONE_PARENT | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID | signal.SIGCHLD
    own_id = ctypes.c_void_p(_place_of_the_threads_id())
    python.PyOS_BeforeFork()
    pid = int(python.syscall(_CLONE, flags, None, None, own_id, None))
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return pid


def _place_of_the_threads_id() -> int:
    """Where the C library keeps the id of this thread: it sends signals to a thread by it, and ``fork`` has the kernel
    write the new one there."""
    pthread_self = ctypes.CDLL(None).pthread_self
    pthread_self.restype = ctypes.c_void_p
    begin, mine = int(pthread_self()), threading.get_native_id()
    places = range(begin, begin + _MOST_OFFSET, 4)
    return next(place for place in places if ctypes.c_int.from_address(place).value == mine)


def become(request: dict[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """Run ``python -m MODULE …`` in this process, which was forked for it, to its end."""
    _take_descriptors(descriptors, [0, 1, 2, *request["fds"]])
    if request["new_session"]:
        os.setsid()
    os.umask(request["umask"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    _, program, module, *words = request["argv"]
    _show(request["argv"], os.environb)
    _open_streams()
    _search_modules(request["cwd"])
    _forget_the_server(module)
    warm_popen.install(_parent_of_its_own() if module in _WITH_A_PARENT_OF_ITS_OWN else None)
    sys.argv, sys.orig_argv = [program, *words], request["argv"]
    _end_like_an_interpreter(lambda: runpy._run_module_as_main(module))  # type: ignore[attr-defined]


def _parent_of_its_own() -> warm_popen.WarmParent:
    """A fork of this process that forks for it, ends with it, and holds nothing of it open."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mine = os.getpid()
    if os.fork():
        theirs.close()
        return warm_popen.WarmParent(ours)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != mine:
        os._exit(0)
    os.setsid()
    marks = {name: value for name, value in os.environb.items() if name.startswith(b"PYTEST_")}
    _show([sys.executable, "-m", _NAME], marks)
    nothing = os.open(os.devnull, os.O_RDWR)
    _take_descriptors([nothing, nothing, nothing, theirs.detach()], [0, 1, 2, 3])
    _serve(socket.socket(fileno=3))
    os._exit(0)


def _take_descriptors(given: Sequence[int], wanted: Sequence[int]) -> None:
    aside = [fcntl.fcntl(number, fcntl.F_DUPFD, _HIGH) for number in given]
    os.closerange(0, _HIGH)
    for number, target in zip(aside, wanted, strict=True):
        os.dup2(number, target)
    kept = max(wanted)
    for number in range(3, kept):
        if number not in wanted:
            os.close(number) if _is_open(number) else None
    os.closerange(kept + 1, max(aside) + 1)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _show(argv: Sequence[str], environment: Mapping[bytes, bytes]) -> None:
    """Have ``/proc/<pid>`` show these as the command line and the environment of this process."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    variables = b"".join(name + b"=" + value + b"\0" for name, value in environment.items())
    for content, begin, end in (
        (variables, int(fields[47]), int(fields[48])),
        (b"".join(word.encode() + b"\0" for word in argv), int(fields[45]), int(fields[46])),
    ):
        assert len(content) <= end - begin, "there is not enough room to show it"
        ctypes.memset(begin, 0, end - begin)
        ctypes.memmove(begin, content, len(content))


_ENCODING, _ERRORS = sys.__stdin__.encoding, sys.__stdin__.errors  # type: ignore[union-attr]


def _open_streams() -> None:
    """As an interpreter does when it starts."""
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    raw = io.FileIO(0, "r", closefd=False)
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(raw), _ENCODING, _ERRORS)
    for name, number, errors in (("stdout", 1, _ERRORS), ("stderr", 2, "backslashreplace")):
        raw = io.FileIO(number, "w", closefd=False)
        buffer: Any = raw if at_once else io.BufferedWriter(raw)
        by_line = not at_once and (name == "stderr" or os.isatty(number))
        stream = io.TextIOWrapper(buffer, _ENCODING, errors, line_buffering=by_line, write_through=at_once)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _search_modules(folder: str) -> None:
    given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = [folder, *given, *(entry for entry in _INSTALLED if entry not in given)]


_INSTALLED = [entry for entry in sys.path[1:] if entry not in os.environ.get("PYTHONPATH", "").split(os.pathsep)]
"""Where an interpreter looks for modules besides."""


def _forget_the_server(module: str) -> None:
    """What a new interpreter would not have: another main module, what others registered, shared random numbers."""
    sys.modules["__main__"] = ModuleType("__main__")
    vars(sys.modules["__main__"]).update(__annotations__={}, __builtins__=builtins)
    main_module = f"{module}.__main__"
    sys.modules.pop(main_module if main_module in sys.modules else module, None)
    atexit._clear()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(int.from_bytes(os.urandom(4), "little"))
    if module not in _STARTS_OTHERS:
        _use_all_threads()


def _use_all_threads() -> None:
    """As many as PyTorch would have taken when it was imported; more than one make a thread, which no fork survives."""
    torch = sys.modules.get("torch")
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    count = int(wanted) if wanted.isdecimal() and int(wanted) else len(os.sched_getaffinity(0))
    if torch is not None and torch.get_num_threads() != count:
        torch.set_num_threads(count)


def _end_like_an_interpreter(run: Callable[[], object]) -> NoReturn:
    """Run it and leave, without taking apart what was imported: that takes half a second."""
    try:
        run()
        status = 0
    except SystemExit as ending:
        code = ending.code
        status = 0 if code is None else code & 0xFF if isinstance(code, int) else 1
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        status = 130
    except BaseException:  # noqa: BLE001 - as Python reports whatever ends it
        sys.excepthook(*sys.exc_info())
        status = 1
    leave(status)


if __name__ == "__main__":
    main()
