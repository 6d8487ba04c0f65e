"""The address of the daemon: a socket, or TCP with a certificate, and never a token in the clear."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic_protocol.endpoint import CHANNEL_OPTIONS, Endpoint, InsecureEndpointError, bearer, worker_pass
from mosaic_protocol.paths import MosaicPaths


def test_a_data_root_is_reached_through_its_socket(tmp_path: Path) -> None:
    assert Endpoint.of(MosaicPaths(tmp_path)).target == f"unix:{tmp_path}/trainer/daemon.sock"


def test_a_tcp_address_is_trusted_for_the_certificate_of_the_data_root_only(tmp_path: Path) -> None:
    paths = MosaicPaths(tmp_path)
    assert Endpoint.at("127.0.0.1:50055", paths) == Endpoint("127.0.0.1:50055", paths.certificate)
    assert Endpoint.at("unix:/x", paths) == Endpoint("unix:/x")


def test_without_a_certificate_nobody_is_called_over_tcp() -> None:
    with pytest.raises(InsecureEndpointError, match="certificate"):
        Endpoint("127.0.0.1:5").channel()
    with pytest.raises(InsecureEndpointError, match="certificate"):
        Endpoint("127.0.0.1:5").aio_channel()


def test_a_missing_certificate_is_not_silently_left_out(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Endpoint("127.0.0.1:5", tmp_path / "gone.pem").channel()


def test_a_channel_can_be_opened_without_anybody_listening(tmp_path: Path) -> None:
    Endpoint.of(MosaicPaths(tmp_path)).channel().close()


def test_proxies_do_not_swallow_loopback_calls() -> None:
    assert ("grpc.enable_http_proxy", 0) in CHANNEL_OPTIONS


def test_a_token_travels_as_bearer() -> None:
    assert bearer("secret") == (("authorization", "Bearer secret"),)
    assert worker_pass("secret", "R") == (("authorization", "Bearer secret"), ("mosaic-run-id", "R"))


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
