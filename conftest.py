"""For every test: what one sets for its whole process does not reach the next."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import hypothesis
import pytest

pytest_plugins = [
    "gym_gui.tests.support.failures_at_once",
    "gym_gui.tests.support.nothing_left_running",
    "gym_gui.tests.support.slow_tests",
    "gym_gui.tests.support.warm_python",
    "gym_gui.tests.support.longest_files_first",  # uses the one before
]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the tests in its background has them, and all they start, ignore Ctrl-C, which some test.
    signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile(
    "mosaic",
    database=None,  # a test leaves no file behind
    deadline=None,  # the machine may be busy
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("mosaic")


@pytest.fixture(autouse=True)
def _same_arithmetic_afterwards() -> Iterator[None]:
    """Scripts flush denormal numbers to zero, which is fast; later tests in this process need them."""
    yield
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_flush_denormal(False)
