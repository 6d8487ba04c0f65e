"""What programs read of a run: recent numbers, event files that TensorBoard reads, archives."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from gym_gui.services.scalars.crc32c import crc32c
from gym_gui.services.scalars.event_writer import EventFile
from gym_gui.services.training_telemetry import TrainingTelemetryService
from gym_gui.tests.support.daemon_process import DaemonProcess

Point = tuple[int, float, float]


def read_back(file: Path) -> dict[str, list[Point]]:
    """As TensorBoard itself reads it, which checks every checksum."""
    found: dict[str, list[Point]] = {}
    for event in EventFileLoader(str(file)).Load():
        for value in event.summary.value:
            number = value.tensor.float_val[0] if value.HasField("tensor") else value.simple_value
            found.setdefault(value.tag, []).append((event.step, number, event.wall_time))
    return found


def test_the_checksum_is_the_one_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4


@settings(max_examples=30, deadline=None)
@given(
    points=st.lists(
        st.tuples(st.integers(0, 2**63 - 1), st.floats(width=32), st.floats(0, 1e10, allow_nan=False)), max_size=20
    )
)
def test_tensorboard_reads_what_was_written(tmp_path_factory: object, points: list[Point]) -> None:
    memory = io.BytesIO()
    assert EventFile(memory, 5.0).add_scalars("charts/Übung", points) == len(points)
    file = Path(tmp_path_factory.mktemp("events")) / "events.out.tfevents.1"  # type: ignore[attr-defined]
    file.write_bytes(memory.getvalue())
    found = read_back(file).get("charts/Übung", [])
    assert repr(found) == repr([(step, float(value), when) for step, value, when in points])


def test_a_value_beyond_32_bits_becomes_infinite(tmp_path: Path) -> None:
    file = tmp_path / "events.out.tfevents.1"
    with file.open("wb") as opened:
        EventFile(opened, 0.0).add_scalars("a", [(1, 1e300, 0.0), (2, -1e300, 0.0)])
    assert [value for _, value, _ in read_back(file)["a"]] == [math.inf, -math.inf]


def test_the_numbers_of_a_run_are_exported_and_archived(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(name="exported", total_timesteps=12, step_seconds=0)
    daemon.wait_over(run_id)
    service = TrainingTelemetryService(daemon.client, daemon.paths)
    recent = service.recent_metrics("exported", 5)
    assert list(recent["charts/episodic_return"].steps) == [8, 9, 10, 11, 12]

    for _ in range(2):  # an export is replaced, not doubled
        folder = service.export_to_tensorboard(run_id)
    assert folder == daemon.paths.root / "training" / "tensorboard" / run_id
    (file,) = folder.iterdir()
    curve = read_back(file)["charts/episodic_return"]
    assert [(step, value) for step, value, _ in curve] == [(step, float(step)) for step in range(1, 13)]

    archive = service.archive(run_id)
    assert archive == daemon.paths.root / "training" / "metrics" / f"{run_id}.jsonl"
    lines = [json.loads(line) for line in archive.read_text().splitlines()]
    assert [line["values"]["charts/episodic_return"] for line in lines] == [float(step) for step in range(1, 13)]
