"""One contract for what a worker reads: the same verdict wherever one asks, and workers that are not CleanRL."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym_gui.cli.errors import ExitCode
from gym_gui.services.external_services import look_for
from gym_gui.services.trainer.bundles.manager import BundleManager
from gym_gui.services.trainer.client import RequestRefusedError
from gym_gui.services.trainer.execution.roster import WorkerRoster
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.tests.cli.test_cli_completion import offered
from gym_gui.tests.support.cleanrl_runs import SCRIPTS, cleanrl_config, cleanrl_daemon
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.dropped_worker import dropped_worker
from gym_gui.validations.dry_run import dry_run
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.run_manifest import refresh_manifest

OWN_SCRIPT = str(SCRIPTS / "argparse_manner.py")

PAYLOAD: dict[str, Any] = {
    "run_name": "cleanrl-ppo-cartpole",
    "resources": {"gpus": {"requested": 0, "mandatory": 0}, "cpus": {"requested": 2}},
    "artifacts": {"tensorboard": {"enabled": True}, "wandb": {"enabled": False}},
    "metadata": {
        "worker": {
            "type": "cleanrl",
            "module": "cleanrl_worker.cli",
            "config": {
                "run_id": "${RUN_ID}",
                "algo": "ppo",
                "env_id": "CartPole-v1",
                "seed": 42,
                "total_timesteps": 50000,
                "extras": {
                    "track_wandb": False,
                    "tensorboard_dir": "${VAR_TENSORBOARD_DIR}/${RUN_ID}",
                    "requirements": ["base"],
                    "notes": "Day20 smoke test",
                },
            },
        }
    },
}
"""What the worker was designed with, and artifacts as every run config has them."""


@pytest.fixture
def mosaic(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "home")


def verdicts(mosaic: CommandLine, tmp_path: Path, config: dict[str, Any]) -> tuple[str, str]:
    """What the command line and the cockpit say of a run config: "" for one that would start."""
    file = tmp_path / "run.json"
    file.write_text(json.dumps(config))
    typed = mosaic("submit", str(file), "--dry-run")
    shown = dry_run(WorkerQueries(MosaicPaths(tmp_path / "home")), config["metadata"]["worker"]["type"], config)
    assert shown.asked
    return typed.err.removeprefix("mosaic: ").strip(), "" if shown.ok else shown.text


# ---- one verdict -------------------------------------------------------------------------------------------------


def test_command_line_and_cockpit_give_the_same_verdict_on_a_run_config(mosaic: CommandLine, tmp_path: Path) -> None:
    """Artifacts are the worker's to judge as well: a script without a flag for videos cannot be asked for any."""
    config = cleanrl_config(script=OWN_SCRIPT)
    assert verdicts(mosaic, tmp_path, config) == ("", "")
    config["artifacts"] = {"video": {"enabled": True}}
    typed, shown = verdicts(mosaic, tmp_path, config)
    assert typed == shown
    assert "has no flag --capture-video" in typed
    config = cleanrl_config({"num_env": 4}, algo="ppo", env_id="CartPole-v1")
    typed, shown = verdicts(mosaic, tmp_path, config)
    assert typed == shown == "ppo has no flag --num-env; did you mean '--num-envs'?"


def test_train_says_what_submit_says_of_the_same_run(mosaic: CommandLine, tmp_path: Path) -> None:
    words = ("train", "--script", OWN_SCRIPT, "--extra", "track_wandb=true", "--dry-run")
    typed = mosaic(*words)
    planned = mosaic(*words, "--no-preflight", "--json").json["config"]
    assert verdicts(mosaic, tmp_path, planned) == (typed.err.removeprefix("mosaic: ").strip(),) * 2
    assert "has no flag --track" in typed.err


# ---- the payload that the worker was designed with ---------------------------------------------------------------


def test_the_payload_of_the_design_runs_as_it_stands(tmp_path: Path) -> None:
    with cleanrl_daemon(tmp_path / "home", "cold") as daemon:
        run_id = daemon.client.submit(PAYLOAD).run.run_id
        daemon.wait_state(run_id, "EXEC")
        folders = daemon.paths.run(run_id)
        read = json.loads(daemon.paths.worker_config(run_id).read_text())
        assert read["run_id"] == run_id
        assert read["extras"] == {
            "track_wandb": False,
            "tensorboard_dir": str(folders.tensorboard),
            "requirements": ["base"],
            "notes": "Day20 smoke test",
        }
        assert (read["params"], read["artifacts"]["tensorboard"]) == ({}, {"enabled": True})
        wait_for("event files", lambda: any(folders.tensorboard.glob("events.out.tfevents.*")))
        told = json.loads(daemon.client.run(run_id).capabilities_json)
        assert (told["algo"], told["env_id"]) == ("ppo", "CartPole-v1")
        assert told["extras"]["requirements"] == ["base"]
        daemon.client.cancel(run_id, "seen enough")
        assert daemon.wait_over(run_id).outcome == "canceled"


def test_event_files_go_into_a_folder_below_the_run_s_that_was_asked_for(tmp_path: Path) -> None:
    config = cleanrl_config(algo="ppo", env_id="CartPole-v1", total_timesteps=1024)
    config["metadata"]["worker"]["config"]["extras"] = {"tensorboard_dir": "${VAR_TENSORBOARD_DIR}/${RUN_ID}/first"}
    with cleanrl_daemon(tmp_path / "home", "cold") as daemon:
        run_id = daemon.client.submit(config).run.run_id
        assert daemon.wait_over(run_id).outcome == "completed"
        folders = daemon.paths.run(run_id)
        assert any((folders.tensorboard / "first").glob("events.out.tfevents.*"))
        assert json.loads(folders.manifest.read_text())["tensorboard_dir"] == "tensorboard"


def test_ids_and_the_address_for_wandb_are_given_on_the_command_line(mosaic: CommandLine) -> None:
    words = ("train", "ppo", "--env-id", "CartPole-v1", "--agent-id", "walker", "--worker-id", "w7")
    answer = mosaic(*words, "--extra", "wandb_email=me@example.org", "--dry-run", "--json")
    worker = answer.json["config"]["metadata"]["worker"]
    assert (worker["agent_id"], worker["worker_id"]) == ("walker", "w7")
    assert worker["config"]["extras"] == {"wandb_email": "me@example.org"}
    assert "--agent-id" in mosaic(*words[:4], "--agent-id", "a\nb", "--dry-run").err


# ---- what a worker says of itself --------------------------------------------------------------------------------


def test_a_worker_that_says_nothing_of_itself_is_known_by_its_settings(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(total_timesteps=1, env_id="Pond-v0", extras={"notes": "n"})
    run = daemon.wait_over(run_id)
    told = json.loads(run.capabilities_json)
    assert told == {"toy": True, "algo": "count", "env_id": "Pond-v0", "extras": {"notes": "n"}}


# ---- workers that declare their parameters -----------------------------------------------------------------------

SCHEMA = {
    "properties": {
        "step_seconds": {"type": "number", "minimum": 0, "default": 0.01, "description": "How long a step takes."},
        "say": {"type": "string", "description": "What to print."},
        "metrics": {"type": "boolean", "default": True},
    }
}


@pytest.fixture
def described(tmp_path: Path) -> CommandLine:
    """A command line that knows a worker with a schema, a dataset and a list of environments."""
    environments = '[[environments]]\nname = "Ponds"\nids = ["Pond-v0", "Pond-v1"]\n[[environments]]\nname = "Lakes"\n'
    environments += 'ids = ["Lake-v0"]\nmodule = "no_such_module_here"\nextra = "lakes"\n'
    environments += '[extras]\nmodule = "mimic_worker.tools"\n'
    folder = dropped_worker(
        tmp_path / "workers", "mimic", algorithm="mimic", needs=["dataset"], more=environments, schema=SCHEMA
    )
    return CommandLine(tmp_path / "home", {"MOSAIC_WORKER_PATH": str(folder)})


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "--dataset is missing: mimic learns from a dataset"),
        (("--dataset", "d", "--step-second", "1"), "mimic has no flag --step-second; did you mean '--step-seconds'?"),
        (("--dataset", "d", "--step-seconds", "-1"), "--step-seconds must be at least 0 (got -1)"),
        (("--dataset", "d", "--metrics", "3"), "--metrics must be true or false (got 3)"),
        (("--dataset", "d", "--run-nam", "x"), "there is no option '--run-nam'; did you mean '--run-name'?"),
        (("--dataset", "d", "--warm-start", "x"), "--resume or --warm-start is not offered: the worker 'mimic' cannot"),
    ],
)
def test_parameters_are_checked_by_the_schema_before_anything_starts(
    described: CommandLine, words: tuple[str, ...], sentence: str
) -> None:
    answer = described("train", "mimic", *words, "--dry-run")
    assert answer.code == ExitCode.REFUSED
    assert answer.err.startswith(f"mosaic: {sentence}")


def test_parameters_of_a_schema_reach_the_run_with_their_types(described: CommandLine) -> None:
    answer = described("train", "mimic", "--dataset", "d", "--say", "007", "--no-metrics", "--dry-run", "--json")
    assert answer.json["config"]["run_name"] == "mimic-d-s1"
    settings = answer.json["config"]["metadata"]["worker"]["config"]
    assert settings == {"algo": "mimic", "dataset": "d", "seed": 1, "params": {"say": "007", "metrics": False}}


def test_help_flags_and_completion_come_from_the_schema(described: CommandLine) -> None:
    told = described("flags", "mimic", "--json").json
    assert [flag["option"] for flag in told["flags"]] == ["--step-seconds", "--say", "--metrics"]
    text = described("train", "mimic", "--help").out
    assert "How long a step takes.  [a number, default: 0.01]" in " ".join(text.split("\n"))
    assert "Flags of mimic:" in described("flags", "mimic").out
    assert offered(described, "mosaic train mimic --step") == ["--step-seconds"]
    assert offered(described, "mosaic train mimic --env-id Pond") == ["Pond-v0", "Pond-v1"]


def test_environments_are_those_of_the_manifest(
    described: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAIC_WORKER_PATH", described.environment["MOSAIC_WORKER_PATH"])
    ponds, lakes = WorkerQueries(MosaicPaths(tmp_path / "home")).environments("mimic")
    assert (ponds.name, ponds.environments, ponds.advice) == ("Ponds", ("Pond-v0", "Pond-v1"), "")
    assert lakes.advice == "not installed. Install it with: python -m mimic_worker.tools --set lakes"


def test_a_schema_and_environments_may_be_printed_by_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = '[settings]\nschema_module = "mimic_worker.tells_schema"\nenvironments_module = "mimic_worker.tells_ponds"\n'
    folder = dropped_worker(tmp_path / "workers", "mimic", algorithm="mimic", more=more)
    package = folder / "mimic_worker"
    (package / "tells_schema.py").write_text(f"import json\nprint(json.dumps({SCHEMA!r}))\n")
    family = {"name": "Ponds", "sources": ["gymnasium"], "installed": True, "extra": "", "environments": ["Pond-v7"]}
    (package / "tells_ponds.py").write_text(f"import json\nprint(json.dumps({{'families': [{family!r}]}}))\n")
    monkeypatch.setenv("MOSAIC_WORKER_PATH", str(folder))
    queries = WorkerQueries(MosaicPaths(tmp_path / "home"))
    assert queries.config_schema("mimic") == SCHEMA
    (found,) = queries.environments("mimic")
    assert found.environments == ("Pond-v7",)


# ---- going on from a checkpoint ----------------------------------------------------------------------------------


def walk_worker(tmp_path: Path, **capabilities: Any) -> Path:
    return dropped_worker(tmp_path / "workers", "walk", algorithm="walk", capabilities=capabilities)


@pytest.fixture
def resuming(tmp_path: Path, make_daemon: Callable[..., DaemonProcess]) -> DaemonProcess:
    """A daemon with a worker, not CleanRL's, that declares that its runs can be resumed."""
    folder = walk_worker(tmp_path, checkpoint=True, resume=True)
    daemon = make_daemon()
    daemon.env["MOSAIC_WORKER_PATH"] = str(folder)
    return daemon.start()


def walk(**settings: Any) -> dict[str, Any]:
    return {
        "run_name": "walk",
        "resources": {},
        "artifacts": {},
        "metadata": {"worker": {"type": "walk", "module": "walk_worker.cli", "config": {"algo": "walk", **settings}}},
    }


def test_any_worker_that_declares_it_is_resumed_from_its_newest_checkpoint(resuming: DaemonProcess) -> None:
    mosaic = CommandLine(resuming.paths.root, resuming.env)
    run_id = resuming.client.submit(walk(total_timesteps=10**6, step_seconds=0.01)).run.run_id
    resuming.wait_state(run_id, "EXEC")
    folders = resuming.paths.run(run_id)
    checkpoint = folders.checkpoints / "step-000000000005"
    checkpoint.mkdir(parents=True)
    resuming.client.cancel(run_id, "")
    resuming.wait_over(run_id)
    refresh_manifest(folders)
    answer = mosaic("resume", run_id, "--json")
    assert answer.code == 0, answer.err
    config = answer.json["config"]
    assert config["metadata"]["parent"] == {"run_id": run_id, "checkpoint": "checkpoints/step-000000000005"}
    start = {"mode": "resume", "checkpoint": str(checkpoint)}
    assert config["metadata"]["worker"]["config"]["start"] == start
    again = answer.json["run_id"]
    resuming.wait_state(again, "EXEC")
    read = json.loads(resuming.paths.worker_config(again).read_text())
    assert (read["start"], read["params"]) == (start, {"step_seconds": 0.01})
    resuming.client.cancel(again, "")
    resuming.wait_over(again)


# ---- capabilities ------------------------------------------------------------------------------------------------


def test_pause_is_refused_where_it_is_not_declared(tmp_path: Path, make_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = make_daemon()
    daemon.env["MOSAIC_WORKER_PATH"] = str(walk_worker(tmp_path, pause=False))
    daemon.start()
    run_id = daemon.client.submit(walk(total_timesteps=10**6)).run.run_id
    daemon.wait_state(run_id, "EXEC")
    answer = CommandLine(daemon.paths.root, daemon.env)("pause", run_id)
    assert answer.code == ExitCode.REFUSED
    assert "cannot pause: its worker 'walk' does not offer it" in answer.err
    daemon.client.cancel(run_id, "")
    daemon.wait_over(run_id)


def test_a_worker_that_needs_a_gpu_is_refused_without_one(
    tmp_path: Path, make_daemon: Callable[..., DaemonProcess]
) -> None:
    daemon = make_daemon()
    daemon.env["MOSAIC_WORKER_PATH"] = str(walk_worker(tmp_path, gpu_required=True))
    daemon.start()
    with pytest.raises(RequestRefusedError, match="the worker 'walk' cannot run without a GPU"):
        daemon.client.submit(walk())
    mosaic = CommandLine(daemon.paths.root, daemon.env)
    planned = mosaic("train", "walk", "--dry-run", "--no-preflight", "--json")
    if planned.code == 0:
        assert planned.json["config"]["resources"]["gpus"] == {"requested": 1, "mandatory": 1}
    else:
        assert "it asks for 1 GPU where there are none" in planned.out


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_a_service_that_a_worker_needs_is_looked_for(
    tmp_path: Path, listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    services = [f"xmpp@{address}", "oracle"]
    monkeypatch.setenv("MOSAIC_WORKER_PATH", str(walk_worker(tmp_path, external_services=services)))

    def told() -> tuple[bool, str]:
        roster = WorkerRoster(BundleManager(MosaicPaths(tmp_path / "home"), ()))
        found = next(one for one in asyncio.run(roster.describe()).workers if one.type == "walk")
        return found.ready, found.readiness

    assert told() == (True, "ready")
    listening.close()
    assert told() == (False, f"xmpp does not answer at {address}: start it")
    assert [str(one) for one in look_for(["oracle"])] == ["needs oracle, which cannot be checked from here"]
    mosaic = CommandLine(tmp_path / "home", {"MOSAIC_WORKER_PATH": str(tmp_path / "workers")})
    checks = {check["id"]: check for check in mosaic("doctor", "--json").json["checks"]}
    assert checks["service-walk-xmpp"]["status"] == "warn"
    assert checks["service-walk-xmpp"]["detail"].startswith(f"xmpp does not answer at {address}")
    assert "needs oracle" in checks["service-walk-oracle"]["detail"]
