"""Stores of earlier versions: exact at every moment of their conversion, however often it is cut short."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gym_gui.services.trainer.errors import StorageFullError
from gym_gui.services.trainer.telemetry import older_layout
from gym_gui.services.trainer.telemetry.batches import Batch
from gym_gui.services.trainer.telemetry.store import TelemetryStore
from gym_gui.tests.faults.small_disk import SmallDisk, on_a_small_disk
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.older_store import older_store, older_store_with_ballast, tables_of
from mosaic_protocol import events as ev
from mosaic_protocol.headline import RETURN_TAG

PATIENCE = 60.0
CONVERT = """
import sys
from pathlib import Path
from gym_gui.services.trainer.telemetry import older_layout
from gym_gui.services.trainer.telemetry.store import TelemetryStore
older_layout._LINES_PER_SLICE = 300
store = TelemetryStore(Path(sys.argv[1]))
print("open", flush=True)
while store.convert_slice().result(60):
    pass
print("done", flush=True)
"""


def line(seq: int, shape: int = 0) -> bytes:
    """Lines of several shapes, some with a value that is not finite or a field that nobody knows."""
    values: dict[str, float | None] = {RETURN_TAG: float(seq)}
    if shape % 3 == 1:
        values |= {"loss": seq / 7, "gain": math.nan}
    if shape % 3 == 2:
        values = {"loss": -seq / 7}
    text = ev.encode(ev.MetricRow(step=seq // 2, values=values, seq=seq, t=1000.0 + seq))
    return text[:-1] + b',"unknown":1}' if shape % 5 == 4 else text


def lines_of(count: int) -> list[bytes]:
    return [line(seq, shape=seq) for seq in range(1, count + 1)]


def check(store: TelemetryStore, run: str, lines: list[bytes]) -> None:
    """Everything that readers can ask, against what was once sent."""
    records = [record for record in map(ev.decode, lines) if isinstance(record, ev.MetricRow)]
    read: list[tuple[int, bytes]] = []
    while page := store.records(run, "metric", len(read), limit=97):
        read += page
    assert read == list(enumerate(lines, 1))
    assert store.metric_rows(run) == sum(len(record.values) for record in records)
    assert store.tags(run) == sorted({tag for record in records for tag in record.values})
    for tag in store.tags(run):
        points = [(record.step, record.values[tag]) for record in records if tag in record.values]
        for most in (10, 10**6):
            series = store.series(run, tag, after_step=-1, max_points=most)
            assert series.total == len(points)
            assert series.steps == [step for step, _ in points[-most:]]
            assert repr(series.values) == repr([math.nan if v is None else v for _, v in points[-most:]])


def test_a_store_is_exact_after_every_slice_while_its_runs_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(older_layout, "_LINES_PER_SLICE", 11)
    path = tmp_path / "telemetry.sqlite"
    lines = {"first": lines_of(60), "second": lines_of(45), "silent": [line(1)]}
    older_store(path, 2, lines)
    with closing(TelemetryStore(path)) as store:
        left, slices = True, 0
        while left:
            for run, said in lines.items():
                check(store, run, said)
            following = len(lines["first"]) + 1
            lines["first"].append(line(following, shape=following))
            store.ingest(Batch("first", "worker", following, lines["first"][-1:])).result(PATIENCE)
            left, slices = store.convert_slice().result(PATIENCE), slices + 1
        assert slices > 10
        assert not store.needs_conversion()
        recent = [ev.decode(text) for text in lines["first"]]
        returns = [r.values[RETURN_TAG] for r in recent if isinstance(r, ev.MetricRow) and RETURN_TAG in r.values]
        assert store.headline("first")["mean_return"] == pytest.approx(
            sum(value or 0.0 for value in returns) / len(returns)
        )
        for run, said in lines.items():
            check(store, run, said)
    assert "metrics" not in tables_of(path)


def test_a_new_store_has_nothing_to_convert(tmp_path: Path) -> None:
    with closing(TelemetryStore(tmp_path / "telemetry.sqlite")) as store:
        assert not store.needs_conversion()


def test_lines_with_very_many_numbers_make_smaller_slices(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.sqlite"
    wide = [
        ev.encode(ev.MetricRow(step=seq, values={f"tag {n}": float(n) for n in range(3000)}, seq=seq, t=float(seq)))
        for seq in range(1, 9)
    ]
    older_store(path, 2, {"run": wide})
    with closing(TelemetryStore(path)) as store:
        assert store.convert_slice().result(PATIENCE)
        assert store.needs_conversion()
        assert store.metric_rows("run") == 24_000
        convert(store)
        assert store.records("run", "metric", 0) == list(enumerate(wide, 1))


def test_what_cannot_be_read_does_not_stop_a_conversion(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.sqlite"
    older_store(path, 2, {"run": lines_of(3), "half purged": lines_of(3)})
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE records SET line = x'7b' WHERE run = 1 AND row = 2")
        connection.execute("DELETE FROM records WHERE run = 2")
    with closing(TelemetryStore(path)) as store:
        convert(store)
        assert store.records("run", "metric", 0) == [(1, lines_of(3)[0]), (3, lines_of(3)[2])]
        assert store.metric_rows("half purged") == 0


def test_a_run_is_purged_from_a_store_that_is_half_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(older_layout, "_LINES_PER_SLICE", 11)
    path = tmp_path / "telemetry.sqlite"
    older_store(path, 2, {"run": lines_of(60), "other": lines_of(30)})
    with closing(TelemetryStore(path)) as store:
        store.convert_slice().result(PATIENCE)
        while store.forget("run").result(PATIENCE):
            pass
        assert (store.metric_rows("run"), store.records("run", "metric", 0)) == (0, [])
        check(store, "other", lines_of(30))


def test_a_conversion_that_is_killed_again_and_again_loses_and_doubles_nothing(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.sqlite"
    lines = lines_of(6000)
    older_store(path, 2, {"run": lines})
    kills = 0
    while "metrics" in tables_of(path):
        process = subprocess.Popen([sys.executable, "-c", CONVERT, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        before = _lines_left(path)
        wait_for("some slices", lambda left=before: _lines_left(path) < left or _lines_left(path) == 0)
        process.kill()
        kills += process.wait(PATIENCE) != 0
        process.stdout.close()
        with closing(TelemetryStore(path)) as store:
            check(store, "run", lines)
    assert kills >= 2


def _lines_left(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT count(*) FROM records WHERE kind = 'metric'").fetchone()[0])


def test_a_daemon_answers_at_once_and_converts_a_store_over_several_lives(
    make_daemon: Callable[..., DaemonProcess],
) -> None:
    daemon = make_daemon().start()
    run_id = daemon.submit(total_timesteps=2)
    daemon.wait_over(run_id)
    assert daemon.terminate() == 0
    path, lines = daemon.paths.telemetry_db, lines_of(30_000)
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    older_store(path, 2, {run_id: lines})
    daemon.start()
    _check_over_the_wire(daemon, run_id, lines)
    assert _lines_left(path) > 0, "the daemon answered before everything was converted"
    daemon.kill()
    left = _lines_left(path)
    daemon.start()
    _check_over_the_wire(daemon, run_id, lines)
    wait_for("the store to be converted", lambda: "metrics" not in tables_of(path))
    assert left > 0
    _check_over_the_wire(daemon, run_id, lines)


def _check_over_the_wire(daemon: DaemonProcess, run_id: str, lines: list[bytes]) -> None:
    got = [bytes(text) for page in daemon.client.stream("metrics", run_id) for text in page.records]
    assert got == lines


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk", megabytes=48)
    yield disk
    disk.unmount()


@on_a_small_disk
def test_on_a_full_disk_a_store_is_read_as_it_is_and_converted_later(disk: SmallDisk) -> None:
    path = disk.mount() / "telemetry.sqlite"
    lines = lines_of(8000)
    older_store_with_ballast(path, {"run": lines})
    disk.fill()
    with closing(TelemetryStore(path)) as store:
        check(store, "run", lines)
        with pytest.raises(StorageFullError):
            convert(store)
        check(store, "run", lines)
        disk.free()
        convert(store)
        check(store, "run", lines)
    assert "metrics" not in tables_of(path)


@on_a_small_disk
def test_a_daemon_starts_on_a_full_disk_with_a_store_to_convert(
    disk: SmallDisk, make_daemon: Callable[..., DaemonProcess]
) -> None:
    daemon = make_daemon(home=disk.mount() / "home").start()
    run_id = daemon.submit(total_timesteps=2)
    daemon.wait_over(run_id)
    assert daemon.terminate() == 0
    path, lines = daemon.paths.telemetry_db, lines_of(8000)
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    older_store_with_ballast(path, {run_id: lines})
    disk.fill()
    daemon.start()
    _check_over_the_wire(daemon, run_id, lines)
    assert "metrics" in tables_of(path)
    disk.free()
    wait_for("the store to be converted", lambda: "metrics" not in tables_of(path))
    _check_over_the_wire(daemon, run_id, lines)


def convert(store: TelemetryStore) -> None:
    while store.convert_slice().result(PATIENCE):
        pass


def test_a_conversion_needs_hardly_more_space_than_the_store_has(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.sqlite"
    older_store_with_ballast(path, {"run": lines_of(30_000)})
    before = path.stat().st_size
    with closing(TelemetryStore(path)) as store:
        pages = []
        while store.convert_slice().result(PATIENCE):
            pages.append(_pages_of(path))
        while store.give_back().result(PATIENCE):
            pass
    assert max(pages) * 4096 < before * 1.1
    assert path.stat().st_size < before * 0.7


def _pages_of(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return int(connection.execute("PRAGMA page_count").fetchone()[0])
