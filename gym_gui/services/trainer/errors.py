"""What can go wrong in the trainer.

TrainerError                     every error of ours; str() is a sentence for a person
├── RefusedError                 the caller asked for what cannot be; nothing changed
│   ├── UnknownRunError
│   ├── AuthenticationError
│   └── WrongStateError
├── WorldError                   the machine failed us; may work again later
│   ├── StorageFullError
│   ├── RegistryCorruptError
│   ├── LaunchError
│   ├── NotReadyError
│   ├── AlreadyRunningError
│   └── CannotListenError
└── IllegalMoveError             a bug of ours: a move that the table of states forbids
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOBUFS})


def is_shortage(error: OSError) -> bool:
    """Whether the machine was out of something (descriptors, memory, processes) that it will have again."""
    return error.errno in _SHORTAGES


class TrainerError(Exception):
    """Base of all errors of the trainer."""


class RefusedError(TrainerError):
    """The request cannot be served, and the message says why and what to do."""


class UnknownRunError(RefusedError):
    """No run answers to that name."""


class AuthenticationError(RefusedError):
    """The caller did not show a token that opens this door."""


class WrongStateError(RefusedError):
    """The run is not in a state in which this can be done."""


class WorldError(TrainerError):
    """Disk, ports, processes: not the caller's fault and not a bug."""


class StorageFullError(WorldError):
    """A write was refused for lack of space; nothing of it was kept."""


class RegistryCorruptError(WorldError):
    """A database file is damaged."""


class LaunchError(WorldError):
    """A worker process could not be started."""


class NotReadyError(WorldError):
    """A worker cannot be started now, for a reason that passes or can be mended: the run waits."""


class AlreadyRunningError(WorldError):
    """Another daemon holds this data root."""


class CannotListenError(WorldError):
    """The address cannot be bound."""


class IllegalMoveError(TrainerError):
    """A transition outside the table of legal moves; carries the story that led there."""

    def __init__(self, run_id: str, origin: str, target: str, cause: str, story: Sequence[str] = ()) -> None:
        self.run_id, self.origin, self.target, self.cause, self.story = run_id, origin, target, cause, tuple(story)
        told = "; before that: " + ", ".join(self.story) if self.story else ""
        super().__init__(f"run {run_id} cannot go from {origin} to {target} ({cause}){told}")
