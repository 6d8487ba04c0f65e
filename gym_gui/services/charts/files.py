"""Charts as files: in the format that is asked for, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from gym_gui.services.charts import png, svg
from gym_gui.services.charts.drawing import Drawing
from mosaic_protocol.whole_files import drafted

PICTURES = (".png", ".svg")


def picture(drawing: Drawing, suffix: str) -> bytes:
    """Raises NoPngError where PNG is wanted and cannot be made."""
    return png.document(drawing) if suffix.lower() == ".png" else svg.document(drawing).encode()


def write(file: Path, content: bytes) -> None:
    """Raises OSError, and the place is as it was."""
    with drafted(file) as draft:
        draft.write_bytes(content)
