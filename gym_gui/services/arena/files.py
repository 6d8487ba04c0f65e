"""The standings as a file, in the format that its name asks for."""

from __future__ import annotations

import json
from pathlib import Path

from gym_gui.services.arena import page, report
from gym_gui.services.arena.film import Film
from gym_gui.services.arena.standings import Standings

FORMATS = (".html", ".csv", ".json")


def content(found: Standings, file: Path, command: str, film: Film | None = None) -> bytes:
    """``film``: for a page, what it plays."""
    match file.suffix.lower():
        case ".csv":
            return report.csv_text(found).encode()
        case ".json":
            return (json.dumps(report.as_object(found), indent=1, allow_nan=False) + "\n").encode()
        case _:
            return page.document(found, command, film).encode()
