"""A comparison of runs that somebody has in hand: grouped, measured, compared. The command line and the cockpit share
the measuring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gym_gui.services.compare.comparison import Comparison, Question, compared
from gym_gui.services.compare.groups import CompareError, Group, by_value, short_label
from gym_gui.services.compare.measures import By, evaluated, trained
from gym_gui.services.run_words import short_id
from gym_gui.services.seed_groups import seed_group

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.paths import MosaicPaths
    from mosaic_protocol.proto import trainer_pb2 as pb

SEEDS, EACH = "seeds", "each"
"""How runs are put together besides by a field or a setting: those that differ in their seed alone, or none."""
_ENDS = "-_ .(s"
_SHORTEST = 3


def grouped(runs: Sequence[pb.Run], by: str) -> list[Group]:
    """``by``: :data:`SEEDS`, :data:`EACH`, or the name of a field or a setting. Labels are all different."""
    if by == EACH:
        return _told_apart([Group(short_label(run.name), (run,)) for run in runs])
    if by != SEEDS:
        return by_value(runs, by)
    members: dict[str, list[pb.Run]] = {}
    for run in runs:
        members.setdefault(seed_group(run.name, run.config_json), []).append(run)
    return _told_apart([Group(short_label(_common_name(alike)), tuple(alike)) for alike in members.values()])


def measured_and_compared(
    client: TrainerClient, paths: MosaicPaths, groups: Sequence[Group], question: Question, *, unfinished: bool
) -> Comparison:
    """Reads every point of every run: for a thread that may wait. Raises CompareError."""
    if question.by is By.EVALUATION:
        measured = {group.label: evaluated(paths, group.runs) for group in groups}
    else:
        measured = {group.label: trained(client, group.runs, at=question.at, unfinished=unfinished) for group in groups}
    if not measured:
        raise CompareError("there are no runs to compare")
    return compared(measured, question)


def _common_name(runs: Sequence[pb.Run]) -> str:
    """``ppo-lunar`` for ``ppo-lunar-s1`` and ``ppo-lunar-s2``."""
    if len(runs) == 1:
        return runs[0].name
    first, last = min(run.name for run in runs), max(run.name for run in runs)
    length = next((place for place, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), None)
    shared = first[:length].rstrip(_ENDS)
    return shared if len(shared) >= _SHORTEST else runs[0].name


def _told_apart(groups: Sequence[Group]) -> list[Group]:
    """Two of the same name get the end of the id of their first run."""
    labels = [group.label for group in groups]
    return [
        group
        if labels.count(group.label) == 1
        else Group(short_label(f"{group.label} ({short_id(group.runs[0].run_id)})"), group.runs)
        for group in groups
    ]
