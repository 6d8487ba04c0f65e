"""The daemon's settings: defaults, then ``MOSAIC_TRAINER_*`` variables, then command-line flags."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from gym_gui.services.trainer.errors import RefusedError
from mosaic_protocol.suggest import did_you_mean

PREFIX = "MOSAIC_TRAINER_"
FEWEST_CALLS = 16
_ABOUT_TCP = frozenset({"host", "port", "tls_cert", "tls_key"})


@dataclass(frozen=True)
class TrainerSettings:
    """Every field can be set as ``MOSAIC_TRAINER_<NAME>``."""

    tcp: bool = False
    """Whether to listen on TCP with TLS, beside the Unix socket; naming an address, port or certificate says so too."""
    host: str = "127.0.0.1"
    """Address to listen on with TCP."""
    port: int = 0
    """Port to listen on with TCP; 0 takes a free one."""
    tls_cert: str = ""
    """PEM certificate chain for TCP, instead of the one that the daemon makes for itself."""
    tls_key: str = ""
    """PEM private key that belongs to it."""
    cpus: int = 0
    """CPUs to give to runs; 0 means what the machine has."""
    memory_mb: int = 0
    """Memory to give to runs; 0 means what the machine has."""
    interactive_cpus: int = 4
    """CPUs for interactive runs, counted apart from those for training; 0 lets them wait in line with training."""
    heartbeat_seconds: float = 2.0
    """How often workers report."""
    liveness_seconds: float = 30.0
    """A worker silent for so long is taken for hung and ended; at least twice the time between heartbeats."""
    handshake_seconds: float = 60.0
    """How long a worker may take from its start to its handshake."""
    stop_seconds: float = 3.0
    """How long a worker may take to react to a stop."""
    checkpoint_seconds: float = 30.0
    """How long a worker that reacted may take to write its last checkpoint."""
    exit_seconds: float = 5.0
    """How long a worker may take from its last word to its exit."""
    journal_seconds: float = 60.0
    """How long a run that has ended waits for its folder to come back before it is closed with its journal unread."""
    host_hours: float = 24.0
    """How long a host may be away before the runs on it are closed as lost."""
    warm_starts: bool = True
    """Whether to keep fork servers."""
    warm_idle_seconds: float = 900.0
    """A fork server that nobody used for so long is ended."""
    prewarm: str = ""
    """Worker types, separated by commas, whose fork server is started with the daemon."""
    trash_hours: float = 168.0
    """How long deleted runs can be restored."""
    disk_warn_percent: float = 90.0
    """How full the disk may be before every listing, launch and cockpit warns of it; 0 warns only below 1 GB."""
    keep_steps: int = 0
    """How many of its newest recorded steps a run keeps whose config does not say; 0 keeps all."""
    log_bytes: int = 10 * 1024 * 1024
    """Size at which a run's log file is rotated."""
    most_calls: int = 4000
    """Calls served at once; more are refused. Each live run takes two, everybody who watches one or two."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ, **flags: Any) -> TrainerSettings:
        """Defaults, overridden by the environment, overridden by flags that are not None."""
        found: dict[str, Any] = {}
        _refuse_unknown(environment, [PREFIX + one.name.upper() for one in fields(cls)])
        for one in fields(cls):
            text = environment.get(PREFIX + one.name.upper())
            if text is not None:
                found[one.name] = _read(one.name, text, type(one.default))
        found.update({name: value for name, value in flags.items() if value is not None})
        if _ABOUT_TCP & found.keys():
            found.setdefault("tcp", True)
        return replace(cls(), **found).checked()

    def checked(self) -> TrainerSettings:
        if not 0 <= self.port <= 65535:
            raise RefusedError(f"port must be between 0 and 65535, got {self.port}")
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, int | float) and not value >= 0:
                raise RefusedError(f"{one.name} must be a number and not negative, got {value}")
        if self.most_calls < FEWEST_CALLS:
            raise RefusedError(
                f"most_calls must be at least {FEWEST_CALLS}, got {self.most_calls}: nobody could get in"
            )
        if self.liveness_seconds < 2 * self.heartbeat_seconds:
            raise RefusedError(
                f"liveness_seconds must be at least twice heartbeat_seconds, got {self.liveness_seconds:g} and "
                f"{self.heartbeat_seconds:g}: every run would be taken for hung and ended between two heartbeats"
            )
        if bool(self.tls_cert) != bool(self.tls_key):
            raise RefusedError("half of a TLS pair was given: --tls-cert and --tls-key belong together")
        if not self.host:
            raise RefusedError("host is empty: name an address to listen on, such as 127.0.0.1")
        return self


def _refuse_unknown(environment: Mapping[str, str], known: list[str]) -> None:
    for name in environment:
        if name.startswith(PREFIX) and name not in known:
            raise RefusedError(f"{name} is not a setting of the trainer daemon{did_you_mean(name, known)}")


def _read(name: str, text: str, kind: type) -> Any:
    try:
        if kind is bool:
            return {"1": True, "true": True, "0": False, "false": False}[text.lower()]
        return kind(text)
    except (ValueError, KeyError):
        spoken = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
        raise RefusedError(f"{PREFIX}{name.upper()} must be {spoken}, got {text[:60]!r}") from None
