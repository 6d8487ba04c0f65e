"""CPU, memory and speed of a run over time, from what its process recorded."""

from __future__ import annotations

import math

from gym_gui.services.run_load import courses
from mosaic_protocol.headline import CPU_TAG, GPU_MEMORY_TAG, GPU_TAG, MEMORY_TAG, SPS_TAG
from mosaic_protocol.proto import trainer_pb2 as pb


def series(tag: str, *points: tuple[float, float]) -> pb.MetricSeries:
    times, values = zip(*points, strict=True)
    return pb.MetricSeries(tag=tag, wall_times=times, values=values)


def test_shares_of_a_cpu_come_from_cpu_time_and_a_restart_is_no_share() -> None:
    cpu = series(CPU_TAG, (100.0, 0.0), (100.1, 5.0), (102.0, 1.0), (104.0, 4.0), (105.0, 0.5), (106.0, 1.0))
    memory = series(MEMORY_TAG, (100.0, 512.0), (110.0, 1024.0), (120.0, 256.0))
    found = {one.name: one for one in courses({CPU_TAG: cpu, MEMORY_TAG: memory})}
    assert list(found) == ["CPU", "Memory"]
    assert [value for _, value in found["CPU"].points] == [50.0, 150.0, 50.0]
    assert (found["CPU"].last, found["CPU"].most) == ("50 %", "150 %")
    assert found["Memory"].points[0] == (0.0, 512.0) and found["Memory"].most == "1.1 GB"


def test_gpus_have_a_curve_where_a_run_has_any() -> None:
    gpu, memory = series(GPU_TAG, (10.0, 20.0), (20.0, 95.0)), series(GPU_MEMORY_TAG, (10.0, 1024.0), (20.0, 2048.0))
    found = courses({GPU_TAG: gpu, GPU_MEMORY_TAG: memory})
    assert [(one.name, one.last, one.most) for one in found] == [
        ("GPU", "95 %", "95 %"),
        ("GPU memory", "2.1 GB", "2.1 GB"),
    ]


def test_nothing_is_said_of_what_nobody_recorded() -> None:
    assert courses({}) == []
    assert courses({CPU_TAG: series(CPU_TAG, (1.0, 1.0)), SPS_TAG: series(SPS_TAG, (1.0, math.nan))}) == []
