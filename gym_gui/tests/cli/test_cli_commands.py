"""Every command against a real daemon with real workers."""

from __future__ import annotations

import csv
import json
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from gym_gui.cli.errors import ExitCode
from gym_gui.services.trainer.daemon_control import stop_daemon
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from mosaic_protocol.unix_socket import dialled


@pytest.fixture
def mosaic(daemon: DaemonProcess) -> CommandLine:
    return CommandLine(daemon.paths.root, daemon.env)


DRY_RUN = ("train", "count", "--env-id", "Toy-v0", "--total-timesteps", "5", "--dry-run")


def quick(mosaic: CommandLine, *words: str) -> str:
    """Train a short toy run to its end; its id."""
    answer = mosaic("train", "count", "--env-id", "Toy-v0", "--total-timesteps", "5", "--json", *words)
    assert answer.code == 0, answer.err
    return str(answer.json["run_id"])


def long(mosaic: CommandLine, *words: str) -> str:
    """Submit a toy run that goes on until it is ended; its id."""
    answer = mosaic("train", "count", "--env-id", "Toy-v0", "--total-timesteps", "1M", "--detach", "--json", *words)
    assert answer.code == 0, answer.err
    return str(answer.json["run_id"])


# ---- train -------------------------------------------------------------------------------------------------------


def test_train_follows_a_run_to_its_end(mosaic: CommandLine) -> None:
    answer = mosaic("train", "count", "--env-id", "Toy-v0", "--total-timesteps", "30", "--step-seconds", "0.02")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert "(count-toy-v0-s1) submitted to toy" in lines[0]
    assert any(line.startswith("training  ") for line in lines)
    assert "(count-toy-v0-s1) completed: finished at step 30" in answer.out
    assert "15.50 (mean of the last 30 episodes)" in answer.out


def test_the_summary_names_outcome_numbers_files_and_three_commands(mosaic: CommandLine, daemon: DaemonProcess) -> None:
    words = ("train", "count", "--env-id", "Toy-v0", "--total-timesteps", "30", "--summary", "--run-name", "demo")
    answer = mosaic(*words)
    (run,) = daemon.client.runs().runs
    short = run.run_id[-6:]
    told, _, commands = answer.out.partition("\nNext:\n")
    for part in (f"{short} (demo) completed", "15.50 (mean of", "steps", "duration", "TensorBoard", "checkpoint"):
        assert part in told
    assert len(commands.splitlines()) == 3
    assert f"mosaic metrics {short}" in commands
    assert "mosaic train count --env-id Toy-v0 --seed 2 --total-timesteps 300" in commands


def test_the_newest_checkpoint_and_the_tensorboard_folder_come_from_the_runs_manifest(
    mosaic: CommandLine, daemon: DaemonProcess
) -> None:
    run_id = quick(mosaic)
    folders = daemon.paths.run(run_id)
    manifest = json.loads(folders.manifest.read_text())
    manifest |= {"tensorboard_dir": "tensorboard", "checkpoints": ["checkpoints/step-1", "checkpoints/step-2"]}
    folders.manifest.write_text(json.dumps(manifest))
    told = mosaic("follow", run_id, "--summary").out
    assert str(folders.tensorboard) in told
    assert str(folders.checkpoints / "step-2") in told


@pytest.mark.parametrize(
    ("words", "code", "outcome"),
    [
        (("--misbehave", "crash"), ExitCode.FAILED, "failed"),
        (("--misbehave", "kill_self"), ExitCode.FAILED, "failed"),
        (("--total-timesteps", "1e9", "--max-wallclock-minutes", "0.01"), ExitCode.TIMED_OUT, "timed_out"),
    ],
)
def test_the_exit_code_is_the_outcome(
    mosaic: CommandLine, words: tuple[str, ...], code: ExitCode, outcome: str
) -> None:
    answer = mosaic("train", "count", "--env-id", "Toy-v0", "--json", *words)
    assert answer.code == code
    assert answer.json["outcome"] == outcome
    assert answer.json["reason"]


def test_a_failed_run_says_why_and_where_to_look(mosaic: CommandLine) -> None:
    answer = mosaic("train", "count", "--env-id", "Toy-v0", "--misbehave", "crash")
    assert "failed: RuntimeError: the toy broke, as it was asked to" in answer.out
    assert "See `mosaic logs " in answer.out


def test_script_flags_and_settings_reach_the_run(mosaic: CommandLine) -> None:
    words = ("--seed", "7", "--step-seconds=0.001", "--tag", "night", "--notes", "two words", "--no-tensorboard")
    run_id = quick(mosaic, *words)
    config = mosaic("show", run_id, "--json").json["config"]
    assert config["metadata"]["worker"]["config"]["seed"] == 7
    assert config["metadata"]["worker"]["config"]["params"] == {"step_seconds": 0.001}
    assert config["metadata"]["tags"] == ["night"]
    assert config["artifacts"]["tensorboard"]["enabled"] is False
    shown = mosaic("show", run_id).out
    for part in ("--step-seconds 0.001", "night", "two words", "count (toy worker)"):
        assert part in shown


def test_a_run_that_fits_nowhere_is_refused(mosaic: CommandLine, daemon: DaemonProcess) -> None:
    answer = mosaic("train", "count", "--env-id", "T", "--gpus", "1")
    assert answer.code == ExitCode.REFUSED
    assert "1 GPU" in answer.err
    assert not daemon.client.runs().runs


def test_a_worker_that_the_daemon_does_not_know_is_answered_with_a_restart(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    package = tmp_path / "more" / "new_worker"
    package.mkdir(parents=True)
    toy = (Path(daemon.env["MOSAIC_WORKER_PATH"]) / "toy_worker" / "worker.toml").read_text()
    toy = toy.replace('"toy"', '"new"').replace("toy_worker", "new_worker").replace("dry_run = true", "")
    (package / "worker.toml").write_text(toy)
    mosaic = CommandLine(daemon.paths.root, {**daemon.env, "MOSAIC_WORKER_PATH": str(package.parent)})
    answer = mosaic("train", "count", "--env-id", "T")
    assert answer.code == ExitCode.REFUSED
    assert "does not know the worker 'new': restart it" in answer.err


# ---- listing -----------------------------------------------------------------------------------------------------


def test_an_empty_listing_names_the_next_step(mosaic: CommandLine) -> None:
    assert mosaic("runs").out.startswith("No runs yet. Start one: mosaic train ")
    assert mosaic("runs", "--json").json == {"runs": [], "total": 0}
    assert "No run is like that" in mosaic("runs", "--search", "x").out


def test_runs_are_listed_newest_first_in_pages(mosaic: CommandLine) -> None:
    ids = [quick(mosaic, "--run-name", f"run-{number}") for number in range(3)]
    first = mosaic("runs", "--limit", "2").out.splitlines()
    assert first[0].split()[:3] == ["ID", "NAME", "STATE"]
    assert [line.split()[:3] for line in first[1:3]] == [
        [ids[2][-6:], "run-2", "completed"],
        [ids[1][-6:], "run-1", "completed"],
    ]
    assert first[3] == "2 of 3 runs; --page 2 shows more, --all everything"
    second = mosaic("runs", "--limit", "2", "--page", "2").out.splitlines()
    assert second[1].split()[:2] == [ids[0][-6:], "run-0"]
    assert second[2] == "1 of 3 runs"
    assert "no runs on this page" in mosaic("runs", "--limit", "2", "--page", "3").out
    assert len(mosaic("runs", "--all").out.splitlines()) == 4
    assert [run["run_id"] for run in mosaic("runs", "--json").json["runs"]] == ids[::-1]


def test_runs_are_filtered_by_state_outcome_and_text(mosaic: CommandLine, daemon: DaemonProcess) -> None:
    done = quick(mosaic, "--run-name", "done")
    mosaic("train", "count", "--env-id", "Toy-v0", "--misbehave", "crash", "--run-name", "broken")
    live = long(mosaic, "--run-name", "alive")
    daemon.wait_state(live, "EXEC")

    def names(*words: str) -> list[str]:
        return [run["name"] for run in mosaic("runs", "--json", *words).json["runs"]]

    assert names("--state", "training") == names("--state", "EXEC") == names("--state", "live") == ["alive"]
    assert names("--state", "over") == ["broken", "done"]
    assert names("--outcome", "failed") == ["broken"]
    assert names("--outcome", "failed", "--outcome", "completed") == ["broken", "done"]
    assert names("--search", done[-8:]) == ["done"]


def test_a_run_is_named_by_id_end_name_or_last(mosaic: CommandLine) -> None:
    first = quick(mosaic, "--run-name", "first")
    newest = quick(mosaic, "--run-name", "newest")

    def shown(reference: str) -> str:
        return str(mosaic("show", reference, "--json").json["run_id"])

    assert shown("last") == shown("newest") == shown(newest[-6:].lower()) == newest
    assert shown(first) == shown("first") == first


def test_a_run_that_does_not_exist_has_its_own_exit_code(mosaic: CommandLine) -> None:
    for command in ("show", "logs", "metrics", "cancel", "pause", "resume", "delete", "restore", "follow"):
        none = "`mosaic runs --deleted` lists" if command == "restore" else "start one with `mosaic train ppo"
        for reference, part in (("nosuch", "no run is called 'nosuch'"), ("last", none)):
            answer = mosaic(command, reference)
            assert answer.code == ExitCode.NO_SUCH_RUN, answer
            assert part in answer.err


def test_show_prints_the_history(mosaic: CommandLine) -> None:
    run_id = quick(mosaic)
    assert "RDY → EXEC" in mosaic("show", run_id, "--history").out
    moves = mosaic("show", run_id, "--history", "--json").json["history"]
    assert [move["to"] for move in moves if move["from"] != move["to"]] == ["HSHK", "RDY", "EXEC", "TERM"]


def test_logs_print_both_sources_or_one(mosaic: CommandLine) -> None:
    run_id = quick(mosaic, "--say", "hello from stderr")
    assert "toy worker starts" in mosaic("logs", run_id).out
    assert mosaic("logs", run_id, "--source", "stderr").out == "hello from stderr\n"
    assert mosaic("logs", run_id, "--source", "stdout").out.count("\n") == 1
    lines = [json.loads(line) for line in mosaic("logs", run_id, "--json").out.splitlines()]
    assert {line["source"] for line in lines} == {"stdout", "stderr"}
    quiet = mosaic("logs", quick(mosaic), "--source", "stderr")
    assert (quiet.out, quiet.code) == ("", 0)
    assert "has not written anything to its stderr" in quiet.err


def test_logs_can_be_followed_to_the_end_of_the_run(mosaic: CommandLine) -> None:
    answer = mosaic("train", "count", "--env-id", "Toy-v0", "--total-timesteps", "30", "--detach", "--json")
    followed = mosaic("logs", "-f", answer.json["run_id"])
    assert (followed.code, followed.out.count("toy worker starts")) == (0, 1)
    assert mosaic("show", "last", "--json").json["outcome"] == "completed"


def test_metrics_are_a_table_a_csv_or_json(mosaic: CommandLine) -> None:
    run_id = quick(mosaic)
    lines = mosaic("metrics", run_id).out.splitlines()
    assert lines[0].split() == ["METRIC", "LAST", "MEAN", "100", "MIN", "MAX", "POINTS", "CURVE"]
    assert lines[2].split() == ["charts/episodic_return", "5", "3", "1", "5", "5", "▁▃▅▇█"]
    rows = list(csv.DictReader(mosaic("metrics", run_id, "--tag", "charts/episodic_return", "--csv").out.splitlines()))
    assert [(row["step"], row["value"]) for row in rows] == [(str(step), str(float(step))) for step in range(1, 6)]
    (series,) = mosaic("metrics", run_id, "--tag", "charts/episodic_return", "--last", "2", "--json").json["series"]
    assert (series["steps"], series["values"], series["total_points"]) == ([4, 5], [4.0, 5.0], 5)
    assert "newest 2 points" in mosaic("metrics", run_id, "--last", "2").out


def test_an_unknown_metric_is_answered_with_the_nearest(mosaic: CommandLine) -> None:
    answer = mosaic("metrics", quick(mosaic), "--tag", "charts/episodic_retrun")
    assert answer.code == ExitCode.REFUSED
    assert "did you mean 'charts/episodic_return'?" in answer.err


# ---- control -----------------------------------------------------------------------------------------------------


def test_pause_and_resume_return_when_it_happened(mosaic: CommandLine, daemon: DaemonProcess) -> None:
    run_id = long(mosaic)
    daemon.wait_state(run_id, "EXEC")
    paused = mosaic("pause", run_id)
    assert (paused.code, paused.err) == (0, "")
    assert " paused: at step " in paused.out
    assert daemon.client.run(run_id).state == "PAUSE"
    assert mosaic("resume", run_id, "--json").json["state"] == "EXEC"
    assert "cannot pause" in mosaic("pause", quick(mosaic)).err


def test_cancel_returns_when_the_runs_are_over_and_serves_the_others_when_one_fails(
    mosaic: CommandLine, daemon: DaemonProcess
) -> None:
    runs = [long(mosaic), long(mosaic)]
    for run_id in runs:
        daemon.wait_state(run_id, "EXEC")
    answer = mosaic("cancel", runs[0], "nosuch", runs[1], "--reason", "too slow", "--json")
    assert answer.code == ExitCode.NO_SUCH_RUN
    assert [run["run_id"] for run in answer.json["runs"]] == runs
    assert all(run["outcome"] == "canceled" and "too slow" in run["reason"] for run in answer.json["runs"])
    (error,) = answer.json["errors"]
    assert (error["run"], error["exit_code"]) == ("nosuch", 3)
    assert mosaic("follow", runs[0]).code == ExitCode.CANCELED
    assert "already over" in mosaic("cancel", runs[0]).err


def test_delete_can_be_undone_and_says_how(mosaic: CommandLine) -> None:
    run_id = quick(mosaic)
    answer = mosaic("delete", run_id)
    assert f"`mosaic restore {run_id[-6:]}` brings it back" in answer.out
    assert mosaic("runs", "--json").json["total"] == 0
    assert re.search(r"completed \(deleted, (7d 0h|6d 23h) left\)", mosaic("runs", "--deleted").out)
    assert "brings it back" in mosaic("show", run_id).out
    assert "is back" in mosaic("restore", "last").out
    assert mosaic("runs", "--json").json["total"] == 1


def test_purging_needs_a_yes(mosaic: CommandLine, daemon: DaemonProcess) -> None:
    run_id = quick(mosaic)
    refused = mosaic("delete", run_id, "--purge")
    assert refused.code == ExitCode.REFUSED
    assert "add --yes" in refused.err
    assert mosaic("delete", run_id, "--purge", "--yes").code == 0
    assert not daemon.paths.run(run_id).directory.exists()
    assert mosaic("show", run_id).code == ExitCode.NO_SUCH_RUN


def test_a_live_run_is_not_deleted(mosaic: CommandLine) -> None:
    answer = mosaic("delete", long(mosaic))
    assert answer.code == ExitCode.REFUSED
    assert "is not over" in answer.err


# ---- the machine -------------------------------------------------------------------------------------------------


def test_workers_are_listed_with_their_algorithms(mosaic: CommandLine) -> None:
    answer = mosaic("workers")
    assert "toy 1.0.0, ready: Counts steps" in answer.out
    assert "  count\n    Counts to the number" in answer.out
    (toy,) = [worker for worker in mosaic("workers", "--json").json["workers"] if worker["type"] == "toy"]
    assert toy["ready"] is True
    assert "count" in toy["manifest"]["algorithms"]


def test_doctor_fails_only_for_what_is_broken(mosaic: CommandLine) -> None:
    checks = {check["id"]: check for check in mosaic("doctor", "--json").json["checks"]}
    assert checks["daemon"]["status"] == "ok"
    assert "answers on" in checks["daemon"]["detail"]
    mosaic("daemon", "stop")
    told = mosaic("doctor").out
    assert "None runs; the next command that needs one starts it" in told
    assert mosaic("daemon", "status").code == ExitCode.DAEMON_AWAY


def test_bundles_are_listed(mosaic: CommandLine) -> None:
    listed = {bundle["name"]: bundle for bundle in mosaic("bundles", "--json").json["bundles"]}
    assert "base" in listed
    assert mosaic("bundles", "list", "--json").json["bundles"] == list(listed.values())
    assert mosaic("bundles").out.splitlines()[0].split() == ["BUNDLE", "STATUS", "MEANING"]


def test_a_command_starts_the_daemon_and_stop_ends_it(make_daemon: Callable[..., DaemonProcess]) -> None:
    prepared = make_daemon()
    mosaic = CommandLine(prepared.paths.root, prepared.env)
    assert mosaic("daemon", "status").code == ExitCode.DAEMON_AWAY
    assert mosaic("daemon", "status", "--json").json["running"] is False
    assert mosaic("daemon", "stop").out == "No trainer daemon was running.\n"
    assert not prepared.paths.root.exists()
    try:
        assert mosaic("runs").code == 0
        status = mosaic("daemon", "status", "--json")
        assert (status.code, status.json["running"], status.json["home"]) == (0, True, str(prepared.paths.root))
        again = mosaic("daemon", "start", "--json")
        assert (again.code, again.json["pid"]) == (0, status.json["pid"])
        other = mosaic("daemon", "start", "--cpus", "3")
        assert other.code == ExitCode.REFUSED
        assert "runs already" in other.err
        assert mosaic("daemon", "stop", "--json").json == {"stopped": True, "live_runs": 0}
        assert mosaic("daemon", "start", "--cpus", "3", "--json").json["capacity"]["cpus"] == 3
        assert "listens on unix:" in mosaic("daemon", "status").out
    finally:
        stop_daemon(prepared.paths)


def test_stopping_the_daemon_says_how_many_runs_go_on(mosaic: CommandLine, daemon: DaemonProcess) -> None:
    daemon.wait_state(long(mosaic), "EXEC")
    assert mosaic("daemon", "stop").out == "The trainer daemon has stopped. 1 run goes on without it.\n"


def test_home_is_an_option_too(daemon: DaemonProcess, tmp_path: Path) -> None:
    mosaic = CommandLine(tmp_path / "elsewhere", daemon.env | {"MOSAIC_HOME": str(tmp_path / "elsewhere")})
    assert mosaic("--home", str(daemon.paths.root), "daemon", "status").code == 0
    assert mosaic("daemon", "status").code == ExitCode.DAEMON_AWAY


def test_a_daemon_in_the_foreground_serves_until_it_is_asked_to_leave(
    make_daemon: Callable[..., DaemonProcess],
) -> None:
    prepared = make_daemon()
    mosaic = CommandLine(prepared.paths.root, prepared.env)
    process = mosaic.process("daemon", "start", "--foreground")
    try:
        wait_for("the daemon to answer", lambda: mosaic("daemon", "status").code == 0)
        assert mosaic("daemon", "status", "--json").json["pid"] == process.pid
        second = mosaic.process("daemon", "start", "--foreground")
        complaint = second.communicate(timeout=60)[1].decode()
        assert second.returncode == ExitCode.DAEMON_AWAY
        assert "a trainer daemon already runs" in complaint
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_daemon_that_listens_and_does_not_answer_is_distinguished_from_none(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    prepared = make_daemon()
    prepared.paths.trainer.mkdir(parents=True)
    prepared.paths.token_file.write_text("token")
    mosaic = CommandLine(prepared.paths.root, prepared.env)
    with socket.socket(socket.AF_UNIX) as frozen:
        frozen.bind(dialled(prepared.paths.socket))
        frozen.listen()
        answer = mosaic("daemon", "status", "--json")
    assert answer.code == ExitCode.DAEMON_AWAY
    assert answer.json == {"running": True, "answers": False, "home": str(prepared.paths.root)}


def test_csv_holds_every_point_unless_the_newest_were_asked_for(mosaic: CommandLine) -> None:
    run_id = quick(mosaic, "--total-timesteps", "1100")
    told = mosaic("metrics", run_id, "--json").json["series"]
    assert max(len(one["values"]) for one in told) == 1000 < max(one["total_points"] for one in told)
    assert len(mosaic("metrics", run_id, "--csv").out.splitlines()) == 1 + sum(one["total_points"] for one in told)
    tag = told[0]["tag"]
    assert len(mosaic("metrics", run_id, "--csv", "--last", "7", "--tag", tag).out.splitlines()) == 8


def test_a_completed_run_without_checkpoints_is_not_advised_to_use_one(mosaic: CommandLine) -> None:
    run_id = quick(mosaic, "--no-checkpoints")
    assert mosaic("resume", run_id).err.endswith("cannot go on: it completed: start a new run\n")
    told = mosaic("eval", run_id).err
    assert "yet" not in told and "unless --no-checkpoints was given" in told


def test_a_run_that_nobody_named_shares_its_name_with_no_other(mosaic: CommandLine, daemon: DaemonProcess) -> None:
    runs = [quick(mosaic) for _ in range(2)]
    assert mosaic("delete", runs[0]).code == 0, "it may come back from the trash"
    assert "name       count-toy-v0-s1-3\n" in mosaic(*DRY_RUN).out
    runs.append(quick(mosaic))
    names = [daemon.client.run(run_id).name for run_id in runs]
    assert names == ["count-toy-v0-s1", "count-toy-v0-s1-2", "count-toy-v0-s1-3"]


def test_runs_of_one_name_are_distinguished_as_the_listing_shows_them(mosaic: CommandLine) -> None:
    twins = [quick(mosaic, "--run-name", "twin") for _ in range(2)]
    answer = mosaic("show", "twin")
    assert answer.code == ExitCode.NO_SUCH_RUN
    assert all(f"{run_id[-6:]} (twin)" in answer.err and run_id not in answer.err for run_id in twins)
