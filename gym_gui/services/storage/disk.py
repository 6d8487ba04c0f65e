"""When a disk is nearly full, and the sentence about it: the same in the daemon, the command line and the cockpit."""

from __future__ import annotations

from gym_gui.services.run_words import size
from mosaic_host.capacity import DiskRoom

FEW_BYTES = 1 << 30
"""Less than this is little on any disk."""
STORAGE_COMMAND = "mosaic storage plan"
ADVICE = f"`{STORAGE_COMMAND}` shows what could go"


def disk_warning(room: DiskRoom, warn_percent: float) -> str:
    """A sentence while the disk is filled beyond a share, or has hardly any room left; "" otherwise. 0 percent means
    that nobody wants to hear of the share."""
    beyond = 0 < warn_percent <= room.percent
    if not beyond and room.free >= FEW_BYTES:
        return ""
    return f"the disk of {room.path} is {room.percent:.0f} % full, {size(room.free)} are left: {ADVICE}"
