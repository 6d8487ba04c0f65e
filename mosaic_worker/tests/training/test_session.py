"""A script under its session: by hand, and under a supervisor at the other end of a real socket."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mosaic_protocol import events
from mosaic_protocol.outbox import OutboxReader
from mosaic_protocol.whole_files import sync
from mosaic_worker.state import checkpoint_writer, checkpoints
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.supervision import control
from mosaic_worker.tests.recording.step_journals import steps_in
from mosaic_worker.tests.training.supervised import HANG_SECONDS, Start, Supervised, starting
from mosaic_worker.training.session import TrainingSession, UsageError
from mosaic_worker.training.sinks import JournalSink, TensorBoardSink

LOOP = """
import torch
from mosaic_worker.training.session import TrainingSession
with TrainingSession.open({"env_id": "Toy-v0", "exp_name": "toy", "seed": 1}, algo="toy") as session:
    step = 0
    session.begin(10**12)
    while True:
        session.safe_point(step)
        if session.stop_requested:
            break
        step += 1
        if step % 1000 == 1:
            session.scalars(step, {"charts/episodic_return": 1.5})
    session.save_checkpoint(step, {"weight": torch.zeros(2)}, {"last": True})
"""
STUCK = """
import threading
from mosaic_worker.training import session, supervisor_link
supervisor_link.SUPERVISOR_GONE_GRACE_SECONDS = 0.1
with session.TrainingSession.open({"env_id": "Toy-v0"}, algo="toy") as opened:
    opened.begin(10**12)
    threading.Event().wait()
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path) as start:
        yield start


@pytest.fixture
def loop(start: Start) -> Supervised:
    """The loop above, started and seen to run."""
    script = start("-c", LOOP)
    assert script.hear()["at"] == "ready"
    script.tell("go")
    script.wait_for_rows(0)
    return script


# --- under a supervisor ------------------------------------------------------------------------------------


@pytest.mark.parametrize("paused", [False, True])
def test_a_script_whose_supervisor_is_gone_ends_with_a_checkpoint(loop: Supervised, paused: bool) -> None:
    if paused:
        loop.tell("pause")
        loop.hear_until("paused")
    loop.hang_up()
    assert loop.end() == 0, loop.errors
    assert loop.last_checkpoint().manifest.state == {"last": True}


def test_a_script_that_does_not_end_after_its_supervisor_is_ended_with_status_71(start: Start) -> None:
    script = start("-c", STUCK)
    script.hear_until("ready")
    script.tell("go")
    script.hang_up()
    assert script.end() == 71
    assert "The supervisor is gone" in script.errors


def test_sigterm_is_a_stop_and_sigint_is_nothing(loop: Supervised) -> None:
    loop.process.send_signal(signal.SIGINT)
    loop.tell("pause")
    loop.hear_until("paused")
    loop.process.send_signal(signal.SIGTERM)
    assert loop.hear_until("stopped")[0]["at"] == "stopping"
    assert loop.end() == 0 and loop.errors == ""


# --- the same in this process, where every word is on its way before the session looks ----------------------


class SupervisorEnd:
    """The supervisor's end of the socket of a session in this very process."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.socket.settimeout(HANG_SECONDS)
        self.lines = end.makefile("rb")

    def tell(self, *words: str) -> None:
        self.socket.sendall(b"".join(json.dumps({"do": word}).encode() + b"\n" for word in words))

    def hear(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.lines.readline())
        return message

    def heard_by_the_end(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def hang_up(self) -> None:
        self.lines.close()
        self.socket.close()


@pytest.fixture
def end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SupervisorEnd]:
    ours, theirs = socket.socketpair()
    monkeypatch.setenv(control.CONTROL_FD_VARIABLE, str(theirs.detach()))
    monkeypatch.setenv(control.RUN_DIR_VARIABLE, str(tmp_path))
    monkeypatch.setenv(control.TENSORBOARD_VARIABLE, "0")
    monkeypatch.delenv(control.TENSORBOARD_DIR_VARIABLE, raising=False)
    supervisor = SupervisorEnd(ours)
    yield supervisor
    supervisor.hang_up()


def opened(**args: Any) -> TrainingSession:
    return TrainingSession.open({"env_id": "CartPole-v1", "exp_name": "ppo", "seed": 1, **args}, algo="ppo")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.001)


def journal_of(current: TrainingSession) -> Any:
    (sink,) = (sink for sink in current._sinks if isinstance(sink, JournalSink))
    return sink.journal


def tensorboard_of(current: TrainingSession) -> Any:
    (sink,) = (sink for sink in current._sinks if isinstance(sink, TensorBoardSink))
    return sink._file


def journal_rows(run_dir: Path) -> list[events.Record]:
    reader = OutboxReader(run_dir / "outbox", "script")
    lines = reader.read(1000)
    reader.close()
    return [events.decode(line) for line in lines]


def test_a_stop_is_announced_before_the_last_checkpoint_and_confirmed_after_it(
    end: SupervisorEnd, tmp_path: Path
) -> None:
    with opened() as current:
        end.tell("go")
        current.begin(100)
        end.tell("stop")
        wait_until(lambda: current.stop_requested)
        current.safe_point(40)
        current.save_checkpoint(40, {"weight": torch.ones(2)}, {"last": True})
    ready, stopping, checkpoint, stopped = end.heard_by_the_end()
    assert (ready, stopping, stopped) == (
        {"at": "ready", "total": 100},
        {"at": "stopping", "step": 40},
        {"at": "stopped", "step": 40},
    )
    assert checkpoint == {"at": "checkpoint", "step": 40, "path": "checkpoints/step-000000000040"}
    assert checkpoints.load(tmp_path / checkpoint["path"]).manifest.state == {"last": True}


def test_a_stop_after_the_last_step_changes_nothing(end: SupervisorEnd) -> None:
    with opened() as current:
        end.tell("go")
        current.begin(100)
        end.tell("stop")
        wait_until(lambda: current.stop_requested)
        current.save_checkpoint(100, {"weight": torch.ones(2)})
    assert [message["at"] for message in end.heard_by_the_end()] == ["ready", "checkpoint", "done"]


def test_checkpoints_that_are_turned_off_are_not_written(
    end: SupervisorEnd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(control.CHECKPOINTS_VARIABLE, "0")
    with opened() as current:
        end.tell("go")
        current.begin(100)
        assert current.save_checkpoint(100, {"weight": torch.ones(2)}) is None
    assert [message["at"] for message in end.heard_by_the_end()] == ["ready", "done"]
    assert not (tmp_path / "checkpoints").exists()


def test_a_checkpoint_says_how_the_run_did_and_where_it_comes_from(end: SupervisorEnd, tmp_path: Path) -> None:
    origin = checkpoints.save(
        tmp_path / "first" / "checkpoints",
        algo="ppo",
        env_id="CartPole-v1",
        step=7,
        tensors={"net.bias": torch.ones(2)},
    )
    network = torch.nn.Linear(1, 2)
    state = TrainingState()
    state.module("net", torch.nn.ParameterDict({"bias": network.bias}))
    with opened() as current:
        current.restore(state, None, str(origin))
        end.tell("go")
        current.begin(100)
        for value in (10.0, 30.0):
            current.scalars(50, {"charts/episodic_return": value})
        path = current.save_checkpoint(100, *state.capture())
    assert path is not None
    manifest = checkpoints.read_manifest(path)
    assert (manifest.metrics["episodes"], manifest.metrics["mean_return"]) == (2, 20.0)
    assert manifest.lineage == {
        "kind": "warm_start",
        "checkpoint": "first/step-000000000007",
        "sha256": checkpoints.read_manifest(origin).tensor_sha256,
    }


def test_a_state_that_no_checkpoint_can_hold_is_refused_before_the_first_step(
    end: SupervisorEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = TrainingState()
    state.attributes("training", SimpleNamespace(step=0, env=object()), "step", "env")
    with opened() as current:
        current.restore(state, None, None)
        with pytest.raises(UsageError, match=r"no checkpoint .* training\.env is a object, .* take it out of"):
            current.begin(100)
        monkeypatch.setenv(control.CHECKPOINTS_VARIABLE, "0")
        end.tell("go")
        current.begin(100)  # nothing is to be saved
    assert end.heard_by_the_end()[0] == {"at": "ready", "total": 100}


def test_a_resumed_run_tells_its_own_speed_and_its_own_episodes(
    end: SupervisorEnd, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    origin = checkpoints.save(
        tmp_path / "first" / "checkpoints",
        algo="ppo",
        env_id="CartPole-v1",
        step=10_000,
        tensors=TrainingState().capture()[0],
        state=TrainingState().capture()[1],
        metrics={"episodes": 2, "recent": [900.0, 1100.0]},
    )
    with opened() as current:
        current.restore(TrainingState(), str(origin), None)
        end.tell("go")
        current.begin(10_100)
        current.scalars(10_050, {"charts/episodic_return": 10.0})
        before, speed, after = current.seconds_running, current.steps_per_second(10_050), current.seconds_running
        assert 50 / after <= speed <= 50 / before
        current.note_step(10_100)
    assert "return 10.0 (mean of the last 1 episodes)" in capsys.readouterr().out


def test_a_stop_ends_a_pause(end: SupervisorEnd) -> None:
    with opened() as current:
        end.tell("pause", "go")
        current.begin(100)
        stopping = threading.Timer(0.05, end.tell, ["stop"])
        stopping.start()
        current.safe_point(1)
        stopping.join()
    assert [message["at"] for message in end.heard_by_the_end()] == ["ready", "paused", "stopping", "stopped"]


def test_a_stop_before_go_lets_begin_return(end: SupervisorEnd) -> None:
    with opened() as current:
        end.tell("stop")
        current.begin(100)
        assert current.stop_requested
    assert end.heard_by_the_end()[-1] == {"at": "stopped", "step": 0}


def test_a_pause_before_go_holds_the_script_at_its_first_safe_point(end: SupervisorEnd) -> None:
    with opened() as current:
        end.tell("pause", "go")
        current.begin(100)
        assert [end.hear(), end.hear()] == [{"at": "ready", "total": 100}, {"at": "paused", "step": 0}]
        resuming = threading.Timer(0.05, end.tell, ["resume"])
        resuming.start()
        current.safe_point(0)
        resuming.join()
        assert end.hear() == {"at": "resumed", "step": 0}


def test_a_request_for_a_checkpoint_stands_until_one_is_saved(end: SupervisorEnd) -> None:
    with opened() as current:
        end.tell("go", "checkpoint")
        current.begin(100)
        wait_until(lambda: current._requests._words.qsize() > 0 or current.checkpoint_requested)
        current.safe_point(7)
        assert current.checkpoint_requested and not current.stop_requested
        current.save_checkpoint(7, {"weight": torch.ones(2)})
        assert not current.checkpoint_requested
    assert [message["at"] for message in end.heard_by_the_end()] == ["ready", "checkpoint", "done"]


def test_a_broken_socket_asks_for_a_stop_and_breaks_nothing(end: SupervisorEnd) -> None:
    with opened() as current:
        end.hang_up()
        current.begin(100)
        wait_until(lambda: current.stop_requested)
        current.safe_point(5)
        current.save_checkpoint(5, {"weight": torch.ones(2)})


def test_a_script_that_fails_does_not_claim_to_be_done(end: SupervisorEnd) -> None:
    def fail() -> None:
        with opened():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert end.heard_by_the_end() == []


def test_a_line_that_is_no_request_is_reported_and_does_no_harm(
    end: SupervisorEnd, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened() as current:
        end.socket.sendall(b'not json\n["do"]\n{"do": "dance"}\n{"do": "g')
        end.socket.sendall(b'o"}\n')
        current.begin(100)
    assert capsys.readouterr().err.count("Ignored a control line that is no request") == 2


def test_scalars_are_one_row_each_and_none_where_they_are_not_finite(end: SupervisorEnd, tmp_path: Path) -> None:
    with opened() as current:
        current.scalars(8, {"charts/episodic_return": np.float32(1.5), "losses/value_loss": float("nan")})
        current.scalars(9, {"charts/SPS": 7})
    first, second = journal_rows(tmp_path)
    assert isinstance(first, events.MetricRow) and isinstance(second, events.MetricRow)
    assert (first.step, first.values) == (8, {"charts/episodic_return": 1.5, "losses/value_loss": None})
    assert (second.step, second.values["charts/SPS"]) == (9, 7.0)


def test_the_cpu_time_of_the_process_is_journalled_beside_its_speed(end: SupervisorEnd, tmp_path: Path) -> None:
    began = time.process_time()
    with opened() as current:
        current.scalars(1, {"charts/SPS": 7.0})
        while time.process_time() < began + 0.2:  # work
            pass
        current.scalars(2, {"charts/episodic_return": 1.0})
        current.scalars(3, {"charts/SPS": 7.0})
        current.scalars(4, {"charts/SPS": 7.0, "system/cpu_seconds": 99.0})
    used = time.process_time() - began
    rows = [row.values for row in journal_rows(tmp_path) if isinstance(row, events.MetricRow)]
    first, none, later, own = [row.get("system/cpu_seconds") for row in rows]
    assert first is not None and later is not None and 0 <= first < later <= used and later - first < used
    assert none is None and own == 99.0, "neither for each episode, nor over what a script says itself"
    memory = [row.get("system/memory_mb") for row in rows]
    assert memory[0] is not None and memory[0] > 1 and memory[1] is None


def test_a_row_of_many_episodes_says_how_many_there_were_and_how_the_newest_did(
    end: SupervisorEnd, tmp_path: Path
) -> None:
    with opened() as current:
        current.scalars(8, {"charts/episodic_return": 0.5}, [0.0] * 60 + [1.0] * 60)
        current.scalars(9, {"charts/episodic_return": 1.0}, [1.0] * 10)
    rows = [row.values for row in journal_rows(tmp_path) if isinstance(row, events.MetricRow)]
    assert rows == [
        {"charts/episodic_return": 0.5, "charts/episodes": 120.0, "charts/mean_return": 0.6},
        {"charts/episodic_return": 1.0, "charts/episodes": 130.0, "charts/mean_return": 0.7},
    ]


def test_steps_are_journalled_beside_the_scalars_and_whole_when_the_session_ends(
    end: SupervisorEnd, tmp_path: Path
) -> None:
    with opened() as current:
        lane = current.steps.lane(actor="policy")
        for number in range(3):
            lane.append(number, number, 1.0, number == 2)
        current.scalars(3, {"charts/SPS": 1.0})
    assert [step.action for step in steps_in(tmp_path / "outbox")] == [0, 1, 2]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({control.TENSORBOARD_VARIABLE: "0"}, None),
        ({control.TENSORBOARD_VARIABLE: "1"}, "tensorboard"),
        ({control.TENSORBOARD_VARIABLE: "1", control.TENSORBOARD_DIR_VARIABLE: "elsewhere"}, "elsewhere"),
    ],
)
def test_tensorboard_is_written_where_the_supervisor_says_or_not_at_all(
    end: SupervisorEnd,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    expected: str | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with opened() as current:
        current.scalars(1, {"charts/SPS": 7.0})
        assert (current.writer is None) == (expected is None)
    found = {file.parent for file in tmp_path.rglob("events.out.tfevents.*")}
    assert found == (set() if expected is None else {tmp_path / expected})


def test_a_process_that_the_script_starts_does_not_inherit_the_socket(end: SupervisorEnd) -> None:
    descriptor = os.environ[control.CONTROL_FD_VARIABLE]
    with opened():
        assert control.CONTROL_FD_VARIABLE not in os.environ
        assert not os.get_inheritable(int(descriptor))


def test_a_supervisor_that_names_no_run_directory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(control.CONTROL_FD_VARIABLE, "5")
    monkeypatch.delenv(control.RUN_DIR_VARIABLE, raising=False)
    with pytest.raises(UsageError, match="MOSAIC_RUN_DIR"):
        TrainingSession.open({}, algo="toy")


# --- by hand -----------------------------------------------------------------------------------------------


@pytest.fixture
def by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(control.CONTROL_FD_VARIABLE, raising=False)
    monkeypatch.setenv(control.TENSORBOARD_VARIABLE, "0")
    return tmp_path


def test_a_second_ctrl_c_ends_at_once_and_handlers_are_put_back(by_hand: Path) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with opened() as current:
        signal.raise_signal(signal.SIGINT)
        assert current.stop_requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_sigterm_asks_for_a_stop(by_hand: Path) -> None:
    with opened() as current:
        signal.raise_signal(signal.SIGTERM)
        current.safe_point(3)
        assert current.stop_requested


def test_runs_of_the_same_second_get_directories_of_their_own(by_hand: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.5)
    names = []
    for _ in range(2):
        with opened() as current:
            names.append(str(current.run_dir))
    assert names == [f"runs/CartPole-v1__ppo__1__1700000000{suffix}" for suffix in ("", "-2")]


def test_a_name_from_outside_cannot_leave_the_runs_directory(by_hand: Path) -> None:
    with opened(env_id="../../ALE/Pong-v5", exp_name="..") as current:
        assert current.run_dir.resolve().parent == by_hand / "runs"


def test_progress_shows_steps_speed_and_recent_return(by_hand: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened() as current:
        current.begin(5000)
        for step, value in ((100, 10.0), (200, 30.0)):
            current._episodes.note(step, value)
            current._progress.note(step, seconds=step / 20)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "200 of 5,000 steps, 20 a second, return 20.0 (mean of the last 2 episodes)"
    ]


def test_a_full_disk_ends_the_tensorboard_files_but_not_the_training(
    by_hand: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv(control.TENSORBOARD_VARIABLE, "1")
    monkeypatch.setattr(TensorBoardSink, "_add_event", refuse)
    with opened() as current:
        for step in (10, 20):
            current.scalars(step, {"charts/SPS": 1.0})
        assert current.writer is None
    assert capsys.readouterr().err.count("TensorBoard files end at step 10: ") == 1


def no_space(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


class FullFor:
    """A disk without space for a checkpoint until `attempts` were made to write one."""

    def __init__(self, attempts: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left, self._sync = attempts, sync
        self.on_refusal: Callable[[], None] = lambda: None
        monkeypatch.setattr(checkpoints, "sync", self._try)
        monkeypatch.setattr(checkpoint_writer, "FULL_DISK_RETRY_SECONDS", 0.001)

    def _try(self, path: Path) -> None:
        if self._left:
            self._left -= 1
            self.on_refusal()
            no_space()
        self._sync(path)


def test_rows_that_were_held_are_written_although_tensorboard_cannot_be_closed(
    end: SupervisorEnd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(control.TENSORBOARD_VARIABLE, "1")
    with opened() as current:
        end.tell("go")
        current.begin(10)
        journal, file = journal_of(current), tensorboard_of(current)
        write_line = journal._write_line
        monkeypatch.setattr(journal, "_write_line", lambda *_: False)
        current.scalars(10, {"charts/SPS": 1.0})
        current.safe_point(10)
        assert journal.held == 1
        monkeypatch.setattr(journal, "_write_line", write_line)
        with monkeypatch.context() as full:
            full.setattr(file, "close", no_space)
            current.close()
    file.close()
    assert [record.step for record in journal_rows(tmp_path) if isinstance(record, events.MetricRow)] == [10]
    heard = end.heard_by_the_end()
    assert [message["at"] for message in heard] == ["ready", "throttled", "journalled", "done"]
    assert heard[2]["seq"] == 1, "what would be lost if the process died now"
    assert capsys.readouterr().err.count("TensorBoard files end at step 10: ") == 1


def test_a_required_checkpoint_waits_for_space_and_rows_do_not_wait_for_it(
    end: SupervisorEnd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = FullFor(3, monkeypatch)
    with opened() as current:
        end.tell("go")
        current.begin(10)
        journal = journal_of(current)
        flushed: list[bool] = []
        flush = journal.flush
        monkeypatch.setattr(journal, "flush", lambda: flushed.append(flush()))
        path = current.save_checkpoint(10, {"weight": torch.ones(2)})
        assert flushed == [True] * 3
        monkeypatch.setattr(journal, "flush", flush)
    assert disk._left == 0 and path is not None and checkpoints.load(path).manifest.step == 10
    assert os.listdir(tmp_path / "checkpoints") == [path.name]
    assert [message["at"] for message in end.heard_by_the_end()] == ["ready", "checkpoint", "done"]
    assert capsys.readouterr().err.count("Waiting for disk space") == 1


def test_a_supervised_stop_still_waits_for_space_because_the_supervisor_decides_how_long(
    end: SupervisorEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    FullFor(3, monkeypatch)
    with opened() as current:
        end.tell("go")
        current.begin(100)
        end.tell("stop")
        wait_until(lambda: current.stop_requested)
        current.safe_point(40)
        assert current.save_checkpoint(40, {"weight": torch.ones(2)}) is not None
    heard = [message["at"] for message in end.heard_by_the_end()]
    assert heard == ["ready", "stopping", "checkpoint", "stopped"]


def test_by_hand_a_stop_ends_the_waiting_for_space(by_hand: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullFor(10**9, monkeypatch)
    with opened() as current:
        refusals: list[int] = []

        def stop_at_the_third() -> None:
            refusals.append(1)
            if len(refusals) == 3:
                signal.raise_signal(signal.SIGTERM)

        disk.on_refusal = stop_at_the_third
        with pytest.raises(checkpoints.NotNowError, match="No space left on device"):
            current.save_checkpoint(10, {"weight": torch.ones(2)})
    assert len(refusals) == 3


@pytest.mark.parametrize("away", ["forbidden", "moved"])
def test_a_required_checkpoint_waits_for_a_folder_that_takes_no_files(
    end: SupervisorEnd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], away: str
) -> None:
    """Of a volume that is read-only, forbidden or away for a while; nothing is made in its place."""
    run, elsewhere = tmp_path, tmp_path.with_name("elsewhere")
    tries: list[int] = []
    save = checkpoints.save

    def refuse_twice(*args: Any, **content: Any) -> Path:
        if away == "forbidden" and len(tries) < 2:
            tries.append(1)
            raise checkpoints.NotNowError("Permission denied.", full=False)
        return save(*args, **content)

    def come_back(_: float) -> None:
        tries.append(1)
        if away == "moved" and len(tries) == 2:
            assert not run.exists()
            elsewhere.rename(run)

    monkeypatch.setattr(checkpoints, "save", refuse_twice)
    with opened() as current:
        end.tell("go")
        current.begin(10)
        monkeypatch.setattr(time, "sleep", come_back)
        if away == "moved":
            run.rename(elsewhere)
        path = current.save_checkpoint(10, {"weight": torch.ones(2)})
    assert path is not None and checkpoints.load(path).manifest.step == 10
    assert capsys.readouterr().err.count("Waiting for its folder") == 1


def test_any_other_obstacle_to_a_required_checkpoint_is_raised_at_once(end: SupervisorEnd, tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("not a directory")
    with opened() as current, pytest.raises(checkpoints.CheckpointError) as refused:
        current.save_checkpoint(10, {"weight": torch.ones(2)})
    assert not isinstance(refused.value, checkpoints.NotNowError)


def test_time_spent_paused_does_not_count_as_running(by_hand: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with opened() as current:
        current.begin(10)
        now[0] += 5
        current._requests._obey("pause", 0)
        now[0] += 50
        assert current.seconds_running == 5
        current._requests._obey("resume", 0)
        now[0] += 2
        assert current.seconds_running == 7
