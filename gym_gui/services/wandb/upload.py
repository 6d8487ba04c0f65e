"""Uploads what a run recorded: wandb's own ``sync``, in a process that ends with the one that started it.

The key reaches it through its environment and no other way; it has no terminal, so that it asks nobody and writes
nothing to the netrc file. wandb's helper process (``wandb-core``) ends when its parent does.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from gym_gui.services.wandb.route import Route
from gym_gui.services.wandb.run_side import WandbSide, note_upload, plain_address, side_of
from mosaic_protocol.plain_text import clean_line, one_line
from mosaic_protocol.tracking_record import FOLDER
from mosaic_protocol.wandb_keys import KEY_VARIABLE, WandbKey
from mosaic_protocol.wandb_proxies import without_credentials

_END_SECONDS = 5.0
_LONGEST_LINE = 64 << 10
_TIED = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); "
    "os.getppid() == int(sys.argv.pop(1)) or os._exit(1); "
    "import runpy; sys.argv[0] = 'wandb'; runpy.run_module('wandb', run_name='__main__')"
)
"""Executed before wandb: the kernel then ends it with the process that started it, also when that one is killed."""
_NOT_INHERITED = ("WANDB_SERVICE", "WANDB_MODE", "WANDB_RUN_ID", "WANDB_DIR", "WANDB_NAME", "WANDB_SILENT")
"""What is meant for a run that goes on; ``WANDB_MODE=offline`` would keep the upload from happening."""
_VIEW = re.compile(r"View run .* at (\S+)$")
_PREFIX = re.compile(r"^wandb:\s*(?:(WARNING|ERROR)\s+)?(?:\[[^\]]*\]\s*)?")


@dataclass(frozen=True)
class Uploaded:
    """What came of it. ``problem`` is a sentence, "" when everything is uploaded."""

    side: WandbSide
    problem: str = ""


class WandbUpload:
    """One upload of one run. Use it as a context manager: its process has ended when the block is left."""

    def __init__(
        self,
        run_dir: Path,
        side: WandbSide,
        key: WandbKey,
        route: Route,
        python: str = "",
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Start it; there must be something to upload. Raises OSError."""
        self._run_dir, self._side, self._key = run_dir, side, key
        self._url = ""
        self._problem = ""
        folders = [str(one.folder) for one in side.to_upload]
        online = ["--include-online"] if any(not one.is_offline for one in side.to_upload) else []
        words = ["sync", *online, *folders]
        self._process = subprocess.Popen(
            [python or sys.executable, "-P", "-c", _TIED, str(os.getpid()), *words],
            env=self._environment(environ, route),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches the process that started it, which then ends this one
        )

    def _environment(self, environ: Mapping[str, str], route: Route) -> dict[str, str]:
        kept = {name: value for name, value in environ.items() if name not in _NOT_INHERITED}
        # Where the tracking process has them: a kill leaves nothing outside the run's folder.
        names = {"WANDB_CACHE_DIR": "cache", "WANDB_DATA_DIR": "data", "WANDB_CONFIG_DIR": "config"}
        places = {variable: str(self._run_dir / FOLDER / name) for variable, name in names.items()}
        quiet = {"WANDB_ERROR_REPORTING": "false", "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
        return {**kept, **places, **quiet, **route.environment(), KEY_VARIABLE: self._key.secret}

    @property
    def pid(self) -> int:
        return self._process.pid

    def lines(self) -> Iterator[str]:
        """What wandb says, line by line and without secrets, until it is done."""
        assert self._process.stdout is not None
        while raw := self._process.stdout.readline(_LONGEST_LINE):
            line = self._plain(raw.decode(errors="replace"))
            if found := _VIEW.search(line):
                self._url = plain_address(found[1])
            if line:
                yield line

    def _plain(self, raw: str) -> str:
        text = one_line(clean_line(raw.rstrip("\n")))
        start = _PREFIX.match(text)
        line = without_credentials(self._key.hidden_in(text[start.end() :] if start else text))
        if start and start[1] == "ERROR":
            self._problem = line
        elif line and not start:
            self._problem = self._problem or line  # a traceback, or a word of Python's
        return line

    def result(self) -> Uploaded:
        """To be asked after the last line. Keeps the address of the run's page beside its files."""
        status = self._process.wait()
        if self._url:
            note_upload(self._run_dir, self._url)
        side = side_of(self._run_dir, is_over=self._side.is_over)
        if not side.to_upload:
            return Uploaded(side)
        ended = f"it was ended by signal {-status}" if status < 0 else f"it ended with status {status}"
        why = self._problem or (ended if status else "W&B did not say why")
        return Uploaded(side, f"The upload is not complete: {why.rstrip('.')}.")

    def stop(self) -> None:
        """End it now; may be called from any thread. What was sent stays sent, and sync can be repeated."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def __enter__(self) -> WandbUpload:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
