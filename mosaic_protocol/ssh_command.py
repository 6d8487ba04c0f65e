"""OpenSSH's own command: what to call it with, so that it asks nobody unseen, opens no port and outlives nobody.

The user's ``~/.ssh/config``, agents, known hosts and jump hosts apply as in a shell. ``MOSAIC_SSH_CONFIG`` names
another configuration file (``ssh -F``).

    ssh = SshCommand("user@server")
    told = ssh.run(posix_command("uname", "-s")).stdout
    tunnel = start_tied(ssh.arguments("cat", forwards=[remote_forward("/run/x/there.sock", "/run/y/here.sock")]))
"""

from __future__ import annotations

import fcntl
import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mosaic_protocol.plain_text import clean_line, one_line
from mosaic_protocol.unix_socket import LONGEST_PATH

CONFIG_VARIABLE = "MOSAIC_SSH_CONFIG"
FAILED = 255
"""Exit status of ssh when it failed itself; any other is the remote command's."""
SILENT_SECONDS = 15
"""A link that brings nothing for so long is taken for cut, and ssh ends."""

_ALIVE_SECONDS = 5
_CONNECT_SECONDS = 15
_USER = r"[A-Za-z0-9_.][A-Za-z0-9_.+@-]*@"
_HOST = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)"
_DESTINATION = re.compile(rf"(?:{_USER})?{_HOST}|ssh://(?:{_USER})?(?:{_HOST}|\[[0-9A-Fa-f:.]+\])(?::[0-9]{{1,5}})?")
_LONGEST_DESTINATION = 320
_FORWARDED = re.compile(r"/[A-Za-z0-9/._+=,@-]*")
"""A path that ssh takes as it is: it would expand % and $, and divides at colons."""
_TIED = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, 9, 0, 0, 0); "
    "os.getppid() == int(sys.argv[1]) or os._exit(71); "
    "sys.argv[2] == 'deaf' and signal.signal(2, signal.SIG_IGN); os.execvp(sys.argv[3], sys.argv[3:])"
)
"""Executed before ssh: the kernel then ends it with the thread that started it, also when that is killed."""
_UNTOLD = re.compile(
    r"[@\s]*|.*WARNING: .* CHANGED!.*|Warning: Permanently added .*|debug\d: .*|Connection to \S+ closed\."
)
_CHANGED = re.compile(r"[Hh]ost key for .* has changed")
_OFFENDING = re.compile(r"Offending .* key in .*")
_FOLDER_PREFIX = "mosaic-ssh-"
_CONTROL_SUFFIX = 24
"""What ssh appends to the path of a control socket while it makes it, and the name of the socket itself."""


class SshError(Exception):
    """SSH could not do it; ``str()`` is a sentence with ssh's own words."""


def checked_destination(text: str) -> str:
    """Return ``text`` if it is ``HOST``, ``USER@HOST`` or ``ssh://USER@HOST:PORT``, raise :class:`SshError` otherwise.
    What ssh would take for an option, or a shell for a command, is none."""
    if len(text) > _LONGEST_DESTINATION or not _DESTINATION.fullmatch(text):
        raise SshError(
            f"{one_line(text)[:60]!r} is no destination for SSH: it is HOST, USER@HOST, ssh://USER@HOST:PORT, "
            "or a name from ~/.ssh/config"
        )
    return text


def is_forwardable(path: str) -> bool:
    """Whether ssh can forward a socket at this path on either side."""
    return _FORWARDED.fullmatch(path) is not None and len(path) <= LONGEST_PATH


def local_forward(here: str | Path, there: str | Path) -> tuple[str, str]:
    """What dials the socket ``here`` reaches the one that listens ``there``."""
    return "-L", _forward(here, there)


def remote_forward(there: str | Path, here: str | Path) -> tuple[str, str]:
    """What dials the socket ``there`` reaches the one that listens ``here``. A socket of that name must not be there,
    unless its sshd has ``StreamLocalBindUnlink``: take a name that was never used."""
    return "-R", _forward(there, here)


def _forward(listening: str | Path, dialled: str | Path) -> str:
    for path in map(str, (listening, dialled)):
        if not is_forwardable(path):
            raise SshError(
                f"SSH cannot forward a socket at {one_line(path)[:200]!r}: the path is too long or not plain"
            )
    return f"{listening}:{dialled}"


def posix_command(*words: str) -> str:
    """A command for the other side, whatever the login shell there is."""
    return shlex.join(words)


def posix_script(script: str, *arguments: str) -> str:
    """A script of one line for the other side's ``sh``, whatever the login shell there is."""
    return "exec " + shlex.join(["sh", "-c", script, "sh", *arguments])


@dataclass(frozen=True)
class SshCommand:
    """How to reach one destination. ``may_ask``: somebody sits at a terminal and can answer ssh's questions.
    ``control``: the socket of a connection that several commands share, the first one as its ``master``."""

    destination: str
    may_ask: bool = False
    control: Path | None = None
    config: Path | None = None

    def __post_init__(self) -> None:
        checked_destination(self.destination)

    @classmethod
    def to(cls, destination: str, *, environ: Mapping[str, str] = os.environ, **more: Any) -> SshCommand:
        """The same with the configuration file that the environment names."""
        named = environ.get(CONFIG_VARIABLE)
        return cls(destination, config=Path(named).expanduser() if named else None, **more)

    def arguments(
        self,
        command: str = "",
        *,
        forwards: Sequence[tuple[str, str]] = (),
        terminal: bool = False,
        master: bool = False,
    ) -> list[str]:
        """The whole command line. ``command`` is for the shell over there; "" waits until ssh is ended."""
        options = {
            "BatchMode": "no" if self.may_ask else "yes",
            "ConnectTimeout": _CONNECT_SECONDS,
            "ServerAliveInterval": _ALIVE_SECONDS,
            "ServerAliveCountMax": SILENT_SECONDS // _ALIVE_SECONDS,
            "ExitOnForwardFailure": "yes",
            "StreamLocalBindMask": "0177",
            "StreamLocalBindUnlink": "yes",
            # A connection that the user shares would keep our forwards when we are gone.
            "ControlMaster": "yes" if master else "no",
            "ControlPath": self.control or "none",
            "ControlPersist": "no",
            "RemoteCommand": "none",
            "PermitLocalCommand": "no",
            "ForwardAgent": "no",
            "ForwardX11": "no",
            "LogLevel": "ERROR",
        }
        if not forwards:  # those of the user's configuration may be taken by a session of the user's
            options["ClearAllForwardings"] = "yes"
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        words += [word for forward in forwards for word in forward]
        session = ["-tt"] if terminal else ["-T"] if command else ["-T", "-N"]
        return [*self._program(), *words, *session, "--", self.destination, *([command] if command else [])]

    def add_forward(self, forward: tuple[str, str]) -> list[str]:
        """The command line that adds a forward to the connection of ``control``."""
        options = ["-o", "StreamLocalBindMask=0177", "-o", "StreamLocalBindUnlink=yes", "-o", "LogLevel=ERROR"]
        where = ["-o", f"ControlPath={self.control}", "-O", "forward"]
        return [*self._program(), *options, *where, *forward, "--", self.destination]

    def run(self, command: str, *, given: bytes = b"", seconds: float = 60.0) -> subprocess.CompletedProcess[bytes]:
        """Run a command over there to its end. Raises :class:`SshError` when ssh fails or takes too long; what the
        command itself answers is the caller's to judge. A command that is given up goes on over there until it reads
        or writes: sshd ends nothing that has no terminal."""
        return _ended(self.arguments(command), given, seconds, self.destination, is_asked=self.may_ask)

    def forward_now(self, forward: tuple[str, str], seconds: float = 20.0) -> None:
        """Add a forward to the connection of ``control``. Raises :class:`SshError`."""
        done = _ended(self.add_forward(forward), b"", seconds, self.destination, is_asked=False)
        if done.returncode:
            raise SshError(said(done.stderr) or "ssh could not forward the socket")

    def _program(self) -> list[str]:
        return ["ssh", *(["-F", str(self.config)] if self.config else [])]


def _ended(
    arguments: list[str], given: bytes, seconds: float, destination: str, *, is_asked: bool
) -> subprocess.CompletedProcess[bytes]:
    process = start_tied(
        arguments,
        is_apart=not is_asked,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        out, errors = process.communicate(given, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise SshError(f"{destination} did not answer within {seconds:.0f} s") from None
    finally:
        end(process)
    if process.returncode == FAILED or process.returncode < 0:
        raise SshError(said(errors) or f"ssh ended with status {process.returncode}")
    return subprocess.CompletedProcess(arguments, process.returncode, out, errors)


# ---- processes ---------------------------------------------------------------------------------------------------


def start_tied(
    arguments: Sequence[str], *, is_apart: bool = True, is_deaf: bool = False, **how: Any
) -> subprocess.Popen[bytes]:
    """Start ssh so that the kernel ends it when this process ends, however that happens.

    ``is_apart`` gives it a session of its own: no terminal to ask on, no Ctrl-C. ``is_deaf``: Ctrl-C does not end it
    although it has the terminal. ``how`` goes to :class:`subprocess.Popen`. May be called from any thread. Raises
    :class:`SshError` where there is no ssh, and OSError.
    """
    if shutil.which(arguments[0]) is None:
        raise SshError("there is no ssh command here: install OpenSSH's client (Debian: `apt install openssh-client`)")
    tie = [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), "deaf" if is_deaf else "hears"]
    command = [*tie, *arguments]
    return _Starter.of_this_process().start(command, start_new_session=is_apart, **how)


def end(process: subprocess.Popen[bytes], seconds: float = 0.0) -> int:
    """End ssh, after waiting so long for it to end by itself; its exit status."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
    finally:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass  # what was written and never read


class _Starter:
    """A thread that lasts as long as the process: the kernel ends a tied child with the *thread* that started it."""

    _mine: _Starter | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._process = os.getpid()
        self._orders: queue.SimpleQueue[tuple[list[str], dict[str, Any], Future[subprocess.Popen[bytes]]]]
        self._orders = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="ssh-starter", daemon=True).start()

    @classmethod
    def of_this_process(cls) -> _Starter:
        with cls._lock:
            if cls._mine is None or cls._mine._process != os.getpid():  # a fork has no threads
                cls._mine = cls()
            return cls._mine

    def start(self, command: list[str], **how: Any) -> subprocess.Popen[bytes]:
        started: Future[subprocess.Popen[bytes]] = Future()
        self._orders.put((command, how, started))
        return started.result()

    def _serve(self) -> None:
        while True:
            command, how, started = self._orders.get()
            try:
                started.set_result(subprocess.Popen(command, **how))
            except Exception as error:  # noqa: BLE001 - it belongs to the thread that asked
                started.set_exception(error)


# ---- what ssh says -----------------------------------------------------------------------------------------------


def said(errors: bytes | str, most: int = 400) -> str:
    """What ssh said when it failed, as one sentence without escapes; "" for nothing. Of a host key that changed: that,
    and where the old one is noted."""
    text = errors.decode(errors="replace") if isinstance(errors, bytes) else errors
    lines = [one_line(clean_line(line)) for line in text.splitlines()]
    lines = [line for line in lines if not _UNTOLD.fullmatch(line)]
    changed = [line for line in lines if _CHANGED.search(line) or _OFFENDING.fullmatch(line)]
    told = [*changed, *lines[-1:]] if changed else lines[-1:]
    return " ".join(dict.fromkeys(f"{line.rstrip('.')}." for line in told))[:most].rstrip(".")


# ---- sockets on this side ----------------------------------------------------------------------------------------


@contextmanager
def socket_folder() -> Iterator[Path]:
    """A folder for the sockets of one connection: only its owner can enter, its path is short enough, and it is gone
    afterwards. What a killed process left is removed when the next one comes."""
    base = _short_base()
    _remove_left(base)
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=base))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _short_base() -> Path:
    room = LONGEST_PATH - len(_FOLDER_PREFIX) - 10 - _CONTROL_SUFFIX
    for text in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"):
        if is_forwardable(text) and len(text) <= room and os.access(text, os.W_OK | os.X_OK):
            return Path(text)
    raise SshError("there is no folder for sockets: set XDG_RUNTIME_DIR to a short path that you can write to")


def _remove_left(base: Path) -> None:
    """Folders of ours that no process holds any more. One that is being made this very moment is not locked yet, and is
    spared for being young."""
    for folder in base.glob(f"{_FOLDER_PREFIX}*"):
        try:
            status = folder.lstat()
            if status.st_uid != os.getuid() or _is_young(status):
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass  # somebody uses it
        finally:
            os.close(lock)


def _is_young(status: os.stat_result) -> bool:
    return abs(time.time() - status.st_mtime) < 60.0
