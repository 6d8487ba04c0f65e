"""The daemon's socket is found by clients whatever somebody does to the files it is reached by."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest

from gym_gui.services.trainer.rpc.front_door import FrontDoor
from gym_gui.services.trainer.settings import TrainerSettings
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.unix_socket import dialled


def removed(file: Path) -> None:
    file.unlink()


def replaced(file: Path) -> None:
    file.unlink()
    file.write_text("somebody's notes")


def taken(file: Path) -> None:
    """By a socket on which nobody listens."""
    file.unlink()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(dialled(file))


Harm = Callable[[Path], None]
HARMS = pytest.mark.parametrize("harm", [removed, replaced, taken])


@pytest.fixture
def paths(tmp_path: Path) -> MosaicPaths:
    found = MosaicPaths(tmp_path / "home")
    found.trainer.mkdir(parents=True)
    return found


@pytest.fixture
async def door(paths: MosaicPaths) -> AsyncIterator[FrontDoor]:
    made = FrontDoor(paths, TrainerSettings(), grpc.aio.server)
    yield made
    await made.close()
    assert not list(paths.trainer.glob("*.sock")), "nothing of it is left"


def private(paths: MosaicPaths) -> Path:
    (found,) = paths.trainer.glob(".daemon-*.sock")
    return found


def answers(paths: MosaicPaths) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(dialled(paths.socket))
    except OSError:
        return False
    return True


@HARMS
async def test_what_happens_to_a_socket_before_it_is_published_keeps_nobody_out(
    door: FrontDoor, paths: MosaicPaths, harm: Harm
) -> None:
    door.bind()
    harm(private(paths))
    await door.open()
    assert answers(paths)


@HARMS
@pytest.mark.parametrize("both", [False, True])
async def test_what_happens_to_the_sockets_of_a_daemon_that_serves_is_mended(
    door: FrontDoor, paths: MosaicPaths, harm: Harm, both: bool
) -> None:
    door.bind()
    await door.open()
    assert answers(paths)
    if both:
        harm(private(paths))
    harm(paths.socket)
    assert not answers(paths)
    await door.tend()
    assert answers(paths)
    await door.tend()
    assert answers(paths)
