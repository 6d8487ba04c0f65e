"""From a ``mosaic train`` command line to a run config, and what is refused on the way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.run_plan import TrainRequest, make_plan
from gym_gui.tests.support.command_line import CommandLine
from mosaic_protocol.run_config import parse_run_config
from mosaic_protocol.worker_manifest import Discovery, WorkerManifest, load_manifest

_MANIFEST = """
schema = 1
[worker]
type = "{type}"
name = "A worker"
version = "1"
summary = "For tests."
lane = "analytics"
module = "{package}.cli"
needs = ["env"]
"""
_ALGORITHM = """
[algorithms.{name}]
summary = "Learns."
example_env = "Pond-v0"
"""


@pytest.fixture
def found(tmp_path: Path) -> Discovery:
    def worker(kind: str, *algorithms: str) -> WorkerManifest:
        package = tmp_path / f"{kind}_worker"
        package.mkdir()
        text = _MANIFEST.format(type=kind, package=package.name)
        (package / "worker.toml").write_text(text + "".join(_ALGORITHM.format(name=name) for name in algorithms))
        return load_manifest(package)

    return Discovery({"deep": worker("deep", "ppo", "dqn"), "offline": worker("offline", "dqn")}, [])


def refusal(found: Discovery, **request: Any) -> CliError:
    with pytest.raises(CliError) as refused:
        make_plan(TrainRequest(**{"algo": "ppo", "env_id": "Pond-v0", **request}), found)
    return refused.value


def test_a_plan_holds_a_whole_run_config(found: Discovery) -> None:
    request = TrainRequest(
        "ppo",
        "Pond-v0",
        seed=3,
        total_timesteps=500,
        cpus=2,
        gpus=1,
        memory_mb=100,
        max_wallclock_minutes=1.5,
        notes="two words",
        tags=("a", "b"),
        extras=("wandb_run_name=first", "wandb_use_vpn_proxy=true"),
        tensorboard=False,
        checkpoints=False,
        script_flags=("--num-envs", "8"),
    )
    plan = make_plan(request, found)
    config = parse_run_config(plan.config)
    assert plan.worker_config == {
        "algo": "ppo",
        "env_id": "Pond-v0",
        "seed": 3,
        "total_timesteps": 500,
        "params": {"num_envs": 8},
        "extras": {"wandb_run_name": "first", "wandb_use_vpn_proxy": True},
    }
    assert (config.run_name, config.worker.type, config.worker.module) == ("ppo-pond-v0-s3", "deep", "deep_worker.cli")
    assert (config.resources.cpus.requested, config.resources.memory_mb.requested) == (2, 100)
    assert config.schedule.max_wallclock_minutes == 1.5
    assert (config.metadata.notes, config.metadata.tags) == ("two words", ("a", "b"))
    assert (config.artifacts.tensorboard.enabled, config.artifacts.checkpoints.enabled) == (False, False)


def test_a_gpu_that_was_asked_for_is_not_optional(found: Discovery) -> None:
    gpus = make_plan(TrainRequest("ppo", "Pond-v0", gpus=2), found).config["resources"]["gpus"]
    assert gpus == {"requested": 2, "mandatory": 2}


def _saving(found: Discovery) -> Discovery:
    """The same workers, of which one declares checkpoints."""
    deep = found.workers["deep"]
    able = deep.capabilities.model_copy(update={"checkpoint": True})
    return Discovery({**found.workers, "deep": deep.model_copy(update={"capabilities": able})}, [])


def test_how_often_to_save_and_how_much_to_keep_are_options(found: Discovery) -> None:
    request = TrainRequest("ppo", "Pond-v0", checkpoint_every=500, checkpoint_keep=0)
    checkpoints = parse_run_config(make_plan(request, _saving(found)).config).artifacts.checkpoints
    assert (checkpoints.enabled, checkpoints.every_steps, checkpoints.keep_last) == (True, 500, 0)
    plan = make_plan(TrainRequest("ppo", "Pond-v0"), _saving(found))
    assert "checkpoints" not in plan.config["artifacts"], "without the options it is left to the worker"


def test_how_many_recorded_steps_are_kept_is_an_option(found: Discovery) -> None:
    kept = parse_run_config(make_plan(TrainRequest("ppo", "Pond-v0", keep_steps=500), found).config).artifacts.steps
    assert kept.keep_last == 500
    plan = make_plan(TrainRequest("ppo", "Pond-v0"), found)
    assert "steps" not in plan.config["artifacts"], "without the option it is left to the daemon"


def test_a_worker_that_writes_no_checkpoints_is_not_asked_for_some(found: Discovery) -> None:
    refused = refusal(found, checkpoint_every=500)
    assert str(refused) == "--checkpoint-every is not offered: the worker 'deep' writes no checkpoints (got 500)"
    assert "--checkpoint-keep is not offered" in str(refusal(found, checkpoint_keep=9))


def test_no_checkpoints_every_so_often_is_a_contradiction(found: Discovery) -> None:
    assert "--no-checkpoints contradicts" in str(refusal(_saving(found), checkpoints=False, checkpoint_every=5))


def test_a_resumed_run_that_nobody_named_says_so(found: Discovery) -> None:
    able = found.workers["deep"].capabilities.model_copy(update={"resume": True})
    deep = found.workers["deep"].model_copy(update={"capabilities": able})
    request = TrainRequest("ppo", "Pond-v0", resume="/x/step-000000000001")
    plan = make_plan(request, Discovery({"deep": deep}, []))
    assert (plan.name, plan.is_named) == ("ppo-pond-v0-s1-resumed", False)
    assert make_plan(replace(request, run_name="mine"), Discovery({"deep": deep}, [])).is_named


def test_steps_that_were_not_given_are_left_to_the_script(found: Discovery) -> None:
    assert "total_timesteps" not in make_plan(TrainRequest("ppo", "Pond-v0"), found).worker_config


def test_an_unknown_algorithm_is_answered_with_the_nearest_and_the_list(found: Discovery) -> None:
    error = refusal(found, algo="pp0")
    assert str(error) == "there is no algorithm 'pp0'; did you mean 'ppo'? Choose from: dqn, ppo."
    assert error.code is ExitCode.REFUSED


def test_an_algorithm_of_several_workers_asks_which(found: Discovery) -> None:
    assert "--worker deep and --worker offline" in str(refusal(found, algo="dqn"))
    plan = make_plan(TrainRequest("dqn", "Pond-v0", worker="offline"), found)
    assert plan.manifest.type == "offline"


def test_an_unknown_worker_is_answered_with_the_nearest(found: Discovery) -> None:
    assert str(refusal(found, worker="depe")) == "there is no worker 'depe'; did you mean 'deep'?"


def test_an_algorithm_is_sought_in_the_worker_that_was_named(found: Discovery) -> None:
    assert "in the worker 'offline'" in str(refusal(found, worker="offline"))


def test_no_worker_at_all_is_a_fault_of_the_machine_and_names_the_problems() -> None:
    with pytest.raises(CliError, match=r"no worker is installed \(x is broken\)") as refused:
        make_plan(TrainRequest("ppo", "Pond-v0"), Discovery({}, ["x is broken"]))
    assert refused.value.code is ExitCode.FAILED


def test_a_missing_environment_is_answered_with_an_example(found: Discovery) -> None:
    assert "try `mosaic train ppo --env-id Pond-v0`" in str(refusal(found, env_id=None))
    assert "did you mean '--env-id'?" in str(refusal(found, env_id=None, script_flags=("--env", "Pond-v0")))


def test_a_flag_before_the_algorithm_is_not_taken_for_one(found: Discovery) -> None:
    assert "name the algorithm first" in str(refusal(found, algo="--num-envs"))


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"cpus": 10**9}, "--cpus must be at most 4096 (got 1000000000)"),
        ({"gpus": 10**9}, "--gpus must be at most 1024 (got 1000000000)"),
        ({"run_name": "a\nb"}, "--run-name must be printable text on one line"),
        ({"run_name": ""}, "--run-name is too short: at least 1 character (got"),
        ({"tags": ("ok", "")}, "--tag is too short"),
        ({"max_wallclock_minutes": -1.0}, "--max-wallclock-minutes must be more than 0"),
        ({"total_timesteps": 10**30}, "--total-timesteps must lie within"),
        ({"script_flags": ("--wandb-api-key", "hunter2")}, "--wandb-api-key looks like a secret"),
    ],
)
def test_a_refused_value_is_named_by_the_option_that_set_it(
    found: Discovery, request_: dict[str, Any], sentence: str
) -> None:
    error = refusal(found, **request_)
    assert str(error).startswith(sentence)
    assert "hunter2" not in str(error)
    assert error.code is ExitCode.REFUSED


# ---- with the worker's own check; no daemon runs in these tests, and none is started -----------------------------


@pytest.fixture
def mosaic(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "home")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("train", "cuont"), "there is no algorithm 'cuont'; did you mean 'count'?"),
        (("train", "ppo"), "--env-id is missing: try `mosaic train ppo --env-id CartPole-v1`"),
        (("sweep", "ppo", "--space", "x.toml"), "--env-id is missing: try `mosaic sweep ppo --env-id CartPole-v1`"),
        (("train", "count", "--dataset", "d"), "--dataset is not taken: count learns from no dataset"),
        (("train", "count", "--resume", "a", "--warm-start", "b"), "give --resume or --warm-start, not both"),
        (("train", "count", "--worker", "toy", "--upstream"), "the worker 'toy' has no --upstream"),
        (("train", "count", "--env-id", "Nowhere-v0"), "there is no environment 'Nowhere-v0'"),
        (
            ("train", "count", "--env-id", "T", "--total-timesteps", "-5"),
            "--total-timesteps must be at least 1, got -5",
        ),
        (("train", "count", "--env-id", "T", "--total-timesteps", "many"), "--total-timesteps must be a whole number"),
        (("train", "count", "--env-id", "T", "--no-such-flag", "3"), "count has no flag --no-such-flag"),
        (("train", "count", "--env-id", "T", "--", "--no-such-flag", "3"), "count has no flag --no-such-flag"),
        (("train",), "missing argument 'ALGO'"),
    ],
)
def test_a_mistake_gets_one_sentence_before_anything_starts(
    mosaic: CommandLine, tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    answer = mosaic(*words)
    assert answer.code == ExitCode.REFUSED
    assert answer.err.startswith(f"mosaic: {sentence}")
    assert answer.err.count("\n") == 1
    assert answer.out == ""
    assert not (tmp_path / "home").exists()


def test_a_dry_run_shows_a_prompt_as_it_is_written(mosaic: CommandLine) -> None:
    words = ["--worker", "llm", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--dry-run"]
    answer = mosaic("train", "direct", "--env-id", "FrozenLake-v1", *words)
    assert answer.code == 0, answer
    assert "It asks first:\nSYSTEM\nYou cross a frozen lake" in answer.out
    assert "\n\nUSER\nStep 0.\n@FFF\nFHFH\n" in answer.out
    assert "{'role'" not in answer.out


def test_a_dry_run_prints_what_would_run_and_starts_nothing(mosaic: CommandLine, tmp_path: Path) -> None:
    words = ("train", "count", "--env-id", "T", "--total-timesteps", "2k", "--dry-run")
    answer = mosaic(*words)
    assert (answer.code, answer.err) == (0, "")
    assert "count-t-s1" in answer.out
    assert "Nothing was started." in answer.out
    found = mosaic(*words, "--json").json
    assert found["summary"] == {"status": "ok", "algo": "count", "env_id": "T"}
    assert found["config"]["metadata"]["worker"]["config"]["total_timesteps"] == 2000
    assert not (tmp_path / "home").exists()


def test_without_preflight_the_worker_is_not_asked(mosaic: CommandLine) -> None:
    words = ("train", "count", "--env-id", "Nowhere-v0", "--dry-run", "--no-preflight", "--json")
    assert mosaic(*words).json["summary"] is None


def test_a_worker_that_cannot_check_is_distinguished_from_a_refusal(tmp_path: Path) -> None:
    package = tmp_path / "workers" / "broken_worker"
    package.mkdir(parents=True)
    text = _MANIFEST.format(type="broken", package="broken_worker") + _ALGORITHM.format(name="none")
    (package / "worker.toml").write_text(text + "[capabilities]\ndry_run = true\n")
    (package / "__init__.py").touch()
    (package / "cli.py").write_text("raise SystemError('no luck')")
    mosaic = CommandLine(tmp_path / "home", {"MOSAIC_WORKER_PATH": str(package.parent)})
    answer = mosaic("train", "none", "--env-id", "T")
    assert answer.code == ExitCode.FAILED
    assert "could not answer (status 1): SystemError: no luck" in answer.err
    assert answer.err.count("\n") == 1


def test_a_flag_without_its_value_is_asked_for_one(found: Discovery) -> None:
    package = found.workers["deep"].package_dir
    (package / "config.schema.json").write_text(
        '{"properties": {"exploration": {"type": "string"}, "speed": {"type": ["number", "null"]}}}'
    )
    found = Discovery({"deep": load_manifest(package)}, [])
    told = str(refusal(found, script_flags=("--exploration",)))
    assert told == "--exploration needs a value: it is no switch but text"
    assert str(refusal(found, script_flags=("--speed",))) == "--speed needs a value: it is no switch but a number"


def test_an_object_is_typed_as_json(found: Discovery) -> None:
    package = found.workers["deep"].package_dir
    (package / "config.schema.json").write_text(
        '{"properties": {"keys": {"type": "object"}, "sizes": {"type": ["array", "null"]}}}'
    )
    found = Discovery({"deep": load_manifest(package)}, [])
    words = ("--keys", '{"a": 0, "d": 1}', "--sizes", "[64, 64]")
    plan = make_plan(TrainRequest(algo="ppo", env_id="Pond-v0", script_flags=words), found)
    assert plan.config["metadata"]["worker"]["config"]["params"] == {"keys": {"a": 0, "d": 1}, "sizes": [64, 64]}
    assert str(refusal(found, script_flags=("--keys", "a=0"))) == "--keys takes JSON, such as '{\"name\": 1}'"


def test_a_file_is_named_from_the_folder_in_which_it_was_typed(
    found: Discovery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = found.workers["deep"].package_dir
    described = {
        "plans": {"type": "string", "x-files": "^.+\\.asl$"},
        "crew": {"type": "string", "x-files": "(?<==)[^,]+"},
    }
    (package / "config.schema.json").write_text(json.dumps({"properties": described}))
    found = Discovery({"deep": load_manifest(package)}, [])
    monkeypatch.chdir(tmp_path)

    def params(*words: str) -> Any:
        plan = make_plan(TrainRequest(algo="ppo", env_id="Pond-v0", script_flags=words), found)
        return plan.config["metadata"]["worker"]["config"]["params"]

    assert params("--plans", "my.asl") == {"plans": str(tmp_path / "my.asl")}
    assert params("--plans", "/elsewhere/my.asl") == {"plans": "/elsewhere/my.asl"}
    assert params("--plans", "learner") == {"plans": "learner"}, "what comes with a worker has a name and no folder"
    assert params("--crew", "a=one.asl,b,c=two.asl") == {"crew": f"a={tmp_path}/one.asl,b,c={tmp_path}/two.asl"}


def test_the_usual_name_is_no_path(found: Discovery) -> None:
    plan = make_plan(TrainRequest(algo="ppo", env_id="ALE/Breakout-v5"), found)
    assert plan.name == "ppo-ale-breakout-v5-s1"
