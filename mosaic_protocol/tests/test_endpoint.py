"""Where the daemon listens: written in one step, read by whoever reconnects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic_protocol.endpoint import CHANNEL_OPTIONS, Endpoint, bearer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "endpoint.json"


def test_what_is_written_is_read(path: Path) -> None:
    endpoint = Endpoint("127.0.0.1:5", 17, "/cert.pem")
    endpoint.write(path)
    assert Endpoint.read(path) == endpoint
    assert [entry.name for entry in path.parent.iterdir()] == ["endpoint.json"]


def test_a_newer_daemons_word_replaces_the_older_ones(path: Path) -> None:
    for port in (1, 2):
        Endpoint(f"127.0.0.1:{port}").write(path)
    assert Endpoint.read(path) == Endpoint("127.0.0.1:2")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"{}", b"5", b"\xff\xfe", b'{"pid": 3}', b'{"target": 5}']
)
def test_a_file_that_cannot_be_understood_is_no_endpoint(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert Endpoint.read(path) is None


def test_no_file_is_no_endpoint(path: Path) -> None:
    assert Endpoint.read(path) is None
    path.mkdir()
    assert Endpoint.read(path) is None


def test_an_older_reader_understands_a_newer_daemon(path: Path) -> None:
    path.write_text(json.dumps({"target": "127.0.0.1:5", "pid": 1, "tls_certificate": "", "added_later": True}))
    assert Endpoint.read(path) == Endpoint("127.0.0.1:5", 1)


def test_tls_is_spoken_when_there_is_a_certificate(tmp_path: Path) -> None:
    certificate = tmp_path / "cert.pem"
    certificate.write_text("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
    assert Endpoint("127.0.0.1:5").credentials() is None
    assert Endpoint("127.0.0.1:5", tls_certificate=str(certificate)).credentials() is not None


def test_a_missing_certificate_is_not_silently_left_out(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Endpoint("127.0.0.1:5", tls_certificate=str(tmp_path / "gone.pem")).channel()


def test_a_channel_can_be_opened_without_anybody_listening() -> None:
    Endpoint("127.0.0.1:1").channel().close()


def test_proxies_do_not_swallow_loopback_calls() -> None:
    assert ("grpc.enable_http_proxy", 0) in CHANNEL_OPTIONS


def test_a_token_travels_as_bearer() -> None:
    assert bearer("secret") == (("authorization", "Bearer secret"),)


def test_grpc_keeps_its_chatter_to_itself_unless_asked() -> None:
    code = (
        "import os; from mosaic_protocol.endpoint import quiet_grpc_logs as q; q(); print(os.environ['GRPC_VERBOSITY'])"
    )
    for given, seen in (({}, "NONE"), ({"GRPC_VERBOSITY": "debug"}, "debug")):
        kept = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
        done = subprocess.run(
            [sys.executable, "-c", code], env={**kept, **given}, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == seen
