"""The telemetry store: every record exactly once, whatever is sent twice, late or out of order."""

from __future__ import annotations

import math
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_gui.services.trainer.errors import RefusedError, StorageFullError
from gym_gui.services.trainer.telemetry import metric_lines
from gym_gui.services.trainer.telemetry import store as store_module
from gym_gui.services.trainer.telemetry.batches import Batch, Stored, new_lines
from gym_gui.services.trainer.telemetry.store import TelemetryStore
from gym_gui.tests.support.older_store import older_store
from mosaic_protocol import events as ev

PATIENCE = 60.0
RETURN = "charts/episodic_return"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TelemetryStore]:
    with closing(TelemetryStore(tmp_path / "telemetry.sqlite")) as opened:
        yield opened


def line_of(record: ev.Record, seq: int) -> bytes:
    record.seq, record.t = seq, 1000.0 + seq
    return ev.encode(record)


def metric(seq: int, step: int | None = None, tags: dict[str, float] | None = None, **values: float | None) -> bytes:
    given = {**(tags or {}), **values} or {"loss": float(seq)}
    return line_of(ev.MetricRow(step=seq if step is None else step, values=given), seq)


def send(
    store: TelemetryStore,
    lines: Sequence[bytes],
    first_seq: int = 1,
    run: str = "run",
    stream: str = "worker",
    **more: Any,
) -> Stored:
    return store.ingest(Batch(run, stream, first_seq, lines, **more)).result(PATIENCE)


def seqs(store: TelemetryStore, run: str = "run", kind: str = "metric") -> list[int]:
    return [ev.decode(line).seq for _, line in store.records(run, kind, 0)]


# ---- exactly once --------------------------------------------------------------------------------


def test_a_batch_is_stored_and_acknowledged(store: TelemetryStore) -> None:
    stored = send(store, [metric(1), metric(2)])
    assert stored.acked == store.acked("run", "worker") == 2
    assert [record.seq for record in stored.fresh] == [1, 2]
    assert seqs(store) == [1, 2]


def test_a_batch_that_comes_twice_is_stored_once(store: TelemetryStore) -> None:
    send(store, [metric(1), metric(2)])
    again = send(store, [metric(1), metric(2)])
    assert (again.acked, list(again.fresh)) == (2, [])
    assert store.metric_rows("run") == 2


def test_of_an_overlapping_batch_only_the_new_part_is_stored(store: TelemetryStore) -> None:
    send(store, [metric(1), metric(2)])
    more = send(store, [metric(2), metric(3)], first_seq=2)
    assert (more.acked, [record.seq for record in more.fresh]) == (3, [3])
    assert seqs(store) == [1, 2, 3]


def test_a_gap_is_refused_and_says_where_to_go_on(store: TelemetryStore) -> None:
    send(store, [metric(1)])
    with pytest.raises(RefusedError, match="goes on at 2, not at 3"):
        send(store, [metric(3)], first_seq=3)
    assert seqs(store) == [1]


def test_an_empty_batch_asks_for_the_cursor(store: TelemetryStore) -> None:
    assert send(store, [], first_seq=0).acked == 0
    send(store, [metric(1)])
    assert send(store, [], first_seq=0) == Stored(1, ())


def test_streams_and_runs_have_cursors_of_their_own(store: TelemetryStore) -> None:
    send(store, [metric(1)], stream="worker")
    send(store, [metric(1), metric(2)], stream="script")
    send(store, [metric(1)], run="other")
    assert [store.acked("run", "worker"), store.acked("run", "script"), store.acked("other", "worker")] == [1, 2, 1]
    assert store.metric_rows("run") == 3
    assert store.metric_rows("other") == 1


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"{",
        b"[]",
        b'{"kind":"nonsense","seq":2}',
        b'{"kind":"metric","seq":2,"step":"x","values":{}}',
        b'{"kind":"metric","seq":2,"step":1,"values":{"a":"high"}}',
        b'{"kind":"metric","seq":2,"step":99999999999999999999999,"values":{}}',
        b'{"kind":"metric","seq":2,"step":1,"values":{},"v":99}',
        b'{"kind":"metric","seq":7,"step":1,"values":{}}',
        b'{"kind":"metric","seq":2,"step":1,"values":{"\xff\xfe":1}}',
        b'{"kind":"metric","seq":2,"step":1,"values":{},"later":"\xff\xfe"}',
        b'{"kind":"metric","seq":2,"step":1,"values":{},\n"later":1}',
        b'{"kind":"metric","seq":2,"step":1,"values":{},\r"later":1}',
    ],
)
def test_a_bad_line_is_refused_by_its_number_and_nothing_of_its_batch_is_kept(
    store: TelemetryStore, bad: bytes
) -> None:
    with pytest.raises(RefusedError, match="record 2"):
        send(store, [metric(1), bad, metric(3)])
    assert store.acked("run", "worker") == 0
    assert store.records("run", "metric", 0) == []


@pytest.mark.parametrize("number", [-(2**63) - 1, 2**63, 10**30])
@pytest.mark.parametrize(
    "record",
    [ev.MetricRow(step=0, values={"a": 1.0}), ev.RunLifecycleEvent(event="heartbeat", step=0)],
    ids=["metric", "word"],
)
def test_a_number_that_no_column_can_hold_is_refused(store: TelemetryStore, record: Any, number: int) -> None:
    record.step = number
    with pytest.raises(RefusedError, match="record 1"):
        send(store, [line_of(record, 1)])


def test_without_space_nothing_changes_and_the_same_batch_works_later(store: TelemetryStore) -> None:
    def limit(pages: int) -> None:
        store._writer.submit(lambda c: c.execute(f"PRAGMA max_page_count = {pages}").fetchall()).result(PATIENCE)

    send(store, [metric(1)])
    large = [line_of(ev.RunLifecycleEvent(event="heartbeat", sentence="x" * 2000), seq) for seq in range(2, 200)]
    limit(20)
    with pytest.raises(StorageFullError):
        send(store, large, first_seq=2)
    assert store.acked("run", "worker") == 1
    limit(2**30)
    assert send(store, large, first_seq=2).acked == 199


def test_what_was_acknowledged_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.sqlite"
    with closing(TelemetryStore(path)) as store:
        send(store, [metric(1), metric(2)])
    with closing(TelemetryStore(path)) as store:
        assert store.acked("run", "worker") == 2
        assert send(store, [metric(2), metric(3)], first_seq=2).acked == 3
        assert seqs(store) == [1, 2, 3]


_batches = st.lists(
    st.tuples(st.sampled_from(["worker", "script"]), st.integers(1, 25), st.integers(0, 12)), min_size=1, max_size=20
)


@settings(max_examples=40, deadline=None, database=None)
@given(_batches)
def test_any_order_of_batches_stores_each_record_once(batches: list[tuple[str, int, int]]) -> None:
    acked = {"worker": 0, "script": 0}
    with tempfile.TemporaryDirectory() as folder, closing(TelemetryStore(Path(folder) / "t.sqlite")) as store:
        for stream, first, length in batches:
            lines = [metric(seq) for seq in range(first, first + length)]
            if length and first > acked[stream] + 1:
                with pytest.raises(RefusedError):
                    send(store, lines, first, stream=stream)
            else:
                last = first + length - 1
                fresh = [seq for seq in range(first, last + 1) if seq > acked[stream]]
                acked[stream] = max(acked[stream], last if length else 0)
                stored = send(store, lines, first, stream=stream)
                assert (stored.acked, [record.seq for record in stored.fresh]) == (acked[stream], fresh)
        assert sorted(seqs(store)) == sorted(seq for last in acked.values() for seq in range(1, last + 1))
        assert store.metric_rows("run") == sum(acked.values())
        assert [row for row, _ in store.records("run", "metric", 0)] == list(range(1, sum(acked.values()) + 1))


# ---- verbatim ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b'{"kind":"metric","step":1,"values":{"a":0.1,"b":null},"seq":1,"t":1000.5}',
        b'{"kind":"metric","step":1,"values":{"b":2.5,"a":0.1},"seq":1,"t":1000.5}',
        b'{"kind":"metric","step":1,"values":{"a":-0.0},"seq":1,"t":1000.0}',
        b'{"kind":"metric","step":1,"values":{"a":1},"seq":1,"t":1000}',
        b'{"kind":"metric","step":1,"values":{"a":1e-7,"a":2.0},"seq":1}',
        b'{"kind":"metric","step":1,"values":{},"seq":1,"t":-0.0}',
        b'{"kind": "metric", "seq": 1, "v": 1, "step": 1, "values": {"a": 1.0}, "rank": 3, "note": "\xc3\xbc"}',
        b'{"kind":"episode","episode":1,"length":1,"total_reward":1.0,"seq":1,"t":1.0,"mood":{"deep":[1,{"x":null}]}}',
        b'{"seq":1,"kind":"episode","episode":1,"length":3,"total_reward":1,"colour":"blue"}',
        b'{"kind":"lifecycle","event":"run_started","seq":1,"later":"\\u001b"}',
        b'{"kind":"artifact","name":"a","path":"b","type":"c","seq":1,"hash":"d"}',
    ],
)
@pytest.mark.parametrize("salvage", [False, True], ids=["from the wire", "from the journal"])
def test_a_line_comes_back_as_it_was_written(store: TelemetryStore, line: bytes, salvage: bool) -> None:
    send(store, [line], salvage=salvage)
    kind = str(type(ev.decode(line)).__struct_config__.tag)
    assert store.records("run", kind, 0) == [(1, line)]


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_number = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))


@settings(max_examples=60, deadline=None, database=None)
@given(st.lists(st.dictionaries(_text, _number, max_size=5), min_size=1, max_size=5), st.floats(0, 4e9))
def test_whatever_a_worker_measures_comes_back_to_the_byte(rows: list[dict[str, float | None]], t: float) -> None:
    lines = [ev.encode(ev.MetricRow(step=0, values=row, seq=seq, t=t)) for seq, row in enumerate(rows, 1)]
    with tempfile.TemporaryDirectory() as folder, closing(TelemetryStore(Path(folder) / "t.sqlite")) as store:
        send(store, lines)
        assert [line for _, line in store.records("run", "metric", 0)] == lines
        for tag in {tag for row in rows for tag in row}:
            told = store.series("run", tag, after_step=-1, max_points=9).values
            measured = [math.nan if row[tag] is None else row[tag] for row in rows if tag in row]
            assert [repr(value) for value in told] == [repr(value) for value in measured]


def test_what_a_worker_of_this_version_writes_is_stored_once(store: TelemetryStore, tmp_path: Path) -> None:
    send(store, [metric(1, a=1.5, b=math.nan), metric(2, a=2.5, b=0.0), metric(3, a=2.5)])
    with closing(sqlite3.connect(tmp_path / "telemetry.sqlite")) as connection:
        assert connection.execute("SELECT count(*), count(line) FROM metric_lines").fetchone() == (3, 0)
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (0,)
        assert connection.execute("SELECT tags FROM shapes").fetchall() == [('["a","b"]',), ('["a"]',)]


def test_a_page_of_long_lines_is_no_longer_than_a_message(
    store: TelemetryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [metric(seq, tags={f"a tag with a long name, number {n}": 0.5 for n in range(20)}) for seq in range(1, 9)]
    monkeypatch.setattr(store_module, "MESSAGE_BYTES", 2 * len(lines[0]))
    send(store, lines)
    assert store.records("run", "metric", 0) == [(1, lines[0]), (2, lines[1])]
    assert store.records("run", "metric", 2) == [(3, lines[2]), (4, lines[3])]


def test_a_curve_is_whole_when_its_tag_is_logged_beside_others_and_alone(store: TelemetryStore) -> None:
    send(store, [metric(1, step=10, loss=1.0), metric(2, step=30, loss=3.0, gain=0.0), metric(3, step=20, loss=2.0)])
    send(store, [metric(1, step=20, gain=1.0, loss=9.0)], stream="another")
    series = store.series("run", "loss", after_step=-1, max_points=9)
    assert (series.steps, series.values, series.total) == ([10, 20, 20, 30], [1.0, 9.0, 2.0, 3.0], 4)
    assert store.series("run", "loss", after_step=10, max_points=2).values == [2.0, 3.0]


# ---- what a dead worker left ---------------------------------------------------------------------


def test_salvage_takes_what_can_be_read_and_tells_the_rest(store: TelemetryStore) -> None:
    send(store, [metric(1)])
    stored = send(store, [metric(2), b"torn", metric(4)], first_seq=2, salvage=True)
    assert [record.seq for record in stored.fresh] == [2, 4]
    assert len(stored.damaged) == 1
    assert "record 3" in stored.damaged[0]
    assert seqs(store) == [1, 2, 4]
    assert stored.acked == 4


def test_salvage_goes_by_the_numbers_that_records_carry(store: TelemetryStore) -> None:
    """A line that is lost or doubled shifts all that follow it."""
    stored = send(store, [metric(1), metric(3), metric(3), metric(4)], salvage=True)
    assert seqs(store) == [1, 3, 4]
    assert stored.acked == 4
    again = send(store, [metric(4), metric(5)], first_seq=4, salvage=True)
    assert [record.seq for record in again.fresh] == [5]


def numbered(line: bytes, wrong: int) -> bytes:
    """A line whose number was changed."""
    record = ev.decode(line)
    record.seq = wrong
    return ev.encode(record)


@pytest.mark.parametrize("wrong", [7005, 7, 4, 1])
@pytest.mark.parametrize("apart", [False, True], ids=["in one batch", "at the end of a batch"])
def test_a_number_that_others_contradict_costs_its_own_record_alone(
    store: TelemetryStore, wrong: int, apart: bool
) -> None:
    lines = [metric(seq) for seq in range(1, 11)]
    lines[4] = numbered(lines[4], wrong)
    batches = [(lines[:5], 1, lines[5:]), (lines[5:], 6, [])] if apart else [(lines, 1, [])]
    rest = [1, 2, 3, 4, 6, 7, 8, 9, 10]
    for _ in range(2):  # it may be repeated
        sent = [send(store, part, first, salvage=True, ahead=ahead) for part, first, ahead in batches]
        assert seqs(store) == rest
        assert store.acked("run", "worker") == 10
        assert sum(len(one.damaged) for one in sent) == 1


@given(
    wrong=st.dictionaries(st.integers(0, 59), st.integers(1, 200), max_size=8),
    lost=st.sets(st.integers(0, 59), max_size=8),
)
def test_salvage_believes_as_many_numbers_as_can_be_true(wrong: dict[int, int], lost: set[int]) -> None:
    lines = [numbered(metric(at + 1), wrong.get(at, at + 1)) for at in range(60) if at not in lost]
    right = {at + 1 for at in range(60) if at not in lost and wrong.get(at, at + 1) == at + 1}
    fresh, _ = new_lines(Batch("run", "worker", 1, lines, salvage=True), 0)
    found = [record.seq for record, _ in fresh]
    assert found == sorted(set(found))
    assert len(found) >= len(right), "those that are right rise as well"


# ---- reading -------------------------------------------------------------------------------------


def test_records_are_read_by_kind_from_a_cursor_in_pages(store: TelemetryStore) -> None:
    lines = [metric(1), line_of(ev.EpisodeSummary(episode=1, length=3, total_reward=1.0), 2), metric(3), metric(4)]
    send(store, lines)
    first = store.records("run", "metric", 0, limit=2)
    rest = store.records("run", "metric", first[-1][0], limit=2)
    assert [line for _, line in [*first, *rest]] == [lines[0], lines[2], lines[3]]
    assert [line for _, line in store.records("run", "episode", 0)] == [lines[1]]
    assert store.records("run", "step", 0) == []


def test_one_cursor_covers_all_streams_of_a_run(store: TelemetryStore) -> None:
    send(store, [metric(1)], stream="worker")
    send(store, [metric(1)], stream="script")
    send(store, [metric(2)], first_seq=2, stream="worker")
    assert [row for row, _ in store.records("run", "metric", 0)] == [1, 2, 3]


def test_log_lines_are_passed_on_but_not_kept(store: TelemetryStore) -> None:
    stored = send(store, [line_of(ev.LogRecord(code="LOG802", message="hello"), 1)])
    assert [type(record) for record in stored.fresh] == [ev.LogRecord]
    assert store.records("run", "log", 0) == []


def test_lifecycle_records_come_back_with_their_stream_in_order(store: TelemetryStore) -> None:
    send(store, [line_of(ev.RunLifecycleEvent(event=ev.RUN_STARTED), 1), metric(2)], stream="worker")
    send(store, [line_of(ev.RunLifecycleEvent(event=ev.RUN_COMPLETED, sentence="done"), 1)], stream="script")
    told = [(stream, record.event, record.seq) for stream, record in store.lifecycle("run")]
    assert told == [("worker", ev.RUN_STARTED, 1), ("script", ev.RUN_COMPLETED, 1)]


def test_a_series_is_the_newest_points_oldest_first_and_says_how_many_there_are(store: TelemetryStore) -> None:
    send(store, [metric(seq, step=seq * 10, loss=float(seq)) for seq in range(1, 6)])
    series = store.series("run", "loss", after_step=-1, max_points=3)
    assert (series.steps, series.values, series.total) == ([30, 40, 50], [3.0, 4.0, 5.0], 5)
    assert series.wall_times == [1003.0, 1004.0, 1005.0]


def test_a_series_goes_on_after_a_step(store: TelemetryStore) -> None:
    send(store, [metric(seq, step=seq - 1, loss=0.5) for seq in range(1, 6)])
    assert store.series("run", "loss", after_step=-1, max_points=9).steps == [0, 1, 2, 3, 4]
    later = store.series("run", "loss", after_step=2, max_points=9)
    assert (later.steps, later.total) == ([3, 4], 2)


def test_points_at_one_step_are_all_kept_in_the_order_of_logging(store: TelemetryStore) -> None:
    send(store, [metric(1, step=7, loss=1.0), metric(2, step=7, loss=2.0), metric(3, step=3, loss=0.0)])
    series = store.series("run", "loss", after_step=-1, max_points=9)
    assert (series.steps, series.values) == ([3, 7, 7], [0.0, 1.0, 2.0])


def test_a_value_that_is_not_finite_comes_back_as_nan(store: TelemetryStore) -> None:
    send(store, [metric(1, loss=math.nan), metric(2, loss=math.inf), metric(3, loss=None), metric(4, loss=1.0)])
    values = store.series("run", "loss", after_step=-1, max_points=9).values
    assert [math.isnan(value) for value in values] == [True, True, True, False]


def test_an_unknown_run_or_tag_has_nothing(store: TelemetryStore) -> None:
    assert store.series("nobody", "loss", after_step=-1, max_points=9).total == 0
    assert (store.tags("nobody"), store.headline("nobody"), store.lifecycle("nobody")) == ([], {}, [])


def test_the_headline_is_the_newest_value_of_each_headline_tag(store: TelemetryStore) -> None:
    send(store, [metric(1, tags={RETURN: 1.0, "loss": 9.0}), metric(2, tags={RETURN: 2.0, "charts/SPS": 500.0})])
    assert store.headline("run") == {RETURN: 2.0, "mean_return": 1.5, "charts/SPS": 500.0}
    send(store, [metric(3, tags={RETURN: math.nan})], first_seq=3)
    assert store.headline("run") == {"mean_return": 1.5, "charts/SPS": 500.0}
    assert store.tags("run") == ["charts/SPS", RETURN, "loss"]


def test_what_the_event_loop_asks_does_not_wait_for_a_long_read(store: TelemetryStore) -> None:
    send(store, [metric(1, tags={RETURN: 1.0})])
    with store._large.each("SELECT * FROM metric_lines"):  # would hang here for ever if they shared a connection
        assert store.headline("run")[RETURN] == 1.0
        assert (store.acked("run", "worker"), store.newest_step("run")) == (1, 1)


def test_the_newest_step_is_that_of_the_headline(store: TelemetryStore) -> None:
    assert store.newest_step("run") == 0
    send(store, [metric(1, step=40, tags={RETURN: 1.0}), metric(2, step=50, tags={"charts/SPS": 9.0})])
    assert (store.newest_step("run"), store.newest_step("other")) == (50, 0)


def test_the_mean_return_is_of_the_hundred_newest_episodes_and_passes_over_nan(store: TelemetryStore) -> None:
    returns = [0.0] * 50 + [2.0] * 99 + [math.nan]
    send(store, [metric(seq, tags={RETURN: value}) for seq, value in enumerate(returns[:120], 1)])
    assert store.headline("run")["mean_return"] == pytest.approx(1.4)
    send(store, [metric(seq, tags={RETURN: value}) for seq, value in enumerate(returns[120:], 121)], first_seq=121)
    assert store.headline("run")["mean_return"] == 2.0
    send(store, [metric(1, step=151, tags={RETURN: 101.0})], stream="another")
    assert store.headline("run")["mean_return"] == 3.0


def test_a_row_that_stands_for_many_episodes_says_the_mean_of_the_newest_itself(store: TelemetryStore) -> None:
    """The mean of rows would be that of thousands of episodes, under the name of a hundred."""
    many = [{RETURN: 0.1 * seq, "charts/mean_return": float(seq), "charts/episodes": 900.0 * seq} for seq in (1, 2, 3)]
    send(store, [metric(seq, tags=tags) for seq, tags in enumerate(many, 1)])
    assert store.headline("run") == {RETURN: pytest.approx(0.3), "mean_return": 3.0, "charts/episodes": 2700.0}
    send(store, [metric(1, step=1, tags={RETURN: 9.0, "charts/mean_return": 9.0})], stream="late")
    assert store.headline("run")["mean_return"] == 3.0, "whatever order they came in"


def test_a_run_whose_returns_are_no_numbers_has_no_mean(store: TelemetryStore) -> None:
    send(store, [metric(1, tags={RETURN: math.nan})])
    assert store.headline("run") == {}


def test_runs_of_an_older_store_get_their_mean_return(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.sqlite"
    lines = [metric(1, tags={RETURN: 1.0}), metric(2, tags={RETURN: 2.0})]
    older_store(path, 1, {"run": lines, "without returns": [metric(1)]})
    with closing(TelemetryStore(path)) as store:
        assert store.headline("run") == {RETURN: 2.0, "mean_return": 1.5}
        assert store.headline("without returns") == {}


def test_an_older_store_keeps_its_curves_its_lines_and_the_places_of_its_watchers(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.sqlite"
    lines = [metric(1, loss=0.5, gain=math.nan), metric(2, loss=0.25), metric(3, loss=1.0, gain=2.0)]
    older_store(path, 2, {"run": lines, "other": [metric(1)]})
    with closing(TelemetryStore(path)) as store:
        assert store.records("run", "metric", 0) == [(1, lines[0]), (2, lines[1]), (3, lines[2])]
        assert store.series("run", "loss", after_step=-1, max_points=9).values == [0.5, 0.25, 1.0]
        assert store.tags("run") == ["gain", "loss"]
        assert (store.metric_rows("run"), store.metric_rows("other")) == (5, 1)
        assert send(store, [metric(3), metric(4)], first_seq=3).acked == 4
        assert store.records("run", "metric", 3) == [(4, metric(4))]


def test_forgetting_a_run_removes_all_of_it_and_nothing_else(store: TelemetryStore, tmp_path: Path) -> None:
    for run in ("run", "other"):
        send(store, [metric(1, tags={RETURN: 1.0}), line_of(ev.RunLifecycleEvent(event=ev.RUN_STARTED), 2)], run=run)
    store.forget("run").result(PATIENCE)
    assert (store.acked("run", "worker"), store.metric_rows("run"), store.headline("run")) == (0, 0, {})
    assert (store.acked("other", "worker"), store.metric_rows("other"), store.headline("other")) == (
        2,
        1,
        {RETURN: 1.0, "mean_return": 1.0},
    )
    assert send(store, [metric(1)], run="run").acked == 1, "a run of that name starts from the beginning"
    with closing(sqlite3.connect(tmp_path / "telemetry.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM metric_lines").fetchone() == (2,)


def names_in(path: Path) -> tuple[set[str], int]:
    """The tags that a store knows, and how many combinations of them."""
    with closing(sqlite3.connect(path)) as connection:
        tags = {row[0] for row in connection.execute("SELECT name FROM tags")}
        shapes = connection.execute("SELECT count(*) FROM shapes").fetchone()[0]
        used = connection.execute("SELECT count(DISTINCT shape) FROM shape_tags").fetchone()[0]
        assert shapes == used
        return tags, shapes


def test_forgetting_a_run_forgets_the_tags_that_only_it_had(
    store: TelemetryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_ROWS_PER_SLICE", 3)
    path = tmp_path / "telemetry.sqlite"
    own = [metric(seq, tags={f"own/{seq % 4}": 1.0, "shared": 2.0}) for seq in range(1, 21)]
    send(store, own, run="large")
    both = [metric(1, tags={"shared": 1.0}), metric(2, tags={RETURN: 3.0})]
    send(store, both, run="other")
    send(store, both, run="third")
    assert names_in(path) == ({*(f"own/{number}" for number in range(4)), "shared", RETURN, "mean_return"}, 6)
    assert forget_wholly(store, "large") > 3
    assert names_in(path) == ({"shared", RETURN, "mean_return"}, 2)
    forget_wholly(store, "third")
    assert [line for _, line in store.records("other", "metric", 0)] == both
    assert store.headline("other")[RETURN] == 3.0
    forget_wholly(store, "other")
    again = [metric(1, tags={"new": 1.0}), *own[1:]]
    send(store, again, run="again")
    assert [line for _, line in store.records("again", "metric", 0)] == again


def test_a_run_with_a_new_tag_in_each_line_costs_its_neighbours_nothing(
    store: TelemetryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every tag that comes is looked for among the lists of tags that a run has; so they are bounded, and dropped in
    slices that are found by their keys."""
    monkeypatch.setattr(metric_lines, "MOST_SHAPES", 300)
    send(store, [metric(1, tags={RETURN: 7.0, "loss": 2.0})], run="neighbour")
    lines = [metric(seq, tags={RETURN: float(seq), f"episode/{seq}": 2.0}) for seq in range(1, 601)]
    stored = [send(store, lines[at : at + 100], at + 1, run="careless") for at in range(0, 600, 100)]
    (told,) = [one.warning for one in stored if one.warning]
    assert "do not put a number that changes into a tag" in told
    assert names_in(tmp_path / "telemetry.sqlite")[1] == 302, "its own, the neighbour's and that of a headline alone"
    assert [line for _, line in store.records("careless", "metric", 0)] == lines, "kept to the byte all the same"
    assert store.series("careless", RETURN, after_step=-1, max_points=2000).steps == list(range(1, 601))
    assert store.headline("careless")["mean_return"] == 550.5
    assert "episode/300" in store.tags("careless") and "episode/301" not in store.tags("careless")
    again = [metric(seq, tags={RETURN: 1.0, "episode/7": 2.0}) for seq in range(601, 603)]
    assert not send(store, again, 601, run="careless").warning
    assert store.series("careless", "episode/7", after_step=-1, max_points=9).steps == [7, 601, 602]

    plans = plans_of_forgetting(store, "careless")
    assert "SEARCH shape_tags USING PRIMARY KEY (tag=? AND shape=?)" in plans
    assert {plan for plan in plans if plan.startswith("SCAN")} <= {"SCAN run_keys", "SCAN sqlite_master"}
    assert names_in(tmp_path / "telemetry.sqlite")[0] == {RETURN, "loss", "mean_return"}
    assert store.series("neighbour", RETURN, after_step=-1, max_points=9).values == [7.0]


def plans_of_forgetting(store: TelemetryStore, run: str) -> list[str]:
    """Forget a run in at least four slices: how SQLite finds what each statement of that is about."""
    said: list[str] = []
    store._writer.submit(lambda connection: connection.set_trace_callback(said.append)).result(PATIENCE)
    assert forget_wholly(store, run) >= 4
    store._writer.submit(lambda connection: connection.set_trace_callback(None)).result(PATIENCE)
    statements = {text for text in said if text.startswith(("SELECT", "DELETE", "WITH"))}
    with closing(sqlite3.connect(store.path)) as connection:
        return [row[3] for text in statements for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")]


def forget_wholly(store: TelemetryStore, run: str) -> int:
    """How many calls it took."""
    calls = 1
    while store.forget(run).result(PATIENCE):
        calls += 1
    return calls


def all_rows(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as connection:
        tables = ("run_keys", "cursors", "metric_lines", "records", "headline")
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


def test_a_large_run_is_forgotten_in_slices_between_which_others_write(
    store: TelemetryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(store, [metric(seq, tags={RETURN: 1.0, "loss": 2.0}) for seq in range(1, 101)], run="run")
    send(store, [metric(1)], run="other")
    monkeypatch.setattr(store_module, "_ROWS_PER_SLICE", 10)
    assert store.forget("run").result(PATIENCE)
    assert store.metric_rows("run") == 180
    assert send(store, [metric(2)], run="other", first_seq=2).acked == 2
    assert forget_wholly(store, "run") > 8
    left = {"run_keys": 1, "cursors": 1, "metric_lines": 2, "records": 0, "headline": 0}
    assert all_rows(tmp_path / "telemetry.sqlite") == left
    assert store.metric_rows("other") == 2


def test_a_run_half_forgotten_at_a_crash_is_forgotten_later_and_leaves_nothing_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_ROWS_PER_SLICE", 10)
    path = tmp_path / "telemetry.sqlite"
    with closing(TelemetryStore(path)) as store:
        send(store, [metric(seq) for seq in range(1, 101)], run="half")
        assert store.forget("half").result(PATIENCE)
    with closing(TelemetryStore(path)) as store:
        send(store, [metric(1)], run="next")
        assert store.metric_rows("next") == 1
        assert len(store.records("next", "metric", 0)) == 1
        forget_wholly(store, "half")
        send(store, [metric(1)], run="after")
        assert [store.metric_rows(run) for run in ("half", "next", "after")] == [0, 1, 1]
        assert all_rows(path)["run_keys"] == 2


def test_a_run_that_is_not_known_is_forgotten_at_once(store: TelemetryStore) -> None:
    assert not store.forget("nobody").result(PATIENCE)


def test_what_a_forgotten_run_took_is_given_back_and_the_log_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.sqlite"
    log = path.with_name("telemetry.sqlite-wal")
    with closing(TelemetryStore(path)) as store:
        send(store, [metric(1)], run="stays")
        for first in range(1, 120_001, 10_000):
            send(store, [metric(seq) for seq in range(first, first + 10_000)], run="large", first_seq=first)
        large = path.stat().st_size
        forget_wholly(store, "large")
        calls = 1
        while store.give_back().result(PATIENCE):
            calls += 1
        assert calls > 1, "in slices"
        assert log.stat().st_size < large
    assert path.stat().st_size < large / 10
    with closing(TelemetryStore(path)) as store:
        assert store.metric_rows("stays") == 1


def test_a_store_of_an_earlier_version_keeps_its_pages_and_works_on(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        for number, migration in enumerate(store_module.MIGRATIONS, 1):
            migration(connection)
            connection.execute(f"PRAGMA user_version={number}")
        connection.commit()
    with closing(TelemetryStore(path)) as store:
        send(store, [metric(seq) for seq in range(1, 2001)], run="run")
        forget_wholly(store, "run")
        assert not store.give_back().result(PATIENCE)
        send(store, [metric(1)], run="next")
        assert store.metric_rows("next") == 1
