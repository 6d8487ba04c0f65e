"""When W&B costs the training something, and what to do about it: from what was measured, never guessed."""

from __future__ import annotations

import os
from pathlib import Path

from gym_gui.services.wandb.run_side import WandbSide
from mosaic_protocol.wandb_records import TrackedRun

MOST_CPU_SHARE = 0.25
"""Of one CPU. Tracking has a process of its own; beyond this it is felt where CPUs are few."""
SHORTEST_SECONDS = 20.0
"""Below which a share says nothing: wandb's start takes two seconds of a CPU."""
MANY_VIDEO_BYTES = 50_000_000
_MOST_VIDEOS = 1000


def slowdown_hints(side: WandbSide, tracked: TrackedRun) -> list[str]:
    """One sentence for each cost. Looks at the sizes of videos: not for a thread that must not wait."""
    hints = []
    record = side.record
    if record is not None and record.seconds >= SHORTEST_SECONDS:
        share = record.cpu_seconds / record.seconds
        if share > MOST_CPU_SHARE:
            hints.append(
                f"W&B takes {share:.0%} of a CPU, {record.rows / record.seconds:,.0f} rows a second: log less often, "
                "or turn tracking off for runs whose speed counts."
            )
    if record is not None and record.dropped_rows:
        hints.append(
            f"{record.dropped_rows:,} rows were left out of W&B because it did not keep up; MOSAIC's own metrics and "
            "TensorBoard have all of them."
        )
    count, size = _videos(side, tracked)
    if size > MANY_VIDEO_BYTES:
        hints.append(
            f"Videos for W&B: {count:,}, {size / 1e6:,.0f} MB together. The script encodes and uploads them while it "
            "trains: record fewer, or run it without --capture-video."
        )
    return hints


def _videos(side: WandbSide, tracked: TrackedRun) -> tuple[int, int]:
    """How many videos W&B has to send, and how many bytes they have together."""
    if not side.recordings:
        return 0, 0
    folder = side.recordings[-1].folder / "files"
    paths = [path for one in tracked.media if "video" in one.kind for path in one.paths][:_MOST_VIDEOS]
    sizes = [size for path in paths if (size := _size_within(folder, path))]
    return len(sizes), sum(sizes)


def _size_within(folder: Path, name: str) -> int:
    """0 for what is not there, or leads out of the folder."""
    path = folder / name
    if not path.is_relative_to(folder) or ".." in path.parts or "\0" in name:
        return 0
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
