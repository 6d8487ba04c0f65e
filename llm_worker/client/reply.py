"""What a server answered to one chat completion, read from its JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import msgspec

from llm_worker.client.errors import BadReplyError

_THOUGHT = re.compile(r"<think(?:ing)?>(.*?)(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_REASONING_NAMES = ("reasoning_content", "reasoning")
CHARACTERS_PER_TOKEN = 4
"""For servers that do not count: an estimate, and flagged as one."""
_MOST_TOKENS = 2**40
LONGEST_TEXT, LONGEST_REASONING = 20_000, 60_000
"""Characters of an answer that are used: with them a step can be recorded, whatever a server says."""


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


def read_reply(
    content: bytes, prompt_text: str, seconds: float, hide: Callable[[str], str] = lambda text: text
) -> Reply:
    """``hide`` takes out what must not be kept, from any speaker. Raises BadReplyError for what is no chat completion.
    Empty or null content is an empty text."""
    try:
        body: Any = _decoded(content)
    except (ValueError, RecursionError):
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
    text, reasoning = _cut(hide(text), LONGEST_TEXT), _cut(hide(reasoning), LONGEST_REASONING)
    return Reply(text, reasoning, usage, choice.get("finish_reason") == "length", seconds)


def _decoded(content: bytes) -> Any:
    """A token may end in the middle of a letter, and some servers pass that on: such an answer was made and charged
    for, so what is no letter becomes a mark instead of another request. Raises ValueError."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _mended(json.loads(content.decode("utf-8", "replace")))


def _mended(value: Any) -> Any:
    """Without halves of letters, which nobody could write down."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_mended(one) for one in value]
    return {_mended(name): _mended(one) for name, one in value.items()} if isinstance(value, dict) else value


def _text_of(content: Any) -> str:
    """Some servers answer with a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _cut(text: str, most: int) -> str:
    """From its middle: an answer that thinks aloud ends with the action."""
    left_out = f"\n… {len(text) - most:,} characters were left out …\n"
    return text if len(text) <= most else f"{text[: most // 2]}{left_out}{text[-most // 2 :]}"


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
