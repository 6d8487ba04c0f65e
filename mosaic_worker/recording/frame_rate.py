"""How fast an environment is meant to be shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

USUAL = 30.0
SLOWEST, FASTEST = 0.1, 240.0


def frames_a_second(metadata: Mapping[str, Any]) -> float:
    """As an environment's metadata say; the usual rate where they say nothing that makes sense."""
    try:
        asked = float(metadata.get("render_fps") or USUAL)
    except (TypeError, ValueError, OverflowError):
        return USUAL
    return min(max(asked, SLOWEST), FASTEST) if math.isfinite(asked) else USUAL


def whole_frames_a_second(metadata: Mapping[str, Any]) -> int:
    """The same for films, which have whole numbers."""
    return max(1, round(frames_a_second(metadata)))
