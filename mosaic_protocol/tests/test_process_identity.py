"""Which process exactly: a pid alone is reused, a pid with its start time on one boot is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mosaic_protocol.process_identity import ProcessIdentity, boot_id, stat_fields

NO_SUCH_PID = 2**22 + 1
"""Above the largest pid that Linux gives."""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_a_process_finds_itself() -> None:
    me = ProcessIdentity.current()
    assert (me.pid, me.boot) == (os.getpid(), boot_id())
    assert me.is_alive()


def test_a_living_process_has_one_identity(child: subprocess.Popen[bytes]) -> None:
    first, second = ProcessIdentity.of(child.pid), ProcessIdentity.of(child.pid)
    assert first is not None
    assert first == second
    assert first.is_alive()
    assert first != ProcessIdentity.current()


def test_a_process_that_is_gone_has_none(child: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.of(child.pid)
    assert identity is not None
    child.kill()
    child.wait()
    assert not identity.is_alive()
    assert ProcessIdentity.of(child.pid) is None
    assert ProcessIdentity.of(NO_SUCH_PID) is None
    assert stat_fields(NO_SUCH_PID) is None


def test_a_zombie_does_not_live(child: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.of(child.pid)
    assert identity is not None
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not identity.is_alive()
    assert ProcessIdentity.of(child.pid) is None


def test_a_stopped_process_lives(child: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.of(child.pid)
    assert identity is not None
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert identity.is_alive()


@pytest.mark.parametrize("change", [{"start_ticks": 1}, {"boot": "another boot"}])
def test_the_same_number_with_another_start_or_boot_is_somebody_else(change: dict[str, Any]) -> None:
    assert not replace(ProcessIdentity.current(), **change).is_alive()


def test_the_start_is_counted_from_boot_and_so_does_not_move_with_the_clock(child: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.of(child.pid)
    assert identity is not None
    since_boot = identity.start_ticks / os.sysconf("SC_CLK_TCK")
    assert 0 < since_boot <= time.clock_gettime(time.CLOCK_BOOTTIME) + 1
    assert identity.start_ticks >= ProcessIdentity.current().start_ticks


@pytest.mark.parametrize("name", [b"a) R 1 1 (b", b"sp ace", b"\xff\xfe", b"))))", b"x\ny"])
def test_no_name_of_a_process_hides_it(name: bytes) -> None:
    """A name may hold brackets, spaces, line ends and bytes of no encoding."""
    code = f"open('/proc/self/comm', 'wb').write({name!r}); print(flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        fields = stat_fields(child.pid)
        assert fields is not None
        assert int(fields[1]) == os.getpid()
        assert ProcessIdentity.of(child.pid) is not None
    finally:
        child.kill()
        child.communicate()
