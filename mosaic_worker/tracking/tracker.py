"""The training process's end of tracking: rows go into a list, a thread carries them to the child now and then."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from mosaic_protocol.wandb_files import find_runs
from mosaic_protocol.wandb_proxies import NO_PROXY_NAMED, find_proxies
from mosaic_protocol.worker_packages import shared_folders
from mosaic_worker.tracking.plan import TrackingPlan, make_plan, proxy_wanted

MAX_PENDING_ROWS = 20_000
PORTION = 200
CARRY_SECONDS = 0.5
CLOSE_SECONDS = 10.0
TOLD_STATUS = 3
"""With this the child says that it reported the reason itself."""

_INSTALL = "python -m mosaic_worker.extras --set wandb"

Row = tuple[int, dict[str, float]]


def open_tracker(args: Mapping[str, Any], run_dir: Path, environ: Mapping[str, str]) -> Tracker | None:
    """Start tracking if ``args["track"]`` asks for it. Returns at once and raises nothing.

    None when it is not asked for or not possible; the latter is said on stderr. The run goes to
    ``<run_dir>/wandb/``, and from there to W&B if a key is found (``WANDB_API_KEY``, or the keyring's
    ``mosaic-wandb``).
    """
    if not args.get("track"):
        return None
    reason = _obstacle(environ)
    if not reason:
        try:
            return _start(args, run_dir, environ)
        except (OSError, ValueError, TypeError) as error:
            reason = str(error)
    _say(f"The run is not tracked: {reason}. Training goes on without W&B.")
    return None


def _obstacle(environ: Mapping[str, str]) -> str:
    if environ.get("WANDB_MODE", "").lower() == "disabled":
        return "WANDB_MODE is 'disabled'"
    return "" if find_spec("wandb") else f"wandb is not installed (`{_INSTALL}` does that)"


def _start(args: Mapping[str, Any], run_dir: Path, environ: Mapping[str, str]) -> Tracker:
    plan, child_environ = make_plan(args, run_dir.absolute(), environ), dict(environ)
    if proxy_wanted(args, environ):
        if proxies := find_proxies(environ):
            child_environ |= proxies.environment()
            _say(f"W&B is reached through the proxy {proxies}.")
        else:
            plan = dataclasses.replace(plan, offline_because=NO_PROXY_NAMED)
    child_environ.pop("WANDB_SERVICE", None)  # the service of another wandb process would outlive this run
    # The packages need not be installed: a script may have found them beside itself.
    folders = dict.fromkeys(shared_folders().values())
    child_environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*map(str, folders), environ.get("PYTHONPATH", "")]))
    return Tracker(plan, child_environ)


class Tracker:
    """Sends a run's scalars to a process that tracks it.

    Every method belongs to the training thread. None of them raises, and only :meth:`close` waits, for its patience
    at most. Whatever goes wrong is said on stderr once and ends the tracking, never the training.
    """

    def __init__(self, plan: TrackingPlan, environ: Mapping[str, str]) -> None:
        self.dropped_rows = 0
        self._directory = Path(plan.directory) / "wandb"
        self._rows: list[Row] = []
        self._exit_code: int | None = None
        self._over = False
        self._wake = threading.Event()
        command = [sys.executable, "-P", "-m", "mosaic_worker.tracking.process", "--parent", str(os.getpid())]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=dict(environ), bufsize=0
        )
        assert self._process.stdin is not None
        self._carrier = threading.Thread(
            target=self._carry, args=(self._process.stdin, plan), name="tracking", daemon=True
        )
        self._carrier.start()

    @property
    def pid(self) -> int:
        """The process that talks to W&B."""
        return self._process.pid

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Track values that belong together. They are copied; when too many wait already, they are only counted."""
        if self._over:
            return
        if len(self._rows) >= MAX_PENDING_ROWS:
            if self.dropped_rows == 0:
                _say("W&B does not keep up: rows are left out of the tracked run. TensorBoard has all of them.")
            self.dropped_rows += 1
            return
        self._rows.append((step, dict(values)))

    def close(self, exit_code: int, patience: float = CLOSE_SECONDS) -> None:
        """Hand over what is left and wait until the run is finished; after ``patience`` seconds it is broken off.

        What was not uploaded by then stays in ``<run_dir>/wandb/``. A second call does nothing.
        """
        if self._exit_code is not None:
            return
        self._exit_code = exit_code
        self._wake.set()
        try:
            status: int | None = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            status = None
            self._process.kill()
            self._process.wait()
        self._carrier.join()
        self._tell_ending(status, patience)

    def _tell_ending(self, status: int | None, patience: float) -> None:
        if status is None and not find_runs(self._directory.parent):
            _say(
                f"W&B had not begun when the training was over, nor {patience:g} s later: nothing of this run was "
                "tracked. TensorBoard has all of it."
            )
        elif status is None:
            _say(
                f"W&B did not finish within {patience:g} s; what was not uploaded is in {self._directory} "
                "(`wandb sync` sends it)."
            )
        elif status not in (0, TOLD_STATUS):
            _say(f"Tracking ended early: its process ended with status {status}. The training was not touched.")
        if self.dropped_rows:
            _say(f"{self.dropped_rows:,} rows were left out of the tracked run because W&B did not keep up.")

    def _carry(self, pipe: BinaryIO, plan: TrackingPlan) -> None:
        """The carrier's life. Ends with the run, or with the child, which tells the reason."""
        try:
            _write(pipe, json.dumps(dataclasses.asdict(plan), default=str).encode() + b"\n")
            while self._exit_code is None:
                self._wake.wait(CARRY_SECONDS)
                self._carry_rows(pipe)
            self._carry_rows(pipe)
            _write(pipe, json.dumps({"exit_code": self._exit_code, "dropped": self.dropped_rows}).encode() + b"\n")
        except OSError:
            self._over = True
            self._rows.clear()
        finally:
            pipe.close()

    def _carry_rows(self, pipe: BinaryIO) -> None:
        # In portions, because encoding holds the interpreter's lock. The training thread only appends, so whatever
        # it adds meanwhile stays behind the rows taken here.
        while rows := self._rows[:PORTION]:
            _write(pipe, json.dumps({"rows": rows, "dropped": self.dropped_rows}).encode() + b"\n")
            del self._rows[: len(rows)]


def _write(pipe: BinaryIO, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[pipe.write(remaining) :]


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
