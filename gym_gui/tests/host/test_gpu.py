"""GPUs: what nvidia-smi says is what there is, and no GPU belongs to two runs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gym_gui.services.trainer.execution.gpu import GPUAllocator
from mosaic_host.gpu import Gpu, cuda_environment, detect_gpus, parse_nvidia_smi, probe_gpus, visible_gpus

FOUR = tuple(Gpu(index, "NVIDIA A100", f"GPU-{index}aaa-bbbb", 81920) for index in range(4))
LISTING = "1, NVIDIA A100-SXM4, 80GB, GPU-1aaa-bbbb, 81920\n0, NVIDIA A100-SXM4, 80GB, GPU-0aaa-bbbb, 81920\n"


def host_with(directory: Path, script: str, **extra: str) -> dict[str, str]:
    program = directory / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}", **extra}


def test_a_host_without_nvidia_smi_has_zero_gpus_and_says_why(tmp_path: Path) -> None:
    probe = probe_gpus({"PATH": str(tmp_path)})
    assert probe.gpus == ()
    assert "nvidia-smi is not on PATH" in probe.reason


def test_gpus_are_listed_by_index_with_commas_in_their_names(tmp_path: Path) -> None:
    gpus = detect_gpus(host_with(tmp_path, f"cat <<'END'\n{LISTING}END"))
    assert gpus == (
        Gpu(0, "NVIDIA A100-SXM4, 80GB", "GPU-0aaa-bbbb", 81920),
        Gpu(1, "NVIDIA A100-SXM4, 80GB", "GPU-1aaa-bbbb", 81920),
    )


def test_the_query_asks_for_exactly_what_is_parsed(tmp_path: Path) -> None:
    probe_gpus(host_with(tmp_path, f'echo "$@" > {tmp_path}/asked'))
    asked = (tmp_path / "asked").read_text().split()
    assert asked == ["--query-gpu=index,name,uuid,memory.total", "--format=csv,noheader,nounits"]


def test_a_failing_driver_means_zero_gpus_with_its_own_words(tmp_path: Path) -> None:
    probe = probe_gpus(host_with(tmp_path, "echo 'NVIDIA-SMI has failed to reach the driver'; exit 9"))
    assert probe.gpus == ()
    assert "failed to reach the driver" in probe.reason


def test_a_silent_failure_names_the_status(tmp_path: Path) -> None:
    assert "status 9" in probe_gpus(host_with(tmp_path, "exit 9")).reason


def test_one_lost_gpu_does_not_hide_the_others_but_is_reported(tmp_path: Path) -> None:
    probe = probe_gpus(host_with(tmp_path, "echo '0, A, GPU-0, 100'; echo 'GPU is lost: 0000:01'; exit 15"))
    assert [gpu.index for gpu in probe.gpus] == [0]
    assert "GPU is lost" in probe.reason


def test_a_driver_that_hangs_is_given_up_and_leaves_no_process(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    probe = probe_gpus(host_with(tmp_path, f"sleep 600 & echo $! > {pid_file}; wait"), timeout=0.5)
    assert probe.gpus == ()
    assert "did not answer" in probe.reason
    deadline = time.monotonic() + 20
    while _is_running(int(pid_file.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_program_that_cannot_run_is_a_reason_not_an_error(tmp_path: Path) -> None:
    environ = host_with(tmp_path, "")
    (tmp_path / "nvidia-smi").write_bytes(b"#!/nowhere/interpreter\n")
    assert "could not be run" in probe_gpus(environ).reason


def test_cuda_visible_devices_limits_what_is_found(tmp_path: Path) -> None:
    probe = probe_gpus(host_with(tmp_path, f"cat <<'END'\n{LISTING}END", CUDA_VISIBLE_DEVICES="1"))
    assert [gpu.index for gpu in probe.gpus] == [1]
    assert "1 of 2" in probe.reason


@pytest.mark.parametrize(
    ("setting", "left"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("2", [2]),
        ("3,1", [1, 3]),
        ("1, 1", [1]),
        ("0,9,1", [0]),
        ("GPU-2aaa", [2]),
        ("GPU-2aaa-bbbb,GPU-0", [0, 2]),
        ("GPU-", []),
        ("MIG-whatever", []),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(setting: str | None, left: list[int]) -> None:
    assert [gpu.index for gpu in visible_gpus(FOUR, setting)] == left


def test_memory_that_the_driver_does_not_report_is_zero() -> None:
    gpus, other = parse_nvidia_smi("0, NVIDIA GB10, GPU-x, [N/A]\n\n")
    assert gpus == (Gpu(0, "NVIDIA GB10", "GPU-x", 0),)
    assert other == ()


def test_a_worker_sees_only_its_gpus_and_none_when_it_has_none() -> None:
    assert cuda_environment(FOUR, (1, 3))["CUDA_VISIBLE_DEVICES"] == "GPU-1aaa-bbbb,GPU-3aaa-bbbb"
    assert cuda_environment(FOUR, ())["CUDA_VISIBLE_DEVICES"] == ""


def test_the_lowest_free_indices_are_given_first() -> None:
    allocator = GPUAllocator(reversed(FOUR))
    assert allocator.reserve("a", 2) == (0, 1)
    assert allocator.reserve("b", 1) == (2,)
    allocator.release("a")
    assert allocator.reserve("c", 2) == (0, 1)
    assert allocator.free == (3,)


def test_a_reservation_that_does_not_fit_takes_nothing() -> None:
    allocator = GPUAllocator(FOUR[:2])
    assert allocator.reserve("a", 3) is None
    assert allocator.free == (0, 1)


def test_reserving_twice_returns_the_same_gpus() -> None:
    allocator = GPUAllocator(FOUR)
    assert allocator.reserve("a", 2) == allocator.reserve("a", 2) == (0, 1)
    assert allocator.free == (2, 3)


def test_releasing_twice_does_not_free_what_another_run_took() -> None:
    allocator = GPUAllocator(FOUR[:1])
    allocator.reserve("a", 1)
    allocator.release("a")
    allocator.reserve("b", 1)
    allocator.release("a")
    assert allocator.free == ()


def test_zero_gpus_means_zero() -> None:
    allocator = GPUAllocator(())
    assert allocator.free == ()
    assert allocator.reserve("a", 1) is None
    assert allocator.reserve("a", 0) == ()


def test_a_held_gpu_is_not_given_away_until_every_holder_is_gone() -> None:
    allocator = GPUAllocator(FOUR[:2])
    allocator.hold("a", [0, 7])
    allocator.hold("b", [0])
    assert allocator.free == (1,)
    allocator.release("a")
    assert 0 not in allocator.free
    allocator.release("b")
    assert 0 in allocator.free


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        GPUAllocator(FOUR).reserve("a", -1)


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
