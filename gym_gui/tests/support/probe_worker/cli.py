"""``python -m probe_worker.cli BEHAVIOUR …`` in a run directory; see :data:`BEHAVIOURS`."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from mosaic_protocol import claims

PIDS = Path("pids")


def leave(status: str) -> None:
    sys.exit(int(status))


def leave_with_words(words: str) -> None:
    sys.exit(words)


def fall() -> None:
    raise RuntimeError("the probe fell")


def signal_itself(number: str) -> None:
    os.kill(os.getpid(), int(number))
    time.sleep(60)


def interrupt_itself() -> None:
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted, as by a person")


def report() -> None:
    """Write down everything that starting a process decides."""
    found = {
        "argv": sys.argv,
        "name": __name__,
        "main": sys.modules["__main__"].__spec__.name if sys.modules["__main__"].__spec__ else None,
        "env": dict(os.environ),
        "cwd": str(Path.cwd()),
        "path": sys.path[0],
        "stdin": sys.stdin.read(),
        "session": os.getsid(0) == os.getpid() == os.getpgid(0),
        "threads": threading.active_count(),
        "descriptors": sorted(int(entry) for entry in os.listdir("/proc/self/fd"))[:-1],
        "signals": {name: str(signal.getsignal(getattr(signal, name))) for name in ("SIGTERM", "SIGINT", "SIGCHLD")},
        "children": subprocess.run(["printenv", "MOSAIC_RUN_ID"], capture_output=True, text=True, check=False).stdout,
    }
    Path("report.json").write_text(json.dumps(found))


def speak() -> None:
    print("to stdout")
    print("to stderr", file=sys.stderr)


def end_slowly() -> None:
    """What has to happen after the last line of a program."""
    atexit.register(lambda: print("exit handler ran"))
    threading.Timer(0.2, lambda: print("thread finished")).start()


def hold(*relatives: str) -> None:
    """Wait to be ended, after starting relatives of the given kinds."""
    _note("leader")
    for kind in relatives:
        _RELATIVES[kind]()
        _wait_for_note(kind)
    Path("ready").touch()
    _wait_to_be_ended()


def hold_until_asked(*relatives: str) -> None:
    """The same, but leave when asked to."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    hold(*relatives)


def abandon(*relatives: str) -> None:
    """Start relatives and leave them behind."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for kind in relatives:
        _RELATIVES[kind]()
        _wait_for_note(kind)


BEHAVIOURS: dict[str, Callable[..., None]] = {
    behaviour.__name__: behaviour
    for behaviour in (
        leave,
        leave_with_words,
        fall,
        signal_itself,
        interrupt_itself,
        report,
        speak,
        end_slowly,
        hold,
        hold_until_asked,
        abandon,
    )
}

# ---- relatives -----------------------------------------------------------------------------------

_SLEEPER = (
    "import os, sys, time; from pathlib import Path; Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(600)"
)


def _program(kind: str, *, orphan: bool = False, **options: object) -> None:
    command = [sys.executable, "-c", _SLEEPER, str(_note_path(kind))]
    if not orphan:
        subprocess.Popen(command, **options)  # type: ignore[call-overload]
    elif os.fork() == 0:
        subprocess.Popen(command, **options)  # type: ignore[call-overload]
        os._exit(0)


def _fork(kind: str, *, new_session: bool, let_go: bool = False) -> None:
    """A grandchild whose parent is gone, and which executes nothing; one that lets go keeps no file open either."""
    if os.fork() > 0:
        return
    if new_session:
        os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if let_go:
            os.closerange(0, 4096)
        _note(kind)
        _wait_to_be_ended()
    os._exit(0)


def _stopped() -> None:
    pid = os.fork()
    if pid == 0:
        _note("stopped")
        os.kill(os.getpid(), signal.SIGSTOP)
        _wait_to_be_ended()
    os.waitpid(pid, os.WUNTRACED)


_RELATIVES: dict[str, Callable[[], None]] = {
    "child": lambda: _program("child"),
    "bare_child": lambda: _program("bare_child", env={}),
    "session": lambda: _program("session", start_new_session=True),
    "orphan": lambda: _program("orphan", orphan=True),
    "orphan_session": lambda: _program("orphan_session", orphan=True, start_new_session=True),
    "fork": lambda: _fork("fork", new_session=False),
    "fork_session": lambda: _fork("fork_session", new_session=True),
    "daemonized": lambda: _fork("daemonized", new_session=True, let_go=True),
    "stopped": _stopped,
}
KINDS = tuple(_RELATIVES)


def _note_path(kind: str) -> Path:
    return PIDS.absolute() / kind


def _note(kind: str) -> None:
    _note_path(kind).write_text(str(os.getpid()))


def _wait_for_note(kind: str) -> None:
    while not (_note_path(kind).exists() and _note_path(kind).read_text()):
        time.sleep(0.005)


def _wait_to_be_ended() -> None:
    while True:
        time.sleep(60)


def main() -> None:
    if not claims.claim(Path(os.environ["MOSAIC_RUN_DIR"]) / "claims", int(os.environ["MOSAIC_ATTEMPT"])):
        sys.exit(75)
    PIDS.mkdir(exist_ok=True)
    BEHAVIOURS[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
