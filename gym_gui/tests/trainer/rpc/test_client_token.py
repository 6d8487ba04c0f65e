"""A client that keeps its connection over a restart of the daemon shows the new token, whichever thread calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from gym_gui.services.trainer.client import ClientError, DaemonAwayError, TrainerClient
from mosaic_protocol.endpoint import Endpoint, bearer
from mosaic_protocol.proto import trainer_pb2 as pb


class Unauthenticated(grpc.RpcError):
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAUTHENTICATED

    def details(self) -> str:
        return "no valid token"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TrainerClient]:
    (tmp_path / "token").write_text("old")
    with TrainerClient(Endpoint(f"unix:{tmp_path}/sock"), (tmp_path / "token").read_text, patience=0) as client:
        yield client


def takes_new_only(_: Any, *, metadata: Any, timeout: float) -> str:
    if metadata != bearer("new"):
        raise Unauthenticated
    return "done"


def test_a_token_that_was_replaced_is_read_again(client: TrainerClient, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("new")
    assert client._once(takes_new_only, pb.HealthRequest()) == "done"


def test_a_thread_whose_call_was_refused_while_another_read_the_new_token_calls_again(
    client: TrainerClient, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("new")

    def refused_late(_: Any, *, metadata: Any, timeout: float) -> str:
        if metadata == bearer("old"):
            client._meta = bearer("new")  # what the other thread has done in the meantime
        return takes_new_only(_, metadata=metadata, timeout=timeout)

    assert client._once(refused_late, pb.HealthRequest()) == "done"


def test_a_token_that_is_refused_and_did_not_change_is_an_error(client: TrainerClient) -> None:
    with pytest.raises(ClientError, match="no valid token"):
        client._once(takes_new_only, pb.HealthRequest())


def test_a_token_that_cannot_be_read_is_reported_as_a_daemon_that_is_away(tmp_path: Path) -> None:
    with pytest.raises(DaemonAwayError, match="token"):
        TrainerClient(Endpoint(f"unix:{tmp_path}/sock"), (tmp_path / "nowhere").read_text)
