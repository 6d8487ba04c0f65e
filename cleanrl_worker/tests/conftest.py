"""What scripts set for their whole process must not outlive the test that ran them in this one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _same_arithmetic_afterwards() -> Iterator[None]:
    """Scripts flush denormal numbers to zero, which is fast; later tests in this process need them."""
    yield
    torch.set_flush_denormal(False)
