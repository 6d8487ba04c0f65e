"""Hosts on this machine: each a network, mount, pid and uts namespace with a disk, a boot and an sshd of its own.

Namespaces of the network alone share disk, processes and name, which hides what goes wrong between machines. Everything
is below a folder of the test, and ends with :meth:`FarHost.remove`. Needs root, iproute2 and openssh-server.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from gym_gui.services.hosts.book import Host, HostBook
from mosaic_protocol.paths import MosaicPaths

_NEEDED = {"ip": "iproute2", "sshd": "openssh-server", "ssh": "openssh-client", "unshare": "util-linux"}
_SSHD = "/usr/sbin/sshd"
_numbers = count(1)
_START_SECONDS = 20.0


def require_tools() -> None:
    """Fail with the way to get what is missing."""
    search = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [package for tool, package in _NEEDED.items() if shutil.which(tool, path=search) is None]
    assert not missing, f"install the Debian packages {' '.join(missing)}: `make setup-dev` as root does"
    assert os.geteuid() == 0, "hosts in namespaces need root"


class FarHost:
    """A machine that is reached over ssh, and nothing else."""

    def __init__(self, folder: Path, name: str, *, hidden: Sequence[Path] = ()) -> None:
        """``hidden`` are folders of this machine that are empty over there."""
        require_tools()
        self.name = name
        self.folder = folder / name
        self.folder.mkdir()
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        tag = f"{os.getpid() % 100_000:x}{next(_numbers):x}"
        self._space, self._here, self._there = f"mosaic-{tag}", f"mh{tag}", f"mt{tag}"
        net = (os.getpid() * 7 + int(tag, 16)) % 16000
        self._network = f"10.{200 + net // 64 // 64 % 50}.{net // 64 % 250}.{net % 64 * 4}"
        first, _, last = self._network.rpartition(".")
        self._ours, self.address = f"{first}.{int(last) + 1}", f"{first}.{int(last) + 2}"
        self._hidden = [*hidden]
        self._process: subprocess.Popen[bytes] | None = None
        self._keys()
        self._wire()

    # ---- life ----------------------------------------------------------------------------------------------------

    def _keys(self) -> None:
        for key in ("host_key", "user_key"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / key))
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized_keys")
        (self.folder / "sshd_config").write_text(
            f"ListenAddress {self.address}\nHostKey {self.folder}/host_key\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\n"
            "StrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"
            f"PidFile none\nMaxStartups 100\nLogLevel ERROR\n"
        )
        public = (self.folder / "host_key.pub").read_text().split()
        (self.folder / "known_hosts").write_text(f"{self.address} {public[0]} {public[1]}\n")

    def _wire(self) -> None:
        _run("ip", "netns", "add", self._space)
        _run("ip", "link", "add", self._here, "type", "veth", "peer", "name", self._there, "netns", self._space)
        _run("ip", "addr", "add", f"{self._ours}/30", "dev", self._here)
        _run("ip", "link", "set", self._here, "up")
        for words in (
            ("addr", "add", f"{self.address}/30", "dev", self._there),
            ("link", "set", self._there, "up"),
            ("link", "set", "lo", "up"),
        ):
            _run("ip", "-n", self._space, *words)

    def start(self, *, check: bool = True) -> FarHost:
        """Boot: what was on its disk before is gone, like the processes. ``check``: wait until ssh gets in."""
        boot = self.folder / "boot_id"
        boot.write_text(f"{uuid.uuid4()}\n")
        mounts = [f"mount -t tmpfs -o mode=700 none {folder}" for folder in [self.disk, *self._hidden]]
        script = [
            "mount --make-rprivate /",
            *mounts,
            "mount -t tmpfs -o mode=755 none /run",
            "mkdir -p /run/sshd",
            f"mount --bind {boot} /proc/sys/kernel/random/boot_id",
            f"hostname {self.name}",
            f"exec {_SSHD} -D -e -f {self.folder}/sshd_config",
        ]
        words = ["ip", "netns", "exec", self._space, "unshare", "-m", "-u", "-p", "-f", "--mount-proc", "--kill-child"]
        with (self.folder / "sshd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*words, "sh", "-ec", "\n".join(script)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            )
        deadline = time.monotonic() + _START_SECONDS
        while check and not self._answers():
            assert self._process.poll() is None, (self.folder / "sshd.log").read_text()
            assert time.monotonic() < deadline, f"sshd of {self.name} does not answer"
            time.sleep(0.05)
        return self

    def _answers(self) -> bool:
        return _try("ssh", *self._options(), "--", self.name, "true")

    def _options(self) -> list[str]:
        return ["-F", str(self.write_ssh_config()), "-o", "BatchMode=yes", "-o", "ConnectTimeout=2"]

    def crash(self) -> None:
        """Power off."""
        for pid in self._inner():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait(30)
            self._process = None

    def _inner(self) -> list[int]:
        """The first process of its pid namespace, with which all others end."""
        if self._process is None:
            return []
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        with suppress(OSError):
            return [int(pid) for pid in children.read_text().split()]
        return []

    def remove(self) -> None:
        self.crash()
        _try("ip", "link", "del", self._here)
        _try("ip", "netns", "del", self._space)

    # ---- faults --------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Nothing gets through, and nobody is told."""
        _run("ip", "-n", self._space, "link", "set", self._there, "down")

    def mend(self) -> None:
        _run("ip", "-n", self._space, "link", "set", self._there, "up")

    def change_host_key(self) -> None:
        for file in ("host_key", "host_key.pub"):
            (self.folder / file).unlink()
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "host_key"))

    # ---- looking -------------------------------------------------------------------------------------------------

    def write_ssh_config(self, *others: FarHost) -> Path:
        """A configuration in which this host, and others, go by their names."""
        file = self.folder / "ssh_config"
        file.write_text("\n".join(one.ssh_lines() for one in (self, *others)))
        return file

    def ssh_lines(self) -> str:
        return (
            f"Host {self.name}\n  HostName {self.address}\n  User root\n  IdentityFile {self.folder}/user_key\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n"
        )

    @property
    def inner(self) -> int:
        """The number that its first process has here."""
        (inner,) = self._inner()
        return inner

    @property
    def enter(self) -> list[str]:
        """The command that runs another one over there."""
        return ["nsenter", f"--target={self.inner}", "--mount", "--uts", "--pid", "--net"]

    def outer_pids(self, *words: str) -> list[int]:
        """Like :meth:`pids`, by the numbers that they have here."""
        space = Path(f"/proc/{self.inner}/ns/pid").readlink()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if all(word in line for word in words) and (entry / "ns" / "pid").readlink() == space:
                    found.append(int(entry.name))
        return found

    def run(self, *words: str) -> str:
        """Run something over there, past ssh; what it prints."""
        done = subprocess.run([*self.enter, *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pids(self, *words: str) -> list[int]:
        """The numbers over there of processes whose command line has all of these words in it."""
        lines = self.run("ps", "-ww", "-eo", "pid=,args=").splitlines()
        return [int(line.split()[0]) for line in lines if all(word in line for word in words) and "ps -ww" not in line]

    def kill(self, *words: str, number: signal.Signals = signal.SIGKILL) -> int:
        found = self.pids(*words)
        for pid in found:
            with suppress(AssertionError):
                self.run("kill", f"-{int(number)}", str(pid))
        return len(found)

    def add_to(self, paths: MosaicPaths, **changes: object) -> Host:
        """Write it into ``hosts.toml``, with the interpreter of this test session."""
        fields = {"folder": str(self.disk / "mosaic"), "python": sys.executable, **changes}
        host = Host(self.name, self.name, **fields)  # type: ignore[arg-type]
        HostBook(paths).add(host)
        return host


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"


def _try(*words: str) -> bool:
    return subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == 0
