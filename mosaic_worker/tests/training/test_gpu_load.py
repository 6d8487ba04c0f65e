"""How busy GPUs are: asked rarely, of nobody without one, and never at the cost of the training."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mosaic_protocol.headline import GPU_MEMORY_TAG, GPU_TAG
from mosaic_worker.training import gpu_load
from mosaic_worker.training.gpu_load import GpuLoad, own_devices

Ask = Callable[..., dict[str, str]]


@pytest.fixture
def driver(tmp_path: Path) -> Ask:
    """An environment with a program of that name; ``asked`` has a line for each time that it was called."""

    def make(script: str, devices: str = "GPU-0aaa-bbbb") -> dict[str, str]:
        program = tmp_path / "nvidia-smi"
        program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n{script}\n')
        program.chmod(0o755)
        return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": devices}

    return make


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def questions(tmp_path: Path) -> list[str]:
    asked = tmp_path / "asked"
    return asked.read_text().splitlines() if asked.exists() else []


def until(load: GpuLoad, ready: Callable[[dict[str, float]], bool]) -> dict[str, float]:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if ready(found := load.newest()):
            return found
        time.sleep(0.01)
    raise AssertionError("nothing came")


def test_the_devices_of_the_run_are_asked_once_in_a_while(driver: Ask, tmp_path: Path) -> None:
    load = GpuLoad(driver("echo '40, 1000'; echo '60, 24'", "GPU-0aaa-bbbb,GPU-1"), seconds=3600.0)
    assert load.newest() == {}, "the first question is under way"
    assert until(load, bool) == {GPU_TAG: 50.0, GPU_MEMORY_TAG: 1024.0}
    for _ in range(100):
        load.newest()
    (question,) = questions(tmp_path)
    assert "-i GPU-0aaa-bbbb,GPU-1" in question and "utilization.gpu,memory.used" in question
    load.close()
    assert load.newest() == {}


def test_later_answers_replace_earlier_ones(driver: Ask, tmp_path: Path) -> None:
    load = GpuLoad(driver(f'echo "$(wc -l < {tmp_path}/asked), 7"'), seconds=0.0)
    assert until(load, lambda found: found.get(GPU_TAG) == 3.0) == {GPU_TAG: 3.0, GPU_MEMORY_TAG: 7.0}
    load.close()


@pytest.mark.parametrize("devices", ["", "-1", "NoDevFiles", "GPU-0;rm -rf /", "0,,1"])
def test_a_run_without_a_gpu_asks_nobody(driver: Ask, tmp_path: Path, devices: str) -> None:
    load = GpuLoad(driver("echo '1, 1'", devices), seconds=0.0)
    assert [load.newest() for _ in range(5)] == [{}] * 5 and questions(tmp_path) == []
    assert own_devices({}) == () and own_devices({"CUDA_VISIBLE_DEVICES": "0, 1"}) == ("0", "1")


def test_a_machine_without_the_program_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    load = GpuLoad({"PATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": "0"}, seconds=0.0)
    assert load.newest() == {} and load._devices == ()


@pytest.mark.parametrize("script", ["exit 9", "echo 'No devices were found'", "echo '[N/A], [N/A]'"])
def test_a_driver_that_says_nothing_is_left_alone(driver: Ask, tmp_path: Path, script: str) -> None:
    load = GpuLoad(driver(script), seconds=0.0)
    deadline = time.monotonic() + 20
    while load._devices and time.monotonic() < deadline:
        assert load.newest() == {}
        time.sleep(0.01)
    assert load._devices == () and len(questions(tmp_path)) == 3


def test_a_driver_that_hangs_costs_one_process_and_no_wait(
    driver: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_load, "PATIENCE_SECONDS", 0.2)
    load = GpuLoad(driver(f"echo $$ > {tmp_path}/pid; exec sleep 600"), seconds=0.0)
    began = time.monotonic()
    load.newest()
    assert time.monotonic() - began < 5
    deadline = time.monotonic() + 20
    while load._devices and time.monotonic() < deadline:
        assert load.newest() == {}
        time.sleep(0.02)
    assert load._devices == () and len(questions(tmp_path)) <= 1


def test_closing_ends_a_question(driver: Ask, tmp_path: Path) -> None:
    load = GpuLoad(driver(f"echo $$ > {tmp_path}/pid; exec sleep 600"), seconds=0.0)
    load.newest()
    deadline = time.monotonic() + 20
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    load.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
