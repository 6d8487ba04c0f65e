"""A script under its session: by hand, and under a supervisor at the other end of a real socket."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cleanrl_worker import checkpoints, control, session
from cleanrl_worker.cleanrl import ppo
from cleanrl_worker.session import TrainingSession, UsageError
from cleanrl_worker.training_state import TrainingState
from mosaic_protocol import events
from mosaic_protocol.outbox import OutboxReader

HANG_SECONDS = 60.0
CHECKOUT = Path(session.__file__).parents[1]

LOOP = """
import torch
from cleanrl_worker.session import TrainingSession
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
from cleanrl_worker import session, supervisor_link
supervisor_link.SUPERVISOR_GONE_GRACE_SECONDS = 0.1
with session.TrainingSession.open({"env_id": "Toy-v0"}, algo="toy") as opened:
    opened.begin(10**12)
    threading.Event().wait()
"""


class Supervised:
    """A script's process and the supervisor's end of its control socket."""

    def __init__(self, arguments: list[str], run_dir: Path, **environment: str) -> None:
        self.run_dir = run_dir
        self.socket, theirs = socket.socketpair()
        variables = {
            "PYTHONPATH": str(CHECKOUT),
            control.CONTROL_FD_VARIABLE: str(theirs.fileno()),
            control.RUN_DIR_VARIABLE: str(run_dir),
            control.TENSORBOARD_VARIABLE: "0",
        }
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **variables, **environment},
            cwd=run_dir,
            pass_fds=[theirs.fileno()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        theirs.close()
        self._lines = self.socket.makefile("rb")
        self.socket.settimeout(HANG_SECONDS)

    def tell(self, word: str) -> None:
        self.socket.sendall(json.dumps({"do": word}).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._lines.readline() or '{"at": "closed"}')
        return message

    def hear_until(self, at: str) -> list[dict[str, Any]]:
        heard = [self.hear()]
        while heard[-1]["at"] not in (at, "closed"):
            heard.append(self.hear())
        assert heard[-1]["at"] == at, (heard, self.process.communicate(timeout=HANG_SECONDS))
        return heard

    def hang_up(self) -> None:
        self._lines.close()
        self.socket.close()

    def end(self) -> int:
        self.output, self.errors = self.process.communicate(timeout=HANG_SECONDS)
        return self.process.returncode

    def cpu_ticks(self) -> int:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def rows(self) -> list[events.MetricRow]:
        reader = OutboxReader(self.run_dir / "outbox", "script")
        records = [events.decode(line) for line in reader.read(10**6)]
        reader.close()
        assert all(isinstance(record, events.MetricRow) for record in records)
        return records  # type: ignore[return-value]

    def wait_for_rows(self, more_than: int) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        while len(self.rows()) <= more_than:
            assert time.monotonic() < deadline, "the journal does not grow"
            time.sleep(0.01)

    def last_checkpoint(self) -> checkpoints.Checkpoint:
        return checkpoints.load(checkpoints.list_checkpoints(self.run_dir / "checkpoints")[-1])

    def clean_up(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.hang_up()


Start = Callable[..., Supervised]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Supervised] = []

    def starting(*arguments: str, **environment: str) -> Supervised:
        started.append(Supervised(list(arguments), tmp_path, **environment))
        return started[-1]

    yield starting
    for script in started:
        script.clean_up()


@pytest.fixture
def loop(start: Start) -> Supervised:
    """The loop above, told to go and seen to run."""
    script = start("-c", LOOP)
    assert script.hear()["at"] == "ready"
    script.tell("go")
    script.wait_for_rows(0)
    return script


def ticks_used_within(script: Supervised, seconds: float) -> int:
    before = script.cpu_ticks()
    time.sleep(seconds)
    return script.cpu_ticks() - before


# --- under a supervisor ------------------------------------------------------------------------------------


def test_ppo_waits_for_go_pauses_without_using_the_processor_resumes_and_stops_with_a_checkpoint(
    start: Start,
) -> None:
    script = start(str(ppo.__file__), "--total-timesteps", "1000000000")
    assert script.hear()["at"] == "ready"
    assert ticks_used_within(script, 0.5) <= 2
    assert script.rows() == []

    script.tell("go")
    script.wait_for_rows(0)
    script.tell("pause")
    paused = script.hear()
    assert paused["at"] == "paused" and paused["step"] > 0
    rows = len(script.rows())
    assert ticks_used_within(script, 1.0) <= 3
    assert len(script.rows()) == rows

    script.tell("resume")
    assert script.hear() == {"at": "resumed", "step": paused["step"]}
    script.wait_for_rows(rows)
    script.tell("stop")
    heard = [message for message in script.hear_until("stopped") if message["at"] != "checkpoint"]
    assert [message["at"] for message in heard] == ["stopping", "stopped"]
    assert script.end() == 0, script.errors
    assert heard[-1]["step"] == script.last_checkpoint().manifest.step >= paused["step"]


def test_each_episode_and_each_update_of_ppo_is_one_row_of_the_journal(start: Start) -> None:
    script = start(str(ppo.__file__), "--total-timesteps", "1024")
    script.hear_until("ready")
    script.tell("go")
    assert script.hear_until("done")[-1] == {"at": "done", "step": 1024}
    assert script.end() == 0, script.errors
    rows = script.rows()
    episodes = [row for row in rows if "charts/episodic_return" in row.values]
    assert [row.step for row in rows if "charts/SPS" in row.values] == [512, 1024]
    assert len(episodes) + 2 == len(rows) and len(episodes) > 10
    assert sum(row.values["charts/episodic_length"] or 0 for row in episodes) <= 1024
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))


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


def test_a_checkpoint_tells_how_the_run_did_and_where_it_comes_from(end: SupervisorEnd, tmp_path: Path) -> None:
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
        wait_until(lambda: current._asked.qsize() > 0 or current.checkpoint_requested)
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
    assert (second.step, second.values) == (9, {"charts/SPS": 7.0})


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


def test_ctrl_c_leaves_a_loadable_checkpoint(by_hand: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, str(ppo.__file__), "--total-timesteps", "1000000000"],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], HANG_SECONDS)[0]
        assert process.stdout.readline().startswith("Training for 1,000,000,000 steps; files go to runs/")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=HANG_SECONDS)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0 and "Traceback" not in errors
    (run,) = (by_hand / "runs").iterdir()
    (path,) = checkpoints.list_checkpoints(run / "checkpoints")
    assert checkpoints.load(path).manifest.env_id == "CartPole-v1"


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


def test_progress_tells_steps_speed_and_recent_return(by_hand: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    monkeypatch.setattr(session, "_add_event", refuse)
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
        self._left, self._sync = attempts, checkpoints._sync
        self.on_refusal: Callable[[], None] = lambda: None
        monkeypatch.setattr(checkpoints, "_sync", self._try)
        monkeypatch.setattr(session, "FULL_DISK_RETRY_SECONDS", 0.001)

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
        assert current.writer is not None and current._journal is not None
        writer, write_line = current.writer, current._journal._write_line
        monkeypatch.setattr(current._journal, "_write_line", lambda *_: False)
        current.scalars(10, {"charts/SPS": 1.0})
        current.safe_point(10)
        assert current._journal.held == 1
        monkeypatch.setattr(current._journal, "_write_line", write_line)
        with monkeypatch.context() as full:
            full.setattr(writer, "close", no_space)
            current.close()
    writer.close()
    assert [record.step for record in journal_rows(tmp_path) if isinstance(record, events.MetricRow)] == [10]
    assert [message["at"] for message in end.heard_by_the_end()] == ["ready", "done"]
    assert capsys.readouterr().err.count("TensorBoard files end at step 10: ") == 1


def test_a_required_checkpoint_waits_for_space_and_rows_do_not_wait_for_it(
    end: SupervisorEnd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = FullFor(3, monkeypatch)
    with opened() as current:
        end.tell("go")
        current.begin(10)
        journal = current._journal
        assert journal is not None
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
        with pytest.raises(checkpoints.DiskFullError, match="No space left on device"):
            current.save_checkpoint(10, {"weight": torch.ones(2)})
    assert len(refusals) == 3


def test_any_other_obstacle_to_a_required_checkpoint_is_told_at_once(end: SupervisorEnd, tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("not a directory")
    with opened() as current, pytest.raises(checkpoints.CheckpointError) as refused:
        current.save_checkpoint(10, {"weight": torch.ones(2)})
    assert not isinstance(refused.value, checkpoints.DiskFullError)


def test_time_spent_paused_does_not_count_as_running(by_hand: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with opened() as current:
        current.begin(10)
        now[0] += 5
        current._obey("pause")
        now[0] += 50
        assert current.seconds_running == 5
        current._obey("resume")
        now[0] += 2
        assert current.seconds_running == 7
