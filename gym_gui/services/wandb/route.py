"""The way to W&B: which server, through which proxy, and whether it answers."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import IO, Any
from urllib.parse import urlsplit

from mosaic_protocol.plain_text import one_line
from mosaic_protocol.wandb_keys import WandbKey, server_address
from mosaic_protocol.wandb_proxies import (
    NO_PROXY_NAMED,
    Proxies,
    find_proxies,
    switched_on,
    usual_proxies,
    without_credentials,
)

PATIENCE_SECONDS = 10.0
_MOST_ANSWER_BYTES = 64 << 10
_QUERY = json.dumps({"query": "query Viewer { viewer { username entity } }"}).encode()
_REFUSED = (401, 403)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class NoRouteError(Exception):
    """A proxy is wanted and none is named; the message is a sentence."""


@dataclass(frozen=True)
class Route:
    """How W&B is reached from here."""

    address: str
    proxies: Proxies | None

    @property
    def words(self) -> str:
        """In words, without a password."""
        return f"through the proxy {self.proxies}" if self.proxies is not None else "without a proxy"

    def environment(self) -> dict[str, str]:
        """What a process must find in its environment to take it."""
        return self.proxies.environment() if self.proxies is not None else {}


@dataclass(frozen=True)
class Reach:
    """What came of a probe. ``account`` is who the key belongs to; "" where that was not asked or not answered."""

    answers: bool
    milliseconds: int = 0
    problem: str = ""
    key_is_good: bool | None = None
    account: str = ""
    is_away: bool = False
    """Nothing at all answered: no network, a wrong address, a proxy that is down. A certificate that is not trusted
    here is an answer: wandb may have been told to trust it."""


def route_from(environ: Mapping[str, str]) -> Route:
    """The way that this environment describes. Raises :class:`NoRouteError` rather than go around a proxy."""
    if not switched_on(environ):
        return Route(server_address(environ), usual_proxies(environ))
    proxies = find_proxies(environ)
    if proxies is None:
        raise NoRouteError(f"{NO_PROXY_NAMED[0].upper()}{NO_PROXY_NAMED[1:]}: name one, or turn the proxy off.")
    return Route(server_address(environ), proxies)


def probe(route: Route, key: WandbKey | None, patience: float = PATIENCE_SECONDS) -> Reach:
    """Ask the server who the key belongs to. Blocks for ``patience`` seconds at most; raises nothing.

    The key goes to the server itself and nowhere else: a redirection is not followed, and over a connection that others
    can read it is not sent.
    """
    sent = key if key is not None and _is_safe(route.address) else None
    addresses = dict(route.proxies.addresses) if route.proxies is not None else {}
    began = time.monotonic()
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler(addresses), _NoRedirect())
        request = urllib.request.Request(f"{route.address}/graphql", _QUERY, _headers(sent), method="POST")
        with opener.open(request, timeout=patience) as answer:
            content = answer.read(_MOST_ANSWER_BYTES)
    except urllib.error.HTTPError as error:
        error.close()
        return _refusal(error.code, sent, _milliseconds(began))
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        text = without_credentials(one_line(str(reason)))[:200] or type(error).__name__
        away = not isinstance(reason, ssl.SSLError)
        return Reach(False, _milliseconds(began), f"{route.address} does not answer: {text}", is_away=away)
    account = _account(content)
    return Reach(True, _milliseconds(began), key_is_good=None if sent is None else bool(account), account=account)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


def _is_safe(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme == "https" or parts.hostname in _LOOPBACK


def _headers(key: WandbKey | None) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "User-Agent": "mosaic"}
    if key is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(f"api:{key.secret}".encode()).decode()
    return headers


def _milliseconds(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _refusal(code: int, sent: WandbKey | None, milliseconds: int) -> Reach:
    """A server that refuses is a server that answers; one that is broken, or a proxy that says no, is not."""
    if code in _REFUSED:
        return Reach(True, milliseconds, key_is_good=None if sent is None else False)
    if code < 500 and code != 407:
        return Reach(True, milliseconds)
    why = "the proxy wants a user and a password" if code == 407 else f"status {code}"
    return Reach(False, milliseconds, f"W&B cannot be used from here: {why}")


def _account(content: bytes) -> str:
    try:
        viewer = json.loads(content)["data"]["viewer"]
        return one_line(str(viewer["entity"] or viewer["username"]))[:100]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
