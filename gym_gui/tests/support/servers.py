"""Another machine for the tests of ``--on``: a real sshd on loopback, a ``mosaic`` behind it, and a data root."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gym_gui.tests.support.daemon_process import WORKERS, DaemonProcess
from mosaic_protocol.ssh_command import CONFIG_VARIABLE
from mosaic_protocol.tests.made_sshd import NAME, MadeSshd, made_sshd

PROJECT = Path(__file__).resolve().parents[3]


class MadeServer:
    """``name`` is what to give to ``--on``; ``daemon`` is the one over there, which tests start and kill."""

    def __init__(self, sshd: MadeSshd, folder: Path, home: Path) -> None:
        self.sshd, self.folder, self.home = sshd, folder, home
        self.daemon = DaemonProcess(home)
        run = f'PYTHONPATH={PROJECT} exec {sys.executable} -m gym_gui.cli "$@"'
        self.name = f"{NAME}:{self.program('mosaic', run)}"

    def program(self, name: str, script: str) -> Path:
        """Make a program over there, of one line for ``sh``."""
        file = self.folder / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        return file

    @property
    def environment(self) -> dict[str, str]:
        """With which this machine finds it."""
        return {CONFIG_VARIABLE: str(self.sshd.config)}


@contextmanager
def made_server(folder: Path, home: Path | None = None) -> Iterator[MadeServer]:
    """Its daemon is not started yet."""
    home = home or folder / "there"
    environment = {"MOSAIC_HOME": str(home), "MOSAIC_WORKER_PATH": str(WORKERS), "MOSAIC_TRAINER_WARM_STARTS": "0"}
    with made_sshd(folder, environment) as sshd:
        server = MadeServer(sshd, folder, home)
        try:
            yield server
        finally:
            server.daemon.clean_up()


def arguments_of_processes() -> str:
    """What any user of this machine can read of every process."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
    return "\n".join(found)


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or dead and not buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
