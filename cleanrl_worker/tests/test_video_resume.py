"""Recording changes no run, and a recorded run is resumed to the bit, with the camera on or off on either side."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cleanrl_worker.cleanrl import ppo
from mosaic_worker.tests import script_tools

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


def final_bits(directory: Path, monkeypatch: pytest.MonkeyPatch, *flags: str) -> list[tuple[str, bytes]]:
    """All that the run ended with: networks, optimiser, environments, whose layers are counted differently."""
    assert script_tools.run_main(ppo, monkeypatch, directory, *SETTINGS, *flags) == 0
    tensors = script_tools.newest_tensors(directory)
    return sorted(
        (re.sub(r"^envs\.(\d+)\.\d+", r"envs.\1", name), one.numpy().tobytes()) for name, one in tensors.items()
    )


def test_recording_does_not_change_the_training_by_a_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = final_bits(tmp_path / "plain", monkeypatch)
    assert final_bits(tmp_path / "filmed", monkeypatch, "--capture-video") == plain
    assert len(list(script_tools.only_run(tmp_path / "filmed").glob("videos/episode-*.mp4"))) >= 3
