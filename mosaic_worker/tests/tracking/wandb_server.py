"""A W&B server on loopback that answers just enough for a run, keeps what it received, and is a proxy for itself."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass
class WandbServer:
    """What arrived: one entry for each request, in order."""

    address: str
    operations: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """(name, variables) of GraphQL requests."""
    streamed: list[dict[str, Any]] = field(default_factory=list)
    """Bodies sent to the run's file stream: rows, summary, exit code."""
    headers: list[dict[str, str]] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """The history that was uploaded, without W&B's own columns."""
        parts = (body.get("files", {}).get("wandb-history.jsonl") for body in self.streamed)
        lines = [line for part in parts if part for line in part["content"]]
        return [{key: value for key, value in json.loads(line).items() if key[0] != "_"} for line in lines]


def _answer(server: WandbServer, operation: str, variables: dict[str, Any]) -> dict[str, Any]:
    if operation == "UpsertBucket":
        project = {"id": "cA==", "name": variables["project"], "entity": {"id": "ZQ==", "name": "team"}}
        bucket = {"id": "cg==", "name": variables["name"], "displayName": variables.get("displayName")}
        return {"upsertBucket": {"bucket": {**bucket, "project": project, "config": "{}"}, "inserted": True}}
    if operation == "CreateRunFiles":
        files = [{"name": name, "uploadUrl": f"{server.address}/upload"} for name in variables["files"]]
        return {"createRunFiles": {"runID": "cg==", "uploadHeaders": [], "files": files}}
    return {}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kept: WandbServer

    def do_POST(self) -> None:
        content = json.loads(self._body())
        if urlsplit(self.path).path == "/graphql":
            name = re.search(r"(?:query|mutation)\s+(\w+)", content["query"])
            operation, variables = name[1] if name else "", content.get("variables") or {}
            self.kept.operations.append((operation, variables))
            self._reply({"data": _answer(self.kept, operation, variables)})
        else:
            self.kept.streamed.append(content)
            self._reply({})

    def do_PUT(self) -> None:
        self._body()
        self._reply({})

    def _body(self) -> bytes:
        self.kept.headers.append(dict(self.headers))
        self.kept.targets.append(self.path)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _reply(self, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """wandb ends without closing its connections, which is no news."""


@contextmanager
def wandb_server() -> Iterator[WandbServer]:
    """The server, gone afterwards."""

    class Handler(_Handler):
        """Keeps what arrives in a place of its own."""

    server = _Server(("127.0.0.1", 0), Handler)
    Handler.kept = kept = WandbServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
