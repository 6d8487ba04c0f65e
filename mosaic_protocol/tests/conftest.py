"""Shared fixtures of the protocol's tests."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def valid_config() -> dict[str, Any]:
    """A small valid run config that a test may change."""
    return {
        "run_name": "first try",
        "resources": {},
        "artifacts": {},
        "metadata": {
            "worker": {
                "type": "cleanrl",
                "module": "cleanrl_worker.cli",
                "config": {"algo": "ppo", "env_id": "CartPole-v1", "seed": 7, "total_timesteps": 50_000},
            }
        },
    }
