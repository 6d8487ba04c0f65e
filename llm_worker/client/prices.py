"""What tokens cost, from a file with a date. A model that is not in it has no price, and is not taken to be free."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_worker.client.reply import Usage
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.regular_files import read_regular
from mosaic_worker.errors import UsageError

OWN_PRICES = Path(__file__).with_name("prices.toml")
_MILLION = 1_000_000
_LARGEST = 1024 * 1024


@dataclass(frozen=True)
class Price:
    """Dollars for a million tokens, and the date on which that was so."""

    prompt: float
    completion: float
    cached: float
    as_of: str = ""

    def as_words(self) -> str:
        """One line, such as ``$0.15 in, $0.6 out for a million tokens, as of 2026-11-01``."""
        if not (self.prompt or self.completion):
            return "free"
        when = f", as of {one_line(self.as_of)}" if self.as_of else ""
        return f"${self.prompt:g} in, ${self.completion:g} out for a million tokens{when}"

    def of(self, usage: Usage) -> float:
        cached = usage.cached or 0
        dear = usage.prompt - cached
        return (dear * self.prompt + cached * self.cached + usage.completion * self.completion) / _MILLION


FREE = Price(0.0, 0.0, 0.0)


def find_price(model: str, file: str = "") -> Price | None:
    """None where nobody knows. Raises UsageError for a file that is no list of prices."""
    path = Path(file).expanduser() if file else OWN_PRICES
    try:
        told: dict[str, Any] = tomllib.loads(read_regular(path, _LARGEST, follow=True).decode())
    except (OSError, ValueError) as error:
        raise UsageError(f"--prices: {path} cannot be read: {one_line(str(error))}") from None
    models = told.get("models")
    if not isinstance(models, dict) or not str(told.get("as_of") or ""):
        raise UsageError(f'--prices: {path} needs as_of = "DATE" and tables such as [models."NAME"]')
    fitting = [name for name in models if name == model or (name.endswith("*") and model.startswith(name[:-1]))]
    if not fitting:
        return None
    name = max(fitting, key=len)
    return _price(models[name], f"{path}: the price of {name!r}", str(told["as_of"]))


def _price(told: Any, where: str, as_of: str) -> Price:
    numbers: list[float] = []
    told = told if isinstance(told, dict) else {}
    for name in ("prompt", "completion", "cached"):
        value = told.get(name, told.get("prompt") if name == "cached" else None)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MILLION:
            raise UsageError(f"--prices: {where} needs {name}, in dollars for a million tokens")
        numbers.append(float(value))
    prompt, completion, cached = numbers
    return Price(prompt, completion, cached, as_of)
