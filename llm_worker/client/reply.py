"""What a server answered to one chat completion, read from its JSON."""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec

from llm_worker.client.errors import BadReplyError

_THOUGHT = re.compile(r"<think(?:ing)?>(.*?)(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_REASONING_NAMES = ("reasoning_content", "reasoning")
CHARACTERS_PER_TOKEN = 4
"""For servers that do not count: an estimate, and flagged as one."""
_MOST_TOKENS = 2**40


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one call."""

    prompt: int = 0
    completion: int = 0
    cached: int | None = None
    """Of the prompt's, those that the server had in its cache; None where it does not say."""
    is_estimated: bool = False

    @property
    def total(self) -> int:
        return self.prompt + self.completion


class Reply(msgspec.Struct, frozen=True):
    """One answer. ``text`` is without the model's reasoning."""

    text: str
    reasoning: str = ""
    usage: Usage = Usage()
    is_cut_off: bool = False
    """Whether it ended because of ``max_tokens``."""
    seconds: float = 0.0
    """From the request of the attempt that succeeded to the end of its answer."""


def estimated_tokens(text: str) -> int:
    return max(1, math.ceil(len(text) / CHARACTERS_PER_TOKEN))


def read_reply(content: bytes, prompt_text: str, seconds: float) -> Reply:
    """Raises BadReplyError for what is no chat completion. Empty or null content is an empty text."""
    try:
        body: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadReplyError("the server's answer is not JSON, or was cut off") from None
    try:
        choice = body["choices"][0]
        message = choice["message"]
        said = message.get("content")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise BadReplyError("the server's answer has no choices[0].message: it is no chat completion") from None
    text = _text_of(said)
    thoughts = [one for name in _REASONING_NAMES if isinstance(one := message.get(name), str) and one][:1]
    thoughts += _THOUGHT.findall(text)
    reasoning = "\n".join(one.strip() for one in thoughts)
    text = _THOUGHT.sub("", text).strip()
    usage = _usage(body.get("usage"), prompt_text, text + reasoning)
    return Reply(text, reasoning, usage, choice.get("finish_reason") == "length", seconds)


def _text_of(content: Any) -> str:
    """Some servers answer with a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _usage(told: Any, prompt: str, completion: str) -> Usage:
    numbers = told if isinstance(told, dict) else {}
    asked, answered = _count(numbers.get("prompt_tokens")), _count(numbers.get("completion_tokens"))
    details = numbers.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    if asked is None or answered is None:
        return Usage(estimated_tokens(prompt), estimated_tokens(completion), None, is_estimated=True)
    return Usage(asked, answered, None if cached is None else min(cached, asked))


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS
    return value if is_count else None
