"""One call of a run: from the ledger, from the cache, or from the server, and accounted in either case."""

from __future__ import annotations

import hashlib
import math
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from llm_worker.client.budget import Budget
from llm_worker.client.cache import ResponseCache
from llm_worker.client.endpoint import Attempt, ChatEndpoint
from llm_worker.client.errors import AbandonedError, CallError
from llm_worker.client.ledger import Ledger
from llm_worker.client.reply import Reply, Usage
from mosaic_protocol.plain_text import one_line

Source = Literal["server", "cache", "ledger"]
_LOOK_SECONDS = 0.05
PICTURE_TOKENS = 1000
"""What a picture is taken to cost before the server has counted it."""
_TOKENS_A_MESSAGE = 32
"""Beside its words: roles, marks, and what a server says before the first one."""


@dataclass(frozen=True)
class Answer:
    """What a call brought, and what it took."""

    reply: Reply
    source: Source
    cost: float | None
    """None where the model's price is not known. Nothing is charged for what was known already."""
    attempts: int = 0


class Caller:
    """Makes the calls of one run, one at a time."""

    def __init__(
        self,
        endpoint: ChatEndpoint,
        ledger: Ledger | None,
        cache: ResponseCache | None,
        budget: Budget,
        origin: str = "",
    ) -> None:
        """``origin`` names the server where its address says nothing: that of the local model is new in each run."""
        self._endpoint, self._ledger, self._cache, self.budget = endpoint, ledger, cache, budget
        self._origin = origin or endpoint.base_url
        self._thread: ThreadPoolExecutor | None = None
        self._attempts: list[Attempt] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()
        if ledger is not None:
            budget.spent = ledger.spent
        self._density = 0.5
        """Tokens a byte of a prompt, at most: the highest that this server counted."""

    def call(self, place: str, body: Mapping[str, Any], attend: Callable[[], bool] | None = None) -> Answer:
        """``attend`` is called now and then while the server thinks; when it says no, the call is given up.

        Raises CallError.
        """
        self._require_own()
        request = request_hash(self._origin, body)
        if (known := self._known(place, request)) is not None:
            return known
        text = prompt_text(body)
        most = Usage(self._most_tokens(text, body), int(body.get("max_tokens") or 0))
        self.budget.require(most)
        if self._ledger is not None:
            self._ledger.asks(place, request, most, self.budget.price_of(most))
        try:
            reply = self._wait(body, text, most, attend)
        except AbandonedError:
            self._account(place, request, most)
            raise  # nobody knows what becomes of it: it stays unsettled
        except CallError as error:
            self._account(place, request, most)
            if self._ledger is not None:
                self._ledger.failed(place, request, one_line(str(error)))
            raise
        attempts = self._account(place, request, most)
        cost = self.budget.spend(reply.usage)
        self._learn_density(text, body, reply.usage)
        if self._ledger is not None:
            self._ledger.settled(place, request, reply, "server", cost)
        if self._cache is not None:
            self._cache.keep(request, reply)
        return Answer(reply, "server", cost, attempts)

    @property
    def unsettled(self) -> list[str]:
        """The places of calls that were in flight when the run that is resumed was killed."""
        return self._ledger.unsettled if self._ledger is not None else []

    def close(self) -> None:
        self._endpoint.close()
        if self._thread is not None:
            self._thread.shutdown()
        if self._ledger is not None:
            self._ledger.close()
        if self._cache is not None:
            self._cache.close()

    def _require_own(self) -> None:
        """Evaluations play in processes that are forked when the policy is loaded: each has connections of its own."""
        if self._pid != os.getpid():
            self._pid, self._thread, self._attempts, self._lock = os.getpid(), None, [], threading.Lock()
            self._endpoint.reconnect()
            if self._cache is not None:
                self._cache.reopen()

    def _known(self, place: str, request: str) -> Answer | None:
        source: Source = "ledger"
        reply = self._ledger.find(place, request) if self._ledger is not None else None
        if reply is None and self._cache is not None:
            source, reply = "cache", self._cache.find(request)
        if reply is None:
            return None
        if self._ledger is not None:
            self._ledger.settled(place, request, reply, source, 0.0)
        return Answer(reply, source, 0.0)

    def _wait(self, body: Mapping[str, Any], text: str, most: Usage, attend: Callable[[], bool] | None) -> Reply:
        def require() -> None:
            with self._lock:
                failed = len(self._attempts)
            self.budget.require(most, failed)

        if attend is None:
            return self._endpoint.ask(body, text, self._note, require)
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "call")
        pending: Future[Reply] = self._thread.submit(self._endpoint.ask, body, text, self._note, require)
        while True:
            try:
                return pending.result(_LOOK_SECONDS)
            except NotYet:
                if pending.done():
                    raise
                if not attend():
                    self._endpoint.abandon()
                    raise AbandonedError("the run stops: the call was given up") from None

    def _note(self, attempt: Attempt) -> None:
        """In the thread of the call."""
        with self._lock:
            self._attempts.append(attempt)

    def _most_tokens(self, text: str, body: Mapping[str, Any]) -> int:
        """What a prompt may count. Words have a token for every four bytes, maps of characters one for two or fewer."""
        beside = _TOKENS_A_MESSAGE * len(body.get("messages", ())) + PICTURE_TOKENS * count_pictures(body)
        return math.ceil(len(text.encode("utf-8", "replace")) * self._density) + beside

    def _learn_density(self, text: str, body: Mapping[str, Any], usage: Usage) -> None:
        size = len(text.encode("utf-8", "replace"))
        if size and not usage.is_estimated and not count_pictures(body):
            counted = usage.prompt - _TOKENS_A_MESSAGE * len(body.get("messages", ()))
            self._density = max(self._density, counted / size)

    def _account(self, place: str, request: str, most: Usage) -> int:
        """Every attempt that failed counts, and stands in the ledger. How many there were."""
        with self._lock:
            attempts, self._attempts = self._attempts, []
        for one in attempts:
            if one.problem:
                held = most if one.may_cost else None  # nobody knows what that cost, and a limit is to hold
                cost = self.budget.spend(held)
                if self._ledger is not None:
                    self._ledger.attempted(place, request, one, held, cost)
        return len(attempts)


def request_hash(origin: str, body: Mapping[str, Any]) -> str:
    """Names what is asked of whom."""
    return hashlib.sha256(msgspec.json.encode([origin, body], order="deterministic")).hexdigest()


def prompt_text(body: Mapping[str, Any]) -> str:
    """The words of a request, for estimates."""
    return "\n".join(part for message in body.get("messages", ()) for part in _words(message.get("content")))


def _words(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [str(part.get("text")) for part in content or () if part.get("type") == "text"]


def count_pictures(body: Mapping[str, Any]) -> int:
    parts = [
        part for one in body.get("messages", ()) if isinstance(one.get("content"), list) for part in one["content"]
    ]
    return sum(part.get("type") == "image_url" for part in parts)
