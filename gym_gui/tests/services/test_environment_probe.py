"""What the probe knows by heart, because it runs without MOSAIC's packages."""

from __future__ import annotations

from gym_gui.services import environment_probe
from mosaic_worker.compiled.names import DISCRETE


def test_the_environments_offered_as_compiled_are_those_that_exist_in_jax() -> None:
    assert list(environment_probe._COMPILED) == list(DISCRETE)
