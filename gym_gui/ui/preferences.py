"""What the cockpit remembers between two starts: layout, theme, presets, filters. One JSON file, written in one step.

A file that cannot be read is put aside and forgotten: a broken preference must never keep the cockpit from opening.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mosaic_protocol.whole_files import write_whole

FILE_NAME = "cockpit.json"
_DAMAGED_SUFFIX = ".damaged"


class Preferences:
    """Values by dotted name. Used in the GUI's thread only; :meth:`save` is cheap and may be called often."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.problem = ""
        """Why what was remembered is gone, "" when nothing is."""
        self._values = self._read()
        self._saved = json.dumps(self._values, sort_keys=True)

    def get(self, name: str, default: Any = None) -> Any:
        """A value as it was stored; of another type than the default it is not believed."""
        value = self._values.get(name, default)
        return value if default is None or isinstance(value, type(default)) else default

    def put(self, name: str, value: Any) -> None:
        """Remember a plain JSON value; None forgets it."""
        if value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = value

    def save(self) -> None:
        """Write what changed. A full disk costs the memory, never the session."""
        text = json.dumps(self._values, sort_keys=True)
        if text == self._saved:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, text, mode=0o600)
            self._saved = text
        except OSError as error:
            self.problem = f"preferences could not be written: {error}"

    def _read(self) -> dict[str, Any]:
        try:
            values = json.loads(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError):
            values = None
        if isinstance(values, dict):
            return values
        self._put_aside()
        return {}

    def _put_aside(self) -> None:
        aside = self._file.with_name(self._file.name + _DAMAGED_SUFFIX)
        self.problem = f"the remembered layout could not be read and was put aside as {aside.name}"
        try:
            self._file.replace(aside)
        except OSError:
            self.problem = "the remembered layout could not be read"
