"""Script flags as people type them: ``--num-envs 8 --anneal-lr --no-norm-adv --learning-rate=3e-4``."""

from __future__ import annotations

from cleanrl_worker.config import ConfigError


def parse_script_flags(words: list[str]) -> dict[str, str | bool]:
    """Names with underscores. A value stays the text that was typed, for the flag's own type to read; a flag without
    one is a switch, which ``--no-`` turns off. Of a flag given twice the last one counts."""
    found: dict[str, str | bool] = {}
    rest = [word for word in words if word != "--"]
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise ConfigError(f"{word!r} is not a flag: flags of the script begin with --")
        name, has_value, text = word[2:].partition("=")
        if has_value:
            found[_key(name)] = text
        elif rest and not rest[0].startswith("--"):
            found[_key(name)] = rest.pop(0)
        else:
            found[_key(name.removeprefix("no-"))] = not name.startswith("no-")
    return found


def _key(name: str) -> str:
    return name.replace("-", "_")
