"""The way to W&B, probed against servers on this machine: proxies, wrong keys, redirections, silence."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.wandb.route import NoRouteError, Route, probe, route_from
from mosaic_protocol.wandb_keys import WandbKey
from mosaic_protocol.wandb_proxies import Proxies

KEY = WandbKey("a test", "5ecre7" * 7)
CODED = base64.b64encode(f"api:{KEY.secret}".encode()).decode()


class Server:
    """Answers every request alike, and remembers what was asked."""

    def __init__(self) -> None:
        self.status, self.answer, self.headers = 200, b"{}", dict[str, str]()
        self.asked: list[tuple[str, dict[str, str]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                server.asked.append((self.path, dict(self.headers)))
                self.send_response(server.status)
                for name, value in {"Content-Length": str(len(server.answer)), **server.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(server.answer)

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def test_a_server_that_knows_the_key_says_whose_it_is(server: Server) -> None:
    server.answer = json.dumps({"data": {"viewer": {"username": "ada", "entity": "team"}}}).encode()
    reach = probe(Route(server.address, None), KEY)
    assert (reach.answers, reach.key_is_good, reach.account, reach.problem) == (True, True, "team", "")
    ((path, headers),) = server.asked
    assert path == "/graphql" and headers["Authorization"] == f"Basic {CODED}"


@pytest.mark.parametrize(
    ("status", "answer"), [(401, b""), (403, b""), (200, b'{"data": {"viewer": null}}'), (200, b"[")]
)
def test_a_key_that_the_server_does_not_know_is_said_to_be_refused(server: Server, status: int, answer: bytes) -> None:
    server.status, server.answer = status, answer
    reach = probe(Route(server.address, None), KEY)
    assert (reach.answers, reach.key_is_good) == (True, False)
    assert probe(Route(server.address, None), None).key_is_good is None


def test_the_key_does_not_follow_a_redirection(server: Server) -> None:
    elsewhere = Server()
    try:
        server.status, server.headers = 307, {"Location": f"{elsewhere.address}/graphql"}
        assert probe(Route(server.address, None), KEY).key_is_good is None
        assert elsewhere.asked == []
    finally:
        elsewhere.close()


def test_over_a_connection_that_others_can_read_no_key_is_sent(server: Server) -> None:
    through = Proxies({"http": server.address}, "a test")
    reach = probe(Route("http://wandb.example", through), KEY)
    ((path, headers),) = server.asked
    assert reach.answers and path == "http://wandb.example/graphql" and "Authorization" not in headers


def test_a_server_or_a_proxy_that_does_not_answer_is_a_sentence_without_passwords(server: Server) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        nowhere = f"127.0.0.1:{closed.getsockname()[1]}"
        reach = probe(Route(f"http://{nowhere}", None), KEY, patience=5)
        assert not reach.answers and f"http://{nowhere} does not answer" in reach.problem
        through = Proxies({"http": f"http://me:pa55word@{nowhere}"}, "a test")
        reach = probe(Route("http://wandb.invalid", through), KEY, patience=5)
        assert not reach.answers and "pa55word" not in reach.problem
    for status, sentence in ((407, "a user and a password"), (503, "status 503")):
        server.status = status
        reach = probe(Route(server.address, None), KEY)
        assert not reach.answers and sentence in reach.problem


def test_the_way_follows_the_environment_and_never_goes_around_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    home = {"MOSAIC_HOME": str(tmp_path / "var")}
    assert route_from(home) == Route("https://api.forge.coreweave.com", None)
    usual = route_from(home | {"HTTPS_PROXY": "http://me:pa55word@usual:1", "WANDB_BASE_URL": "https://own/"})
    assert usual.address == "https://own" and "usual:1" in usual.words and "pa55word" not in usual.words
    wanted = home | {"MOSAIC_WANDB_PROXY": "1", "HTTPS_PROXY": "http://usual:1"}
    with pytest.raises(NoRouteError, match="names one"):
        route_from(wanted)
    (tmp_path / ".env").write_text("WANDB_VPN_HTTPS_PROXY=http://vpn:2\n")
    assert route_from(wanted).environment()["https_proxy"] == "http://vpn:2"
