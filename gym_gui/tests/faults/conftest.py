"""After each fault: nothing is left running that a test started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_gui.tests.support.daemon_process import wait_for
from gym_gui.tests.support.marked_processes import processes_using


@pytest.fixture(autouse=True)
def nothing_is_left_running(tmp_path: Path) -> Iterator[None]:
    """Set up before any daemon and torn down after all of them."""
    yield
    wait_for(f"every process with data below {tmp_path} to end", lambda: not processes_using(tmp_path))
