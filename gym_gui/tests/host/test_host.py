"""Host capacity: a container has what its limits leave, not what its machine has."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mosaic_host import capacity
from mosaic_host.capacity import HostCapacity, Limits
from mosaic_host.gpu import Gpu

MEMINFO = "MemTotal:       16777216 kB\nMemFree:         1024 kB\nMemAvailable:   2048 kB\n"
GIB = 1 << 30


class FakeProc:
    """A /proc and cgroup mounts in a directory; a machine with 8 CPUs and 16 GiB unless limited."""

    def __init__(self, directory: Path) -> None:
        self.proc = directory / "proc"
        self.mounts = directory / "sys fs"  # with a space, as mountinfo must escape it
        (self.proc / "self").mkdir(parents=True)
        (self.proc / "meminfo").write_text(MEMINFO)
        self._mountinfo = ""

    def mount(self, name: str, kind: str, options: str, root: str = "/") -> Path:
        point = self.mounts / name
        point.mkdir(parents=True)
        escaped = str(point).replace(" ", r"\040")
        self._mountinfo += f"31 23 0:28 {root} {escaped} rw,relatime shared:4 - {kind} {kind} {options}\n"
        (self.proc / "self" / "mountinfo").write_text(self._mountinfo)
        return point

    def belongs_to(self, text: str) -> None:
        (self.proc / "self" / "cgroup").write_text(text)

    def detect(self) -> HostCapacity:
        return HostCapacity.detect(gpus=(), proc=self.proc)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProc:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    return FakeProc(tmp_path)


def test_without_control_groups_the_machine_is_the_limit(machine: FakeProc) -> None:
    assert machine.detect() == HostCapacity(8, 16384, ())


def test_a_version_2_group_limits_cpus_and_memory(machine: FakeProc) -> None:
    point = machine.mount("unified", "cgroup2", "rw")
    machine.belongs_to("0::/box\n")
    (point / "box").mkdir()
    (point / "box" / "cpu.max").write_text("250000 100000\n")
    (point / "box" / "memory.max").write_text(f"{4 * GIB}\n")
    assert machine.detect() == HostCapacity(2, 4096, ())


def test_a_limit_on_a_group_above_applies_too(machine: FakeProc) -> None:
    point = machine.mount("unified", "cgroup2", "rw")
    machine.belongs_to("0::/box/inner\n")
    (point / "box" / "inner").mkdir(parents=True)
    (point / "box" / "cpu.max").write_text("300000 100000\n")
    (point / "box" / "memory.max").write_text(f"{2 * GIB}\n")
    (point / "box" / "inner" / "cpu.max").write_text("max 100000\n")
    (point / "box" / "inner" / "memory.max").write_text(f"{8 * GIB}\n")
    assert machine.detect() == HostCapacity(3, 2048, ())


def test_version_1_groups_limit_cpus_and_memory(machine: FakeProc) -> None:
    cpu = machine.mount("cpu", "cgroup", "rw,cpu,cpuacct")
    memory = machine.mount("memory", "cgroup", "rw,memory")
    machine.belongs_to("4:memory:/box\n1:cpu,cpuacct:/\n0::/\n")
    (cpu / "cpu.cfs_quota_us").write_text("150000\n")
    (cpu / "cpu.cfs_period_us").write_text("50000\n")
    (memory / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (memory / "box").mkdir()
    (memory / "box" / "memory.limit_in_bytes").write_text(f"{GIB}\n")
    assert machine.detect() == HostCapacity(3, 1024, ())


def test_a_container_that_sees_only_its_own_group_is_limited_by_it(machine: FakeProc) -> None:
    point = machine.mount("memory", "cgroup", "rw,memory", root="/docker/abc")
    machine.belongs_to("4:memory:/docker/abc\n")
    (point / "memory.limit_in_bytes").write_text(f"{3 * GIB}\n")
    assert machine.detect().memory_mb == 3072


def test_a_group_outside_the_mount_falls_back_to_the_mount_point(machine: FakeProc) -> None:
    point = machine.mount("memory", "cgroup", "rw,memory", root="/docker/abc")
    machine.belongs_to("4:memory:/elsewhere\n")
    (point / "memory.limit_in_bytes").write_text(f"{3 * GIB}\n")
    assert machine.detect().memory_mb == 3072


def test_less_than_one_cpu_still_counts_as_one(machine: FakeProc) -> None:
    point = machine.mount("unified", "cgroup2", "rw")
    machine.belongs_to("0::/\n")
    (point / "cpu.max").write_text("50000 100000\n")
    assert machine.detect().cpus == 1


def test_a_quota_above_the_affinity_gives_no_more_than_the_affinity(machine: FakeProc) -> None:
    point = machine.mount("unified", "cgroup2", "rw")
    machine.belongs_to("0::/\n")
    (point / "cpu.max").write_text("6400000 100000\n")
    assert machine.detect().cpus == 8


def test_what_the_operator_says_overrides_what_is_measured(machine: FakeProc) -> None:
    gpus = (Gpu(0, "A", "GPU-0", 1),)
    found = HostCapacity.detect(cpus=64, memory_mb=7, gpus=gpus, proc=machine.proc)
    assert found == HostCapacity(64, 7, gpus)


def test_this_host_has_cpus_and_memory() -> None:
    found = HostCapacity.detect(gpus=())
    assert 1 <= found.cpus <= (os.cpu_count() or 1)
    assert 16 < found.memory_mb < 1 << 30


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("max 100000\n", None),
        ("200000 100000\n", 2.0),
        ("50000", 0.5),
        ("", None),
        ("100 0", None),
        ("x y", None),
    ],
)
def test_cpu_max_is_a_quota_and_a_period(text: str, cpus: float | None) -> None:
    assert capacity.parse_cpu_max(text) == cpus


@pytest.mark.parametrize(("quota", "cpus"), [("-1\n", None), ("250000\n", 2.5), ("", None)])
def test_a_version_1_quota_of_minus_one_is_no_limit(quota: str, cpus: float | None) -> None:
    assert capacity.parse_cpu_quota(quota, "100000\n") == cpus


@pytest.mark.parametrize(
    ("text", "limit"),
    [("max\n", None), ("1048576\n", 1048576), ("9223372036854771712\n", None), ("", None), ("garbage", None)],
)
def test_a_memory_limit_near_the_largest_number_is_no_limit(text: str, limit: int | None) -> None:
    assert capacity.parse_memory_limit(text) == limit


def test_meminfo_gives_the_total_in_bytes() -> None:
    assert capacity.parse_meminfo(MEMINFO) == 16 * GIB
    assert capacity.parse_meminfo("nothing here") is None


def test_memberships_are_split_by_controller() -> None:
    text = "12:cpu,cpuacct:/a:b\n1:name=systemd:/s\n0::/u\nbroken\n"
    assert capacity.parse_memberships(text) == {"cpu": "/a:b", "cpuacct": "/a:b", "name=systemd": "/s", "": "/u"}


def test_mounts_of_other_kinds_are_passed_over() -> None:
    text = "31 23 0:28 / /proc rw - proc proc rw\n32 31 0:29 / /c rw - cgroup2 cgroup2 rw\nbroken\n"
    assert capacity.parse_cgroup_mounts(text) == (capacity.CgroupMount(Path("/c"), "/", 2, frozenset({""})),)


def test_the_stricter_limit_wins_and_none_is_no_limit() -> None:
    assert Limits(2.0, None).tightened(Limits(1.0, 5)) == Limits(1.0, 5)
    assert Limits().tightened(Limits()) == Limits()


def test_free_disk_space_of_a_path_that_does_not_exist_yet_is_that_of_its_disk(tmp_path: Path) -> None:
    free = capacity.disk_free(tmp_path / "not" / "there" / "yet")
    assert 0 < free <= shutil.disk_usage(tmp_path).total
