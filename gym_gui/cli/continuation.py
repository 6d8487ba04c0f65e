"""A run that goes on from another one's newest checkpoint, refused in the command line's own way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.services import continuation

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb


def continued(run: pb.Run) -> dict[str, Any]:
    """The config of the run that goes on from a run that is over. Raises :class:`CliError` when none can."""
    try:
        return continuation.continued(run)
    except continuation.CannotContinueError as error:
        raise CliError(str(error), ExitCode.REFUSED) from error
