"""The supervisor over real script processes: it reports the truth about each of them, and always has a last word."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mosaic_protocol.paths import RunPaths
from mosaic_protocol.run_manifest import read_manifest
from mosaic_protocol.states import Desired
from mosaic_worker.supervision import runtime as runtime_module
from mosaic_worker.supervision.analytics import AnalyticsManifest
from mosaic_worker.supervision.code_recorder import CodeRecorder
from mosaic_worker.supervision.planned_script import PlannedScript
from mosaic_worker.supervision.runtime import ScriptRuntime
from mosaic_worker.supervision.script_process import ScriptProcess
from mosaic_worker.tests.supervision.ear import Ear, output_in_files

SCRIPTS = Path(__file__).parents[1] / "sample_scripts"


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    run = RunPaths(tmp_path / "run")
    run.outbox.mkdir(parents=True)
    return run


def supervisor(run: RunPaths, ear: Ear, script: str, *arguments: str) -> ScriptRuntime:
    plan = PlannedScript(script, SCRIPTS / f"{script}.py", arguments)
    process = ScriptProcess.start(plan, {"MOSAIC_RUN_DIR": str(run.directory)})
    assert process is not None
    manifest = AnalyticsManifest(run, {"algo": script})
    return ScriptRuntime(process, ear, manifest, lambda: ear.wishes.desired, lambda: ear.wishes.may_begin)


def supervise(run: RunPaths, ear: Ear, script: str, *arguments: str) -> int:
    with output_in_files(run.directory):
        supervising = supervisor(run, ear, script, *arguments)
        try:
            return supervising.run()
        finally:
            supervising._script.kill()  # of use only when the supervisor failed


# ---- scripts that do what they should --------------------------------------------------------------------------


def test_a_script_is_let_go_when_it_is_ready_and_completes(run: RunPaths) -> None:
    ear = Ear()
    assert supervise(run, ear, "obedient", "--total-timesteps", "1200", "--step-seconds", "0") == 0
    assert ear.planned == [1200]
    assert ear.said == [("run_started", "", 0), ("run_completed", "completed 1,200 steps", 1200)]
    assert ear.artifacts == [("checkpoint", "checkpoints/step-000000001200", 1200)]
    told = read_manifest(run)
    assert (told["ending"], told["script_status"]) == ("run_completed", 0)
    assert told["checkpoints"] == ["checkpoints/step-000000001200"]


def test_nothing_begins_before_it_may(run: RunPaths) -> None:
    """The handshake comes from another thread, which wakes the supervisor."""
    ear, asked = Ear(), threading.Event()
    shaken = threading.Event()

    def may_begin() -> bool:
        asked.set()
        return shaken.is_set()

    supervising = supervisor(run, ear, "obedient")
    supervising._wishes._may_begin = may_begin

    def shake_hands() -> None:
        assert asked.wait(60.0)
        assert ear.said == []
        shaken.set()
        supervising.wake()

    thread = threading.Thread(target=shake_hands)
    thread.start()
    assert supervising.run() == 0
    thread.join()
    assert ear.events == ["run_started", "run_completed"]


def test_pause_and_resume_are_passed_on_and_confirmed_by_the_script(run: RunPaths) -> None:
    ear = Ear({"run_started": Desired.PAUSE, "run_paused": Desired.RUN})
    assert supervise(run, ear, "obedient", "--total-timesteps", "5") == 0
    assert ear.events == ["run_started", "run_paused", "run_resumed", "run_completed"]
    assert ear.last_word[2] == 5


def test_a_stop_ends_with_a_last_checkpoint_that_the_last_word_and_the_manifest_name(run: RunPaths) -> None:
    ear = Ear({"run_started": Desired.STOP})
    assert supervise(run, ear, "obedient", "--total-timesteps", "1000000") == 0
    assert ear.events == ["run_started", "run_stopping", "run_stopped"]
    (checkpoint,) = read_manifest(run)["checkpoints"]
    _, sentence, step = ear.last_word
    assert sentence == f"stopped at step {step:,}; last checkpoint {checkpoint}"
    assert read_manifest(run)["ending"] == "run_stopped"


def test_a_paused_script_can_be_stopped(run: RunPaths) -> None:
    ear = Ear({"run_started": Desired.PAUSE, "run_paused": Desired.STOP})
    assert supervise(run, ear, "obedient", "--total-timesteps", "1000000") == 0
    assert ear.events == ["run_started", "run_paused", "run_stopping", "run_stopped"]


def test_a_stop_before_the_beginning_is_not_a_start(run: RunPaths) -> None:
    ear = Ear()
    ear.wishes.stop()
    assert supervise(run, ear, "obedient") == 0
    assert ear.events == ["run_stopping", "run_stopped"]


# ---- scripts that do not ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "sentence", "status"),
    [
        ("die_of_kill", "the script was killed by signal 9 (SIGKILL)", -9),
        ("die_of_segv", "the script was killed by signal 11 (SIGSEGV)", -11),
    ],
)
def test_a_death_by_signal_is_reported_with_its_name_and_what_is_left(
    run: RunPaths, how: str, sentence: str, status: int
) -> None:
    ear = Ear()
    assert supervise(run, ear, "misbehaving", "--how", how) == 1
    expected = f"{sentence}; last checkpoint checkpoints/step-000000000003"
    assert ear.said == [("run_started", "", 0), ("run_failed", expected, 3)]
    told = read_manifest(run)
    assert (told["ending"], told["script_status"]) == ("run_failed", status)
    assert told["checkpoints"] == ["checkpoints/step-000000000003"]


def test_a_traceback_is_reported_by_its_last_line(run: RunPaths) -> None:
    ear = Ear()
    assert supervise(run, ear, "misbehaving", "--how", "fail") == 1
    sentence = "the script exited with status 1: ValueError: the reward is not a number"
    assert ear.last_word == ("run_failed", sentence, 0)
    assert "Traceback" in (run.directory / "stderr.log").read_text()
    assert read_manifest(run)["script_status"] == 1


def test_an_exit_status_alone_is_reported_too(run: RunPaths) -> None:
    ear = Ear()
    assert supervise(run, ear, "misbehaving", "--how", "exit_with_status") == 1
    assert ear.last_word == ("run_failed", "the script exited with status 7", 0)


def test_a_script_that_fails_before_it_is_ready_never_started(run: RunPaths) -> None:
    ear = Ear()
    assert supervise(run, ear, "misbehaving", "--how", "fail_at_once") == 1
    sentence = "the script exited with status 1: ImportError: no module named gymnastics"
    assert ear.said == [("run_failed", sentence, 0)]
    assert read_manifest(run)["ending"] == "run_failed"


def test_a_script_that_knows_nothing_of_supervisors_completes_by_ending(run: RunPaths) -> None:
    ear = Ear()
    assert supervise(run, ear, "misbehaving", "--how", "exit_without_a_word") == 0
    assert ear.said == [("run_completed", "the script completed", 0)]
    assert ear.details["stdout_tail"] == "nothing to say to a supervisor\n"


def test_a_torrent_of_output_and_messages_holds_nothing_up(run: RunPaths) -> None:
    ear = Ear()
    assert supervise(run, ear, "misbehaving", "--how", "spam") == 0
    assert ear.last_word == ("run_completed", "completed 2,000 steps", 2000)
    assert len(ear.details["stdout_tail"]) == 4096


def test_gibberish_on_the_link_does_not_end_the_listening(run: RunPaths) -> None:
    ear = Ear()
    assert supervise(run, ear, "misbehaving", "--how", "talk_gibberish") == 0
    assert ear.said == [("run_started", "", 0), ("run_completed", "completed 5 steps", 5)]


def test_the_last_words_of_a_script_are_heard_although_it_is_gone(run: RunPaths) -> None:
    ear = Ear()
    supervising = supervisor(run, ear, "misbehaving", "--how", "talk_and_leave")
    assert select.select([supervising._script.pidfd], [], [], 60.0)[0]
    assert supervising.run() == 0
    assert ear.said == [("run_stopped", "stopped at step 9", 9)]


def test_a_script_that_does_not_stop_is_ended(run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_module, "_STOP_SECONDS", 0.0)
    ear = Ear({"run_started": Desired.STOP})
    assert supervise(run, ear, "misbehaving", "--how", "hang") == 1
    assert ear.last_word == ("run_failed", "the script was killed by signal 9 (SIGKILL)", 0)


# ---- what a supervisor leaves behind ---------------------------------------------------------------------------


def test_a_wish_that_comes_too_late_is_harmless(run: RunPaths) -> None:
    supervising = supervisor(run, Ear(), "misbehaving", "--how", "exit_without_a_word")
    supervising.run()
    supervising.wake()


def test_no_script_outlives_its_supervision(run: RunPaths, children: Callable[[], set[int]]) -> None:
    for how in ("fail", "die_of_kill", "exit_without_a_word"):
        supervise(run, Ear(), "misbehaving", "--how", how)
    assert children() == set()


@pytest.fixture
def children() -> Callable[[], set[int]]:
    """The children that this process has got since the test began, zombies included."""

    def now() -> set[int]:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
        return {int(pid) for pid in text.split()}

    before = now()
    return lambda: now() - before


# ---- where one may not look for a moment -----------------------------------------------------------------------


def test_last_words_are_read_also_where_nothing_leads_to_their_file(tmp_path: Path) -> None:
    """As when the folder of the logs may not be entered for a moment: the file is open all the same."""
    log = tmp_path / "stderr.log"
    log.write_bytes(b"x" * 10_000 + b"the last words\n")
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    try:
        log.unlink()
        tail = runtime_module._tail_of(descriptor)
    finally:
        os.close(descriptor)
    assert tail.endswith("xthe last words\n") and len(tail) == 4096
    assert runtime_module._tail_of(descriptor) == "", "nobody's descriptor"


def test_code_is_not_recorded_where_the_folder_of_the_run_cannot_be_looked_at(tmp_path: Path) -> None:
    unusable = RunPaths(tmp_path / ("x" * 300))
    with pytest.raises(OSError, match="too long"):
        unusable.directory.is_dir()
    assert CodeRecorder(unusable, {"code": {"path": __file__}}).found(last=True) == {}
