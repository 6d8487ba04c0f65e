"""Charts and reports as files: whole or not at all, over an older one only when asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gym_gui.services.charts import png, svg
from gym_gui.services.charts.drawing import Drawing
from mosaic_protocol.whole_files import drafted

PICTURES = (".png", ".svg")


def why_not_there(file: Path, formats: Sequence[str], *, force: bool) -> str:
    """Why nothing is written to this place; empty where something can be."""
    if file.suffix.lower() not in formats:
        return f"the file must end in {', '.join(formats[:-1])} or {formats[-1]}, got {file.name!r}"
    if not file.parent.is_dir():
        return f"there is no folder {file.parent}: make it, or name another"
    if file.is_dir():
        return f"{file} is a folder: name a file"
    if file.exists() and not force:
        return f"{file} is there already: give another name, or --force to write over it"
    return ""


def picture(drawing: Drawing, suffix: str) -> bytes:
    """Raises NoPngError where PNG is wanted and cannot be made."""
    return png.document(drawing) if suffix.lower() == ".png" else svg.document(drawing).encode()


def write(file: Path, content: bytes) -> None:
    """Raises OSError, and the place is as it was."""
    with drafted(file) as draft:
        draft.write_bytes(content)
