"""Whether this machine has what a run is going to need, where its worker knows that: memory for its data, room for its
curves and checkpoints, memory on a GPU. Said before the run starts; nothing is refused for a guess.

A worker's summary (``--dry-run --emit-summary``) may have ``needs``: whole numbers ``memory_mb``, ``disk_mb`` and
``gpu_memory_mb``, and a text ``because``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gym_gui.services.run_words import size
from mosaic_host.capacity import HostCapacity, disk_free

_MB = 2**20
_MEMINFO = Path("/proc/meminfo")


def shortages(
    told: Mapping[str, Any] | None, root: Path, *, gpu_memory_mb: Sequence[int] = (), meminfo: Path = _MEMINFO
) -> tuple[str, ...]:
    """A sentence for each thing that there is too little of. ``told``: the worker's summary; ``root``: where runs are
    kept; ``gpu_memory_mb``: of the cards that the run could get. Raises nothing."""
    needs = (told or {}).get("needs")
    if not isinstance(needs, Mapping):
        return ()
    because = str(needs.get("because") or "what it is set to")[:200]
    return (
        *_memory(_whole(needs, "memory_mb"), because, meminfo),
        *_disk(_whole(needs, "disk_mb"), root),
        *_gpu(_whole(needs, "gpu_memory_mb"), because, gpu_memory_mb),
    )


def _whole(needs: Mapping[str, Any], name: str) -> int:
    found = needs.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def _memory(wanted: int, because: str, meminfo: Path) -> Iterator[str]:
    if not wanted:
        return
    total = HostCapacity.detect(cpus=1, gpus=()).memory_mb
    free = _available_mb(meminfo)
    if wanted > total:
        have = f"this machine has {size(total * _MB)}"
        yield f"it needs about {size(wanted * _MB)} of memory for {because}, and {have}: it would be killed"
    elif free is not None and wanted > free:
        have = f"{size(free * _MB)} are free now"
        yield f"it needs about {size(wanted * _MB)} of memory for {because}, and {have}: end something else first"


def _disk(wanted: int, root: Path) -> Iterator[str]:
    try:
        free = disk_free(root) // _MB
    except OSError:
        return
    if wanted > free:
        yield f"it is going to write about {size(wanted * _MB)}, and {size(free * _MB)} are free for {root}"


def _gpu(wanted: int, because: str, cards: Sequence[int]) -> Iterator[str]:
    known = [card for card in cards if card]
    if wanted and known and wanted > max(known):
        have = f"the largest card here has {size(max(known) * _MB)}"
        yield f"it needs about {size(wanted * _MB)} on a GPU for {because}, and {have}"


def _available_mb(meminfo: Path) -> int | None:
    """What could be taken without swapping; None where the system does not say."""
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    found = next((line for line in lines if line.startswith("MemAvailable:")), "")
    words = found.split()
    return int(words[1]) // 1024 if len(words) > 1 and words[1].isdecimal() else None
