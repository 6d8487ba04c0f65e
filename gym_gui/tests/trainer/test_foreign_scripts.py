"""Scripts that are not a worker's own, from the command line and through the daemon: found, described, run, obeyed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.run_plan import TrainRequest, make_plan
from gym_gui.tests.support.cleanrl_runs import SCRIPTS, cleanrl_config, cleanrl_daemon
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from mosaic_protocol.run_manifest import read_manifest
from mosaic_protocol.worker_manifest import discover

ARGPARSE = str(SCRIPTS / "argparse_manner.py")


def planned(**request: Any) -> dict[str, Any]:
    config: dict[str, Any] = make_plan(TrainRequest.of(request), discover({})).config
    return config


def refusal(**request: Any) -> str:
    with pytest.raises(CliError) as refused:
        planned(**request)
    assert refused.value.code == ExitCode.REFUSED
    return str(refused.value)


# ---- the command line --------------------------------------------------------------------------------------------


def test_upstreams_script_is_asked_of_the_worker_in_its_own_environment() -> None:
    config = planned(algo="ddpg_continuous_action", upstream=True, env_id="Pendulum-v1")
    worker = config["metadata"]["worker"]
    assert (worker["type"], worker["bundle"]) == ("cleanrl", "cleanrl_upstream")
    assert worker["config"]["source"] == "cleanrl"
    assert worker["config"]["algo"] == "ddpg_continuous_action"
    assert config["run_name"] == "ddpg_continuous_action-pendulum-v1-s1"


def test_upstreams_scripts_for_jax_run_where_jax_is() -> None:
    worker = planned(algo="dqn_jax", upstream=True, env_id="CartPole-v1")["metadata"]["worker"]
    assert worker["bundle"] == "cleanrl_upstream_jax"
    chosen = planned(algo="dqn_jax", upstream=True, env_id="CartPole-v1", bundle="mine")["metadata"]["worker"]
    assert chosen["bundle"] == "mine"


def test_a_checkout_is_named_by_its_full_path_and_implies_upstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkout").mkdir()
    worker = planned(algo="ppo", cleanrl_path="checkout", env_id="E", bundle="mine")["metadata"]["worker"]
    assert worker["config"]["cleanrl_path"] == str(tmp_path / "checkout")
    assert (worker["config"]["source"], worker["bundle"]) == ("cleanrl", "mine")


def test_a_script_of_ones_own_needs_neither_algorithm_nor_environment() -> None:
    config = planned(script=ARGPARSE, algo="--learning-rate", script_flags=("3e-4", "--no-anneal-lr"))
    worker = config["metadata"]["worker"]
    assert worker["config"]["script"] == ARGPARSE
    assert worker["config"]["params"] == {"learning_rate": 3e-4, "anneal_lr": False}
    assert "algo" not in worker["config"]
    assert "bundle" not in worker
    assert config["run_name"] == "argparse_manner-s1"


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"script": ARGPARSE, "algo": "ppo"}, "--script names the script: leave out the algorithm"),
        ({"script": "/no/such.py"}, "--script: there is no file /no/such.py"),
        ({"algo": "ppo", "cleanrl_path": "/no/such", "env_id": "E"}, "--cleanrl-path: there is no folder /no/such"),
        ({"algo": "ppo", "upstream": True}, "--env-id is missing"),
        ({"algo": "ppo", "env_id": "E", "bundle": "Not A Name"}, "--bundle must be a plain name"),
        (
            {"script": ARGPARSE, "algo": "play", "env_id": "E"},
            "--script is of the worker 'cleanrl', and 'play' an algorithm of 'play': leave it out",
        ),
        ({}, "missing argument 'ALGO'"),
    ],
)
def test_a_script_that_is_not_clear_is_refused(request_: dict[str, Any], sentence: str) -> None:
    assert refusal(**request_).startswith(sentence)


@pytest.fixture
def mosaic(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "home", {"MOSAIC_WORKER_PATH": str(SCRIPTS.parents[2])})


def test_flags_and_capabilities_of_a_script_are_shown_without_running_it(mosaic: CommandLine) -> None:
    told = mosaic("flags", "--script", ARGPARSE, "--json").json
    rate = next(flag for flag in told["flags"] if flag["name"] == "learning_rate")
    assert (rate["type"], rate["default"], rate["help"]) == ("float", 2.5e-3, "how far an update goes")
    assert told["capabilities"]["resume"]["offered"] is True


def test_the_help_of_train_ends_with_the_flags_of_the_script(mosaic: CommandLine) -> None:
    plain, full = mosaic("train", "--help"), mosaic("train", "--script", ARGPARSE, "--help")
    assert (plain.code, full.code) == (0, 0)
    assert full.out.startswith(plain.out.rstrip())
    assert "--learning-rate" in full.out.removeprefix(plain.out.rstrip())
    assert "how far an update goes  [float, default: 0.0025]" in full.out
    ours = mosaic("train", "ppo", "--help")
    assert "Steps" in ours.out
    assert "--num-envs" in ours.out


def test_an_environment_that_is_not_built_is_answered_with_the_command(mosaic: CommandLine) -> None:
    answer = mosaic("train", "ppo", "--upstream", "--env-id", "CartPole-v1", "--dry-run")
    assert answer.code == ExitCode.FAILED
    assert "Run `mosaic bundles install cleanrl_upstream`." in answer.err
    unknown = mosaic("train", "--script", ARGPARSE, "--bundle", "cleanrl_upstrem", "--dry-run")
    assert unknown.code == ExitCode.REFUSED
    assert "there is no bundle 'cleanrl_upstrem'; did you mean 'cleanrl_upstream'?" in unknown.err


def test_a_dry_run_tells_what_can_be_done_with_the_script(mosaic: CommandLine) -> None:
    answer = mosaic("train", "--script", ARGPARSE, "--env-id", "CartPole-v1", "--dry-run")
    assert answer.code == 0, answer.err
    assert "metrics, pause, stop, checkpoint, warm start, resume" in answer.out
    refused = mosaic("train", "--script", ARGPARSE, "--env-id", "Pendulum-v1", "--dry-run")
    assert refused.code == ExitCode.REFUSED
    assert "argparse_manner needs a discrete action space; Pendulum-v1 has Box(" in refused.err


# ---- the daemon --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with cleanrl_daemon(tmp_path_factory.mktemp("foreign") / "home", "cold") as daemon:
        yield daemon


def submitted(daemon: DaemonProcess, bundle: str | None = None, **settings: Any) -> str:
    config = cleanrl_config(settings.pop("flags", {}), script=ARGPARSE, **settings)
    if bundle is not None:
        config["metadata"]["worker"]["bundle"] = bundle
    return daemon.client.submit(config).run.run_id


def finished(daemon: DaemonProcess, run_id: str) -> Any:
    wait_for("the run to end", lambda: daemon.client.run(run_id).state == "TERM")
    return daemon.client.run(run_id)


def test_a_script_runs_in_the_environment_of_its_bundle_with_everything_recorded(daemon: DaemonProcess) -> None:
    run_id = submitted(daemon, "cleanrl_worker", total_timesteps=320)
    run = finished(daemon, run_id)
    assert run.outcome == "completed", run.reason
    told = read_manifest(daemon.paths.run(run_id))
    assert told["script_requirements"]["name"] == "cleanrl_worker"
    assert told["script_python"] == sys.executable
    assert told["capabilities"]["checkpoint"]["offered"] is True
    assert told["checkpoints"] == ["checkpoints/step-000000000320"]
    assert told["tensorboard_dir"] == "tensorboard"
    tags = {series.tag for series in daemon.client.metrics(run_id, max_points=10)}
    assert {"losses/policy_loss", "charts/SPS"} <= tags


def test_a_run_whose_environment_does_not_exist_never_starts(daemon: DaemonProcess) -> None:
    run = finished(daemon, submitted(daemon, "nobody_has_it"))
    assert run.outcome == "failed"
    assert run.reason.startswith("never started: There is no bundle nobody_has_it")


def test_a_run_waits_for_an_environment_that_is_not_installed_and_says_so(daemon: DaemonProcess) -> None:
    run_id = submitted(daemon, "cleanrl_upstream")
    wanted = "Run `mosaic bundles install cleanrl_upstream`."
    wait_for("the run to say what it waits for", lambda: wanted in daemon.client.run(run_id).reason)
    daemon.client.cancel(run_id)
    assert daemon.wait_over(run_id).outcome == "canceled"
