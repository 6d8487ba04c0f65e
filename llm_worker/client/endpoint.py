"""One server that speaks OpenAI's chat completions, and the attempts that a call takes.

Retries are ours, so that each attempt is counted: 429 waits as long as the server says, 5xx and broken connections
back off, 401 and other refusals end the call at once. Any thread may call :meth:`ChatEndpoint.abandon`.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from llm_worker.client.errors import (
    AbandonedError,
    BadReplyError,
    CallError,
    KeyRefusedError,
    RequestRefusedError,
    TooLongError,
    UnreachableError,
)
from llm_worker.client.keys import without
from llm_worker.client.reply import Reply, read_reply
from mosaic_protocol.plain_text import one_line

LARGEST_ANSWER = 4 * 1024 * 1024
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
_TOO_LONG = re.compile(r"exceed_context|context[_ ]length|maximum context|context size|too many tokens", re.IGNORECASE)
_SAID = 300


@dataclass(frozen=True)
class Attempt:
    """One request that was sent. ``problem`` is empty for the one that was answered."""

    number: int
    status: int
    """0 where no answer came."""
    seconds: float
    problem: str = ""
    may_cost: bool = False
    """Whether the server may have worked on one that failed."""


Note = Callable[[Attempt], None]
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol, httpx.InvalidURL)


class ChatEndpoint:
    """Asks one server. Belongs to one thread, but for :meth:`abandon`."""

    def __init__(self, base_url: str, key: str = "", *, timeout: float = 120.0, attempts: int = 5) -> None:
        """``timeout``: seconds that one attempt may take, from its beginning to the last byte."""
        self.base_url, self._key = base_url.rstrip("/"), key
        self._timeout, self._attempts = timeout, attempts
        self._abandoned = threading.Event()
        self._socket: socket.socket | None = None
        """Of the newest connection: closing the client from another thread wakes nobody who waits for an answer."""
        self._left: list[object] = []
        """Clients of the process that this one was forked from."""
        self._connect()

    def _connect(self) -> None:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        headers["Accept-Encoding"] = "identity"  # what is packed may be a thousand times as large as it looks
        # What the environment says of proxies is respected; what stays on this machine takes no way round.
        trusts = not is_loopback(self.base_url)
        limits = httpx.Timeout(self._timeout, connect=min(self._timeout, 15.0))
        self._client = httpx.Client(timeout=limits, headers=headers, trust_env=trusts, follow_redirects=False)

    def reconnect(self) -> None:
        """After a fork: a connection that two processes write to would mix up their answers. That of the other one is
        left to it, and not closed."""
        self._socket = None
        self._left.append(self._client)
        self._connect()

    def ask(
        self,
        body: Mapping[str, Any],
        prompt_text: str,
        note: Note = lambda _: None,
        require: Callable[[], None] = lambda: None,
    ) -> Reply:
        """``note`` hears of every attempt; ``require`` is called before each and may raise CallError, as this does."""
        for number in range(1, self._attempts + 1):
            require()
            began = time.monotonic()
            wait, may_cost = self._backoff(number), True
            try:
                status, headers, content = self._send(body)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                self._require_not_abandoned()
                status, problem = 0, f"{type(error).__name__}: {self._shown(str(error)) or 'no answer'}"
                may_cost = not isinstance(error, _NEVER_SENT)
            except BadReplyError as error:  # it would be as large the next time
                note(Attempt(number, 200, time.monotonic() - began, str(error), may_cost))
                raise
            else:
                if status == 200:
                    try:
                        reply = read_reply(content, prompt_text, time.monotonic() - began, self._hidden)
                    except BadReplyError as error:
                        problem = str(error)
                    else:
                        note(Attempt(number, status, reply.seconds))
                        return reply
                else:
                    problem = f"{status}: {self._shown(content.decode('utf-8', 'replace'))}"
                    wait = _asked_wait(headers, wait) if status in (429, 503) else wait
                    may_cost = status < 300
            note(Attempt(number, status, time.monotonic() - began, problem, may_cost))
            self._refuse_what_no_repetition_mends(status, problem)
            if number < self._attempts and self._abandoned.wait(wait):
                self._require_not_abandoned()
        raise UnreachableError(
            f"{self.host} gave no answer in {self._attempts} attempts ({problem}): look whether the server runs and "
            "is not overloaded, then resume"
        )

    @property
    def host(self) -> str:
        return one_line(urlsplit(self.base_url).netloc)

    def abandon(self) -> None:
        """Whoever waits for an answer gets AbandonedError soon. Safe in any thread."""
        self._abandoned.set()
        self._cut_connection()
        with suppress(Exception):
            self._client.close()

    close = abandon

    def _cut_connection(self) -> None:
        if (open_one := self._socket) is not None:
            with suppress(OSError):
                socket.socket.shutdown(open_one, socket.SHUT_RDWR)  # beneath TLS, which would ask its peer first

    @contextmanager
    def _patience(self) -> Iterator[None]:
        """Cut the connection when an attempt takes too long as a whole: a server that says a little now and then, be it
        in the middle of its headers, keeps each single wait short."""
        is_over = threading.Event()

        def end() -> None:
            is_over.set()
            self._cut_connection()

        timer = threading.Timer(self._timeout, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except httpx.HTTPError:
            if not is_over.is_set():
                raise
        finally:
            timer.cancel()
        if is_over.is_set():  # also where an answer without a length looks as if it had ended
            raise httpx.ReadTimeout(f"the answer was not complete after {self._timeout:g} s")

    def _note_connection(self, event: str, told: Mapping[str, Any]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = told["return_value"].get_extra_info("socket")

    def _send(self, body: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        self._require_not_abandoned()
        address, watched = f"{self.base_url}/chat/completions", {"trace": self._note_connection}
        with self._patience(), self._client.stream("POST", address, json=body, extensions=watched) as response:
            packing = response.headers.get("content-encoding", "identity").strip()
            if packing.lower() != "identity":
                told = f"{self.host} packed its answer ({self._shown(packing)[:40]}), which nobody asked for"
                if response.status_code == 200:
                    raise BadReplyError(told)
                return response.status_code, response.headers, told.encode()
            content = bytearray()
            for part in response.iter_raw():
                self._require_not_abandoned()
                content += part
                if len(content) > LARGEST_ANSWER:
                    raise BadReplyError(
                        f"{self.host} answered with more than {LARGEST_ANSWER:,} bytes: nothing of it is used"
                    )
            return response.status_code, response.headers, bytes(content)

    def _require_not_abandoned(self) -> None:
        if self._abandoned.is_set():
            raise AbandonedError("the run stops: the call was given up")

    def _refuse_what_no_repetition_mends(self, status: int, problem: str) -> None:
        if status in (401, 403):
            raise KeyRefusedError(
                f"{self.host} refused the key ({problem}): put the right one into the variable that --key-env names, "
                "where the daemon runs, and start the run again"
            )
        if status == 413 or (status == 400 and _TOO_LONG.search(problem)):
            raise TooLongError(f"the prompt is longer than {self.host} takes ({problem})")
        if 300 <= status < 500 and status not in (408, 409, 425, 429):
            raise RequestRefusedError(f"{self.host} refused the request ({problem})")

    @staticmethod
    def _backoff(number: int) -> float:
        return min(FIRST_WAIT * 2.0 ** (number - 1), LONGEST_WAIT)

    def _shown(self, text: str) -> str:
        return one_line(self._hidden(text))[:_SAID]

    def _hidden(self, text: str) -> str:
        return without(text, self._key)


def _asked_wait(headers: Mapping[str, str], otherwise: float) -> float:
    """What Retry-After says: seconds, or a date; never more than a minute at once."""
    said = headers.get("retry-after", "")
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(said).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return otherwise
    return min(max(seconds, 0.0), LONGEST_WAIT) if seconds == seconds else otherwise


def is_loopback(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def address_problem(base_url: str) -> str:
    """Why an address cannot be one, in one sentence; "" when it can."""
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:
        return f"--base-url {one_line(base_url)[:80]!r} is no address"
    if parts.username or parts.password:
        advice = "put it into the variable that --key-env names"
        return f"--base-url must not hold a key: settings are kept with the run; {advice}"
    if parts.query or parts.fragment:
        return "--base-url must end with its path, such as http://127.0.0.1:8000/v1: nothing may follow a ? or #"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "--base-url must be an address such as http://127.0.0.1:8000/v1"
    return ""


__all__ = ["Attempt", "CallError", "ChatEndpoint", "address_problem", "is_loopback"]
