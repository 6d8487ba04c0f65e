"""A cluster under Slurm on this machine: munge, a controller and one node, in a folder and on ports of the test.

Nothing of it is left by :meth:`SlurmCluster.remove`. Needs root and Debian's slurmctld, slurmd, slurm-client and munge.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from gym_gui.services.hosts.book import SLURM, Host, HostBook
from mosaic_protocol.paths import MosaicPaths

_NEEDED = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client"}
_SECONDS = 60.0
_PRIVILEGE_SEPARATION = Path("/run/sshd")
"""A folder that sshd insists on."""
_CONFIG = """\
ClusterName=mosaic
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
SlurmdTimeout=30
KillWait=10
DefMemPerCPU=200
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs=64 RealMemory=16000
PartitionName=main Nodes=ALL Default=YES State=UP PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=ALL State=UP PriorityTier=10 PreemptMode=OFF
"""


def require_tools() -> None:
    """Fail with the way to get what is missing."""
    missing = [package for tool, package in _NEEDED.items() if shutil.which(tool, path=_path()) is None]
    assert not missing, f"install the Debian packages {' '.join(missing)}: `make setup-dev` as root does"
    assert os.geteuid() == 0, "a cluster on this machine needs root"


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class SlurmCluster:
    """``main`` is the usual partition; what runs there makes way for ``urgent``."""

    def __init__(self) -> None:
        require_tools()
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))  # a short path: munge has a socket there
        for name in ("munge", "state", "spool", "tmp"):
            (self.folder / name).mkdir(mode=0o700)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        controller_port, node_port = _free_ports(2)
        self.config = self.folder / "slurm.conf"
        host = socket.gethostname().split(".")[0]
        self.config.write_text(
            _CONFIG.format(folder=self.folder, host=host, controller_port=controller_port, node_port=node_port)
        )
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def environ(self) -> Mapping[str, str]:
        """With a folder for what a job that is killed leaves on its machine."""
        return {"SLURM_CONF": str(self.config), "TMPDIR": str(self.folder / "tmp")}

    def start(self) -> SlurmCluster:
        munge = self.folder / "munge"
        files = [f"--{name}-file={munge}/{name}" for name in ("key", "pid", "log", "seed")]
        self._spawn("munged", "--foreground", "--force", f"--socket={munge}/socket", *files)
        _until("munged to listen", (munge / "socket").exists)
        self.start_controller()
        self._spawn("slurmd", "-D", "-N", "node1")
        _until("the node to be up", lambda: "idle" in self.run("sinfo", "-h", "-o", "%T", check=False), self.log)
        return self

    def start_controller(self) -> None:
        self._spawn("slurmctld", "-D", "-i")

    def stop_controller(self) -> None:
        """As for an update of it. What is killed within seconds of a job's begin has not written that down yet: it
        forgets the job when it comes back, and Slurm ends it."""
        self._end("slurmctld", signal.SIGTERM)

    def _spawn(self, program: str, *words: str) -> None:
        with (self.folder / f"{program}.log").open("ab") as log:
            self._processes[program] = subprocess.Popen(
                [program, *words],
                env={"PATH": _path(), "LC_ALL": "C.UTF-8", **self.environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _end(self, program: str, number: signal.Signals) -> None:
        process = self._processes.pop(program, None)
        if process is not None:
            process.send_signal(number)
            process.wait(_SECONDS)

    def remove(self) -> None:
        """End the jobs, then the cluster, and whatever one of its jobs left."""
        if "slurmctld" in self._processes:
            self.run("scancel", "--me", "--signal=KILL", "--full", check=False)
        for program in ("slurmctld", "slurmd", "munged"):
            self._end(program, signal.SIGKILL)  # slurmd would wait for what its jobs do not end
        for pid in self._own_processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _own_processes(self) -> list[int]:
        """Those that inherited the name of our configuration."""
        mark, found = f"SLURM_CONF={self.config}".encode(), []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0") and int(entry.name) != os.getpid():
                    found.append(int(entry.name))
        return found

    # ---- looking -------------------------------------------------------------------------------------------------

    def run(self, *words: str, check: bool = True, given: str = "") -> str:
        done = subprocess.run(
            words,
            input=given,
            env={**os.environ, **self.environ},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def jobs(self, shape: str = "%j %T", *, states: str = "all") -> list[str]:
        return self.run("squeue", "--noheader", f"--states={states}", f"--format={shape}").splitlines()

    def living(self) -> list[str]:
        """The numbers of jobs that wait, run or are being ended."""
        return self.jobs("%i", states="PENDING,CONFIGURING,RUNNING,COMPLETING,SUSPENDED")

    def job_of(self, run_id: str) -> str:
        """The number of its newest job."""
        lines = [line.split() for line in self.jobs("%i %j")]
        return max((number for number, name in lines if name == f"mosaic-{run_id}"), key=int)

    def occupy(self, *words: str, cpus: int = 64) -> str:
        """A job of somebody else's that has the node; its number."""
        script = "#!/bin/sh\nexec sleep 600\n"
        where = ["--output=/dev/null", "--chdir=/", f"--cpus-per-task={cpus}", "--mem=100", *words]
        return self.run("sbatch", "--parsable", "--job-name=other", *where, given=script).strip()

    def log(self) -> str:
        return "\n".join(file.read_text()[-3000:] for file in self.folder.glob("*.log"))

    def add_to(self, paths: MosaicPaths, name: str = "cluster", **changes: object) -> Host:
        """Write it into ``hosts.toml``, with this machine as its login node."""
        fields = {"folder": str(self.folder / "mosaic"), "python": sys.executable, "kind": SLURM, "ssh": "", **changes}
        host = Host(name, **fields)  # type: ignore[arg-type]
        HostBook(paths).add(host)
        return host


class LoginNode:
    """An sshd of this machine, behind which Slurm's commands find the cluster. Nothing else leads there from it."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self.folder = cluster.folder / "login"
        self.folder.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        self._made: list[Path] = []
        for key in ("host_key", "user_key"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / key)]
            subprocess.run(words, check=True, timeout=_SECONDS)
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized_keys")
        (port,) = _free_ports(1)
        (self.folder / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1:{port}\nHostKey {self.folder}/host_key\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\n"
            f"SetEnv SLURM_CONF={cluster.config} TMPDIR={cluster.folder}/tmp\n"
            "StrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nPidFile none\n"
        )
        kind, public = (self.folder / "host_key.pub").read_text().split()[:2]
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {kind} {public}\n")
        self.ssh_config = self.folder / "ssh_config"
        self.ssh_config.write_text(
            f"Host login\n  HostName 127.0.0.1\n  Port {port}\n  User root\n  IdentityFile {self.folder}/user_key\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n"
        )

    def start(self) -> LoginNode:
        if not _PRIVILEGE_SEPARATION.is_dir():
            _PRIVILEGE_SEPARATION.mkdir()
            self._made = [_PRIVILEGE_SEPARATION]
        with (self.folder / "sshd.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["/usr/sbin/sshd", "-D", "-e", "-f", str(self.folder / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def remove(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(_SECONDS)
        for folder in self._made:
            with suppress(OSError):
                folder.rmdir()


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _until(what: str, probe: Callable[[], bool], words: Callable[[], str] = lambda: "") -> None:
    deadline = time.monotonic() + _SECONDS
    while not probe():
        assert time.monotonic() < deadline, f"waited in vain for {what}: {words()}"
        time.sleep(0.05)
