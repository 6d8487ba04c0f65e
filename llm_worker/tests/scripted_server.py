"""A server that speaks chat completions by a script, with faults, on a real socket. Also a program of its own."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-scripted-0123456789"
OPTIMAL = {
    0: "down",
    4: "down",
    8: "right",
    9: "down",
    13: "right",
    14: "right",
    1: "right",
    2: "down",
    6: "down",
    10: "down",
}
_PLACE = re.compile(r"row (\d+), column (\d+)")

Fault = Callable[["Asked"], "dict[str, Any] | None"]


@dataclass
class Asked:
    """One request."""

    body: dict[str, Any]
    headers: dict[str, str]
    number: int
    port: int = 0
    """Of the connection that it came by."""

    @property
    def question(self) -> str:
        content = self.body["messages"][-1]["content"]
        return content if isinstance(content, str) else content[0]["text"]

    @property
    def is_probe(self) -> bool:
        return self.question == "Say hello."


@dataclass
class Script:
    """``keeps``: what the server enforces. ``faults``: by the number of the request, from 0; each may say how it is
    answered: ``status``, ``headers``, ``raw``, ``content``, ``delay``, ``message``, ``finish``, ``without_usage``,
    ``hang``; ``gate``: an event that it waits for; ``drips``: bytes with which the answer begins, and then says one
    more now and then, for ever."""

    keeps: tuple[str, ...] = ()
    answer: Callable[[Asked], str] = lambda asked: optimal(asked)  # noqa: PLW0108 - defined below
    faults: dict[int, dict[str, Any]] = field(default_factory=dict)
    every: dict[str, Any] = field(default_factory=dict)
    context: int = 0
    """Characters of a prompt that fit; 0: any."""
    asked: list[Asked] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def questions(self) -> list[Asked]:
        return [one for one in self.asked if not one.is_probe]


def optimal(asked: Asked) -> str:
    """The way across FrozenLake's small map, in the form that is asked for."""
    places = _PLACE.findall(asked.question)
    row, column = map(int, places[-1]) if places else (0, 0)
    word = OPTIMAL.get(4 * row + column, "left")
    return in_form(asked, word)


def in_form(asked: Asked, word: str) -> str:
    if "grammar" in asked.body or "guided_choice" in asked.body:
        return word
    if "response_format" in asked.body:
        many = "actions" in asked.body["response_format"]["json_schema"]["schema"]["properties"]
        return json.dumps({"actions": [word]} if many else {"action": word})
    return f"I go {word}. <action>{word}</action>"


def _probe_answer(asked: Asked, script: Script) -> str:
    body = asked.body
    for rung, name in (("grammar", "grammar"), ("guided", "guided_choice"), ("schema", "response_format")):
        if name in body:
            return "zyx-mosaic-7" if rung in script.keeps else "Hello!"
    return "Hello!"


def _words(body: dict[str, Any]) -> int:
    return sum(len(str(one["content"]).split()) for one in body["messages"])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        script = self.server.script
        content = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            asked = Asked(json.loads(content), dict(self.headers), len(script.asked), self.client_address[1])
            script.asked.append(asked)
        how = {**script.every, **script.faults.get(asked.number, {})}
        if how.get("hang"):
            script.released.wait()
            self.close_connection = True
            return
        if "drips" in how:
            self._drip(how["drips"])
            return
        if gate := how.get("gate"):
            gate.wait()
        if delay := how.get("delay"):
            time.sleep(delay)
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            self._send(401, {"error": f"wrong key {self.headers.get('Authorization')}"})
        elif script.context and sum(len(str(one["content"])) for one in asked.body["messages"]) > script.context:
            self._send(400, {"error": {"type": "exceed_context_size_error", "message": "too long"}})
        elif "raw" in how:
            self._raw(200, how["raw"], how.get("length"), how.get("headers"))
        elif "status" in how:
            self._send(how["status"], {"error": how.get("content", "injected")}, how.get("headers", {}))
        else:
            self._send(200, self._completion(asked, how))

    def _completion(self, asked: Asked, how: dict[str, Any]) -> dict[str, Any]:
        script = self.server.script
        said = _probe_answer(asked, script) if asked.is_probe else script.answer(asked)
        said = how.get("content", said) if not asked.is_probe else said
        message = {"role": "assistant", "content": said, **how.get("message", {})}
        usage = {
            "prompt_tokens": _words(asked.body),
            "completion_tokens": len(str(said).split()),
            "prompt_tokens_details": {"cached_tokens": 1},
        }
        told = {"choices": [{"message": message, "finish_reason": how.get("finish", "stop")}]}
        return told if how.get("without_usage") else {**told, "usage": usage}

    def _send(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self._raw(status, json.dumps(body).encode(), None, headers)

    def _raw(
        self, status: int, content: bytes, length: int | None = None, headers: dict[str, str] | None = None
    ) -> None:
        try:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content) if length is None else length))
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = length is not None
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _drip(self, first: bytes) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.wfile.write(first)
            while not self.server.script.released.wait(0.02):
                self.wfile.write(first[-1:])

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script, self.lock = script, threading.Lock()

    def handle_error(self, *_: Any) -> None:
        """A client that left is no error."""


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """The base URL of a server that follows the script."""
    server = _Server(script)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        script.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
