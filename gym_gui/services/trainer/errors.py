"""What can go wrong in the trainer.

TrainerError                     every error that MOSAIC raises on purpose; str() is a sentence for a person
├── RefusedError                 the caller asked for what cannot be; nothing changed
│   ├── UnknownRunError
│   ├── AuthenticationError
│   │   └── UnknownTokenError
│   └── WrongStateError
├── WorldError                   the machine failed us; may work again later
│   ├── StorageFullError
│   ├── LeavingError
│   ├── RegistryCorruptError
│   ├── LaunchError
│   ├── NotReadyError
│   ├── AlreadyRunningError
│   └── CannotListenError
└── IllegalMoveError             a bug: a move that the table of states forbids
"""

from __future__ import annotations

from collections.abc import Sequence

from mosaic_host.errors import Refusal, StartError


class TrainerError(Exception):
    """Base of all errors of the trainer."""


class RefusedError(TrainerError):
    """The request cannot be served, and the message says why and what to do."""


class UnknownRunError(RefusedError):
    """No run answers to that name."""


class AuthenticationError(RefusedError):
    """The caller did not show a token that opens this door."""


class UnknownTokenError(AuthenticationError):
    """The token belongs to no run that is known here; nothing more is said, so that nobody learns which runs there
    are."""


class WrongStateError(RefusedError):
    """The run is not in a state in which this can be done."""


class WorldError(TrainerError):
    """Disk, ports, processes: not the caller's fault and not a bug."""


class StorageFullError(WorldError):
    """A write was refused for lack of space; nothing of it was kept."""


class LeavingError(WorldError):
    """The daemon is leaving and did not do it: the next daemon will, and clients wait for that one."""


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


_REFUSED = {Refusal.NEVER: LaunchError, Refusal.LATER: NotReadyError, Refusal.FULL: StorageFullError}


def launch_problem(error: StartError) -> WorldError:
    """What it means for a run that no worker was started for it."""
    return _REFUSED[error.refusal](str(error))
