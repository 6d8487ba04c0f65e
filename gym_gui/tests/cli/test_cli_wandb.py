"""``mosaic wandb``: what was recorded, what cannot be uploaded and why, and whether W&B can be reached."""

from __future__ import annotations

import csv
import io
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess
from mosaic_protocol.tests.made_wandb_files import curve_records, history, log, tracked_run
from mosaic_protocol.tracking_record import FINISHED, TrackingRecord, write_record
from mosaic_worker.tests.tracking.wandb_server import wandb_server

SECRET = "5ecre7" * 7


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path_factory.mktemp("wandb") / "home")
    try:
        daemon.start()
        for name in ("tracked", "plain", "in-vain", "untouched"):
            daemon.wait_over(daemon.submit(name=name, total_timesteps=2, step_seconds=0))
        (Path(daemon.client.run("in-vain").run_dir) / "wandb").mkdir()
        tracked_run(Path(daemon.client.run("untouched").run_dir), curve_records(4))
        folder = Path(daemon.client.run("tracked").run_dir)
        records = curve_records(40)
        records.insert(-2, history(**{"\x1b[31mred": 1.0, "nan": float("nan")}))
        file = tracked_run(folder, records)
        write_record(
            folder, TrackingRecord("offline", files=file.parent.name, because="there is no key", state=FINISHED)
        )
        yield daemon
    finally:
        daemon.clean_up()


@pytest.fixture
def mosaic(daemon: DaemonProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.setitem(sys.modules, "keyring", None)
    command_line = CommandLine(daemon.paths.root, daemon.env)
    wandb = [name for name in command_line.environment if name.startswith("WANDB_")]
    for name in wandb:
        del command_line.environment[name]
    command_line.environment |= {
        "NETRC": str(tmp_path / "netrc"),
    }
    return command_line


def text_of(file: Path) -> str:
    return file.read_text(encoding="latin-1")


def test_a_recorded_run_is_shown_without_network(mosaic: CommandLine) -> None:
    told = mosaic("wandb", "show", "tracked").out
    assert "is tracked offline with W&B." in told and "not uploaded: there is no key" in told
    assert "charts/episodic_return" in told and "wandb sync " in told and "\x1b" not in told
    assert "recorded offline" in mosaic("show", "tracked").out


def test_numbers_are_there_for_programs(mosaic: CommandLine) -> None:
    found = mosaic("wandb", "show", "tracked", "--json").json
    assert (found["mode"], found["upload"], found["rows"], found["complete"]) == ("offline", "waits", 41, True)
    assert found["config"] == {"seed": 3, "learning_rate": 0.001} and found["summary"]["best"] == "yes"
    series = {one["tag"]: one for one in found["series"]}
    assert series["charts/episodic_return"]["values"] == [2.0 * n for n in range(40)]
    assert series["charts/episodic_return"]["steps"] == [10 * n for n in range(40)]
    assert series["nan"]["values"] == [None]
    rows = list(csv.DictReader(io.StringIO(mosaic("wandb", "show", "tracked", "--tag", "losses/value", "--csv").out)))
    assert len(rows) == 40 and rows[1] == {"tag": "losses/value", "step": "10", "value": "0.5", "wall_time": "0.0"}


def test_a_cut_file_gives_what_is_whole_and_says_so(mosaic: CommandLine, daemon: DaemonProcess) -> None:
    (file,) = Path(daemon.client.run("tracked").run_dir).glob("wandb/*/run-x.wandb")
    whole = file.read_bytes()
    try:
        file.write_bytes(log(curve_records(40))[:1500])
        found = mosaic("wandb", "show", "tracked", "--json").json
        assert not found["complete"] and 0 < found["rows"] < 40
        assert "ends in the middle of a record" in mosaic("wandb", "show", "tracked").out
    finally:
        file.write_bytes(whole)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("show", "nobody"), 3, "nobody"),
        (("show", "tracked", "--tag", "losses/valeu"), 2, "did you mean 'losses/value'?"),
        (("show", "tracked", "--json", "--csv"), 2, "choose one of --csv and --json"),
        (("sync", "plain"), 1, "W&B has recorded nothing of it"),
        (("sync", "tracked"), 1, "there is no key for W&B: set WANDB_API_KEY"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    mosaic: CommandLine, words: tuple[str, ...], code: int, sentence: str
) -> None:
    answer = mosaic("wandb", *words)
    assert answer.code == code and sentence in answer.err, answer.err


def test_a_run_that_was_not_tracked_says_how_to_track_one(mosaic: CommandLine) -> None:
    assert "-- --track` starts one that is tracked" in mosaic("wandb", "show", "plain").out
    assert mosaic("wandb", "show", "plain", "--json").json["mode"] is None


def test_a_run_whose_tracking_came_to_nothing_is_not_said_to_be_untracked(mosaic: CommandLine) -> None:
    told = mosaic("wandb", "show", "in-vain").out
    assert "W&B recorded nothing of" in told and "although it was to be tracked" in told and "logs" in told


def test_a_run_is_uploaded_by_wandb_itself_and_the_key_is_written_nowhere(
    mosaic: CommandLine, daemon: DaemonProcess, tmp_path: Path
) -> None:
    with wandb_server() as server:
        mosaic.environment |= {"WANDB_BASE_URL": server.address, "WANDB_API_KEY": SECRET, "HOME": str(tmp_path)}
        mosaic.environment["WANDB_MODE"] = "offline"  # which is for runs, and would keep wandb from uploading
        answer = mosaic("wandb", "sync", "tracked")
        url = f"{server.address}/team/walks/runs/x"
        assert answer.code == 0 and f"is uploaded: {url}" in answer.out and SECRET not in answer.out + answer.err
        rows = [row for row in server.rows() if "charts/episodic_return" in row]
        assert [row["charts/episodic_return"] for row in rows] == [2.0 * n for n in range(40)]
        assert not [file for file in daemon.paths.root.rglob("*") if file.is_file() and SECRET in text_of(file)]
        assert not [file for file in tmp_path.rglob("*") if file.is_file()], "neither a netrc nor a cache at home"
        assert url in mosaic("show", "tracked").out
        again = mosaic("wandb", "sync", "tracked", "--json")
        assert again.code == 0 and again.json["runs"][0]["upload"] == "done", "to repeat it does no harm"


def test_an_upload_without_network_is_refused_at_once_and_starts_no_wandb(mosaic: CommandLine, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}"
        mosaic.environment |= {"WANDB_BASE_URL": nowhere, "WANDB_API_KEY": SECRET, "HOME": str(tmp_path)}
        answer = mosaic("wandb", "sync", "untouched")
    assert answer.code == 1 and f"{nowhere} does not answer" in answer.err and "when there is a network" in answer.err
    assert "Syncing" not in answer.out and SECRET not in answer.err


def test_a_check_says_what_is_there_and_what_is_missing(mosaic: CommandLine) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        mosaic.environment["WANDB_BASE_URL"] = f"http://127.0.0.1:{closed.getsockname()[1]}"
        answer = mosaic("wandb", "check")
        assert answer.code == 1 and "none: set WANDB_API_KEY" in answer.out and "does not answer" in answer.out
    with wandb_server() as server:
        mosaic.environment |= {"WANDB_BASE_URL": server.address, "WANDB_API_KEY": SECRET}
        found = mosaic("wandb", "check", "--json")
    assert found.json["answers"] and found.json["key_source"] == "WANDB_API_KEY" and SECRET not in found.out
