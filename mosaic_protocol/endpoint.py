"""Where the daemon of a data root listens: written by the daemon, read by clients and by workers that reconnect."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import grpc
import msgspec

DEFAULT_TARGET = "127.0.0.1:50055"
CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.enable_http_proxy", 0),  # a proxy set for W&B must not swallow loopback calls
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


@dataclass(frozen=True)
class Endpoint:
    """A daemon's address, and the certificate to trust when it speaks TLS."""

    target: str
    pid: int = 0
    tls_certificate: str = ""

    @classmethod
    def read(cls, path: Path) -> Endpoint | None:
        """What the file says, None when there is none or it cannot be understood. Fields added later are ignored."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def write(self, path: Path) -> None:
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(path)

    def credentials(self) -> grpc.ChannelCredentials | None:
        if not self.tls_certificate:
            return None
        return grpc.ssl_channel_credentials(Path(self.tls_certificate).read_bytes())

    def aio_channel(self) -> grpc.aio.Channel:
        credentials = self.credentials()
        if credentials is None:
            return grpc.aio.insecure_channel(self.target, options=CHANNEL_OPTIONS)
        return grpc.aio.secure_channel(self.target, credentials, options=CHANNEL_OPTIONS)

    def channel(self) -> grpc.Channel:
        credentials = self.credentials()
        if credentials is None:
            return grpc.insecure_channel(self.target, options=CHANNEL_OPTIONS)
        return grpc.secure_channel(self.target, credentials, options=CHANNEL_OPTIONS)


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    """Call metadata that carries a token."""
    return (("authorization", f"Bearer {token}"),)


def quiet_grpc_logs() -> None:
    """Keep gRPC's C core from writing its connection chatter to stderr; failures reach us as exceptions."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
