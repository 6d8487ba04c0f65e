"""A real sshd on loopback, with keys and configuration of its own, for the tests of what goes over SSH.

It runs as the user of the tests and accepts that user with one key. What its sessions find in their environment is the
test's to say; they carry the mark of the pytest session, so that what is left over there is noticed as well.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

NAME = "server"
"""The name of the machine in the configuration that :attr:`MadeSshd.config` is."""
_SSHD = "/usr/sbin/sshd"
_MARK = "PYTEST_MOSAIC_SESSION"
_START_SECONDS = 15.0


class MadeSshd:
    """Serves until :meth:`stop`. ``config`` is for ``ssh -F``."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder, self.config, self.user = folder, folder / "ssh_config", getpass.getuser()
        self._environment = {"PATH": "/usr/bin:/bin", _MARK: os.environ.get(_MARK, ""), **environment}
        self._process: subprocess.Popen[bytes] | None = None
        for key in ("host_key", "user_key"):
            self._make_key(key)
        (folder / "authorized_keys").write_bytes((folder / "user_key.pub").read_bytes())
        self.port = _free_port()
        self.know_host()
        self._write_configs()

    def know_host(self, key: str = "host_key") -> None:
        """Have the client expect this key of the server."""
        kind, code = (self.folder / f"{key}.pub").read_text().split()[:2]
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {kind} {code}\n")

    def another_key(self) -> str:
        """A key that the server does not have."""
        self._make_key("other_key")
        return "other_key"

    def start(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd of root locks its unprivileged part in
        with (self.folder / "sshd.log").open("ab") as log:
            command = [_SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + _START_SECONDS
        while not _listens(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"sshd did not start: {(self.folder / 'sshd.log').read_text()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End it with its sessions."""
        if self._process is None:
            return
        self.signal_sessions(signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._process = None

    def sessions(self) -> list[int]:
        """The processes of sshd that serve connections."""
        assert self._process is not None
        found, waiting = [], [self._process.pid]
        while waiting:
            children = _children(waiting.pop(), "sshd")
            found += children
            waiting += children
        return found

    def signal_sessions(self, number: int) -> None:
        """SIGKILL cuts every connection at once; SIGSTOP makes them silent, as a cut cable does."""
        for process in self.sessions():
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _make_key(self, name: str) -> None:
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(self.folder / name)]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)

    def _write_configs(self) -> None:
        settings = " ".join(f'"{name}={value}"' for name, value in self._environment.items())
        server = {
            "ListenAddress": f"127.0.0.1:{self.port}",
            "HostKey": self.folder / "host_key",
            "AuthorizedKeysFile": self.folder / "authorized_keys",
            "PidFile": "none",
            "UsePAM": "no",
            "StrictModes": "no",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PermitRootLogin": "prohibit-password",
            "PrintMotd": "no",
            "MaxStartups": "100:30:200",
            "SetEnv": settings,
        }
        client = {
            "HostName": "127.0.0.1",
            "Port": self.port,
            "User": self.user,
            "IdentityFile": self.folder / "user_key",
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "UserKnownHostsFile": self.folder / "known_hosts",
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
        }
        (self.folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in server.items()))
        lines = "".join(f"    {name} {value}\n" for name, value in client.items())
        self.config.write_text(f"Host {NAME} 127.0.0.1\n{lines}")


@contextmanager
def made_sshd(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[MadeSshd]:
    if not Path(_SSHD).exists() or shutil.which("ssh") is None:
        raise AssertionError("these tests need OpenSSH's server and client: `apt install openssh-server` (Debian)")
    server = MadeSshd(folder, environment or {})
    server.start()
    try:
        yield server
    finally:
        server.stop()


def ssh_processes_of(parent: int) -> list[int]:
    """The ssh commands that a process started and that live."""
    return _children(parent, "ssh")


def _children(parent: int, name: str) -> list[int]:
    found = []
    for task in Path(f"/proc/{parent}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(word) for word in task.read_text().split()]
    return [child for child in found if _is_called(child, name)]


def _is_called(process: int, name: str) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    called, _, rest = status.partition("(")[2].rpartition(")")
    return called == name and rest.split()[0] != "Z"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
