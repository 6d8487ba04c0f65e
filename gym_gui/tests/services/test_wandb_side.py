"""How a run stands with W&B, from files made by hand: mode, upload, link, curves, and what tracking costs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gym_gui.services.wandb import watcher as watcher_module
from gym_gui.services.wandb.preparation import UploadRefusedError, prepare_upload, run_environ
from gym_gui.services.wandb.run_side import (
    UploadState,
    note_upload,
    plain_address,
    side_of,
    sync_command,
    upload_sentence,
)
from gym_gui.services.wandb.slowdown import slowdown_hints
from gym_gui.services.wandb.watcher import WandbWatcher, reading_notes
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.tests.made_wandb_files import curve_records, ended, history, log, stats, tracked_run
from mosaic_protocol.tracking_record import FINISHED, TrackingRecord, write_record
from mosaic_protocol.wandb_records import Media, TrackedRun

OFFLINE, ONLINE = "offline-run-20260101_000000-x", "run-20260101_000000-x"


def test_a_run_without_files_is_not_tracked(tmp_path: Path) -> None:
    side = side_of(tmp_path, is_over=True)
    assert (side.mode, side.upload, side.url, sync_command(side)) == ("", UploadState.NOTHING, "", "")


def test_an_offline_run_waits_until_sync_has_marked_it(tmp_path: Path) -> None:
    file = tracked_run(tmp_path / "a run", curve_records(), OFFLINE)
    write_record(
        tmp_path / "a run", TrackingRecord("offline", files=OFFLINE, because="there is no key", state=FINISHED)
    )
    side = side_of(tmp_path / "a run", is_over=True)
    assert (side.mode, side.upload, side.last_sync) == ("offline", UploadState.WAITS, None)
    assert sync_command(side) == f"wandb sync '{file.parent}'"
    assert upload_sentence(side) == "Recorded on this machine, not uploaded: there is no key."
    file.with_name(f"{file.name}.synced").touch()
    note_upload(tmp_path / "a run", "https://wandb.ai/team/walks/runs/x")
    side = side_of(tmp_path / "a run", is_over=True)
    assert side.upload is UploadState.DONE and side.last_sync is not None and sync_command(side) == ""
    assert side.url == "https://wandb.ai/team/walks/runs/x"


@pytest.mark.parametrize(
    ("state", "is_over", "upload", "words"),
    [
        ("recording", False, UploadState.RUNNING, "wandb sync --include-online"),
        ("recording", True, UploadState.PARTLY, "wandb sync --include-online"),
        (FINISHED, True, UploadState.DONE, ""),
    ],
)
def test_an_online_run_is_uploaded_when_its_tracker_said_so(
    tmp_path: Path, state: str, is_over: bool, upload: UploadState, words: str
) -> None:
    tracked_run(tmp_path, curve_records(), ONLINE)
    write_record(tmp_path, TrackingRecord("online", url="https://wandb.ai/t/p/runs/x", files=ONLINE, state=state))
    side = side_of(tmp_path, is_over=is_over)
    assert (side.mode, side.upload, side.url) == ("online", upload, "https://wandb.ai/t/p/runs/x")
    assert sync_command(side).startswith(words) and bool(words) == bool(sync_command(side))


def test_an_attempt_to_go_online_is_not_uploaded_beside_the_recording(tmp_path: Path) -> None:
    tracked_run(tmp_path, [], "run-20260101_000000-x")
    file = tracked_run(tmp_path, curve_records(), "offline-run-20260101_000009-x")
    write_record(tmp_path, TrackingRecord("offline", files=file.parent.name, state=FINISHED))
    side = side_of(tmp_path, is_over=True)
    assert [one.file for one in side.to_upload] == [file] and "--include-online" not in sync_command(side)


def test_a_foreign_scripts_online_run_is_said_to_have_been_sent(tmp_path: Path) -> None:
    tracked_run(tmp_path, curve_records(), ONLINE)
    side = side_of(tmp_path, is_over=True)
    assert (side.mode, side.upload) == ("online", UploadState.SENT)


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://user:pw@wandb.ai/x",
        "https://wandb.ai/\x1b[31m",
        "https://wandb.ai/a b",
        "https://wandb.ai/" + "x" * 600,
    ],
)
def test_an_address_that_is_no_plain_one_is_not_shown(tmp_path: Path, address: str) -> None:
    assert plain_address(address) == ""
    tracked_run(tmp_path, [], ONLINE)
    write_record(tmp_path, TrackingRecord("online", url=address))
    (tmp_path / "wandb" / "upload.json").write_text(json.dumps({"url": address}))
    assert side_of(tmp_path, is_over=True).url == ""


# ---- the watcher -------------------------------------------------------------------------------------------------


def test_a_watcher_notices_a_folder_and_gives_each_point_once(tmp_path: Path) -> None:
    watcher = WandbWatcher(tmp_path)
    assert not watcher.look(is_over=False).side.is_tracked
    content = log(curve_records(20))
    file = tracked_run(tmp_path, [])
    file.write_bytes(content[: len(content) // 2])
    first = watcher.look(is_over=False)
    file.write_bytes(content)
    second, third = watcher.look(is_over=False), watcher.look(is_over=True)
    tag = "charts/episodic_return"
    assert [*first.columns[tag].values, *second.columns[tag].values] == [2.0 * n for n in range(20)]
    assert [*first.columns[tag].steps, *second.columns[tag].steps] == [10.0 * n for n in range(20)]
    assert sorted(second.columns) == [tag, "losses/value"], "neither steps nor W&B's own columns are curves"
    assert third.columns == {} and third.rows == 20 and third.tracked.exit_code == 0
    assert third.tracked.config == {"seed": 3, "learning_rate": 0.001} and third.tracked.summary["best"] == "yes"


def test_system_metrics_stand_at_the_step_that_the_script_had_reached(tmp_path: Path) -> None:
    tracked_run(tmp_path, [history(a=1, global_step=100), stats(5, cpu=7.5), history(a=2, global_step=200)])
    columns = WandbWatcher(tmp_path).look(is_over=True).columns
    assert list(columns["system/cpu"].steps) == [100] and list(columns["system/cpu"].wall_times) == [5]


def test_the_files_of_a_resumed_run_are_one_curve(tmp_path: Path) -> None:
    tracked_run(tmp_path, [history(a=1, global_step=1)], "offline-run-20260101_000000-x")
    tracked_run(tmp_path, [history(a=2, global_step=2), ended(3)], "offline-run-20260102_000000-x")
    news = WandbWatcher(tmp_path).look(is_over=True)
    assert list(news.columns["a"].values) == [1, 2] and news.tracked.exit_code == 3


def test_a_cut_file_gives_what_is_whole_and_says_so(tmp_path: Path) -> None:
    file = tracked_run(tmp_path, [])
    file.write_bytes(log(curve_records(20))[:1000])
    news = WandbWatcher(tmp_path).look(is_over=True)
    assert 0 < news.rows < 20 and "what is whole is shown" in reading_notes(news)[0]


def test_what_is_no_file_of_wandb_is_a_sentence(tmp_path: Path) -> None:
    tracked_run(tmp_path, []).write_text("something else")
    (note,) = reading_notes(WandbWatcher(tmp_path).look(is_over=True))
    assert "is not a W&B run" in note


def test_curves_are_bounded_whatever_a_script_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher_module, "MOST_TAGS", 3)
    monkeypatch.setattr(watcher_module, "MOST_POINTS", 4)
    tracked_run(tmp_path, [history(**{f"t{n}": n for n in range(5)}), history(t0=1), history(t0=2)])
    news = WandbWatcher(tmp_path).look(is_over=True)
    assert sorted(news.columns) == ["t0", "t1", "t2"] and news.left_out == 3
    assert "3 points and entries are left out" in reading_notes(news)[0]


# ---- cost and upload ---------------------------------------------------------------------------------------------


def test_a_hint_says_what_was_measured_and_nothing_else(tmp_path: Path) -> None:
    file = tracked_run(tmp_path, [])
    side = side_of(tmp_path, is_over=True)
    assert slowdown_hints(side, TrackedRun()) == []
    write_record(tmp_path, TrackingRecord("online", seconds=10, cpu_seconds=9))
    assert slowdown_hints(side_of(tmp_path, is_over=True), TrackedRun()) == [], "too short to say anything"
    write_record(tmp_path, TrackingRecord("online", rows=5000, dropped_rows=7, seconds=100, cpu_seconds=40))
    cpu, rows = slowdown_hints(side_of(tmp_path, is_over=True), TrackedRun())
    assert "40% of a CPU, 50 rows a second" in cpu and "7 rows were left out" in rows
    videos = file.parent / "files"
    videos.mkdir()
    with (videos / "a.mp4").open("wb") as film:
        film.truncate(60_000_000)
    told = TrackedRun(media=[Media("film", "video-file", 1, ("a.mp4", "../../secret", "gone.mp4"))])
    assert "Videos for W&B: 1, 60 MB together" in slowdown_hints(side, told)[0]


def run_of(folder: Path, state: str = "TERM") -> pb.Run:
    return pb.Run(run_id="01K9ZQ3V7X0000000000000000", state=state, run_dir=str(folder), config_json="{}")


@pytest.mark.parametrize(
    ("tracked", "state", "sentence"),
    [
        (False, "TERM", "W&B has recorded nothing of it"),
        (True, "EXEC", "it is not over"),
        (True, "TERM", "there is no key for W&B: set WANDB_API_KEY"),
    ],
)
def test_an_upload_that_cannot_begin_says_why(
    tmp_path: Path, tracked: bool, state: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    if tracked:
        tracked_run(tmp_path / "run", curve_records())
    with pytest.raises(UploadRefusedError, match=sentence):
        prepare_upload(run_of(tmp_path / "run", state), MosaicPaths(tmp_path), {"HOME": str(tmp_path)})


def test_an_upload_takes_the_proxy_that_the_run_took_and_does_not_go_around_it(tmp_path: Path) -> None:
    extras = {"wandb_use_vpn_proxy": True, "wandb_https_proxy": "http://vpn:1"}
    config = json.dumps({"metadata": {"worker": {"config": {"extras": extras}}}})
    environ = {"HOME": str(tmp_path), "WANDB_API_KEY": "k" * 40, "MOSAIC_HOME": str(tmp_path / "var")}
    assert run_environ(config, environ)["WANDB_VPN_HTTPS_PROXY"] == "http://vpn:1"
    assert run_environ("no json", environ) == environ
    tracked_run(tmp_path / "run", curve_records())
    run = run_of(tmp_path / "run")
    run.config_json = config
    prepared = prepare_upload(run, MosaicPaths(tmp_path), environ)
    assert prepared.route.environment()["HTTPS_PROXY"] == "http://vpn:1"
