"""A run's parameters, checked: what cannot work is refused before it starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llm_worker.client.endpoint import address_problem
from llm_worker.client.prices import FREE, Price, find_price
from llm_worker.local.model import LOCAL, find_python
from llm_worker.prompting.history import Windows
from llm_worker.prompting.templates import Template, find_template
from mosaic_protocol.plain_text import one_line
from mosaic_worker.errors import UsageError

EPISODES_WITHOUT_A_LIMIT = 10
ANSWER_TOKENS, THINKING_TOKENS = 64, 512
_TOKENS_AN_ACTION = 8
BASE_URL_VARIABLE = "OPENAI_BASE_URL"


@dataclass(frozen=True)
class LLMSettings:
    """One run as its parameters say."""

    mode: str
    model: str
    base_url: str
    key_env: str
    form: str
    temperature: float
    seed: int
    plan_steps: int
    windows: Windows
    sees: bool
    lessons: int
    answer_tokens: int
    template: Template
    uses_cache: bool
    price: Price | None
    max_calls: int
    max_tokens: int
    max_money: float
    timeout: float
    attempts: int

    @property
    def is_local(self) -> bool:
        return self.model == LOCAL and not self.base_url

    @property
    def thinks(self) -> bool:
        return self.mode == "cot"

    @property
    def most_actions(self) -> int:
        return self.plan_steps if self.mode == "plan" else 1


def read_params(mode: str, params: Mapping[str, Any], seed: int) -> LLMSettings:
    """Raises UsageError."""
    model, base_url = str(params["model"]).strip(), str(params["base_url"]).strip()
    if model != LOCAL and not base_url:
        base_url = os.environ.get(BASE_URL_VARIABLE, "").strip()
    if not model:
        raise UsageError("--model is empty: give the model's name at its server, or local")
    if model != LOCAL and not base_url:
        raise UsageError(
            f"--base-url is missing: {one_line(model)} needs a server, such as http://127.0.0.1:8000/v1; the model "
            "local needs none"
        )
    if base_url and (problem := address_problem(base_url)):
        raise UsageError(problem)
    is_local = model == LOCAL and not base_url
    price = FREE if is_local else find_price(model, str(params["prices"]))
    if float(params["max_money"]) and price is None:
        raise UsageError(
            f"--max-money cannot be kept: the price of {one_line(model)} is not known. Give a file with it (--prices), "
            "or limit tokens instead (--max-tokens)"
        )
    if params["examples_from"] and mode != "few_shot":
        raise UsageError(f"--examples-from is for few_shot; {mode} shows no examples")
    if mode == "few_shot" and not params["examples_from"]:
        raise UsageError("--examples-from is missing: few_shot shows episodes of a run or a session as examples")
    if params["pictures"] and is_local:
        raise UsageError("--pictures: the local model reads text alone; name a model that sees, and its --base-url")
    if params["history_pictures"] and not params["pictures"]:
        raise UsageError("--history-pictures needs --pictures: the model is shown no pictures at all")
    thinking = mode == "cot"
    usual = THINKING_TOKENS if thinking else ANSWER_TOKENS
    usual = max(usual, _TOKENS_AN_ACTION * int(params["plan_steps"])) if mode == "plan" else usual
    return LLMSettings(
        mode=mode,
        model=model,
        base_url=base_url,
        key_env=str(params["key_env"]),
        form=str(params["form"]),
        temperature=float(params["temperature"]),
        seed=seed,
        plan_steps=int(params["plan_steps"]),
        windows=Windows(int(params["history"]), int(params["history_pictures"]), int(params["history_reasoning"])),
        sees=bool(params["pictures"]),
        lessons=int(params["lessons"]),
        answer_tokens=int(params["max_answer"]) or usual,
        template=find_template(str(params["prompt"])),
        uses_cache=bool(params["cache"]),
        price=price,
        max_calls=int(params["max_calls"]),
        max_tokens=int(params["max_tokens"]),
        max_money=float(params["max_money"]),
        timeout=float(params["timeout"]),
        attempts=int(params["attempts"]),
    )


def check_model(settings: LLMSettings) -> None:
    """Whether the local model is installed. Raises UsageError."""
    if settings.is_local:
        find_python()
