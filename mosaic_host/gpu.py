"""Which NVIDIA GPUs this host has, and how a worker is shown some of them.

Detection asks ``nvidia-smi`` and nothing else, so the daemon needs neither torch nor a CUDA library. A host
without GPUs, without a driver or with one that does not answer has zero GPUs and a reason that can be
shown.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

PROBE_SECONDS = 10.0
_QUERY = ("--query-gpu=index,name,uuid,memory.total", "--format=csv,noheader,nounits")


@dataclass(frozen=True)
class Gpu:
    """One device, by the index that ``nvidia-smi`` gives it (PCI bus order)."""

    index: int
    name: str
    uuid: str
    memory_mb: int  # 0 when the driver does not say


@dataclass(frozen=True)
class GpuProbe:
    """What a detection found. ``reason`` says why there are none or fewer than expected; else empty."""

    gpus: tuple[Gpu, ...]
    reason: str = ""


def detect_gpus(environ: Mapping[str, str] | None = None) -> tuple[Gpu, ...]:
    """The GPUs that runs may use. Never raises; use :func:`probe_gpus` to learn why there are none."""
    return probe_gpus(environ).gpus


def probe_gpus(environ: Mapping[str, str] | None = None, timeout: float = PROBE_SECONDS) -> GpuProbe:
    """Ask ``nvidia-smi`` for the GPUs and keep those that ``CUDA_VISIBLE_DEVICES`` allows. Never raises.

    Blocks for at most ``timeout`` seconds and a moment; call it outside an event loop.
    """
    environ = os.environ if environ is None else environ
    program = shutil.which("nvidia-smi", path=environ.get("PATH", os.defpath))
    if program is None:
        return GpuProbe((), "nvidia-smi is not on PATH: no NVIDIA driver is installed here")
    try:
        status, text = _ask([program, *_QUERY], environ, timeout)
    except subprocess.TimeoutExpired:
        return GpuProbe((), f"nvidia-smi did not answer within {timeout:g} s: the NVIDIA driver may be stuck")
    except OSError as error:
        return GpuProbe((), f"nvidia-smi could not be run: {error}")
    return _judged(status, text, environ.get("CUDA_VISIBLE_DEVICES"))


def parse_nvidia_smi(text: str) -> tuple[tuple[Gpu, ...], tuple[str, ...]]:
    """Split the answer of ``nvidia-smi`` into GPUs, by index, and the lines that describe none."""
    gpus, other = [], []
    for line in filter(None, map(str.strip, text.splitlines())):
        gpu = _gpu_from_line(line)
        if gpu is None:
            other.append(line)
        else:
            gpus.append(gpu)
    return tuple(sorted(gpus, key=lambda gpu: gpu.index)), tuple(other)


def visible_gpus(gpus: Sequence[Gpu], setting: str | None) -> tuple[Gpu, ...]:
    """The GPUs that a value of ``CUDA_VISIBLE_DEVICES`` leaves, by index.

    As in CUDA: unset means all, and the list ends at the first entry that names no device. Entries are
    indices in PCI bus order or the beginning of a UUID.
    """
    if setting is None:
        return tuple(gpus)
    chosen: set[Gpu] = set()
    for entry in map(str.strip, setting.split(",")):
        gpu = _named_by(entry, gpus)
        if gpu is None:
            break
        chosen.add(gpu)
    return tuple(sorted(chosen, key=lambda gpu: gpu.index))


def cuda_environment(gpus: Iterable[Gpu], indices: Iterable[int]) -> dict[str, str]:
    """The variables that let a worker see exactly these GPUs.

    By UUID, because CUDA's own numbering may differ from that of ``nvidia-smi``. No indices hide every GPU.
    """
    uuids = {gpu.index: gpu.uuid for gpu in gpus}
    visible = ",".join(uuids.get(index, str(index)) for index in indices)
    return {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def _judged(status: int, text: str, visible: str | None) -> GpuProbe:
    gpus, other = parse_nvidia_smi(text)
    trouble = f"nvidia-smi said: {other[0][:200]}" if other else ""
    if status != 0 and not trouble:
        trouble = f"nvidia-smi ended with status {status}"
    if not gpus:
        return GpuProbe((), trouble or "nvidia-smi lists no GPU")
    allowed = visible_gpus(gpus, visible)
    if len(allowed) < len(gpus):
        trouble = trouble or f"CUDA_VISIBLE_DEVICES={visible} leaves {len(allowed)} of {len(gpus)} GPUs"
    return GpuProbe(allowed, trouble)


def _ask(command: list[str], environ: Mapping[str, str], timeout: float) -> tuple[int, str]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environ),
        start_new_session=True,
        text=True,
        errors="replace",
    )
    try:
        text, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _abandon(process)
        raise
    return process.returncode, text


def _abandon(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # A process stuck inside the driver does not die even of SIGKILL, so this wait has an end too.
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1.0)
    if process.stdout is not None:
        process.stdout.close()


def _gpu_from_line(line: str) -> Gpu | None:
    index, _, rest = line.partition(",")
    fields = rest.rsplit(",", 2)
    if not index.strip().isdecimal() or len(fields) != 3:
        return None
    name, uuid, memory = map(str.strip, fields)
    return Gpu(int(index), name, uuid, int(memory) if memory.isdecimal() else 0)


def _named_by(entry: str, gpus: Sequence[Gpu]) -> Gpu | None:
    if entry.isdecimal():
        return next((gpu for gpu in gpus if gpu.index == int(entry)), None)
    if not entry.startswith("GPU-"):
        return None
    matches = [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
    return matches[0] if len(matches) == 1 else None
