"""How clients and workers reach the daemon of a data root: through its Unix socket, or over TCP with a pinned
certificate."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from mosaic_protocol.outbox import MOST_MESSAGE_BYTES
from mosaic_protocol.unix_socket import dialled

if TYPE_CHECKING:
    from mosaic_protocol.paths import MosaicPaths

CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),  # a million points of a curve
    ("grpc.max_send_message_length", MOST_MESSAGE_BYTES),
    ("grpc.enable_http_proxy", 0),  # a proxy set for W&B must not swallow loopback calls
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]

_UNIX = "unix:"


class InsecureEndpointError(ValueError):
    """A TCP address without a certificate: any program that takes the port would receive the token."""


@dataclass(frozen=True)
class Endpoint:
    """An address of the daemon: ``unix:<path>``, or ``host:port`` with the certificate that the daemon must show."""

    target: str
    certificate: Path | None = None

    @classmethod
    def of(cls, paths: MosaicPaths) -> Endpoint:
        """The socket of a data root. It is always the same, so there is nothing to look up and nothing to go stale."""
        return cls(f"{_UNIX}{paths.socket}")

    @classmethod
    def at(cls, target: str, paths: MosaicPaths) -> Endpoint:
        """An address that somebody named; a TCP one is trusted for the certificate in the data root only."""
        return cls(target) if target.startswith(_UNIX) else cls(target, paths.certificate)

    def aio_channel(self) -> grpc.aio.Channel:
        """Raises :class:`InsecureEndpointError`, and OSError when the certificate cannot be read."""
        credentials = self._credentials()
        if credentials is None:
            return grpc.aio.insecure_channel(self._dialled(), options=CHANNEL_OPTIONS)
        return grpc.aio.secure_channel(self.target, credentials, options=CHANNEL_OPTIONS)

    def channel(self) -> grpc.Channel:
        """The same for threads."""
        credentials = self._credentials()
        if credentials is None:
            return grpc.insecure_channel(self._dialled(), options=CHANNEL_OPTIONS)
        return grpc.secure_channel(self.target, credentials, options=CHANNEL_OPTIONS)

    def _credentials(self) -> grpc.ChannelCredentials | None:
        if self.target.startswith(_UNIX):
            return None  # the folder of the socket lets nobody else in
        if self.certificate is None:
            raise InsecureEndpointError(
                f"{self.target} is a TCP address without a certificate: any user of the machine could answer there. "
                "Name the certificate of the trainer daemon (trainer/tls/cert.pem below its MOSAIC_HOME)."
            )
        return grpc.ssl_channel_credentials(self.certificate.read_bytes())

    def _dialled(self) -> str:
        return _UNIX + dialled(Path(self.target.removeprefix(_UNIX)))


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    """Call metadata that carries a token."""
    return (("authorization", f"Bearer {token}"),)


def worker_pass(token: str, run_id: str) -> tuple[tuple[str, str], ...]:
    """Call metadata of a worker. The run is named beside the token so that the daemon can judge a call before it reads
    the message."""
    return (*bearer(token), ("mosaic-run-id", run_id))


def quiet_grpc_logs() -> None:
    """Keep gRPC's C core from writing its connection chatter to stderr; failures reach us as exceptions."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
