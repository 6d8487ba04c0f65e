"""Which way leads to a live session: its own socket where the run is on this machine, else the trainer daemon."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mosaic_protocol.live.client import LiveClient, WayBrokenError

if TYPE_CHECKING:
    from mosaic_protocol.paths import MosaicPaths

VARIABLE = "MOSAIC_LIVE"
THROUGH_DAEMON = "grpc"


def is_on_this_machine(paths: MosaicPaths, run_id: str) -> bool:
    """Whether the data root, as seen from here, has the folder of a run: a daemon that is reached over TCP or through a
    socket that SSH forwards keeps it elsewhere."""
    return paths.run(run_id).directory.is_dir()


def goes_through_daemon(paths: MosaicPaths, run_id: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the session of a run is reached through the daemon: it is not on this machine, or ``MOSAIC_LIVE=grpc``
    says so, for a container that shares the folder and not ``/dev/shm``."""
    return environ.get(VARIABLE) == THROUGH_DAEMON or not is_on_this_machine(paths, run_id)


def join_session(paths: MosaicPaths, run_id: str) -> LiveClient:
    """Join the session of a run, without waiting for it. Raises
    :class:`~mosaic_protocol.live.client.SessionAwayError`; through the daemon, whether there is a session may also be
    heard with the first ``receive``."""
    if not goes_through_daemon(paths, run_id):
        return LiveClient(paths.run(run_id).directory)
    from gym_gui.services.trainer.client import TrainerClient
    from gym_gui.services.trainer.errors import TrainerError

    try:
        client = TrainerClient.connect(paths, start=False, patience=0)
    except (TrainerError, OSError) as error:
        raise WayBrokenError(str(error)) from None
    return client.live_session(run_id, on_close=client.close)
