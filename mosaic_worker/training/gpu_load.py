"""How busy the GPUs of a run are, asked of ``nvidia-smi`` beside the training.

The training process asks, not the daemon: it knows which devices are its own, a run without one asks nobody, and a run
on another machine asks there. A question is a short process that is looked after whenever a row is written, so no
training ever waits for the driver; there is at most one at a time, and one every :data:`SECONDS`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from mosaic_protocol.headline import GPU_MEMORY_TAG, GPU_TAG

if TYPE_CHECKING:
    import subprocess

SECONDS = 10.0
PATIENCE_SECONDS = 10.0
"""A driver that takes longer is stuck, and asking it again would leave one more process behind."""
_STALE_SECONDS = 3 * SECONDS
_MOST_FAILURES = 3
_QUERY = ("--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits")
_DEVICE = re.compile(r"\d{1,3}|(GPU|MIG)-[0-9A-Za-z/-]{1,80}")
_LINE = re.compile(rb"\s*(\d{1,3})\s*,\s*(\d{1,9})\s*")


class GpuLoad:
    """For one thread. Nothing is raised: no number of it is worth a training."""

    def __init__(self, environ: Mapping[str, str] | None = None, seconds: float = SECONDS) -> None:
        self._environ = os.environ if environ is None else environ
        self._seconds = seconds
        self._devices = own_devices(self._environ)
        self._question: subprocess.Popen[bytes] | None = None
        self._asked_at = -seconds
        self._failures = 0
        self._newest: dict[str, float] = {}
        self._heard_at = 0.0

    def newest(self) -> dict[str, float]:
        """The newest answer by tag, and nothing where there is none or it is old. Never waits."""
        if not self._devices:
            return {}
        now = time.monotonic()
        if self._question is not None:
            self._look_after(self._question, now)
        elif now - self._asked_at >= self._seconds:
            self._ask(now)
        return dict(self._newest) if now - self._heard_at < max(_STALE_SECONDS, 3 * self._seconds) else {}

    def close(self) -> None:
        """Leave no process behind."""
        question, self._question, self._devices = self._question, None, ()
        if question is not None:
            self._end(question)

    def _ask(self, now: float) -> None:
        import subprocess

        self._asked_at = now
        command = ["nvidia-smi", *_QUERY, "-i", ",".join(self._devices)]
        try:
            self._question = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=dict(self._environ),
            )
        except OSError:  # there is none: there never will be
            self._devices = ()

    def _look_after(self, question: subprocess.Popen[bytes], now: float) -> None:
        if question.poll() is None:
            if now - self._asked_at > PATIENCE_SECONDS:
                self.close()
            return
        self._question = None
        said = _said(question)
        found = _load_in(said) if question.returncode == 0 else {}
        if found:
            self._newest, self._heard_at, self._failures = found, now, 0
            return
        self._failures += 1
        if self._failures >= _MOST_FAILURES:
            self._devices = ()

    def _end(self, question: subprocess.Popen[bytes]) -> None:
        import subprocess

        with suppress(OSError):
            question.kill()
        with suppress(subprocess.TimeoutExpired):  # one that is stuck inside the driver does not even die of that
            question.wait(timeout=1.0)
        if question.stdout is not None:
            question.stdout.close()


def own_devices(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The devices that the daemon gave to this run. Without a word about them there are none: a script that is run by
    hand is nobody's to watch."""
    entries = tuple(entry.strip() for entry in environ.get("CUDA_VISIBLE_DEVICES", "").split(","))
    return entries if all(_DEVICE.fullmatch(entry) for entry in entries) else ()


def _said(question: subprocess.Popen[bytes]) -> bytes:
    """What a process that is over has printed; as much of it as a pipe holds."""
    assert question.stdout is not None
    with question.stdout as stream:
        os.set_blocking(stream.fileno(), False)
        with suppress(OSError):
            return os.read(stream.fileno(), 65536)
    return b""


def _load_in(text: bytes) -> dict[str, float]:
    """The mean share and the memory together of all devices; nothing where the driver does not say."""
    found = [match for line in text.splitlines() if (match := _LINE.fullmatch(line))]
    if not found:
        return {}
    shares, memory = ([float(match[number]) for match in found] for number in (1, 2))
    return {GPU_TAG: round(sum(shares) / len(shares), 1), GPU_MEMORY_TAG: sum(memory)}
