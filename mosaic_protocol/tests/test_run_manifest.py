"""``analytics.json``: what a run has produced and where, whole at every moment."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from mosaic_protocol import run_manifest
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.run_manifest import SCHEMA, read_manifest, refresh_manifest
from mosaic_protocol.states import Outcome
from mosaic_protocol.whole_files import draft_of


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path / "01K9ZQ3V7X0000000000000000")
    paths.directory.mkdir()
    return paths


def put(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_an_empty_run_directory_has_an_honest_manifest(run: RunPaths) -> None:
    manifest = refresh_manifest(run)
    assert manifest == read_manifest(run)
    assert (manifest["run_id"], manifest["schema"]) == (run.directory.name, SCHEMA)
    assert (manifest["tensorboard_dir"], manifest["wandb_run_id"], manifest["optuna_db_path"]) == (None, None, None)
    assert (manifest["checkpoints"], manifest["videos"]) == ([], [])
    assert datetime.fromisoformat(manifest["updated"]).tzinfo is not None


def test_what_lies_in_the_run_directory_is_found_with_relative_paths(run: RunPaths) -> None:
    put(run.tensorboard / "events.out.tfevents.1.host")
    put(run.checkpoints / "step-000000000200" / "model.safetensors")
    put(run.checkpoints / "step-000000000100" / "model.safetensors")
    put(run.checkpoints / "step-stray-file")
    put(run.checkpoints / ".draft-1" / "model.safetensors")
    put(run.directory / "wandb" / "offline-run-20260101_000000-abc123" / "run-abc123.wandb")
    put(run.directory / "videos" / "episode-1.mp4")
    put(run.directory / "optuna.db")
    manifest = refresh_manifest(run)
    assert manifest["tensorboard_dir"] == "tensorboard"
    assert manifest["checkpoints"] == ["checkpoints/step-000000000100", "checkpoints/step-000000000200"]
    assert manifest["wandb_run_id"] == "abc123"
    assert manifest["videos"] == ["videos/episode-1.mp4"]
    assert manifest["optuna_db_path"] == "optuna.db"
    assert str(run.directory.parent) not in run.manifest.read_text()


def test_earlier_facts_are_kept_and_newer_ones_win(run: RunPaths) -> None:
    refresh_manifest(run, algo="ppo", outcome=None)
    manifest = refresh_manifest(run, outcome=Outcome.FAILED, reason="it broke")
    assert (manifest["algo"], manifest["outcome"], manifest["reason"]) == ("ppo", "failed", "it broke")


def test_what_was_removed_from_disk_is_not_claimed_any_more(run: RunPaths) -> None:
    put(run.directory / "optuna.db")
    refresh_manifest(run)
    (run.directory / "optuna.db").unlink()
    assert refresh_manifest(run)["optuna_db_path"] is None


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"null", b"\xff\xfe\x00"])
def test_a_damaged_manifest_is_written_again(run: RunPaths, content: bytes) -> None:
    run.manifest.write_bytes(content)
    assert read_manifest(run) == {}
    assert refresh_manifest(run, algo="ppo")["algo"] == "ppo"


def test_no_manifest_reads_as_nothing(run: RunPaths) -> None:
    assert read_manifest(run) == {}


def test_a_refresh_that_fails_leaves_the_old_manifest_and_no_draft(run: RunPaths) -> None:
    refresh_manifest(run, algo="ppo")
    before = run.manifest.read_bytes()
    with pytest.raises(TypeError):
        refresh_manifest(run, strange=object())
    assert run.manifest.read_bytes() == before
    assert [entry.name for entry in run.directory.iterdir()] == ["analytics.json"]


def test_a_reader_never_sees_half_a_manifest(run: RunPaths) -> None:
    refresh_manifest(run, text="x" * 50_000)
    ended = threading.Event()
    torn: list[str] = []

    def look() -> None:
        while not ended.is_set():
            text = run.manifest.read_text()
            try:
                json.loads(text)
            except ValueError:
                torn.append(text)

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(50):
        refresh_manifest(run, number=number, text="x" * 50_000)
    ended.set()
    reader.join(30)
    assert torn == []


def _holes(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(10**13)


@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        lambda file: file.symlink_to("/dev/zero"),
        _holes,
        lambda file: file.write_text("[" * 1_000_000),
        lambda file: file.write_text('{"a":' * 900 + "1" + "}" * 900),
        lambda file: file.write_text("[1, 2]"),
    ],
    ids=["pipe", "device", "holes", "nested", "too nested to write", "list"],
)
def test_whatever_a_run_left_under_the_name_the_ending_is_written(
    run: RunPaths, make: Callable[[Path], object]
) -> None:
    make(run.manifest)
    os.mkfifo(draft_of(run.manifest))
    refresh_manifest(run, outcome=Outcome.FAILED)
    assert read_manifest(run)["outcome"] == "failed"
    assert not run.manifest.is_symlink()


def test_links_that_a_script_left_are_not_followed(run: RunPaths, tmp_path: Path) -> None:
    """One to the root of the disk had the daemon look at all of it when the run ended."""
    elsewhere = tmp_path / "elsewhere"
    for name in ("events.out.tfevents.1", "step-1/policy", "a.mp4", "run-1-abc/file"):
        put(elsewhere / name)
    for name in ("tensorboard", "checkpoints", "videos", "wandb"):
        (run.directory / name).symlink_to(elsewhere)
    empty = refresh_manifest(run)
    assert (empty["tensorboard_dir"], empty["wandb_run_id"]) == (None, None)
    assert (empty["checkpoints"], empty["videos"]) == ([], [])
    run.tensorboard.unlink()
    run.tensorboard.mkdir()
    (run.tensorboard / "more").symlink_to(elsewhere)
    assert refresh_manifest(run)["tensorboard_dir"] is None
    put(run.tensorboard / "seed-1" / "events.out.tfevents.1")
    assert refresh_manifest(run)["tensorboard_dir"] == "tensorboard"


def test_a_folder_full_of_files_is_looked_at_within_bounds(run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_manifest, "_MOST_ENTRIES", 20)
    for number in range(50):
        put(run.tensorboard / f"{number}" / "other")
        put(run.directory / "videos" / f"{number}.mp4")
    monkeypatch.setattr(os, "scandir", counted := CountedScandir(os.scandir))
    found = refresh_manifest(run)
    assert found["tensorboard_dir"] is None
    assert len(found["videos"]) == 20
    assert counted.calls < 30


class CountedScandir:
    def __init__(self, scandir: Callable[..., object]) -> None:
        self._scandir, self.calls = scandir, 0

    def __call__(self, *arguments: object) -> object:
        self.calls += 1
        return self._scandir(*arguments)
