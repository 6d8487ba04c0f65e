"""What a fork server imports for the probe."""

from __future__ import annotations

import os

forks: list[int] = []


def warm_up() -> None:
    import mosaic_protocol.claims  # noqa: F401


def after_fork() -> None:
    forks.append(os.getpid())
