"""Housekeeping: a chore that fails is logged and keeps no other from being done."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gym_gui.services.trainer.errors import WorldError
from gym_gui.services.trainer.runs import housekeeping
from gym_gui.services.trainer.runs.housekeeping import Housekeeping
from gym_gui.services.trainer.settings import TrainerSettings
from gym_gui.services.trainer.storage.keep_aside import backup_of
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for


def warnings(daemon: DaemonProcess) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in daemon.structured_log().splitlines()]
    return [entry for entry in entries if entry["level"] == "WARNING" and "chore" in entry]


def test_a_log_that_cannot_be_rotated_is_reported_and_everything_else_is_done(
    make_daemon: Callable[..., DaemonProcess],
) -> None:
    daemon = make_daemon(log_bytes=100).start()
    deleted = daemon.submit(name="deleted", total_timesteps=2)
    daemon.wait_over(deleted)
    daemon.client.delete(deleted)
    sticks, other = (daemon.submit(total_timesteps=10**6, step_seconds=0.01, say="x" * 500) for _ in range(2))
    for run_id in (sticks, other):
        daemon.wait_state(run_id, "EXEC")
    for source in ("stdout", "stderr"):
        (daemon.paths.run_logs(sticks) / f"{source}.log.draft").mkdir()
    daemon.terminate()
    backup_of(daemon.paths.registry_db).unlink(missing_ok=True)
    for rotated in daemon.paths.run_logs(other).glob("*.1"):
        rotated.unlink()

    daemon.env["MOSAIC_TRAINER_TRASH_HOURS"] = "0"
    daemon.start()
    wait_for("the copy of the registry", backup_of(daemon.paths.registry_db).exists)
    wait_for("the trash to be empty", lambda: daemon.client.runs(include_deleted=True).total == 2)
    wait_for("the other log to be rotated", lambda: list(daemon.paths.run_logs(other).glob("*.1")))
    wait_for("a word of the log that sticks", lambda: any(sticks in entry["chore"] for entry in warnings(daemon)))


def test_the_last_log_of_a_loud_run_is_bounded_as_well(make_daemon: Callable[..., DaemonProcess]) -> None:
    lines = [f"line {number}" for number in range(20_000)]
    daemon = make_daemon(log_bytes=100).start()
    run_id = daemon.submit(total_timesteps=1, say="\n".join(lines))  # over before anybody looks at its log
    assert daemon.wait_over(run_id).outcome == "completed"
    logs = daemon.paths.run_logs(run_id)
    assert (logs / "stderr.log").stat().st_size <= 100
    assert sum(file.stat().st_size for file in logs.glob("stderr*")) < len("\n".join(lines)) / 2
    tail = b"".join(chunk.data for chunk in daemon.client.logs(run_id, tail_lines=3, source="stderr"))
    assert tail.decode().splitlines() == lines[-3:]


class BrokenTrash:
    """Fails each time for a reason that may change."""

    def __init__(self, errors: list[Exception]) -> None:
        self._errors = errors

    async def purge_old(self, hours: float) -> None:
        if not self._errors:
            raise asyncio.CancelledError  # the test has seen enough
        raise self._errors.pop(0)


class NoServers:
    async def drop_idle(self) -> None:
        return


async def test_a_trouble_that_lasts_is_logged_once_and_a_bug_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(housekeeping, "_CLEAN_EVERY", 0.0)
    errors = [OSError("first"), OSError("first"), WorldError("second"), WorldError("second"), KeyError("a bug")]
    with closing(RunRegistry(tmp_path / "registry.sqlite")) as registry:
        orchestrator: Any = SimpleNamespace(
            registry=registry, tracked={}, executor=NoServers(), settings=TrainerSettings()
        )
        trash: Any = BrokenTrash([*errors, OSError("last")])
        with pytest.raises(asyncio.CancelledError):
            await Housekeeping(orchestrator, trash).run()
    fields = [getattr(record, "fields", {}) for record in caplog.records]
    told = [one["reason"] for one in fields if one]
    assert told == ["first", "second", "last"]
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [KeyError]
