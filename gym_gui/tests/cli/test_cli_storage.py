"""``mosaic storage``: shows, plans and applies; a run leaves only once its archive is whole, also after a kill."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from gym_gui.services.archive.unpacking import opened
from gym_gui.services.storage.applying import one_at_a_time
from gym_gui.services.trainer.runs.storage_chore import StorageChore, _ended
from gym_gui.tests.support.command_line import PROJECT, CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, toy_config
from gym_gui.tests.support.history import check_history
from gym_gui.tests.support.made_checkpoints import write_checkpoint
from mosaic_protocol.checkpoint_manifest import list_checkpoints
from mosaic_protocol.proto import trainer_pb2 as pb

VIDEO_BYTES = 300_000
Finish = Callable[..., str]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    made = DaemonProcess(tmp_path_factory.mktemp("storage") / "home")
    try:
        yield made.start()
        registry = made.registry()
        try:
            check_history(registry, **made.has_cpus)
        finally:
            registry.close()
    finally:
        made.clean_up()


@pytest.fixture
def mosaic(daemon: DaemonProcess) -> Iterator[CommandLine]:
    """With no run, no profile and no archive left of the test before."""
    daemon.paths.storage_profiles.unlink(missing_ok=True)
    shutil.rmtree(daemon.paths.root / "archives", ignore_errors=True)
    yield CommandLine(daemon.paths.root, daemon.env)
    for run in daemon.client.runs(include_deleted=True).runs:
        daemon.client.delete(run.run_id, purge=True)


@pytest.fixture
def finished(daemon: DaemonProcess, mosaic: CommandLine) -> Finish:
    """Makes a run that is over, with something of every kind."""

    def finish(name: str = "old", tags: Sequence[str] = ()) -> str:
        config = toy_config(name=name, total_timesteps=60, step_seconds=0, params={"record": 3})
        config["metadata"]["tags"] = list(tags)
        run_id = daemon.client.submit(config).run.run_id
        assert daemon.wait_over(run_id).outcome == "completed"
        its = daemon.paths.run(run_id)
        its.videos.mkdir()
        (its.videos / "episode-1.mp4").write_bytes(os.urandom(VIDEO_BYTES))
        for step, episodes, mean in ((10, 50, 900.0), (20, 50, 1.0), (30, 50, 2.0)):
            write_checkpoint(its.checkpoints, step, metrics={"episodes": episodes, "mean_return": mean})
        return run_id

    return finish


def use(daemon: DaemonProcess, **profile: Any) -> None:
    document = {"use": "mine", "profiles": {"mine": profile}}
    daemon.paths.storage_profiles.write_text(json.dumps(document))  # JSON is YAML


def archived_runs(daemon: DaemonProcess) -> list[str]:
    """Ids of the runs in archives, each of which is checked to its last byte; and no draft is left beside them."""
    folder, found = daemon.paths.root / "archives", []
    for file in sorted(folder.iterdir()) if folder.exists() else []:
        with opened(file) as archive:
            archive.check(lambda done, total: None)
            found += [run.run_id for run in archive.manifest.runs]
    return found


def test_it_is_shown_what_takes_how_much(daemon: DaemonProcess, mosaic: CommandLine, finished: Finish) -> None:
    large, small = finished("large"), finished("small")
    (daemon.paths.run(large).videos / "more.mp4").write_bytes(os.urandom(VIDEO_BYTES))
    daemon.client.delete(small)
    told = mosaic("storage", "show", "--json").json
    by_id = {run["run_id"]: run for run in told["runs"]}
    assert 2 * VIDEO_BYTES <= by_id[large]["parts"]["videos"] < 2 * VIDEO_BYTES + 10_000
    assert by_id[large]["parts"]["steps"] > 0 and by_id[large]["parts"]["metrics"] > 0
    assert by_id[small]["deleted"] and told["trash_bytes"] == by_id[small]["bytes"]
    assert told["parts"]["videos"] == sum(run["parts"]["videos"] for run in told["runs"])
    assert told["disk"]["free"] > 0 and told["beside"]
    shown = mosaic("storage", "show", "--runs", "1").out
    assert "2 runs take" in shown and "and 1 more" in shown
    assert shown.index("large") and "small" not in shown


def test_a_plan_changes_nothing_and_parts_go_without_their_run(
    daemon: DaemonProcess, mosaic: CommandLine, finished: Finish
) -> None:
    run_id = finished()
    its = daemon.paths.run(run_id)
    use(daemon, rules=[{"runs": "", "keep_days": dict.fromkeys(["steps", "logs", "checkpoints", "videos"], 0)}])
    planned = mosaic("storage", "plan", "--json").json["actions"]
    assert {part for action in planned for part in action["parts"]} == {"steps", "logs", "videos"}
    assert [action["checkpoints"] for action in planned if action["checkpoints"]] == [["step-000000000020"]]
    assert (its.videos / "episode-1.mp4").exists()

    refused = mosaic("storage", "apply")
    assert refused.code and "add --yes" in refused.err and (its.videos / "episode-1.mp4").exists()

    answer = mosaic("storage", "apply", "--yes")
    assert answer.code == 0, answer.err
    assert "4 of 4 actions done" in answer.out
    assert [path.name[-2:] for path in list_checkpoints(its.checkpoints)] == ["10", "30"], "the best and the newest"
    assert sorted(its.checkpoints.iterdir()) == list_checkpoints(its.checkpoints), "nothing hidden is left"
    assert not its.videos.exists() and not daemon.paths.run_logs(run_id).exists()
    assert mosaic("logs", run_id).code == 0
    totals = daemon.client.step_totals(run_id)
    assert totals.steps == 180 and totals.trimmed < totals.steps
    assert json.loads(its.manifest.read_text())["videos"] == []
    assert "Made smaller" in mosaic("show", run_id, "--history").out


def test_the_daemon_refuses_what_has_to_stay(daemon: DaemonProcess, finished: Finish) -> None:
    run_id = finished()
    for part, checkpoint, said in (
        ("vidoes", "", "did you mean 'videos'"),
        ("logs", "step-000000000030", "newest or the best"),
        ("logs", "step-000000000010", "newest or the best"),
    ):
        with pytest.raises(Exception, match=said):
            daemon.client.remove_parts(run_id, [part], [checkpoint] if checkpoint else [])
    assert daemon.paths.run_logs(run_id).exists(), "refused whole"
    waiting = daemon.submit(
        name="child",
        total_timesteps=10**6,
        step_seconds=0.01,
        params={"seat": str(daemon.paths.run(run_id).checkpoints / "step-000000000020")},
    )
    with pytest.raises(Exception, match="not over begins from step-000000000020"):
        daemon.client.remove_parts(run_id, [], ["step-000000000020"])
    with pytest.raises(Exception, match="not over"):
        daemon.client.remove_parts(waiting, ["logs"])
    daemon.client.cancel(waiting)
    daemon.wait_over(waiting)
    with pytest.raises(Exception, match="not in the trash"):
        daemon.client.delete(run_id, purge=True, only_from_trash=True)
    assert not daemon.client.run(run_id).deleted


def test_an_archived_run_can_be_restored_and_after_a_purge_imported(
    daemon: DaemonProcess, mosaic: CommandLine, finished: Finish
) -> None:
    run_id, kept = finished("old run/1"), finished("kept", tags=["keep"])
    before = mosaic("show", run_id, "--json").json
    use(daemon, rules=[{"runs": "", "archive_after_days": 0}])
    answer = mosaic("storage", "apply", "--yes")
    assert answer.code == 0, answer.err
    assert "checked" in answer.out and "when the trash is emptied" in answer.out
    assert archived_runs(daemon) == [run_id]
    assert daemon.client.run(run_id).deleted and not daemon.client.run(kept).deleted
    assert "1 run: it has the tag keep" in mosaic("storage", "plan").out

    daemon.client.restore(run_id)
    use(daemon, rules=[{"runs": "", "archive_after_days": 0}], after_archive="purge", compression="gz")
    assert mosaic("storage", "apply", "--yes").code == 0
    assert [run.run_id for run in daemon.client.runs(include_deleted=True).runs] == [kept]
    (archive,) = (daemon.paths.root / "archives").glob("old-run-1-*.tar.gz")
    assert mosaic("import", str(archive)).code == 0
    after = mosaic("show", run_id, "--json").json
    assert {key for key in before if before[key] != after[key]} == set()


KILLED = """
import os, signal, sys
from gym_gui.cli.main import main
from gym_gui.cli import session
from gym_gui.services.trainer.client import TrainerClient

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def progress(self, what, done, total):
    if what.startswith(sys.argv[1]):
        die()

session.PassingProgress.__call__ = progress
if sys.argv[1] == "delete":
    TrainerClient.delete = die
elif sys.argv[1] == "deleted":
    delete = TrainerClient.delete
    TrainerClient.delete = lambda *words, **named: die(delete(*words, **named))
main(["storage", "apply", "--yes"])
"""


_NIGHTLY = pytest.mark.nightly


@pytest.mark.parametrize(
    "instant",
    [
        pytest.param("hashing", marks=_NIGHTLY),
        "writing",
        pytest.param("checking", marks=_NIGHTLY),
        "delete",
        pytest.param("deleted", marks=_NIGHTLY),
    ],
)
def test_whoever_is_killed_in_the_middle_leaves_the_run_or_a_whole_archive(
    daemon: DaemonProcess, mosaic: CommandLine, finished: Finish, instant: str
) -> None:
    run_id = finished()
    use(daemon, rules=[{"runs": "", "archive_after_days": 0}], after_archive="purge")
    command = [sys.executable, "-c", KILLED, instant]
    ended = subprocess.run(command, cwd=PROJECT, env=mosaic.environment, capture_output=True, text=True, check=False)
    assert ended.returncode == -9, ended.stderr
    there = [run.run_id for run in daemon.client.runs(include_deleted=True).runs]
    assert there == ([] if instant == "deleted" else [run_id])
    whole = list((daemon.paths.root / "archives").glob("old-*"))
    assert len(whole) == (instant in ("checking", "delete", "deleted"))

    assert mosaic("storage", "apply", "--yes").code == 0
    assert archived_runs(daemon) == [run_id], "and no draft is left"
    assert daemon.client.runs(include_deleted=True).total == 0


def test_a_run_that_somebody_writes_to_stays(
    daemon: DaemonProcess, mosaic: CommandLine, finished: Finish, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gym_gui.services.archive.packing import pack
    from gym_gui.services.storage import applying

    run_id = finished()

    def packed_meanwhile(*words: Any) -> Any:
        found = pack(*words)
        (daemon.paths.run(run_id).directory / "evaluation.json").write_text("{}")
        return found

    monkeypatch.setattr(applying, "pack", packed_meanwhile)
    use(daemon, rules=[{"runs": "", "archive_after_days": 0}], after_archive="purge")
    answer = mosaic("storage", "apply", "--yes")
    assert answer.code == 1
    assert "files/evaluation.json changed while it was archived" in answer.err
    assert not daemon.client.run(run_id).deleted


def test_an_archive_that_does_not_fit_is_not_begun(
    daemon: DaemonProcess, mosaic: CommandLine, finished: Finish, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gym_gui.services.storage import applying
    from mosaic_host.capacity import DiskRoom

    run_id = finished()
    monkeypatch.setattr(applying, "disk_room", lambda path: DiskRoom(path, 10**12, 1000))
    use(daemon, rules=[{"runs": "", "archive_after_days": 0}])
    answer = mosaic("storage", "apply", "--yes", "--json")
    assert answer.code == 1
    assert "may not fit" in answer.json["done"][0]["problem"]
    assert not daemon.client.run(run_id).deleted and archived_runs(daemon) == []

    monkeypatch.undo()
    use(daemon, rules=[{"runs": "", "archive_after_days": 0}], archives=f"trainer/runs/{run_id}/x")
    assert "name another folder" in mosaic("storage", "apply", "--yes").err
    assert not (daemon.paths.run(run_id).directory / "x").exists()


def test_only_one_applies_at_a_time_and_nothing_happens_by_itself_unless_the_profile_says_so(
    daemon: DaemonProcess, mosaic: CommandLine, finished: Finish
) -> None:
    run_id = finished()
    use(daemon, rules=[{"runs": "", "trash_after_days": 0}])
    with one_at_a_time(daemon.paths):
        answer = mosaic("storage", "apply", "--yes")
    assert answer.code and "being applied already" in answer.err
    asyncio.run(StorageChore(daemon.paths).apply())
    assert not daemon.client.run(run_id).deleted
    use(daemon, rules=[{"runs": "", "trash_after_days": 0}], automatic=True)
    chore = StorageChore(daemon.paths)
    assert chore.is_due()
    asyncio.run(chore.apply())
    assert daemon.client.run(run_id).deleted
    assert not chore.is_due(), "once, until six hours are over or the file changes"


@pytest.mark.parametrize("words", [("show",), ("plan",), ("apply", "--yes"), ("profile",)])
def test_a_profile_that_cannot_be_used_is_one_sentence(
    daemon: DaemonProcess, mosaic: CommandLine, words: tuple[str, ...]
) -> None:
    daemon.paths.storage_profiles.write_text("use: d\nprofiles: {d: {cap_gbb: 3}}")
    answer = mosaic("storage", *words)
    assert answer.code and answer.out == ""
    assert "did you mean 'cap_gb'" in answer.err and "Traceback" not in answer.err


def test_a_rule_about_a_setting_that_no_run_has_is_refused(
    daemon: DaemonProcess, mosaic: CommandLine, finished: Finish
) -> None:
    finished()
    use(daemon, rules=[{"runs": "stat=over", "trash_after_days": 0}])
    answer = mosaic("storage", "plan")
    assert answer.code and "did you mean 'state'" in answer.err


def test_a_disk_that_is_nearly_full_is_said_once_on_stderr_and_never_in_json(
    daemon: DaemonProcess, mosaic: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gym_gui.services.trainer.client import TrainerClient

    assert mosaic("runs").err == ""
    full = pb.Health(disk_warning="the disk of /data is 93 % full, 7.0 GB are left: do something")
    monkeypatch.setattr(TrainerClient, "health", lambda *_: full)
    assert mosaic("runs").err == f"Warning: {full.disk_warning}\n"
    assert mosaic("runs", "--json").err == ""


async def test_a_daemon_that_leaves_ends_the_process_that_applies_a_profile(
    daemon: DaemonProcess, mosaic: CommandLine, caplog: pytest.LogCaptureFixture
) -> None:
    assert not StorageChore(daemon.paths).is_due(), "without a file there is nothing to apply"
    use(daemon, automatic=True)
    chore = StorageChore(daemon.paths)
    process = await chore._started()
    applying = asyncio.create_task(_ended(process))
    await asyncio.sleep(0)
    applying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await applying
    assert process.returncode == -9
    daemon.paths.storage_profiles.write_text("use: d\nprofiles: {d: {automatik: true}}")
    await chore.apply()
    await chore.apply()
    told = [getattr(record, "fields", {}).get("reason", "") for record in caplog.records]
    assert len([one for one in told if "did you mean 'automatic'" in one]) == 1, "a trouble that lasts is logged once"
