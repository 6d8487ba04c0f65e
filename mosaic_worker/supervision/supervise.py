"""From a planned script to the end of its run: for the daemon that started this process, or by hand.

A worker whose algorithms are scripts needs nothing else to run them: it plans (:class:`PlannedScript`), says what it
knows of the run (`facts`, for ``analytics.json``), and returns the status it gets from here.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mosaic_protocol.paths import RunPaths
from mosaic_protocol.states import Desired
from mosaic_worker.errors import UsageError
from mosaic_worker.supervision.analytics import AnalyticsManifest
from mosaic_worker.supervision.control import RUN_DIR_VARIABLE, TENSORBOARD_DIR_VARIABLE
from mosaic_worker.supervision.launcher import become_script
from mosaic_worker.supervision.planned_script import PlannedScript
from mosaic_worker.supervision.runtime import ScriptRuntime
from mosaic_worker.supervision.script_process import ScriptProcess
from mosaic_worker.supervision.telemetry import SessionEmitter, StdoutEmitter
from mosaic_worker.supervision.wishes import Wishes
from mosaic_worker.training.tensorboard_place import place_by_hand


def supervise_for_daemon(
    plan: PlannedScript,
    facts: Mapping[str, Any],
    introduction: Mapping[str, Any],
    *,
    total_steps: int = 0,
    target: str | None = None,
) -> int:
    """Claim, start the script, then talk: the script is forked while this process has one thread.

    `introduction`: what the worker says of the run when it registers. Returns the exit status; raises
    :class:`UsageError` in a process that no daemon started.
    """
    from mosaic_protocol.worker_client import EXIT_REVOKED, LaunchRevokedError, WorkerSession

    try:
        session = WorkerSession.from_environment(introduction, target=target)
        session.claim()
    except LaunchRevokedError:
        return EXIT_REVOKED
    except RuntimeError as error:  # started with --grpc, but not by a daemon
        raise UsageError(str(error)) from error
    supervisor = os.getpid()
    script = ScriptProcess.start(plan, {})
    if script is None:
        become_script(plan.path, list(plan.arguments), supervisor, plan.order)
    session.open(claim=False)
    session.progress(0, total_steps, "starting")
    manifest = AnalyticsManifest(session.run, facts)
    runtime = ScriptRuntime(
        script, SessionEmitter(session), manifest, lambda: session.desired, lambda: session.registered
    )
    session.on_change = runtime.wake
    signal.signal(signal.SIGTERM, lambda *_: session.request(Desired.STOP, "SIGTERM"))
    status = runtime.run()
    session.finish()
    return status


def supervise_by_hand(plan: PlannedScript, facts: Mapping[str, Any], folder: Path, tensorboard_dir: str = "") -> int:
    """The same supervision without a daemon, in a new folder of its own; lifecycle events are JSON lines on stdout.

    `tensorboard_dir`: as the config's extras name it.
    """
    run = RunPaths(folder)
    run.outbox.mkdir(parents=True)
    # Our stdout is for lifecycle events, one JSON object a line: what the script prints goes beside it.
    place = place_by_hand(tensorboard_dir, run.directory, run.tensorboard)
    told = {RUN_DIR_VARIABLE: str(run.directory.absolute()), TENSORBOARD_DIR_VARIABLE: str(place.absolute())}
    script = ScriptProcess.start(plan, told, stdout=2)
    assert script is not None, "only a warm process forks, and this one was started by hand"
    wishes = Wishes()
    manifest = AnalyticsManifest(run, facts)
    runtime = ScriptRuntime(script, StdoutEmitter(), manifest, lambda: wishes.desired, lambda: wishes.may_begin)

    def stop(*_: object) -> None:
        wishes.stop()
        runtime.wake()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    return runtime.run()
