"""``mosaic import-logs``: foreign folders become runs, once, and grow with them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.support.history import check_history
from gym_gui.tests.support.made_logs import NAME, curve, event, simple, table, written

RETURN = "charts/episodic_return"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path_factory.mktemp("imports") / "home")
    try:
        daemon.start()
        yield daemon
        registry = daemon.registry()
        try:
            check_history(registry, **daemon.has_cpus)
        finally:
            registry.close()
    finally:
        daemon.clean_up()


@pytest.fixture(scope="module")
def mosaic(daemon: DaemonProcess) -> CommandLine:
    return CommandLine(daemon.paths.root, daemon.env)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two runs of CleanRL and one of Stable-Baselines3."""
    root = tmp_path / "logs"
    for seed in (1, 2):
        settings = {"exp_name": "ppo", "env_id": "CartPole-v1", "seed": seed, "gamma": 0.9, "wandb_api_key": "hush"}
        written(root / f"ppo-{seed}", table(settings), *curve(RETURN, range(0, 500, 10)), *curve("losses/v", range(9)))
    written(root / "sb3" / "PPO_1", *curve("rollout/ep_rew_mean", range(0, 300, 100)))
    return root


def test_each_folder_becomes_a_run_with_its_settings_and_every_point(
    mosaic: CommandLine, logs: Path, daemon: DaemonProcess
) -> None:
    planned = mosaic("import-logs", str(logs), "--dry-run", "--json").json
    assert [(one["name"], one["status"], one["new_points"]) for one in planned["runs"]] == [
        ("ppo-1", "new", 59),
        ("ppo-2", "new", 59),
        ("sb3-PPO_1", "new", 3),
    ]
    assert planned["dry_run"] and mosaic("runs", "--where", "tag=first", "--json").json["total"] == 0

    answer = mosaic("import-logs", str(logs), "--tag", "first", "--group", "g")
    assert answer.code == 0, answer.err
    assert "121 points in 3 runs imported." in answer.out

    found = {run["name"]: run for run in mosaic("runs", "--where", "tag=first", "--json").json["runs"]}
    run = found["ppo-2"]
    assert (run["worker"], run["state"], run["outcome"]) == ("imported", "TERM", "completed")
    assert (run["algo"], run["env_id"], run["seed"], run["group"]) == ("ppo", "CartPole-v1", 2, "g")
    assert (run["last_step"], run["started_at"], run["ended_at"]) == (490, 1000.0, 1049.0)
    assert run["active_seconds"] == 49.0
    assert run["config"]["metadata"]["worker"]["config"]["params"] == {"gamma": 0.9}, "and no secret"
    assert "imported" in mosaic("runs", "--where", "tag=first").out
    assert "ppo-2" in mosaic("runs", "--where", "tag=first gamma<1 seed=2").out

    series = mosaic("metrics", run["run_id"], "--json").json["series"]
    assert {one["tag"]: one["total_points"] for one in series} == {RETURN: 50, "losses/v": 9}
    assert series[0]["steps"] == list(range(0, 500, 10)) and series[0]["wall_times"][:2] == [1000.0, 1001.0]
    compared = mosaic("compare", "tag=first algo=ppo", "--json").json
    assert [len(group["runs"]) for group in compared["groups"]] == [2]
    assert found["sb3-PPO_1"]["headline"]["mean_return"] == 200.0, "Stable-Baselines3 logs means of episodes"
    shown = mosaic("show", run["run_id"]).out
    assert str(logs / "ppo-2") in shown and "imported" in shown.splitlines()[0]


def test_what_is_imported_again_adds_only_what_is_new(mosaic: CommandLine, logs: Path) -> None:
    first = mosaic("import-logs", str(logs), "--json").json["runs"]
    answer = mosaic("import-logs", str(logs))
    assert answer.code == 0 and "Nothing is new." in answer.out and not answer.err
    assert "keep their names, tags" in mosaic("import-logs", str(logs), "--tag", "late").err
    with (logs / "ppo-1" / NAME).open("ab") as stream:
        stream.writelines(curve(RETURN, [500, 510]))
    written(logs / "ppo-1", *curve(RETURN, [520]), name="events.out.tfevents.0")  # earlier by its name, but later here
    again = mosaic("import-logs", str(logs), "--json").json["runs"]
    assert [one["run_id"] for one in again] == [one["run_id"] for one in first]
    assert [(one["status"], one["new_points"]) for one in again] == [("more", 3), ("unchanged", 0), ("unchanged", 0)]
    (series,) = mosaic("metrics", first[0]["run_id"], "--tag", RETURN, "--json").json["series"]
    assert series["steps"] == [*range(0, 510, 10), 510, 520]
    assert mosaic("show", first[0]["run_id"], "--json").json["last_step"] == 520


def test_an_import_that_was_cut_short_goes_on_where_it_stopped(
    mosaic: CommandLine, logs: Path, daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gym_gui.services.scalars import log_import

    monkeypatch.setattr(log_import, "_LINES_PER_BATCH", 10)
    found = log_import.survey(logs / "ppo-1")
    work = log_import.LogImport(daemon.client, log_import.Wishes())
    (plan,) = work.plans(found)
    config, request = plan.config, "cut-short"
    run = daemon.client.import_run(config, request).run
    batches = log_import._batches(run.run_id, plan, "")
    sent = daemon.client.import_records(next(batches) for _ in range(2))
    assert [ack.acked_seq for ack in sent] == [10, 20]
    (rest,) = work.plans(found)
    assert rest.run is not None and rest.run.run_id == run.run_id and rest.new_points == 39
    done = work.bring(rest)
    assert done.run is not None and done.run.last_step == 490
    assert {one.tag: one.total_points for one in daemon.client.metrics(run.run_id)} == {RETURN: 50, "losses/v": 9}


def test_an_imported_run_can_be_deleted_and_neither_resumed_nor_paused(mosaic: CommandLine, logs: Path) -> None:
    (one,) = mosaic("import-logs", str(logs / "ppo-1"), "--name", "mine", "--json").json["runs"]
    assert one["name"] == "mine"
    for words, sentence in (("resume", "it was imported"), ("pause", "it was imported"), ("cancel", "already over")):
        answer = mosaic(words, one["run_id"])
        assert answer.code == 2 and sentence in answer.err, answer.err
    assert mosaic("delete", one["run_id"], "--yes").code == 0
    answer = mosaic("import-logs", str(logs / "ppo-1"), "--json")
    (again,) = answer.json["runs"]
    assert again["status"] == "skipped" and "in the trash" in again["why_not"]
    assert answer.code == 2, "nothing was imported"
    assert "in the trash" in mosaic("import-logs", str(logs / "ppo-1")).err
    assert mosaic("delete", one["run_id"], "--purge", "--yes").code == 0
    (third,) = mosaic("import-logs", str(logs / "ppo-1"), "--json").json["runs"]
    assert third["status"] == "new" and third["run_id"] != one["run_id"]


def test_numbers_are_taken_for_imported_runs_only(mosaic: CommandLine, daemon: DaemonProcess) -> None:
    from gym_gui.services.trainer.client import RequestRefusedError
    from mosaic_protocol.proto import trainer_pb2 as pb

    run_id = daemon.submit(name="trained-here", total_timesteps=3, step_seconds=0)
    daemon.wait_over(run_id)
    with pytest.raises(RequestRefusedError, match="was not imported"):
        list(daemon.client.import_records([pb.RecordBatch(run_id=run_id, stream="file:x")]))
    worker = {"type": "toy", "module": "toy", "config": {}}
    config = {"run_name": "x", "resources": {}, "artifacts": {}, "metadata": {"worker": worker}}
    with pytest.raises(RequestRefusedError, match="worker type 'imported'"):
        daemon.client.import_run(config, "request")


def test_what_is_damaged_is_said_and_the_rest_imported(mosaic: CommandLine, tmp_path: Path) -> None:
    root = tmp_path / "bad"
    broken = bytearray(event(1, 2.0, simple("x", 1.0)))
    broken[-6] ^= 0xFF
    written(root / "a", *curve("x", range(5)), bytes(broken), *curve("x", [6]), curve("x", [7])[0][:-2])
    written(root / "b", *curve("x", range(5)), name="events.out.tfevents.1")
    os.truncate(root / "b" / NAME, 10 * 2**30)
    os.mkfifo(root / "b" / "events.out.tfevents.2")
    (root / "b" / "events.out.tfevents.3").symlink_to("/dev/zero")
    (root / "c").mkdir()
    (root / "c" / NAME).write_bytes(b"this is no event file, whatever its name says")
    answer = mosaic("import-logs", str(root))
    assert answer.code == 0, answer.err
    assert "1 record is damaged" in answer.out
    assert "is not whole yet: import the folder again later" in answer.out
    assert "is not read to its end: it is damaged at byte" in answer.out
    assert "it is a named pipe, not a regular file" in answer.out
    assert "it is a link, not a regular file" in answer.out
    assert "it is not an event file of TensorBoard" in answer.out
    assert "11 points in 2 runs imported." in answer.out


@pytest.mark.parametrize(
    ("make", "words", "sentence"),
    [
        ("nothing", (), "there is no folder"),
        ("file", (), "is a file: name the folder that it is in"),
        ("empty", (), "holds no event files of TensorBoard (*tfevents*)"),
        ("foreign", (), "it is not an event file of TensorBoard"),
        ("curve", ("--return", "rewrad"), "has no metric 'rewrad': it has x"),
        ("curve", ("--tag", " blank"), "must not begin or end with a blank"),
        ("curve", ("--name", "n" * 200), "run_name"),
    ],
)
def test_what_cannot_be_imported_is_one_sentence(
    mosaic: CommandLine, tmp_path: Path, make: str, words: tuple[str, ...], sentence: str
) -> None:
    root = tmp_path / "given"
    if make == "file":
        root.write_text("x")
    elif make != "nothing":
        root.mkdir()
    if make == "foreign":
        (root / NAME).write_bytes(b"PK" * 100)
    if make == "curve":
        written(root, *curve("x", [1]))
    answer = mosaic("import-logs", str(root), *words)
    assert answer.code == 2 and sentence in answer.err, (answer.out, answer.err)
    assert not answer.out and answer.err.count("\n") == 1


def test_of_several_folders_without_scalars_each_is_named_once(mosaic: CommandLine, tmp_path: Path) -> None:
    written(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / NAME).write_bytes(b"PK" * 100)
    answer = mosaic("import-logs", str(tmp_path))
    assert answer.code == 2 and answer.out.splitlines()[-1] == "Nothing was imported."
    assert [line for line in answer.out.splitlines() if line.startswith("a: ")] == ["a: it has no scalars"]
    assert len([line for line in answer.out.splitlines() if line.startswith("b: ")]) == 1


def test_runs_of_mosaic_itself_are_not_imported(mosaic: CommandLine, daemon: DaemonProcess, tmp_path: Path) -> None:
    own = daemon.paths.runs / "X" / "tensorboard"
    written(own, *curve("x", [1]))
    answer = mosaic("import-logs", str(daemon.paths.runs))
    assert answer.code == 2 and "belong to runs of MOSAIC" in answer.err


def test_the_settings_that_pytorch_writes_below_a_run_belong_to_it(mosaic: CommandLine, tmp_path: Path) -> None:
    from tensorboard.compat.proto import event_pb2
    from tensorboard.plugins.hparams import summary_v2 as hp

    from gym_gui.tests.support.made_logs import framed

    made = event_pb2.Event(step=0, wall_time=2.0)
    made.summary.ParseFromString(hp.hparams_pb({"lr": 0.5}).SerializeToString())
    written(tmp_path / "run", *curve("x", [1, 2]))
    written(tmp_path / "run" / "1700000000.25", framed(made.SerializeToString()), *curve("hparam/acc", [0]))
    (one,) = mosaic("import-logs", str(tmp_path), "--json").json["runs"]
    assert one["settings"] == {"params": {"lr": 0.5}} and one["metrics"] == ["hparam/acc", "x"]
