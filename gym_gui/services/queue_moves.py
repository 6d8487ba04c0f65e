"""Moving runs in the queue, several at once and back again, for the command line and the cockpit alike."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from gym_gui.services.trainer.client import DaemonAwayError, TrainerClient
from gym_gui.services.trainer.errors import TrainerError
from mosaic_protocol.proto import trainer_pb2 as pb

FIRST, LAST, BEFORE, AFTER = "first", "last", "before", "after"
HOST = "host"


@dataclass(frozen=True)
class Spot:
    """A place in the line: an end of it, or beside the run ``anchor``. With HOST the anchor is a host's name, ``any``
    or ``here``, and the place in the line stays."""

    where: str
    anchor: str = ""


@dataclass
class Moves:
    """What became of each."""

    done: list[pb.Run] = field(default_factory=list)
    refused: list[TrainerError] = field(default_factory=list)


def move_runs(client: TrainerClient, run_ids: Sequence[str], spot: Spot) -> Moves:
    """Put runs to one place, in the order in which they are given. Each is durable when it is answered; one that is
    refused, because it has started meanwhile, does not keep the others from being moved."""
    backwards = spot.where in (FIRST, AFTER)  # the last one that is put there stands first
    moves = move_each(client, [(run_id, spot) for run_id in (reversed(run_ids) if backwards else run_ids)])
    if backwards:
        moves.done.reverse()
        moves.refused.reverse()
    return moves


def move_each(client: TrainerClient, wanted: Iterable[tuple[str, Spot]]) -> Moves:
    """Put each run to a place of its own, one after the other. Raises :class:`DaemonAwayError`."""
    moves = Moves()
    for run_id, spot in wanted:
        try:
            moves.done.append(_moved(client, run_id, spot))
        except DaemonAwayError:
            raise
        except TrainerError as error:
            moves.refused.append(error)
    return moves


def _moved(client: TrainerClient, run_id: str, spot: Spot) -> pb.Run:
    return client.move(
        run_id,
        first=spot.where == FIRST,
        last=spot.where == LAST,
        before=spot.anchor if spot.where == BEFORE else "",
        after=spot.anchor if spot.where == AFTER else "",
        host=spot.anchor if spot.where == HOST else "",
    )


def arranged(line: Sequence[str], moved: Sequence[str], spot: Spot) -> list[str]:
    """The line as it is when these runs stand at a place."""
    rest = [run_id for run_id in line if run_id not in moved]
    if spot.where in (BEFORE, AFTER):
        at = rest.index(spot.anchor) + (spot.where == AFTER)
    else:
        at = 0 if spot.where == FIRST else len(rest)
    return [*rest[:at], *moved, *rest[at:]]


def next_spot(line: Sequence[str], moved: Sequence[str], *, up: bool) -> Spot:
    """One place further up or down, for runs that are moved together; an end of the line where there is none."""
    places = [line.index(run_id) for run_id in moved]
    if up:
        ahead = line[: min(places)]
        return Spot(BEFORE, ahead[-1]) if ahead else Spot(FIRST)
    behind = line[max(places) + 1 :]
    return Spot(AFTER, behind[0]) if behind else Spot(LAST)


def way_back(line: Sequence[str], moved: Collection[str], waiting: Collection[str]) -> list[tuple[str, Spot]]:
    """Where to put runs so that they stand as they stood in ``line``, of which some have started since; ``waiting`` are
    those that have not. From the end on: each is put before the one that followed it."""
    back: list[tuple[str, Spot]] = []
    for place in reversed(range(len(line))):
        run_id = line[place]
        if run_id not in moved or run_id not in waiting:
            continue
        follower = next((one for one in line[place + 1 :] if one in waiting), "")
        ahead = next((one for one in reversed(line[:place]) if one in waiting and one not in moved), "")
        spot = Spot(BEFORE, follower) if follower else Spot(AFTER, ahead) if ahead else Spot(FIRST)
        back.append((run_id, spot))
    return back
