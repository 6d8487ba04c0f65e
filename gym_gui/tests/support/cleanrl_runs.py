"""Runs of the CleanRL worker for tests: its daemons, its run configs, and its processes seen from outside."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import worker_of
from gym_gui.tests.support.history import check_history
from gym_gui.tests.support.marked_processes import command_of, end_all, processes_using
from gym_gui.tests.support.warm_popen import TRAINS
from mosaic_protocol.process_identity import ProcessIdentity, stat_fields

SCRIPTS = Path(__file__).resolve().parents[3] / "mosaic_worker" / "tests" / "sample_scripts"
MODES = ("cold", "warm")


@contextmanager
def cleanrl_daemon(home: Path, mode: str) -> Iterator[DaemonProcess]:
    """A daemon that starts CleanRL runs ``cold`` or ``warm``; afterwards nothing is left and its history is legal."""
    warm: dict[str, Any] = {"warm_starts": 1, "prewarm": "cleanrl"} if mode == "warm" else {}
    daemon = DaemonProcess(home, **warm)
    daemon.env[TRAINS] = "1"
    try:
        yield daemon.start()
    finally:
        daemon.clean_up()
        _see_everything_end(home)
    with closing(daemon.registry()) as registry:
        check_history(registry, **daemon.has_cpus)


def wait_until_warm(daemon: DaemonProcess) -> None:
    wait_for("the fork server to be ready", lambda: "ready" in daemon.client.health().warm_servers.values())


def cleanrl_config(flags: dict[str, Any] | None = None, *, cpus: int = 1, **worker_config: Any) -> dict[str, Any]:
    """A run config for the CleanRL worker; ``flags`` are the script's own."""
    config = {**worker_config, "extras": {"algo_params": flags or {}}}
    return {
        "run_name": str(worker_config.get("algo") or Path(worker_config["script"]).stem),
        "resources": {"cpus": {"requested": cpus}},
        "artifacts": {},
        "metadata": {"worker": {"type": "cleanrl", "module": "cleanrl_worker.cli", "config": config}},
    }


def submit_ppo(daemon: DaemonProcess, *, flags: dict[str, Any] | None = None, **settings: Any) -> str:
    """Submit PPO on CartPole; its run id."""
    config = cleanrl_config(flags, algo="ppo", env_id="CartPole-v1", **settings)
    return daemon.client.submit(config).run.run_id


def submit_script(daemon: DaemonProcess, name: str, *, total_timesteps: int | None = None, **flags: Any) -> str:
    """Submit a run of one of the small scripts; its run id."""
    steps = {} if total_timesteps is None else {"total_timesteps": total_timesteps}
    return daemon.client.submit(cleanrl_config(flags, script=str(SCRIPTS / f"{name}.py"), **steps)).run.run_id


def script_of(daemon: DaemonProcess, run_id: str) -> ProcessIdentity:
    """The script's process: the only child of the supervisor besides the one that records what is not committed. That
    one looks like the supervisor itself between fork and exec, so there may be two for a moment."""
    supervisor = worker_of(daemon, run_id)

    def alone() -> ProcessIdentity | None:
        found = [one for one in children_of(supervisor.pid) if not _is_recorder(one.pid)]
        return found[0] if len(found) == 1 else None

    return wait_for("the supervisor to have no other child than the script", alone)


def _is_recorder(pid: int) -> bool:
    fields = stat_fields(pid)
    return fields is None or fields[0] == "Z" or "code_changes" in command_of(pid)


def children_of(parent: int) -> list[ProcessIdentity]:
    found = (int(entry) for entry in os.listdir("/proc") if entry.isdecimal())
    fields = ((pid, stat_fields(pid)) for pid in found)
    children = (ProcessIdentity.of(pid) for pid, stat in fields if stat is not None and int(stat[1]) == parent)
    return [child for child in children if child is not None]


def _see_everything_end(home: Path) -> None:
    """Whatever was left behind is reported, and ended all the same."""
    # Fork servers end with their daemon by themselves, but one that still imports takes seconds to notice.
    end_all(lambda: [pid for pid in processes_using(home) if "fork_server" in command_of(pid)])
    try:
        wait_for("every process of this daemon to end", lambda: not processes_using(home), timeout=20)
    finally:
        end_all(lambda: processes_using(home))


def fork_servers_of(daemon: DaemonProcess) -> list[ProcessIdentity]:
    """Fork servers are the daemon's children; what they fork looks the same but is not."""
    assert daemon.process is not None
    return [child for child in children_of(daemon.process.pid) if "fork_server" in command_of(child.pid)]


def identities(pids: Iterable[int]) -> list[ProcessIdentity]:
    """The processes that have these numbers now; each must live."""
    found = [ProcessIdentity.of(pid) for pid in pids]
    assert None not in found, "one of the processes is gone already"
    return [process for process in found if process is not None]


def cpu_ticks(process: ProcessIdentity) -> int:
    """CPU time that a process has used, in clock ticks."""
    fields = stat_fields(process.pid)
    assert fields is not None
    return int(fields[11]) + int(fields[12])
