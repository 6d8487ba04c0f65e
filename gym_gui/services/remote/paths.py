"""The data root of a daemon elsewhere, as far as it is here: a socket that leads to it, and nothing of its runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic_protocol.paths import MosaicPaths, default_root

if TYPE_CHECKING:
    from gym_gui.services.remote.link import RemoteLink
    from gym_gui.services.remote.server import Server

FOLDER = "servers"


@dataclass(frozen=True)
class PathsElsewhere(MosaicPaths):
    """``root`` is a folder of this machine for what is kept about the server: the looks of its window, logs. The files
    of runs are on the server."""

    link: RemoteLink

    @property
    def socket(self) -> Path:
        """Our end of the tunnel to the daemon's socket."""
        return self.link.socket


def kept_about(server: Server) -> Path:
    """The folder of this machine for a server. Raises RuntimeError like :func:`~mosaic_protocol.paths.default_root`."""
    return default_root() / FOLDER / server.folder_name
