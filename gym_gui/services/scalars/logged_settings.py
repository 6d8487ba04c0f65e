"""The settings that a log keeps of its run: the hparams plugin's, and CleanRL's table of text. Pure.

What a run config may not hold (secrets, numbers that are not finite) is left out: settings are stored and shown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from mosaic_protocol.run_config import MAX_INTEGER
from mosaic_protocol.suggest import holds_password, looks_secret

TABLE_TAG = "hyperparameters/text_summary"
"""Where ``writer.add_text("hyperparameters", "|param|value|…")`` of CleanRL's scripts ends."""
_NAMES = {
    "algo": ("algo", "algorithm", "exp_name"),
    "env_id": ("env_id", "gym_id", "env", "env_name", "environment"),
    "seed": ("seed",),
    "total_timesteps": ("total_timesteps", "total_steps", "num_timesteps"),
}
"""What MOSAIC calls a setting, and what logs call it, the first that is there."""
_ROW = re.compile(r"\|([^|]*)\|(.*)\|\s*")
_RULE = re.compile(r"[-:\s]+")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_MOST, _LONGEST_NAME, _LONGEST_TEXT = 300, 100, 1000


def settings_in_table(text: str) -> dict[str, Any]:
    """The rows of a table in Markdown, by name. A text that is no table has none."""
    found: dict[str, Any] = {}
    for line in text.splitlines():
        row = _ROW.fullmatch(line)
        if row and not _RULE.fullmatch(row[1]) and row[1].strip():
            found.setdefault(row[1].strip(), plain_value(row[2].strip()))
    if found.get("param") == "value":
        del found["param"]  # the heading
    return found


def plain_value(text: str) -> Any:
    """What Python printed, read back: numbers, switches and None; everything else stays text."""
    words = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
    if text in words:
        return words[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def worker_settings(logged: Mapping[str, Any]) -> dict[str, Any]:
    """Logged settings as a run config has them: algorithm, environment, seed and length by MOSAIC's names, all else
    among ``params``."""
    rest = {name: value for name, value in list(logged.items())[:_MOST] if _may_be_kept(name, value)}
    found: dict[str, Any] = {}
    for ours, theirs in _NAMES.items():
        name = next((name for name in theirs if _fits(ours, rest.get(name))), None)
        if name is not None:
            found[ours] = rest.pop(name)
    return {**found, "params": rest} if rest else found


def _fits(ours: str, value: object) -> bool:
    if ours in ("algo", "env_id"):
        return isinstance(value, str) and bool(value)
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _may_be_kept(name: str, value: object) -> bool:
    if not name.isprintable() or len(name) > _LONGEST_NAME:
        return False
    if isinstance(value, str):
        harmless = "\0" not in value and not looks_secret(name) and not holds_password(value)
        return harmless and len(value) <= _LONGEST_TEXT
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, int) and abs(value) <= MAX_INTEGER)
