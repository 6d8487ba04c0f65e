"""A recorded run is resumed to the bit, with the camera on or off on either side of the stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleanrl_worker.cleanrl import ppo
from cleanrl_worker.tests import script_tools

SETTINGS = ("--total-timesteps", "3000", "--num-envs", "2", "--num-steps", "64", "--seed", "5")
ON, OFF = "--capture-video", "--no-capture-video"


@pytest.mark.parametrize(("before", "after"), [(ON, ON), (ON, OFF), (OFF, ON)])
def test_a_recorded_run_goes_on_as_if_it_had_never_stopped(
    before: str, after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert script_tools.run_main(ppo, monkeypatch, tmp_path / "whole", *SETTINGS) == 0
    stopped = script_tools.run_until(1536, ppo, monkeypatch, tmp_path / "half", *SETTINGS, before)
    assert script_tools.run_main(ppo, monkeypatch, tmp_path / "rest", "--resume", str(stopped), after) == 0
    whole, rest = (script_tools.newest_tensors(tmp_path / name) for name in ("whole", "rest"))
    assert script_tools.differing(whole, rest) == []
