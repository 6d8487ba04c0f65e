"""Every call of a run, written before and after it is made.

``ledger.jsonl`` in the run's folder ``llm``: one JSON object a line, on the disk before the call goes out and again
before its answer is used. After ``kill -9`` what was settled is answered from here, for nothing, and at most the call
that was in flight is missing: it is told as unsettled, because the server may have charged for it.

A call is named by its place in the run (``e3.s5.t0``: episode, step, turn) and the hash of what was asked, so that a
resumed run gets the very answers of the run before. A run that resumes another one names it, and looks there too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from llm_worker.client.reply import Reply, Usage
from mosaic_protocol.regular_files import read_regular
from mosaic_protocol.whole_files import sync

if TYPE_CHECKING:
    from llm_worker.client.endpoint import Attempt

FOLDER, NAME = "llm", "ledger.jsonl"
_MOST_PARENTS = 50
LARGEST = 2 * 1024**3
"""Bytes that are read of one ledger."""

_Key = tuple[str, str]


class _Line(msgspec.Struct, omit_defaults=True):
    at: str
    """``begins``, ``asks``, ``attempt``, ``settled``, ``failed`` or ``replayed``."""
    place: str = ""
    request: str = ""
    parent: str = ""
    """Of a run that resumes another one: that one's ledger."""
    attempt: int = 0
    status: int = 0
    problem: str = ""
    reply: Reply | None = None
    source: str = ""
    cost: float | None = None
    most: Usage | None = None
    """What was reserved for a call of which nobody knows what it took."""


class Spent(msgspec.Struct):
    """Calls, tokens and dollars."""

    calls: int = 0
    prompt: int = 0
    completion: int = 0
    money: float = 0.0

    def add(self, usage: Usage | None, cost: float | None) -> None:
        """One call."""
        self.calls += 1
        self.prompt += usage.prompt if usage is not None else 0
        self.completion += usage.completion if usage is not None else 0
        self.money += cost or 0.0


class Ledger:
    """The ledger of one run. Belongs to one thread at a time."""

    def __init__(self, run_dir: Path, parent: Path | None = None) -> None:
        """``parent``: the folder of the run that this one resumes."""
        folder = run_dir / FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        self.path = folder / NAME
        self._settled: dict[_Key, Reply] = {}
        self.spent = Spent()
        """By the runs before, whether a checkpoint of theirs knew it or not."""
        self.unsettled: list[str] = []
        """The places of calls that were asked in the runs before, and of which nobody knows how they ended."""
        before = parent / FOLDER / NAME if parent is not None else None
        if before is not None:
            self._read_chain(before)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self.path, flags, 0o600)
        self._write(_Line("begins", parent=str(before or "")))
        sync(folder)

    # ---- what is known -------------------------------------------------------------------------------------------

    def find(self, place: str, request: str) -> Reply | None:
        """What was answered to this call before."""
        return self._settled.get((place, request))

    def _read_chain(self, path: Path) -> None:
        lost: dict[_Key, None] = {}
        for _ in range(_MOST_PARENTS):
            further, asked = "", dict[_Key, _Line]()
            for line in read_ledger(path):
                key = (line.place, line.request)
                further = line.parent or further
                if line.reply is not None:
                    self._settled.setdefault(key, line.reply)
                if line.at == "asks":
                    asked[key] = line
                elif line.at in ("settled", "failed"):
                    asked.pop(key, None)
                if line.at == "attempt":
                    self.spent.add(line.most, line.cost)
                elif line.source == "server" and line.reply is not None:
                    self.spent.add(line.reply.usage, line.cost)
            for key, line in asked.items():  # it was sent, perhaps: a limit is to hold in that case as well
                self.spent.add(line.most, line.cost)
                lost[key] = None
            if not further:
                break
            path = Path(further)
        self.unsettled = [place for place, request in lost if (place, request) not in self._settled]

    # ---- what is written -----------------------------------------------------------------------------------------

    def asks(self, place: str, request: str, most: Usage, cost: float | None) -> None:
        """``most``: what the call reserves, and its price."""
        self._write(_Line("asks", place, request, most=most, cost=cost))

    def attempted(self, place: str, request: str, attempt: Attempt, most: Usage | None, cost: float | None) -> None:
        """One that failed. ``most``: what it may have cost all the same."""
        number, status, problem = attempt.number, attempt.status, attempt.problem
        self._write(_Line("attempt", place, request, "", number, status, problem, most=most, cost=cost))

    def settled(self, place: str, request: str, reply: Reply, source: str, cost: float | None) -> None:
        """``source``: ``server``, or whence an answer came for nothing: ``cache`` or ``ledger``."""
        self._settled[place, request] = reply  # a step that is begun again, behind a pause, asks for it once more
        self._write(_Line("settled", place, request, reply=reply, source=source, cost=cost), durable=source == "server")

    def failed(self, place: str, request: str, problem: str) -> None:
        self._write(_Line("failed", place, request, problem=problem))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, line: _Line, *, durable: bool = True) -> None:
        """One write: a process that is killed leaves at most a torn last line."""
        content = msgspec.json.encode(line) + b"\n"
        while content:
            content = content[os.write(self._file, content) :]
        if durable:
            os.fdatasync(self._file)


def read_ledger(path: Path) -> Iterator[_Line]:
    """The lines that are whole. A torn one, and a file that is not there, cost what they held."""
    try:
        content = read_regular(path, LARGEST)  # that of a run before, which may have come from another machine
    except OSError:
        return
    for one in content.split(b"\n"):
        if one:
            try:
                yield msgspec.json.decode(one, type=_Line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue


def tokens_of(path: Path) -> dict[str, Any]:
    """Sums over a ledger: what the server was asked for and charged, and what came for nothing."""
    sums: dict[str, Any] = {"calls": 0, "prompt": 0, "completion": 0, "cost": 0.0, "free": 0}
    for line in read_ledger(path):
        if line.at == "settled" and line.reply is not None:
            if line.source != "server":
                sums["free"] += 1
                continue
            sums["calls"] += 1
            sums["prompt"] += line.reply.usage.prompt
            sums["completion"] += line.reply.usage.completion
            sums["cost"] += line.cost or 0.0
    return sums
