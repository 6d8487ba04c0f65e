"""The worker config: files and command line merged, checked against the script, refused in one sentence each."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cleanrl_worker.config import ConfigError, WorkerConfig
from cleanrl_worker.foreign_environment import environment_for
from cleanrl_worker.script_plan import ScriptPlan
from cleanrl_worker.tools.extras import SETS
from mosaic_protocol.worker_settings import Start
from mosaic_worker.errors import UsageError

WORKER_CONFIG: dict[str, Any] = {
    "run_id": "r1",
    "algo": "ppo",
    "env_id": "CartPole-v1",
    "seed": 42,
    "total_timesteps": 50_000,
    "extras": {"track_wandb": False, "requirements": ["base"], "notes": "n", "algo_params": {"num_envs": 8}},
}


def run_config(**worker_config: Any) -> dict[str, Any]:
    """A whole run config, as the daemon accepts it."""
    return {
        "run_name": "a run",
        "resources": {"cpus": {"requested": 2}},
        "artifacts": {"checkpoints": {"every_steps": 5000}},
        "metadata": {"worker": {"type": "cleanrl", "module": "cleanrl_worker.cli", "config": worker_config}},
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def load(folder: Path, content: Any, **overrides: Any) -> WorkerConfig:
    path = folder / "config.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return WorkerConfig.load(path, overrides)


def refusal(folder: Path, content: Any, **overrides: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        load(folder, content, **overrides)
    return str(refused.value)


# ---- merging -----------------------------------------------------------------------------------------------------


def test_a_worker_config_is_read_as_it_stands(folder: Path) -> None:
    config = load(folder, WORKER_CONFIG)
    assert (config.algo, config.env_id, config.seed, config.total_timesteps) == ("ppo", "CartPole-v1", 42, 50_000)
    assert config.params == {"num_envs": 8}


def test_a_whole_run_config_gives_its_worker_part_and_its_artifacts(folder: Path) -> None:
    config = load(folder, run_config(**WORKER_CONFIG))
    assert (config.algo, config.seed, config.checkpoints["every_steps"]) == ("ppo", 42, 5000)


def test_the_command_line_wins_over_the_file(folder: Path) -> None:
    config = load(folder, WORKER_CONFIG, seed=7, env_id="Acrobot-v1", algo_params={"num_envs": "2", "gamma": "0.9"})
    assert (config.seed, config.env_id, config.total_timesteps) == (7, "Acrobot-v1", 50_000)
    assert config.params == {"num_envs": "2", "gamma": "0.9"}


def test_a_checkpoint_to_begin_from_is_read_in_every_spelling(folder: Path) -> None:
    start = {"mode": "warm_start", "checkpoint": "/c"}
    spellings: list[dict[str, Any]] = [
        {"start": start},
        {"params": {"warm_start": "/c"}},
        {"extras": {"algo_params": {"warm_start": "/c"}}},
    ]
    for spelt in spellings:
        config = load(folder, {"algo": "ppo", **spelt})
        assert config.start is not None and config.start.model_dump() == start
        assert config.params == {}
        assert "--warm-start /c" in " ".join(ScriptPlan.of(config).arguments)
    assert load(folder, {"algo": "ppo", "start": start}, algo_params={"resume": "/d"}).start == Start(
        mode="resume", checkpoint="/d"
    )


def test_what_the_command_line_does_not_say_leaves_the_file_alone(folder: Path) -> None:
    config = load(folder, WORKER_CONFIG, seed=None, env_id=None, algo=None, algo_params={})
    assert config == load(folder, WORKER_CONFIG)


def test_no_file_is_needed() -> None:
    config = WorkerConfig.load(None, {"algo": "ppo"})
    assert (config.algo, config.seed, config.total_timesteps, config.env_id) == ("ppo", 1, None, "")


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_every_seed_that_numpy_takes_is_taken(folder: Path, seed: int) -> None:
    assert load(folder, {"algo": "ppo", "seed": seed}).seed == seed


@pytest.mark.parametrize("steps", [1, 10**12])
def test_the_bounds_of_the_timesteps_are_inside(folder: Path, steps: int) -> None:
    assert load(folder, {"algo": "ppo", "total_timesteps": steps}).total_timesteps == steps


# ---- refusing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"algoo": "ppo"}, "algoo is not a setting of the worker; did you mean 'algo'?"),
        ({"envid": "x"}, "envid is not a setting of the worker; did you mean 'env_id'?"),
        ({"algo": 5}, "algo must be text, got 5"),
        ({"algo": None}, "the config names neither an algo nor a script"),
        ({"algo": ""}, "the config names neither an algo nor a script"),
        ({"env_id": 5}, "env_id must be text, got 5"),
        ({"script": ["a"]}, "script must be text, got a list of 1 item"),
        ({"dataset": "d"}, "CleanRL's algorithms learn from an environment: leave the dataset out"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"seed": 2**32}, "seed must be at most 4294967295, got 4294967296"),
        ({"seed": True}, "seed must be a whole number, got True"),
        ({"seed": 1.0}, "seed must be a whole number, got 1.0"),
        ({"seed": "1"}, "seed must be a whole number, got '1'"),
        ({"total_timesteps": 0}, "total_timesteps must be at least 1, got 0"),
        ({"total_timesteps": -5}, "total_timesteps must be at least 1, got -5"),
        ({"total_timesteps": 10**12 + 1}, "total_timesteps must be at most 1000000000000, got 1000000000001"),
        ({"total_timesteps": 1e6}, "total_timesteps must be a whole number, got 1000000.0"),
        ({"total_timesteps": True}, "total_timesteps must be a whole number, got True"),
        ({"extras": []}, "extras must be an object with fields, got a list of 0 items"),
        ({"extras": {"note": "x"}}, "extras has an unknown field 'note'; did you mean 'notes'?"),
        ({"extras": {"algo_params": "fast"}}, "extras.algo_params must be an object with fields, got 'fast'"),
        ({"params": {"num_envs": 9}}, "extras.algo_params differs from params, which is the same thing"),
        ({"params": "fast", "extras": {}}, "params must be an object with fields, got 'fast'"),
        ({"start": {"mode": "again", "checkpoint": "c"}}, "start.mode is not one of the choices"),
        ({"start": {"mode": "resume"}}, "start.checkpoint is required"),
        ({"extras": {"algo_params": {"seed": 3}}}, "seed is a setting of the run itself"),
        ({"artifacts": [1]}, "artifacts must be an object with fields, got a list of 1 item"),
        ({"artifacts": {"checkpoints": 3}}, "artifacts.checkpoints must be an object, got 3"),
    ],
)
def test_each_wrong_field_is_named_with_its_value(folder: Path, change: dict[str, Any], sentence: str) -> None:
    assert refusal(folder, {**WORKER_CONFIG, **change}).startswith(sentence)


@pytest.mark.parametrize("worker", [None, "cleanrl", {}, {"config": None}, {"config": [1]}])
def test_a_run_config_without_a_worker_part_is_refused(folder: Path, worker: Any) -> None:
    sentence = refusal(folder, {"run_name": "x", "metadata": {"worker": worker}})
    assert sentence == "metadata.worker.config is missing from the run config"


@pytest.mark.parametrize("text", ["", "{", "not json", "[" * 100_000, '{"seed": 1' + "0" * 5000 + "}"])
def test_a_file_that_is_not_json_is_refused_by_name(folder: Path, text: str) -> None:
    assert "config.json cannot be read as a JSON config: " in refusal(folder, text)


def test_json_that_is_no_object_is_refused(folder: Path) -> None:
    assert refusal(folder, [1, 2]).endswith("config.json must hold a JSON object")


def test_files_that_cannot_be_read_are_refused_by_name(folder: Path) -> None:
    (folder / "latin.json").write_bytes(b'{"algo": "\xff"}')
    for path in (folder / "missing.json", folder, folder / "latin.json"):
        with pytest.raises(ConfigError, match="cannot be read as a JSON config"):
            WorkerConfig.load(path, {})


# ---- the script --------------------------------------------------------------------------------------------------


def plan(**fields: Any) -> ScriptPlan:
    return ScriptPlan.of(WorkerConfig(**fields).checked())


def test_the_plan_holds_the_script_and_its_whole_command_line() -> None:
    made = plan(
        algo="ppo", env_id="CartPole-v1", seed=3, total_timesteps=100, extras={"algo_params": {"num-envs": "8"}}
    )
    assert (made.name, made.path.name, made.action_spaces) == ("ppo", "ppo.py", ("discrete",))
    expected = "--env-id CartPole-v1 --seed 3 --total-timesteps 100 --num-envs 8"
    assert list(made.arguments) == expected.split()


def test_checkpoints_come_as_often_as_the_artifacts_say_unless_the_flag_says_otherwise() -> None:
    artifacts = {"checkpoints": {"every_steps": 5000}}
    assert "--checkpoint-every 5000" in " ".join(plan(algo="ppo", artifacts=artifacts).arguments)
    both = plan(algo="ppo", artifacts=artifacts, extras={"algo_params": {"checkpoint_every": 7}})
    assert "--checkpoint-every 7" in " ".join(both.arguments)
    assert "5000" not in both.arguments


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"no_such_flag": 3}, "ppo has no flag --no-such-flag"),
        ({"num_env": 3}, "ppo has no flag --num-env; did you mean '--num-envs'?"),
        ({"num_envs": "many"}, "--num-envs must be a whole number, got 'many'"),
    ],
)
def test_flags_are_checked_against_the_script(params: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan(algo="ppo", extras={"algo_params": params})
    assert str(refused.value).startswith(sentence)


def test_a_script_whose_flags_cannot_be_read_gets_what_was_given_and_nothing_else(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text("import click\n\n@click.command()\n@click.option('--lr')\ndef main(lr): pass\n")
    params = {"extras": {"algo_params": {"lr": 1}}}
    assert plan(script=str(script)).arguments == ()
    assert plan(script=str(script), **params).arguments == ("--lr", "1")
    given = plan(script=str(script), env_id="E", seed=3, total_timesteps=5, **params)
    assert list(given.arguments) == ["--env-id", "E", "--seed", "3", "--total-timesteps", "5", "--lr", "1"]


def test_an_unknown_algorithm_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"there is no algorithm 'pp0'; did you mean 'ppo'\?"):
        plan(algo="pp0")


@pytest.mark.parametrize("script", ["/no/such/script.py", "relative.py", "/tmp"])
def test_a_script_that_is_not_there_is_refused(script: str) -> None:
    with pytest.raises(ConfigError, match=r"there is no script .* \(give its full path\)"):
        plan(script=script)


@pytest.mark.parametrize("source", [b"def broken(:\n", b"\xff\xfe not text", b"x = '\0'\n"])
def test_a_script_that_is_not_python_is_refused_by_name(tmp_path: Path, source: bytes) -> None:
    script = tmp_path / "broken.py"
    script.write_bytes(source)
    with pytest.raises(ConfigError, match=r"broken\.py cannot be read as a Python script"):
        plan(script=str(script))


def test_a_script_gets_only_the_settings_it_has_flags_for(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("class Args:\n    seed: int = 1\n    depth: int = 2\n")
    made = plan(script=str(script), seed=5, extras={"algo_params": {"depth": "3"}})
    assert (made.name, list(made.arguments)) == ("mine", ["--seed", "5", "--depth", "3"])


def test_a_script_whose_flags_are_unknown_gets_everything_as_typed(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("import argparse\n")
    made = plan(script=str(script), extras={"algo_params": {"exp_name": "007", "fast": True, "nothing": None}})
    assert list(made.arguments) == ["--exp-name", "007", "--fast"]


# ---- scripts that are not ours -----------------------------------------------------------------------------------

ARGPARSE = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--seed', type=int, default=1)\n"
TRAINS = "import torch\nfor i in range(3):\n    loss.backward()\n"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a checkout of CleanRL, and an environment for its scripts."""
    monkeypatch.setenv("MOSAIC_SCRIPT_PYTHON", str(tmp_path / "venv" / "bin" / "python"))
    (tmp_path / "cleanrl" / "more").mkdir(parents=True)
    (tmp_path / "cleanrl" / "ppo.py").write_text(ARGPARSE + TRAINS)
    (tmp_path / "cleanrl" / "more" / "rare.py").write_text(TRAINS)
    return tmp_path


def test_a_script_of_a_checkout_runs_under_the_harness_in_its_own_environment(checkout: Path) -> None:
    made = plan(algo="ppo", cleanrl_path=str(checkout), seed=4, env_id="CartPole-v1")
    assert (made.name, made.path) == ("ppo", checkout / "cleanrl" / "ppo.py")
    assert made.arguments == ("--seed", "4")
    assert made.python == checkout / "venv" / "bin" / "python"
    assert made.order is not None
    assert (made.order.algo, made.order.search) == ("cleanrl/ppo", (str(checkout),))
    assert plan(algo="rare", cleanrl_path=str(checkout)).path.name == "rare.py"


def test_the_package_of_the_managed_environment_is_used_without_a_checkout(checkout: Path) -> None:
    package = checkout / "venv" / "lib" / "python3.11" / "site-packages" / "cleanrl"
    package.mkdir(parents=True)
    (package / "dqn.py").write_text(TRAINS)
    assert plan(algo="dqn", source="cleanrl").path == package / "dqn.py"


def test_a_script_for_jax_names_the_bundle_that_has_it(checkout: Path) -> None:
    (checkout / "cleanrl" / "dqn_jax.py").write_text("import jax\n" + TRAINS)
    with pytest.raises(ConfigError, match="`mosaic bundles install cleanrl_upstream_jax` and give --bundle cleanrl_up"):
        plan(algo="dqn_jax", cleanrl_path=str(checkout))
    (checkout / "venv" / "lib" / "python3.11" / "site-packages" / "jax").mkdir(parents=True)
    assert plan(algo="dqn_jax", cleanrl_path=str(checkout)).path.name == "dqn_jax.py"


@pytest.mark.parametrize("imports", ["gymnasium, memory_gym", "gym, importlib, supersuit as ss", "gym, envpool"])
def test_names_that_a_library_beside_gym_knows_are_left_to_the_script(checkout: Path, imports: str) -> None:
    (checkout / "cleanrl" / "elsewhere.py").write_text(f"import {imports}\n" + TRAINS)
    made = plan(algo="elsewhere", cleanrl_path=str(checkout))
    assert environment_for(made, "a_name_that_gym_has_not") == {}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"algo": "pp", "cleanrl_path": "."}, "there is no folder '.' (give its full path)"),
        ({"algo": "ppo", "source": "cleanrl"}, "has no package cleanrl: run `mosaic bundles install cleanrl_upstream`"),
        ({"algo": "ppo", "source": "upstream"}, "source must be mosaic or cleanrl, got 'upstream'"),
        ({"script": "/x.py", "source": "cleanrl"}, "give a script or source=cleanrl, not both"),
        ({"algo": "ppo", "bundle": 3}, "bundle must be text, got 3"),
    ],
)
def test_what_cannot_be_found_is_said(checkout: Path, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan(**settings)
    assert sentence in str(refused.value)


def test_an_unknown_script_of_a_checkout_is_answered_with_the_nearest(checkout: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no script 'pp0' in .*; did you mean 'ppo'\?"):
        plan(algo="pp0", cleanrl_path=str(checkout))


def test_a_bundle_that_was_never_installed_is_refused_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    monkeypatch.delenv("MOSAIC_SCRIPT_PYTHON", raising=False)
    sentence = "the bundle cleanrl_upstream is not installed: run `mosaic bundles install cleanrl_upstream`"
    with pytest.raises(ConfigError, match=sentence):
        plan(algo="ppo", source="cleanrl")


def test_the_harness_takes_what_the_script_has_no_flags_for(checkout: Path) -> None:
    artifacts = {"checkpoints": {"every_steps": 50, "keep_last": 7}}
    params = {"resume": "/c", "checkpoint_every": "60"}
    made = plan(algo="ppo", cleanrl_path=str(checkout), artifacts=artifacts, extras={"algo_params": params})
    assert made.order is not None
    assert (made.order.checkpoint_every, made.order.checkpoint_keep, made.order.resume) == (60, 7, "/c")
    assert made.arguments == ("--seed", "1")


def test_a_script_of_the_worker_gets_the_number_of_checkpoints_to_keep_as_a_flag() -> None:
    made = plan(algo="ppo", artifacts={"checkpoints": {"keep_last": 5}})
    assert "--checkpoint-keep 5" in " ".join(made.arguments)
    assert made.order is None
    assert made.environment == {}


def test_checkpoints_that_are_turned_off_are_off_in_the_scripts_process() -> None:
    assert plan(algo="ppo", artifacts={"checkpoints": {"enabled": False}}).environment == {"MOSAIC_CHECKPOINTS": "0"}


def test_a_script_that_reads_no_command_line_is_given_none(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("print(1)\n")
    assert plan(script=str(script), env_id="CartPole-v1").arguments == ()


def test_what_a_script_cannot_do_is_refused_before_it_starts(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("print(1)\n")
    sentence = "mine cannot warm-start from a checkpoint: no training loop was found in the file"
    with pytest.raises(ConfigError, match=sentence):
        plan(script=str(script), extras={"algo_params": {"warm_start": "/c"}})


FOREIGN = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--track", action="store_true")
parser.parse_args()
"""


def planned(**changes: Any) -> ScriptPlan:
    return ScriptPlan.of(WorkerConfig.load(None, {"algo": "ppo", "env_id": "CartPole-v1", **changes}))


@pytest.mark.parametrize(
    "asked",
    [{"extras": {"track_wandb": True}}, {"artifacts": {"wandb": {"enabled": True}}}],
    ids=["extras", "artifacts"],
)
def test_tracking_is_asked_of_the_script_wherever_it_was_asked_for(asked: dict[str, Any]) -> None:
    assert "--track" in planned(**asked).arguments


def test_the_names_of_a_tracked_run_reach_flags_and_environment() -> None:
    names = {"wandb_project_name": "p", "wandb_entity": "team", "wandb_run_name": "first", "wandb_use_vpn_proxy": True}
    plan = planned(extras={"track_wandb": True, **names})
    words = " ".join(plan.arguments)
    assert "--wandb-project-name p" in words and "--wandb-entity team" in words
    assert plan.environment == {"WANDB_NAME": "first", "MOSAIC_WANDB_PROXY": "1"}
    assert planned(extras=names).environment == {}, "nothing is tracked unless it is asked for"


def test_a_proxy_that_was_typed_comes_before_the_env_file_and_reaches_foreign_scripts_under_the_usual_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WANDB_VPN_HTTP_PROXY", "WANDB_VPN_HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "var"))
    monkeypatch.chdir(tmp_path)
    asked = {"track_wandb": True, "wandb_use_vpn_proxy": True}
    ours = planned(extras={**asked, "wandb_https_proxy": "http://vpn:1"}).environment
    assert ours == {"WANDB_VPN_HTTPS_PROXY": "http://vpn:1", "MOSAIC_WANDB_PROXY": "1"}
    script = tmp_path / "foreign.py"
    script.write_text(FOREIGN)
    foreign = {"algo": "", "script": str(script)}
    with pytest.raises(UsageError, match="a proxy for W&B was asked for"):
        planned(extras=asked, **foreign)
    (tmp_path / ".env").write_text("WANDB_VPN_HTTP_PROXY=http://file:2")
    assert planned(extras=asked, **foreign).environment["http_proxy"] == "http://file:2"


def test_videos_are_asked_of_the_script() -> None:
    assert "--capture-video" in planned(artifacts={"video": {"enabled": True}}).arguments


def test_checkpoints_are_kept_or_turned_off_as_the_run_config_says() -> None:
    assert "--checkpoint-keep 7" in " ".join(planned(artifacts={"checkpoints": {"keep_last": 7}}).arguments)
    assert planned(artifacts={"checkpoints": {"enabled": False}}).environment == {"MOSAIC_CHECKPOINTS": "0"}


def test_a_missing_set_of_extras_is_refused_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    planned(extras={"requirements": ["base", "atari"]})
    monkeypatch.setitem(SETS, "box2d", replace(SETS["box2d"], module="no_such_module_here"))
    with pytest.raises(UsageError, match="install_extras --set box2d"):
        planned(extras={"requirements": ["box2d"]})
    with pytest.raises(UsageError, match="there is no set of extras 'atary'; did you mean 'atari'"):
        planned(extras={"requirements": ["atary"]})


LOOP_IN_A_FUNCTION = """
import torch

def main():
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.Adam(model.parameters())
    for global_step in range(10):
        optimizer.step()

main()
"""
"""A function that is called once, by the module itself."""


def test_a_script_whose_loop_is_in_a_function_called_twice_is_not_resumed(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(LOOP_IN_A_FUNCTION + "main()\n")
    config = WorkerConfig(script=str(script), extras={"algo_params": {"resume": str(tmp_path)}}).checked()
    with pytest.raises(ConfigError, match=r"mine cannot resume from a checkpoint: its loop is in main\(\)"):
        ScriptPlan.of(config)
    script.write_text(LOOP_IN_A_FUNCTION)
    plan = ScriptPlan.of(config)
    assert plan.order is not None and plan.order.resume == str(tmp_path)
