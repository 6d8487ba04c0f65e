"""``python -m toy_worker.cli --config F``: counts steps, one metric each, and misbehaves as the config says.

total_timesteps, and params: step_seconds, misbehave (see ``_MISBEHAVIOURS`` and ``_BAD_WORDS``), at_step, metrics
(bool), progress (bool), gate and gate_at (hold before that step until the file exists or a stop is wanted), gate_before
(hold before the claim until the file exists), write_before (write so many bytes before the claim), whisper_to (write
the session's tokens to that file, for tests that look for leaks), say (print it to stderr), also (the name of one more
metric), record (so many environment steps are recorded with each step), bad_steps (recorded steps that are damaged or
strange, see :mod:`toy_worker.bad_steps`), offset (added to every return, so that no two
runs log the same values), bare (write nothing but the journal: a full disk then meets no file of the toy's own)
"""

from __future__ import annotations

import argparse
import atexit
import json
import mmap
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mosaic_protocol import events
from mosaic_protocol.full_disk import until_it_works
from mosaic_protocol.states import Desired
from mosaic_protocol.worker_client import WorkerSession


def _crash() -> None:
    raise RuntimeError("the toy broke, as it was asked to")


def _exit_silently() -> None:
    os._exit(3)


def _kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _ignore_stop() -> None:
    """Hang where no stop is heard."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(3600)


def _spawn_grandchildren() -> None:
    """Children that outlive a polite stop: one plain, one in a session of its own, one forked without exec."""
    sleeper = [sys.executable, "-c", "import time; time.sleep(3600)"]
    subprocess.Popen(sleeper)
    subprocess.Popen(sleeper, start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(3600)
        os._exit(0)


def _fork_often() -> None:
    """What data loaders and process pools do, while the session's thread talks."""
    for _ in range(100):
        child = os.fork()
        if child == 0:
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            raise RuntimeError(f"a forked child ended with {status}")


def _scribble_in_the_journal(session: WorkerSession) -> None:
    """A line that is no record, where the next record belongs."""
    (segment,) = session.run.outbox.glob("worker-*.jsonl")
    with segment.open("ab") as journal:
        journal.write(b'{"kind": "metric", "seq": "one"\n')


def _count_beyond_measure(session: WorkerSession) -> None:
    """Steps and values that no database column and no message field holds."""
    session.publish(events.MetricRow(step=2**70, values={"charts/SPS": 1.0}))
    session.publish(events.RunLifecycleEvent(event="heartbeat", step=2**70))
    session.publish(events.MetricRow(step=-(2**63) - 1, values={"x" * 100_000: 1e308}))


def _speak_at_length(session: WorkerSession) -> None:
    """More in one go than one message carries."""
    for episode in range(100):
        words = {"said": "x" * 1_000_000}
        session.publish(events.EpisodeSummary(episode=episode, length=1, total_reward=0.0, info=words))


def _put_off_the_stop(session: WorkerSession) -> None:
    """Promises a last checkpoint again and again."""
    while True:
        session.wait_desired_change(Desired.RUN, timeout=0.2)
        if session.desired is Desired.STOP:
            session.lifecycle(events.RUN_STOPPING, "writing a last checkpoint, part of it")
            time.sleep(0.2)


def _fork_a_child_that_leaves(session: WorkerSession) -> None:
    """What a library may do that forks: its child runs out of our block."""
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)


def _start_no_more_threads(session: WorkerSession) -> None:
    """What Python says when a container has no process number left."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    session.wait_registered(timeout=60.0)
    threading.Thread.start = refuse  # type: ignore[method-assign]


def _hold_a_word(session: WorkerSession) -> None:
    """A word that the disk does not take at first; a limit on the size of files stands in for a full disk."""
    unlimited = resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, unlimited))
    session.lifecycle(events.RUN_PAUSED)
    resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, unlimited))


_BAD_WORDS = {
    "put_off_the_stop": _put_off_the_stop,
    "leaving_child": _fork_a_child_that_leaves,
    "no_threads": _start_no_more_threads,
    "hold_a_word": _hold_a_word,
    "scribble": _scribble_in_the_journal,
    "beyond_measure": _count_beyond_measure,
    "at_length": _speak_at_length,
}


def _hide_child() -> None:
    """A child that has nothing of MOSAIC but the session it was born into, then a death by signal."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], env={}, cwd="/")
    _kill_self()


_MISBEHAVIOURS = {
    "crash": _crash,
    "exit": _exit_silently,
    "kill_self": _kill_self,
    "ignore_stop": _ignore_stop,
    "grandchildren": _spawn_grandchildren,
    "fork_often": _fork_often,
    "hide_child": _hide_child,
}


def _hold_at_gate(session: WorkerSession, gate: Path) -> None:
    while not gate.exists() and session.desired is not Desired.STOP:
        time.sleep(0.01)


def _whisper(session: WorkerSession, path: Path) -> None:
    session.wait_registered(timeout=60.0)
    secrets = {"launch": session.context.launch_token, "session": session._session_token}
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(secrets))
    draft.replace(path)


def _step_recorder(session: WorkerSession) -> Callable[[int], None]:
    """Records steps whose numbers say what they are, and how many were finished in a file beside the journal."""
    from mosaic_worker.recording.step_recorder import StepRecorder  # NumPy is of use here alone

    stopping = lambda: session.desired is Desired.STOP  # noqa: E731
    recorder = StepRecorder(session.run.outbox, give_up=stopping, on_wait=session.throttled)
    atexit.register(recorder.close)  # after the session: what is left then is read from the outbox
    lane = recorder.lane("toy", "script")
    counter = (session.context.run_dir / "finished_steps").open("w+b")
    counter.write(bytes(8))
    counter.flush()
    finished = memoryview(mmap.mmap(counter.fileno(), 8)).cast("Q")

    def record(count: int) -> None:
        for _ in range(count):
            number = finished[0]
            lane.append([number, float(number)], number, 1.0, number % 10 == 9)
            finished[0] = number + 1

    return record


def _work(session: WorkerSession, config: dict[str, Any]) -> None:
    total = int(config.get("total_timesteps", 10))
    pause = float(config.get("step_seconds", 0.01))
    at_step, misbehave = int(config.get("at_step", 1)), config.get("misbehave")
    offset = float(config.get("offset", 0.0))
    step = 0
    session.started(total_steps=total)
    record = _step_recorder(session) if config.get("record") else None
    if config.get("bad_steps"):
        from .bad_steps import leave_bad_steps  # noqa: TID252 - two packages of tests have this name

        leave_bad_steps(session, config["bad_steps"])
    if config.get("whisper_to"):
        _whisper(session, Path(config["whisper_to"]))
    while session.safe_point(step) and step < total:
        step += 1
        if config.get("gate") and step == int(config.get("gate_at", 1)):
            _hold_at_gate(session, Path(config["gate"]))
        if config.get("metrics", True):
            also = {config["also"]: 1.0} if "also" in config else {}
            values = {"charts/episodic_return": offset + step, "charts/SPS": 1.0 / max(pause, 1e-6), **also}
            session.metric(step, values)
        if record is not None:
            record(int(config["record"]))
        if misbehave in _BAD_WORDS and step == at_step:
            _BAD_WORDS[misbehave](session)
        elif misbehave and step == at_step:
            _MISBEHAVIOURS[misbehave]()
        time.sleep(pause)


_FLAGS = (
    *(
        "also",
        "at_step",
        "bad_steps",
        "bare",
        "gate",
        "gate_at",
        "gate_before",
        "metrics",
        "misbehave",
        "offset",
        "progress",
    ),
    *("record", "say", "step_seconds", "whisper_to", "write_before"),
)


def _merged(config: dict[str, Any]) -> dict[str, Any]:
    return {**config, **config["params"]}


def _dry_run(config: dict[str, Any]) -> int:
    """Stands in for a real worker's check of its settings: one sentence and status 2, or a summary."""
    unknown = [name for name in config["params"] if name not in _FLAGS]
    if unknown:
        print(f"toy_worker: count has no flag --{unknown[0].replace('_', '-')}", file=sys.stderr)
        return 2
    if config.get("env_id") == "Nowhere-v0":
        print("toy_worker: there is no environment 'Nowhere-v0'", file=sys.stderr)
        return 2
    print(json.dumps({"status": "ok", "algo": config["algo"], "env_id": config.get("env_id")}))
    return 0


def _before_the_claim(config: dict[str, Any]) -> None:
    """What libraries do while they are imported: they take their time, and some write files."""
    while config.get("gate_before") and not Path(config["gate_before"]).exists():
        time.sleep(0.01)
    if config.get("write_before"):
        Path("scratch").write_bytes(bytes(int(config["write_before"])))


def _note_start(path: Path) -> None:
    """A line per start, so that tests can count starts."""
    with path.open("a") as starts:
        starts.write(f"{os.getpid()}\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--grpc", action="store_true")
    parser.add_argument("--grpc-target")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--emit-summary", action="store_true")
    options = parser.parse_args()
    config = json.loads(until_it_works(options.config.read_text, "read the config"))
    if options.dry_run:
        sys.exit(_dry_run(config))
    config = _merged(config)
    _before_the_claim(config)
    with WorkerSession.from_environment({"toy": True}) as session:
        if not config.get("bare"):
            until_it_works(lambda: _note_start(session.context.run_dir / "starts"), "note the start")
            print(f"toy worker starts, pid {os.getpid()}", flush=True)
        if "say" in config:
            print(config["say"], file=sys.stderr, flush=True)
        _work(session, config)


if __name__ == "__main__":
    main()
