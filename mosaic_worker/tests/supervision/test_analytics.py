"""``analytics.json`` is there from the start, says what the run has produced, and never costs the run anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mosaic_protocol.paths import RunPaths
from mosaic_protocol.run_manifest import read_manifest, refresh_manifest
from mosaic_worker.supervision import analytics
from mosaic_worker.supervision.analytics import AnalyticsManifest


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    run = RunPaths(tmp_path / "01RUN")
    run.directory.mkdir()
    return run


@pytest.fixture
def manifest(run: RunPaths) -> AnalyticsManifest:
    return AnalyticsManifest(run, {"worker": "mine", "algo": "ppo", "env_id": "CartPole-v1", "seed": 3})


def test_the_manifest_says_what_runs_before_anything_was_produced(run: RunPaths, manifest: AnalyticsManifest) -> None:
    manifest.refresh()
    told = read_manifest(run)
    expected: dict[str, Any] = {
        "run_id": "01RUN",
        "worker": "mine",
        "algo": "ppo",
        "env_id": "CartPole-v1",
        "seed": 3,
        "tensorboard_dir": None,
        "checkpoints": [],
    }
    assert expected.items() <= told.items()


def test_the_manifest_finds_what_the_script_left(run: RunPaths, manifest: AnalyticsManifest) -> None:
    run.tensorboard.mkdir()
    (run.tensorboard / "events.out.tfevents.1").touch()
    for name in ("step-000000000002", "step-000000000010", ".step-000000000011.unfinished-ab"):
        (run.checkpoints / name).mkdir(parents=True)
    manifest.refresh()
    told = read_manifest(run)
    assert told["tensorboard_dir"] == "tensorboard"
    assert told["checkpoints"] == ["checkpoints/step-000000000002", "checkpoints/step-000000000010"]


def test_earlier_facts_are_kept(run: RunPaths, manifest: AnalyticsManifest) -> None:
    refresh_manifest(run, requirements={"bundle": "mine"})
    manifest.refresh(script_status=-9)
    manifest.refresh(ending="run_failed")
    told = read_manifest(run)
    assert (told["requirements"], told["script_status"], told["ending"]) == (
        {"bundle": "mine"},
        -9,
        "run_failed",
    )


def test_between_checkpoints_the_manifest_is_refreshed_only_now_and_then(
    run: RunPaths, manifest: AnalyticsManifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest.refresh_if_due()
    run.manifest.unlink()
    manifest.refresh_if_due()
    assert not run.manifest.exists()
    monkeypatch.setattr(analytics, "REFRESH_SECONDS", 0.0)
    manifest.refresh()
    run.manifest.unlink()
    manifest.refresh_if_due()
    assert run.manifest.exists()


def test_a_disk_that_refuses_costs_freshness_and_not_the_run(
    run: RunPaths, manifest: AnalyticsManifest, capsys: pytest.CaptureFixture[str]
) -> None:
    run.directory.rmdir()
    manifest.refresh()
    assert "analytics.json could not be written" in capsys.readouterr().out
    run.directory.mkdir()
    manifest.refresh()
    assert read_manifest(run)["algo"] == "ppo"
