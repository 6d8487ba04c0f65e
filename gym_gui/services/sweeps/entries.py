"""Ranges as people type them beside a field, and the space file that says the same.

    1e-5 to 1e-2 log        1 to 10        0.8 to 1.0 step 0.05        32, 64, 128        true, false

Every entry is turned into a line of a space file and read by :func:`~gym_gui.services.sweeps.space.read_space`: one
judge says what can be searched.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gym_gui.services.sweeps.space import Space, SpaceError, read_space

_NUMBER = r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\s*(?:to|\.\.)\s*({_NUMBER})((?:\s*,?\s*(?:log|step\s+{_NUMBER}))*)", re.IGNORECASE)
_STEP = re.compile(rf"step\s+({_NUMBER})", re.IGNORECASE)
_NAME = "the form"


class EntryError(Exception):
    """What was typed is no range; ``str()`` goes on after the name of the field."""


def as_toml(entry: str) -> str:
    """The value of a line in a space file. Raises :class:`EntryError`."""
    text = entry.strip()
    if not text:
        raise EntryError("has no range: write 1 to 10, or values with commas between them")
    found = _RANGE.fullmatch(text)
    if found is not None:
        parts = [f"low = {_plain(found[1])}", f"high = {_plain(found[2])}"]
        parts += ["log = true"] if "log" in found[3].lower() else []
        step = _STEP.search(found[3])
        parts += [f"step = {_plain(step[1])}"] if step is not None else []
        return "{ " + ", ".join(parts) + " }"
    if re.search(rf"{_NUMBER}\s*(?:to|\.\.|-)\s", f"{text} ", re.IGNORECASE) and "," not in text:
        raise EntryError("has a range that cannot be read: write 1e-5 to 1e-2 log, or 1 to 10 step 2")
    return "[" + ", ".join(_word(word) for word in text.split(",") if word.strip()) + "]"


def space_text(entries: Mapping[str, str]) -> str:
    """The space file of these entries. Raises :class:`EntryError` for one that is no range."""
    return "".join(f"{name} = {as_toml(entry)}\n" for name, entry in entries.items())


def problems_of(entries: Mapping[str, str], flags: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What is wrong, by setting; sentences go on after the name of the field."""
    found = {}
    for name, entry in entries.items():
        try:
            read_space(f"{name} = {as_toml(entry)}\n", _NAME, flags)
        except EntryError as error:
            found[name] = str(error)
        except SpaceError as error:
            found[name] = re.sub(rf"^{_NAME}(, line \d+)?: ({re.escape(name)} )?", "", str(error))
    return found


def space_of(entries: Mapping[str, str], flags: Sequence[Mapping[str, Any]]) -> Space:
    """Raises :class:`SpaceError` or :class:`EntryError`."""
    return read_space(space_text(entries), _NAME, flags)


def suggested(kind: str, default: object, choices: Sequence[object] = ()) -> str:
    """A range to begin with: around the default, as wide as people usually search."""
    if kind == "bool":
        return "true, false"
    if choices:
        return ", ".join(str(one) for one in choices)
    if isinstance(default, bool) or not isinstance(default, int | float) or not math.isfinite(default):
        return ""
    if kind == "int":
        return f"{max(1, int(default) // 2)} to {max(2, int(default) * 2)}" if default > 0 else "0 to 10"
    if default <= 0:
        return "0.0 to 1.0"
    if 0.5 <= default <= 1:  # a share, such as a discount: it goes on to 1
        return f"{_short(1 - 4 * (1 - default) if default < 1 else 0.5)} to 1.0"
    return f"{_short(default / 10)} to {_short(default * 10)} log"


def _short(value: float) -> str:
    text = f"{value:.3g}"
    return text if re.search(r"[.e]", text) else f"{text}.0"


def _plain(number: str) -> str:
    """As TOML writes it: with digits on both sides of the point, and no plus sign."""
    text = number.lstrip("+").lower().rstrip("_")
    text = re.sub(r"^(-?)\.", r"\g<1>0.", text)
    text = re.sub(r"\.(?=e|$)", ".0", text)
    return re.sub(r"^(-?)0+(?=\d)", r"\1", text)


def _word(word: str) -> str:
    text = word.strip()
    if re.fullmatch(_NUMBER, text):
        return _plain(text)
    return text.lower() if text.lower() in ("true", "false") else json.dumps(text, ensure_ascii=False)
