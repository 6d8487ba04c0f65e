"""The embedded server: pyjabber in a process of its own, for machines without prosody."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from spade_bdi_rl_worker.xmpp.certificate import in_memory, make_pair
from spade_bdi_rl_worker.xmpp.contract import LOCAL_DOMAIN, LOOPBACK, Account, ServerError, checked_agent_name
from spade_bdi_rl_worker.xmpp.run_folder import make_folder, write_private
from spade_bdi_rl_worker.xmpp.server_process import ServerProcess

MAIN = Path(__file__).with_name("embedded_main.py")
_PATIENCE = 30.0  # it imports several hundred modules, on a busy machine
_LONGEST_ANSWER = 4096


def is_installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("pyjabber", "uvloop"))


class EmbeddedServer:
    """See :class:`~spade_bdi_rl_worker.xmpp.contract.XmppServer`. ``port`` 0: a free one."""

    host = LOOPBACK
    domain = LOCAL_DOMAIN

    def __init__(self, run_dir: Path, port: int = 0, why: str = "the run asks for it") -> None:
        self._run_dir = run_dir
        self.port = port
        self.certificate: Path | None = None
        self.description = (
            f"The run uses the embedded XMPP server, on the loopback interface, because {why}; prosody starts faster "
            "and needs less memory."
        )
        self._process: ServerProcess | None = None
        self._answers = -1
        self._unread = b""
        self._accounts: dict[str, Account] = {}

    def __enter__(self) -> Self:
        folder = make_folder(self._run_dir)
        try:
            self._start(folder)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was entered"
        return self._process.pid

    def account(self, name: str) -> Account:
        if name not in self._accounts:
            account = Account(f"{checked_agent_name(name)}@{self.domain}", secrets.token_urlsafe(32))
            self._ask({"name": name, "password": account.password})
            self._accounts[name] = account
        return self._accounts[name]

    def problem(self) -> str:
        assert self._process is not None, "the server was entered"
        return self._process.problem()

    def _start(self, folder: Path) -> None:
        pair = make_pair(self.domain)
        self.certificate = write_private(folder / "certificate.pem", pair.certificate)
        self._answers, answering = os.pipe()
        os.set_blocking(self._answers, False)
        try:
            with in_memory(pair.key) as key, in_memory(pair.certificate) as certificate:
                command = [sys.executable, "-P", str(MAIN), str(answering)]
                self._process = ServerProcess("embedded", command, folder, inherit=(key, certificate, answering))
                # It imports what this process can import, from the same places, and pyjabber makes a folder for uploads
                # that nobody can make and removes it never: here it goes with the run.
                places = os.pathsep.join(filter(None, sys.path))
                self._process.start({"PYTHONPATH": places, "TMPDIR": str(folder)})
                order = {"host": self.host, "port": self.port, "domain": self.domain}
                answer = self._ask({**order, "key": key, "certificate": certificate})
        finally:
            os.close(answering)
        self.port = int(answer["port"])

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """One line to the server and one back. What is secret goes through a pipe that only the two of them have."""
        assert self._process is not None, "the server was entered"
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._failure("does not listen any more") from None
        answer: dict[str, Any] = json.loads(self._read_line())
        if said := answer.get("error"):
            raise ServerError(str(said))
        return answer

    def _read_line(self) -> bytes:
        deadline = time.monotonic() + _PATIENCE
        while b"\n" not in self._unread:
            try:
                more = os.read(self._answers, _LONGEST_ANSWER)
                if not more:
                    raise self._failure("has ended while it was asked something")
                self._unread += more
            except BlockingIOError:
                if self.problem() or time.monotonic() > deadline:
                    raise self._failure(f"does not answer within {_PATIENCE:.0f} s") from None
                time.sleep(0.005)
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _failure(self, otherwise: str) -> ServerError:
        return ServerError(
            self.problem()
            or f"The embedded XMPP server {otherwise}: the machine is overloaded or its installation is damaged. Try "
            "again, or install prosody."
        )

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
        if self._answers >= 0:
            os.close(self._answers)
            self._answers = -1
