"""The nemesis: from a seed, a schedule of faults; each is done at its time and undone after its time.

A fault is a function that does the harm and returns how to undo it, None when there was nothing to harm. Removed and
garbled files are not put back: mending them is the product's business.
"""

from __future__ import annotations

import heapq
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from gym_gui.services.trainer.errors import TrainerError
from gym_gui.tests.faults.small_disk import SmallDisk
from mosaic_host.process_sweep import send_signal
from mosaic_protocol.paths import MosaicPaths
from tools.nemesis import victims
from tools.nemesis.history import History
from tools.nemesis.victims import Victim

Undo = Callable[[], object]

TARGETS: dict[str, Callable[[MosaicPaths], list[Victim]]] = {
    "daemon": victims.daemons,
    "worker": victims.workers,
    "supervisor": victims.supervisors,
    "script": victims.scripts,
    "forkserver": victims.fork_servers,
}
KINDS = (
    *(f"kill-{target}" for target in TARGETS),
    *(f"freeze-{target}" for target in TARGETS),
    *("second-daemon", "socket", "token", "chmod", "disk"),
)
_WEIGHTS = {"kill-daemon": 6, "freeze-daemon": 3, "disk": 4, "chmod": 4}
_LONG = 0.1
"""How many of the faults outlast every patience of the daemon."""


@dataclass(frozen=True)
class Planned:
    """One fault of a schedule."""

    at: float
    kind: str
    seconds: float
    dice: float
    """Decides what is left open: which victim, which file."""


def schedule(seed: int, seconds: float, gap: float, kinds: Sequence[str]) -> list[Planned]:
    """The faults of a campaign, ``gap`` seconds apart on average; the same arguments plan the same faults."""
    rng, at, planned = random.Random(f"faults {seed}"), 0.0, list[Planned]()
    weights = [_WEIGHTS.get(kind, 2) for kind in kinds]
    while kinds and (at := at + rng.expovariate(1 / gap)) < seconds:
        lasts = rng.uniform(22, 30) if rng.random() < _LONG else rng.uniform(0.3, 6)
        planned.append(Planned(at, rng.choices(kinds, weights=weights)[0], lasts, rng.random()))
    return planned


class Nemesis(threading.Thread):
    """Works through a schedule. :meth:`heal` undoes what is still in force."""

    def __init__(self, paths: MosaicPaths, history: History, planned: list[Planned], disk: SmallDisk | None) -> None:
        super().__init__(name="nemesis", daemon=True)
        self._paths, self._history, self._small_disk = paths, history, disk
        self._planned, self._stopping = planned, threading.Event()
        self._order, self._is_full = count(), False
        self._in_force: list[tuple[float, int, Undo]] = []

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        for one in self._planned:
            while self._in_force and self._in_force[0][0] < one.at:
                self._wait_until(self._in_force[0][0])
                self._undo_next()
            self._wait_until(one.at)
            if self._stopping.is_set():
                return
            self._strike(one)

    def heal(self) -> None:
        """Undo everything; the thread must have ended."""
        while self._in_force:
            self._undo_next()

    def _wait_until(self, at: float) -> None:
        self._stopping.wait(max(0.0, at - self._history.now()))

    def _undo_next(self) -> None:
        at, order, undo = heapq.heappop(self._in_force)
        try:
            undo()
        except PermissionError:  # a folder around it is locked still: after that one
            heapq.heappush(self._in_force, (at + 1.0, order, undo))

    def _strike(self, one: Planned) -> None:
        verb, _, target = one.kind.partition("-")
        dice = random.Random(one.dice)
        try:
            if target in TARGETS and verb in ("kill", "freeze"):
                undo = self._signal(one, TARGETS[target](self._paths), dice)
            else:
                undo = _OTHERS[one.kind](self, one, dice)
        except (OSError, TrainerError, sqlite3.Error) as error:  # another fault is in the way of this one
            self._history.note(f"{one.kind} could not be done: {error}")
            return
        if undo is not None:
            heapq.heappush(self._in_force, (self._history.now() + one.seconds, next(self._order), undo))

    def _signal(self, one: Planned, found: list[Victim], dice: random.Random) -> Undo | None:
        freezes = one.kind.startswith("freeze")
        victim = dice.choice(found) if found else None
        if victim is None or not send_signal(victim.process, signal.SIGSTOP if freezes else signal.SIGKILL):
            return None
        seconds = one.seconds if freezes else 0.0
        self._history.blow(one.kind, f"pid {victim.process.pid}", victim.run, seconds)
        return partial(send_signal, victim.process, signal.SIGCONT) if freezes else None

    def second_daemon(self, one: Planned, dice: random.Random) -> None:
        """Where one runs it has to leave by itself; where none does it is the daemon."""
        quiet, command = subprocess.DEVNULL, [sys.executable, "-m", "gym_gui.services.trainer"]
        process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        threading.Thread(target=process.wait, daemon=True).start()  # nothing else reaps it
        self._history.blow(one.kind, f"pid {process.pid}")

    def socket(self, one: Planned, dice: random.Random) -> None:
        """Either the name that clients dial, or with it all that a daemon listens on."""
        own = list(self._paths.trainer.glob(".daemon-*.sock")) if dice.random() < 0.5 else []
        self._garble(one, [self._paths.socket, *own], dice)

    def token(self, one: Planned, dice: random.Random) -> None:
        self._garble(one, [dice.choice((self._paths.token_file, self._paths.daemon_file))], dice)

    def _garble(self, one: Planned, files: Sequence[Path], dice: random.Random) -> None:
        how = dice.choice(("removed", "emptied", "stale"))
        for file in files:
            file.unlink(missing_ok=True)
            if how != "removed":
                file.write_text("" if how == "emptied" else _STALE)
        self._history.blow(one.kind, f"{files[0].name} {how}")

    def disk(self, one: Planned, dice: random.Random) -> Undo | None:
        """Fill the file system to the last byte; only where it is one of the campaign's own."""
        if self._small_disk is None or self._is_full:
            return None
        self._is_full = True
        self._small_disk.fill()
        self._history.blow(one.kind, "full", seconds=one.seconds)
        return self._free

    def _free(self) -> None:
        if self._small_disk is not None:
            self._small_disk.free()
        self._is_full = False

    def chmod(self, one: Planned, dice: random.Random) -> Undo | None:
        folder = dice.choice(self._folders())
        before = folder.stat().st_mode & 0o7777
        if before & 0o300 != 0o300:
            return None  # it is locked already, and undoing this would lock it again
        mode = dice.choice([0o500, 0o500, 0o600])  # nothing can be made in it; it cannot even be entered
        folder.chmod(mode)
        self._history.blow(one.kind, f"{folder.relative_to(self._paths.root)} {mode:o}", seconds=one.seconds)
        return partial(_chmod_back, folder, before)

    def _folders(self) -> list[Path]:
        """Where the daemon and its workers write."""
        paths = self._paths
        own = [paths.trainer, paths.runs, paths.configs, paths.logs, paths.telemetry_db.parent]
        return own + [paths.run(run.run_id).directory for run in victims.live_runs(paths)][:5]


_OTHERS: dict[str, Callable[[Nemesis, Planned, random.Random], Undo | None]] = {
    "second-daemon": Nemesis.second_daemon,
    "socket": Nemesis.socket,
    "token": Nemesis.token,
    "chmod": Nemesis.chmod,
    "disk": Nemesis.disk,
}
_STALE = '{"target": "unix:/gone", "pid": 1, "start_ticks": 1, "boot": "another", "since": "yesterday"}'


def _chmod_back(folder: Path, mode: int) -> None:
    with suppress(FileNotFoundError):
        folder.chmod(mode)
