"""``mosaic export`` and ``mosaic import``: a run moves to another data root, whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.archive.arriving import UNPACKED
from gym_gui.services.archive.unpacking import opened
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.history import check_history
from gym_gui.tests.support.made_archives import FILES, made_archive, manifest_of
from gym_gui.tests.support.made_checkpoints import write_checkpoint
from mosaic_protocol import events as ev

Home = tuple[DaemonProcess, CommandLine]


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Home]]:
    """Where runs are made, and where they are brought."""
    daemons = [DaemonProcess(tmp_path_factory.mktemp(name) / "home") for name in ("here", "there")]
    try:
        for daemon in daemons:
            daemon.start()
        here, there = ((daemon, CommandLine(daemon.paths.root, daemon.env)) for daemon in daemons)
        yield here, there
        for daemon in daemons:
            registry = daemon.registry()
            try:
                check_history(registry, **daemon.has_cpus)
            finally:
                registry.close()
    finally:
        for daemon in daemons:
            daemon.clean_up()


@pytest.fixture(scope="module")
def here(homes: tuple[Home, Home]) -> Home:
    return homes[0]


@pytest.fixture
def there(homes: tuple[Home, Home]) -> Iterator[Home]:
    """With nothing in it, and nothing left unfinished in it."""
    daemon, mosaic = homes[1]
    yield daemon, mosaic
    for run in daemon.client.runs(include_deleted=True).runs:
        daemon.client.delete(run.run_id, purge=True)
    assert left_of_runs(daemon) == {}


@pytest.fixture(scope="module")
def run_id(here: Home) -> str:
    """A run with metrics, recorded steps, a checkpoint, a video, a W&B folder, logs, and things that do not travel."""
    daemon, _ = here
    run_id = daemon.submit(name="moved", total_timesteps=400, step_seconds=0, params={"record": 3, "say": "to stderr"})
    assert daemon.wait_over(run_id).outcome == "completed"
    directory = daemon.paths.run(run_id).directory
    write_checkpoint(daemon.paths.run(run_id).checkpoints, 400)
    (directory / "videos").mkdir()
    (directory / "videos" / "episode-1.mp4").write_bytes(os.urandom(300_000))
    wandb = directory / "wandb" / "offline-run-20261117_200000-abcdefgh"
    wandb.mkdir(parents=True)
    (wandb / "run-abcdefgh.wandb").write_bytes(b":W&B" * 100)
    (directory / "a-link").symlink_to("/etc/passwd")
    (directory / "another").symlink_to("a-link")
    steps = daemon.client.step_totals(run_id).steps
    wait_for("its chunks to be compacted", lambda: len(list(daemon.client.step_chunks(run_id))) * 512 < steps + 512)
    return run_id


def left_of_runs(daemon: DaemonProcess) -> dict[str, Any]:
    """Everything that runs have left in a data root."""
    paths = daemon.paths
    found: dict[str, Any] = {}
    for folder in (paths.runs, paths.configs, paths.arrivals):
        if folder.is_dir() and (names := sorted(path.name for path in folder.iterdir())):
            found[folder.name] = names
    if logs := [path.name for path in paths.logs.iterdir() if path.is_dir()]:
        found["logs"] = logs
    for database in (paths.telemetry_db, paths.steps_db):
        if database.exists():
            with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
                tables = ("run_keys", "cursors", "metric_lines", "records", "headline", "chunks", "episodes", "totals")
                for table in tables:
                    with suppress(sqlite3.OperationalError):  # the other database has it
                        if count := connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]:
                            found[f"{database.name} {table}"] = count
    return found


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if path.relative_to(folder).parts[0] not in ("outbox", "claims")
    }


def records(daemon: DaemonProcess, run_id: str) -> dict[str, list[bytes]]:
    return {
        kind: [bytes(line) for page in daemon.client.stream(kind, run_id) for line in page.records]
        for kind in ("metrics", "steps", "episodes")
    }


@pytest.mark.parametrize("suffix", [".tar.zst", ".tar.gz", ".tar"])
def test_a_run_arrives_as_it_was(here: Home, there: Home, run_id: str, tmp_path: Path, suffix: str) -> None:
    (source, mosaic), (target, elsewhere) = here, there
    out = tmp_path / f"moved{suffix}"
    answer = mosaic("export", "moved", str(out))
    assert answer.code == 0, answer.err
    assert "1 run, " in answer.out and str(out) in answer.out
    assert f"Note: {run_id}/a-link and 1 more are left out: they are links\n" in answer.out, "where it lies stays here"
    assert sorted(tmp_path.iterdir()) == [out], "no draft is left"

    answer = elsewhere("import", str(out))
    assert answer.code == 0, answer.err
    assert "1 of 1 run imported." in answer.out

    before, after = (m("show", run_id, "--json").json for m in (mosaic, elsewhere))
    differing = {key for key in before if before[key] != after[key]}
    assert differing == {"run_dir", "log_dir", "revision"} or differing == {"run_dir", "log_dir"}
    assert records(target, run_id) == records(source, run_id)
    assert len(records(source, run_id)["metrics"]) == 400 and records(source, run_id)["steps"]
    assert target.client.step_totals(run_id) == source.client.step_totals(run_id)
    assert list(target.client.steps(run_id, episode=1)) == list(source.client.steps(run_id, episode=1))
    assert content(target.paths.run(run_id).directory) == content(source.paths.run(run_id).directory)
    assert content(target.paths.run_logs(run_id)) == content(source.paths.run_logs(run_id))
    assert not (target.paths.run(run_id).directory / "a-link").is_symlink()
    assert elsewhere("logs", run_id).out == mosaic("logs", run_id).out
    (checkpoint,) = elsewhere("checkpoints", "list", run_id, "--verify", "--json").json["checkpoints"]
    assert checkpoint["step"] == 400 and checkpoint["run_name"] == "moved" and checkpoint["integrity"] == "ok"
    moves = [move.cause for move in target.client.history(run_id)]
    assert moves == [*(move.cause for move in source.client.history(run_id)), "Imported"]

    again = elsewhere("import", str(out), "--json").json
    assert [one["status"] for one in again["runs"]] == ["unchanged"]
    assert "Nothing is new." in elsewhere("import", str(out)).out
    assert not list(target.paths.arrivals.iterdir())

    assert elsewhere("delete", run_id, "--purge", "--yes").code == 0
    assert left_of_runs(target) == {}


def test_what_was_imported_can_be_exported_and_is_the_same(
    here: Home, there: Home, run_id: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.tar.zst", tmp_path / "second.tar.gz"
    assert here[1]("export", run_id, str(first)).code == 0
    assert there[1]("import", str(first)).code == 0
    assert there[1]("export", run_id, str(second)).code == 0
    listed = []
    for file in (first, second):
        with opened(file) as archive:
            listed.append({one.path: one.sha256 for one in archive.manifest.files if "history" not in one.path})
    assert listed[0] == listed[1]


def test_a_run_that_is_there_and_differs_is_refused_and_comes_in_as_a_copy(
    here: Home, there: Home, run_id: str, tmp_path: Path
) -> None:
    (_, mosaic), (target, elsewhere) = here, there
    out = tmp_path / "moved.tar.zst"
    assert mosaic("export", run_id, str(out)).code == 0
    assert elsewhere("import", str(out)).code == 0
    (target.paths.run(run_id).directory / "notes.txt").write_text("written there")
    answer = elsewhere("import", str(out))
    assert answer.code == 2 and "is here already and differs (files/notes.txt)" in answer.err

    copied = elsewhere("import", str(out), "--as-new", "--json").json["runs"][0]
    assert copied["status"] == "copy" and copied["was"] == run_id and copied["run_id"] != run_id
    assert copied["name"] != "moved" and elsewhere("show", copied["name"], "--json").json["run_id"] == copied["run_id"]
    assert records(target, copied["run_id"]) == records(target, run_id)
    (checkpoint,) = elsewhere("checkpoints", copied["run_id"], "--json").json["checkpoints"]
    assert checkpoint["run_name"] == copied["name"]

    assert elsewhere("delete", run_id, "--yes").code == 0
    answer = elsewhere("import", str(out))
    assert answer.code == 2 and "is in the trash here" in answer.err
    assert elsewhere("delete", run_id, "--purge", "--yes").code == 0
    assert records(target, copied["run_id"])["metrics"], "a purge takes nothing of another run"


def test_several_runs_travel_together_and_a_dry_run_brings_nothing(here: Home, there: Home, tmp_path: Path) -> None:
    (source, mosaic), (target, elsewhere) = here, there
    made = [source.submit(name=f"many-{number}", total_timesteps=5, step_seconds=0) for number in range(3)]
    for run_id in made:
        source.wait_over(run_id)
    out = tmp_path / "many.tar.zst"
    assert mosaic("export", "name~many", "many-1", str(out), "--json").json["runs"][2]["run_id"] in made
    planned = elsewhere("import", str(out), "--dry-run", "--json").json
    assert planned["dry_run"] and [one["status"] for one in planned["runs"]] == ["new"] * 3
    assert left_of_runs(target) == {}
    assert "3 of 3 runs imported." in elsewhere("import", str(out)).out
    assert [run.run_id for run in target.client.runs().runs] == list(reversed(made)), "newest first, as over there"


def test_an_import_that_is_killed_leaves_nothing_and_can_be_repeated(
    here: Home, there: Home, run_id: str, tmp_path: Path
) -> None:
    """Killed at whatever instant: the run is there whole or not at all."""
    (source, mosaic), (target, elsewhere) = here, there
    out = tmp_path / "moved.tar"
    assert mosaic("export", run_id, str(out)).code == 0
    expected = records(source, run_id)
    for delay in (0.0, 0.005, 0.02, 0.05):
        importing = threading.Thread(target=elsewhere, args=("import", str(out)))
        importing.start()
        _wait_for_arrival(target, importing)
        time.sleep(delay)  # not to wait for anything: the kill is to fall into different moments
        target.kill()
        target.start()
        importing.join(60)
        assert not importing.is_alive()
        answer = elsewhere("import", str(out), "--json")
        assert answer.code == 0, answer.err
        assert records(target, run_id) == expected
        assert content(target.paths.run(run_id).directory) == content(source.paths.run(run_id).directory)
        assert not list(target.paths.arrivals.iterdir())
        target.client.delete(run_id, purge=True)
        assert left_of_runs(target) == {}


def _wait_for_arrival(daemon: DaemonProcess, importing: threading.Thread) -> None:
    """Until the daemon has something to take, or has taken it."""

    def there() -> bool:
        folder = daemon.paths.arrivals
        return folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())

    wait_for("the run to arrive", lambda: there() or not importing.is_alive(), interval=0.001)


def test_the_next_daemon_undoes_what_was_half_imported(here: Home, there: Home, run_id: str, tmp_path: Path) -> None:
    """The latest moment: everything is in its place, and the registry does not know it yet."""
    (_, mosaic), (target, elsewhere) = here, there
    out = tmp_path / "moved.tar"
    assert mosaic("export", run_id, str(out)).code == 0
    assert elsewhere("import", str(out)).code == 0
    target.kill()
    registry = target.registry()
    registry.remove(run_id).result()
    registry.close()
    arrival = target.paths.arrivals / f"{run_id}.01K9ZQ3V7X0000000000CCCCCC"
    arrival.mkdir(parents=True)
    (arrival / "placing").touch()
    (target.paths.arrivals / f".{UNPACKED}.999999999-1.draft").mkdir()
    target.start()
    assert left_of_runs(target) == {}
    assert elsewhere("import", str(out), "--json").json["runs"][0]["status"] == "new"


def test_files_of_a_run_that_nobody_knows_are_not_touched(here: Home, there: Home, run_id: str, tmp_path: Path) -> None:
    (_, mosaic), (target, elsewhere) = here, there
    out = tmp_path / "moved.tar"
    assert mosaic("export", run_id, str(out)).code == 0
    directory = target.paths.run(run_id).directory
    directory.mkdir()
    (directory / "precious").write_text("all that is left")
    answer = elsewhere("import", str(out))
    assert answer.code == 2 and "is there already, of a run that is not known here" in answer.err
    assert (directory / "precious").read_text() == "all that is left"
    shutil.rmtree(directory)
    assert left_of_runs(target) == {}


def test_a_hostile_archive_leaves_nothing(there: Home, tmp_path: Path) -> None:
    target, elsewhere = there
    for files in ({}, {"01K9ZQ3V7X0000000000AAAAAA/files/../../x": b"x"}):
        file = made_archive(tmp_path / "hostile.tar.zst", {**FILES, **files})
        answer = elsewhere("import", str(file))
        assert answer.code == 2 and len(answer.err.splitlines()) == 1
        assert left_of_runs(target) == {}
    missing = elsewhere("import", str(tmp_path / "nowhere.tar.zst"))
    assert missing.code == 2 and missing.err.strip().endswith(f"there is no file {tmp_path / 'nowhere.tar.zst'}")


def _changed_run(**changes: Any) -> Any:
    return lambda document: json.dumps(json.loads(document) | changes).encode()


@pytest.mark.parametrize(
    ("name", "changed", "sentence"),
    [
        ("run.json", lambda _: b"{}", "the run in the archive cannot be read"),
        ("run.json", _changed_run(state="EXEC", outcome=None), "is not over"),
        ("run.json", _changed_run(worker_type="cleanrl"), "their workers or names differ"),
        ("run.json", _changed_run(name="\x1b[2J"), "their workers or names differ"),
        ("run.json", _changed_run(last_step=-1), "numbers that no run has"),
        ("run.json", _changed_run(total_steps=2**70), "numbers that no run has"),
        ("run.json", _changed_run(config_json="[]"), ""),
        ("history.json", lambda _: b"[]", "does not end where the run did"),
        ("telemetry.rows", lambda rows: rows + b'["metric",1]\n', "cannot be read"),
        ("telemetry.rows", lambda rows: rows + rows, "have the same place"),
        ("telemetry.rows", lambda rows: rows.replace(b'"kind":"metric"', b'"kind":"mystery"'), "cannot be read"),
        ("steps.rows", lambda rows: rows[: len(rows) // 2], "is not whole"),
        ("steps.rows", lambda rows: rows.replace(b'["totals",', b'["totals",-'), "fewer steps than none"),
        ("steps.rows", lambda rows: rows.replace(b'"crc":', b'"crc":1'), "damaged"),
    ],
)
def test_records_that_cannot_be_are_refused_whole(
    here: Home, there: Home, run_id: str, tmp_path: Path, name: str, changed: Any, sentence: str
) -> None:
    """Hashes are right: whoever wrote the archive wrote the manifest too."""
    (_, mosaic), (target, elsewhere) = here, there
    out, folder = tmp_path / "moved.tar", tmp_path / "unpacked"
    assert mosaic("export", run_id, str(out)).code == 0
    folder.mkdir()
    with opened(out) as archive:
        archive.unpack(folder, lambda _done, _total: None)
    files = content(folder)
    files[f"{run_id}/{name}"] = changed(files[f"{run_id}/{name}"])
    manifest = manifest_of(files, runs=[{"run_id": run_id, "name": "moved"}])
    answer = elsewhere("import", str(made_archive(tmp_path / "forged.tar.zst", files, manifest=manifest)))
    assert answer.code == 2 and sentence in answer.err, answer.err
    assert left_of_runs(target) == {}
    assert not target.client.runs(include_deleted=True).runs


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("last.tar.zst",), "name runs and then the file to write"),
        (("moved", "out.zip"), "FILE must end in .tar.zst, .tar.gz or .tar"),
        (("moved", "nowhere/out.tar.zst"), "there is no folder"),
        (("moved", "taken.tar.zst"), "--force to write over it"),
        (("nobody", "out.tar.zst"), "no run is called 'nobody'"),
        (("algo=nothing", "out.tar.zst"), "no run matches 'algo=nothing'"),
        (("algo==", "out.tar.zst"), "algo= needs a value"),
        (("going", "out.tar.zst"), "is not over"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(
    here: Home, run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], sentence: str
) -> None:
    daemon, mosaic = here
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.tar.zst").write_text("mine")
    going = daemon.submit(name="going", total_timesteps=10**6, step_seconds=0.01) if "going" in words else ""
    try:
        answer = mosaic("export", *words)
    finally:
        if going:
            daemon.client.cancel(going)
            daemon.wait_over(going)
            daemon.client.delete(going, purge=True)
    assert answer.code in (2, 3) and sentence in answer.err, answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["taken.tar.zst"]
    assert (tmp_path / "taken.tar.zst").read_text() == "mine"


def test_a_name_that_is_no_text_is_left_out_and_said(here: Home, tmp_path: Path) -> None:
    daemon, mosaic = here
    run_id = daemon.submit(name="odd", total_timesteps=2, step_seconds=0)
    daemon.wait_over(run_id)
    Path(os.fsdecode(os.fsencode(daemon.paths.run(run_id).directory) + b"/\xff\x1b[2J")).write_text("x")
    answer = mosaic("export", run_id, str(tmp_path / "odd.tar.zst"))
    assert answer.code == 0, answer.err
    assert "is left out: the name holds characters that a name should not" in answer.out and "\x1b" not in answer.out
    with opened(tmp_path / "odd.tar.zst") as archive:
        archive.unpack(tmp_path, lambda _done, _total: None)


def test_force_writes_over_a_file_and_what_killed_exports_left_goes(here: Home, run_id: str, tmp_path: Path) -> None:
    out = tmp_path / "taken.tar.zst"
    out.write_text("mine")
    (tmp_path / ".taken.tar.zst.999999999-1.draft").write_text("of an export that was killed")
    (tmp_path / ".taken.tar.zst.parts.999999999-1.draft").mkdir()
    assert here[1]("export", run_id, str(out), "--force", "--json").json["runs"][0]["run_id"] == run_id
    with opened(out) as archive:
        assert archive.manifest.runs[0].name == "moved"
    assert list(tmp_path.iterdir()) == [out]


def test_a_file_that_changes_while_it_is_packed_makes_no_archive(
    here: Home, run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gym_gui.services.archive import packing

    daemon, mosaic = here
    video = daemon.paths.run(run_id).directory / "videos" / "episode-1.mp4"
    found, before = packing.RunSurvey.look_at, video.stat()

    def touched(self: packing.RunSurvey, run: Any) -> packing.SurveyedRun:
        surveyed = found(self, run)
        os.utime(video)
        return surveyed

    monkeypatch.setattr(packing.RunSurvey, "look_at", touched)
    answer = mosaic("export", run_id, str(tmp_path / "out.tar.zst"))
    os.utime(video, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert answer.code == 2 and "changed while it was packed" in answer.err
    assert not list(tmp_path.iterdir())


def test_an_imported_log_travels_too(here: Home, there: Home, tmp_path: Path) -> None:
    from gym_gui.tests.support.made_logs import curve, written

    (source, mosaic), (target, elsewhere) = here, there
    written(tmp_path / "logs" / "tabs\tand\nlines", *curve("x", range(50)))
    (one,) = mosaic("import-logs", str(tmp_path / "logs"), "--json").json["runs"]
    out = tmp_path / "log.tar.gz"
    assert mosaic("export", one["run_id"], str(out)).code == 0
    assert elsewhere("import", str(out)).code == 0
    assert records(target, one["run_id"])["metrics"] == records(source, one["run_id"])["metrics"]
    assert isinstance(ev.decode(records(target, one["run_id"])["metrics"][-1]), ev.MetricRow)
