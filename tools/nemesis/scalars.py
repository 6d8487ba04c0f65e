"""Every scalar that a worker journalled is stored once: journal, stored records and curves, compared one by one."""

from __future__ import annotations

from gym_gui.services.trainer.client import TrainerClient
from gym_gui.services.trainer.errors import TrainerError
from mosaic_protocol import events
from mosaic_protocol.outbox import OutboxReader, streams
from mosaic_protocol.paths import MosaicPaths
from tools.nemesis.history import History
from tools.nemesis.plans import Plan

Point = tuple[str, int, float | None]
"""Tag, step, value; None for a value that is not finite."""

_RETURN = "charts/episodic_return"
_MOST_POINTS = 1_000_000

Row = tuple[int, int, tuple[tuple[str, float | None], ...]]
"""Step, sequence number, values."""


class ScalarCheck:
    """Counts what it compares."""

    def __init__(self, paths: MosaicPaths, history: History) -> None:
        self._paths, self._history = paths, history
        self.compared = 0

    def compare(self, client: TrainerClient, run_id: str, plan: Plan) -> None:
        """A run that is over: what its worker wrote down, what can be streamed and what can be drawn are the same."""
        try:
            journal, stored = self._journalled(run_id), _stored(client, run_id)
            outcome = client.run(run_id).outcome
            curves = _curves(client, run_id)
        except (TrainerError, OSError, events.RecordError) as error:
            return self._history.broken(f"{run_id}: its numbers cannot be read: {error}")
        self.compared += sum(len(values) for _, _, values in journal)
        if stored != journal:
            self._history.broken(f"{run_id} ({plan.kind}, {outcome}): {_difference(journal, stored)}")
        drawn = sorted(((tag, step, value) for step, _, values in journal for tag, value in values), key=_place)
        if curves != drawn:
            self._history.broken(f"{run_id}: {len(curves)} points can be drawn, {len(drawn)} were journalled")
        if plan.offset is not None:
            self._check_values(run_id, plan, journal, outcome, plan.offset)
        return None

    def _check_values(self, run_id: str, plan: Plan, journal: list[Row], outcome: str, offset: float) -> None:
        """The values are known beforehand: offset + step, from 1 on without a gap, to the end when it completed."""
        returns = [(step, dict(values)[_RETURN]) for step, _, values in journal]
        last = plan.total if outcome == "completed" else len(returns)
        if returns != [(step, offset + step) for step in range(1, last + 1)]:
            self._history.broken(f"{run_id} ({plan.kind}, {outcome}): {len(returns)} steps, wanted 1 to {last}")

    def _journalled(self, run_id: str) -> list[Row]:
        folder = self._paths.run(run_id).outbox
        rows: list[Row] = []
        for stream in streams(folder):
            reader = OutboxReader(folder, stream)
            rows += [row for lines in iter(reader.read, []) for line in lines if (row := _row(line)) is not None]
            reader.close()
        return sorted(rows, key=_in_order)


def _stored(client: TrainerClient, run_id: str) -> list[Row]:
    lines = (line for page in client.stream("metrics", run_id) for line in page.records)
    return sorted((row for line in lines if (row := _row(line)) is not None), key=_in_order)


def _curves(client: TrainerClient, run_id: str) -> list[Point]:
    points: list[Point] = []
    for series in client.metrics(run_id, max_points=_MOST_POINTS):
        points += zip([series.tag] * len(series.steps), series.steps, map(_finite, series.values), strict=True)
    return sorted(points, key=_place)


def _row(line: bytes) -> Row | None:
    record = events.decode(line)
    if not isinstance(record, events.MetricRow):
        return None
    return record.step, record.seq, tuple(sorted(record.values.items()))


def _in_order(row: Row) -> tuple[int, int]:
    return row[0], row[1]


def _place(point: Point) -> tuple[str, int, float]:
    return point[0], point[1], float("-inf") if point[2] is None else point[2]


def _finite(value: float) -> float | None:
    return None if value != value else value


def _difference(journal: list[Row], stored: list[Row]) -> str:
    missing = [row[:2] for row in journal if row not in stored]
    doubled = [row[:2] for row in stored if stored.count(row) > 1]
    return f"{len(journal)} rows journalled, {len(stored)} stored; missing {missing[:5]}, doubled {doubled[:5]}"
