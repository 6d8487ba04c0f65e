"""Script flags as people type them: ``--num-envs 8 --anneal-lr --no-norm-adv --learning-rate=3e-4``."""

from __future__ import annotations

from typing import Any

from cleanrl_worker.config import ConfigError


def parse_script_flags(words: list[str]) -> dict[str, Any]:
    """Names with underscores, values as numbers or switches where they look like it."""
    found: dict[str, Any] = {}
    rest = [word for word in words if word != "--"]
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise ConfigError(f"{word!r} is not a flag: flags of the script begin with --")
        name, has_value, text = word[2:].partition("=")
        if has_value:
            found[_key(name)] = _value(text)
        elif rest and not rest[0].startswith("--"):
            found[_key(name)] = _value(rest.pop(0))
        else:
            found[_key(name.removeprefix("no-"))] = not name.startswith("no-")
    return found


def _key(name: str) -> str:
    return name.replace("-", "_")


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)
