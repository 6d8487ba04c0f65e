"""Whether the services that a worker needs can be reached: those whose manifest names an address.

A label of ``capabilities.external_services`` is a name, ``xmpp``, or a name and where it answers,
``xmpp@localhost:5222``.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

PATIENCE_SECONDS = 1.5
_AT_ONCE = 8


@dataclass(frozen=True)
class ServiceState:
    """One service. ``answers`` is None where no address tells how to find out."""

    name: str
    address: str = ""
    answers: bool | None = None

    def __str__(self) -> str:
        if self.answers is None:
            return f"needs {self.name}, which cannot be checked from here"
        if self.answers:
            return f"{self.name} answers at {self.address}"
        return f"{self.name} does not answer at {self.address}: start it, then launch"


def look_for(labels: Iterable[str], patience: float = PATIENCE_SECONDS) -> tuple[ServiceState, ...]:
    """How it stands with these services. Blocking for about ``patience`` seconds; raises nothing."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return tuple(pool.map(lambda label: _state(label, patience), labels))


def _state(label: str, patience: float) -> ServiceState:
    name, _, address = label.partition("@")
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        return ServiceState(label if address else name)
    try:
        socket.create_connection((host, int(port)), timeout=patience).close()
    except (OSError, UnicodeError):
        return ServiceState(name, address, False)
    return ServiceState(name, address, True)
