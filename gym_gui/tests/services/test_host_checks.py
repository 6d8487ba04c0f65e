"""What a look at a host found, in sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gym_gui.services.hosts.book import Host
from gym_gui.services.hosts.checks import findings
from gym_gui.services.hosts.reach import HostReport

WELL = HostReport(
    "/home/alice/.mosaic-host", "/opt/python", (3, 12, 1), "", (3, 11, 2), 8, 16384, 10**11, (), (), 0.2, 0.4
)


def found(**changes: Any) -> dict[str, tuple[str, str]]:
    report = replace(WELL, **changes)
    return {one.what: (one.status, one.sentence) for one in findings(Host("node1", "alice@node1"), report)}


def test_a_host_that_is_well_has_nothing_to_mend() -> None:
    assert {status for status, _ in found().values()} == {"ok"}


@pytest.mark.parametrize(
    ("changes", "what", "status", "sentence"),
    [
        ({"clock_ahead": 7200.0}, "clock", "warn", "ahead of this one"),
        ({"clock_ahead": -7200.0}, "clock", "warn", "behind this one"),
        ({"problem": "it is Python 3.9.2; 3.11 is the oldest"}, "python", "fail", "mosaic hosts install node1"),
        ({"free_bytes": 10**8}, "disk", "warn", "only"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(changes: dict[str, Any], what: str, status: str, sentence: str) -> None:
    told = found(**changes)[what]
    assert told[0] == status and sentence in told[1]
