"""The script as a child of its supervisor, with a control socket between them.

Forked when this process is warm (everything is imported already), spawned otherwise and always when it has an
interpreter of its own. Must be started before the supervisor has threads: a fork copies only the thread that forks.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from mosaic_protocol.fork_server import is_warm
from mosaic_worker.supervision.control import CONTROL_FD_VARIABLE
from mosaic_worker.supervision.foreign_python import apart, module_command
from mosaic_worker.supervision.planned_script import PlannedScript


class ScriptProcess:
    """The supervisor's end. Belongs to one thread."""

    def __init__(self, pid: int, control: socket.socket, child: subprocess.Popen[bytes] | None) -> None:
        self.pid = pid
        self.control = control
        self._child = child
        self._pending = b""
        self._status: int | None = None
        self.pidfd = os.pidfd_open(pid)

    @classmethod
    def start(cls, plan: PlannedScript, env: Mapping[str, str], *, stdout: int | None = None) -> ScriptProcess | None:
        """Start the script. Returns None in the forked child itself, which then has to become the script.

        `stdout`: a descriptor that a spawned script prints to, where this process's own is spoken for.
        """
        ours, theirs = socket.socketpair()
        env = {**env, **plan.environment}
        if is_warm() and plan.python is None:
            return cls._fork(ours, theirs, env)
        return cls._spawn(plan, ours, theirs, env, stdout)

    @classmethod
    def _fork(cls, ours: socket.socket, theirs: socket.socket, env: Mapping[str, str]) -> ScriptProcess | None:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            ours.close()
            os.environ.update(env)
            os.environ[CONTROL_FD_VARIABLE] = str(theirs.detach())
            return None
        theirs.close()
        return cls(pid, ours, None)

    @classmethod
    def _spawn(
        cls,
        plan: PlannedScript,
        ours: socket.socket,
        theirs: socket.socket,
        env: Mapping[str, str],
        stdout: int | None,
    ) -> ScriptProcess:
        environment = {**os.environ, **env, CONTROL_FD_VARIABLE: str(theirs.fileno())}
        if plan.python is not None:
            environment = apart(environment)
        command = [*_command(plan), *plan.arguments]
        child = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()], stdout=stdout)
        theirs.close()
        return cls(child.pid, ours, child)

    def tell(self, word: str) -> None:
        """Send a request; a script that is gone or never listens is not an error."""
        try:
            self.control.sendall(json.dumps({"do": word}).encode() + b"\n")
        except OSError:
            return

    def hear(self) -> list[dict[str, Any]] | None:
        """The messages that are whole now, None when no more will come. Call when the control socket is readable."""
        try:
            received = self.control.recv(65536)
        except OSError:
            return None
        if not received:
            return None
        *lines, self._pending = (self._pending + received).split(b"\n")
        return [message for message in map(_parsed, lines) if message is not None]

    def hear_the_rest(self) -> list[dict[str, Any]]:
        """What the script said before it ended."""
        self.control.setblocking(False)
        messages: list[dict[str, Any]] = []
        while (heard := self.hear()) is not None:
            messages += heard
        return messages

    def wait(self) -> int:
        """The exit status; negative for a signal."""
        if self._status is None:
            if self._child is not None:
                self._status = self._child.wait()
            else:
                self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status

    def kill(self) -> None:
        if self._status is None:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def close(self) -> None:
        os.close(self.pidfd)
        self.control.close()


def _command(plan: PlannedScript) -> list[str]:
    """Everything but the script's own flags."""
    parent = ["--parent", str(os.getpid())]
    if plan.order is None:
        return [*module_command("mosaic_worker.supervision.launcher", plan.python), *parent, str(plan.path)]
    harness = module_command("mosaic_worker.harness.__main__", plan.python)
    return [*harness, *parent, *plan.order.words(), str(plan.path)]


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
