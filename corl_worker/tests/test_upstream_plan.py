"""What a script of a CORL checkout is given: its own names for what every run has, and nothing it cannot use."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corl_worker import cli, upstream
from corl_worker.config import ConfigError, WorkerConfig
from corl_worker.preflight import look_at
from corl_worker.tests.worlds import play_set
from corl_worker.upstream_plan import CorlPlan
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.worker_manifest import load_manifest
from mosaic_worker.tracking.outlook import tracking_sentence

CHECKOUT = Path(__file__).parent / "checkout"


@pytest.fixture(autouse=True)
def _a_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAIC_SCRIPT_PYTHON", sys.executable)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def config_of(algo: str = "tiny", **more: Any) -> WorkerConfig:
    told = {"algo": algo, "source": "corl", "corl_path": str(CHECKOUT), "dataset": "swings", "seed": 7}
    return WorkerConfig.of({**told, **more})


def plan_of(algo: str = "tiny", **more: Any) -> CorlPlan:
    return CorlPlan.of(config_of(algo, **more))


def refusal(algo: str = "tiny", **more: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        plan_of(algo, **more)
    return str(refused.value)


def test_what_every_run_has_goes_under_the_names_of_the_script() -> None:
    plan = plan_of(total_timesteps=90)
    assert dict(plan.values) == {
        "env": "swings", "seed": 7, "max_timesteps": 90, "device": "cpu", "buffer_size": 180
    }  # fmt: skip
    assert set(plan.normalised) == set(plan.values)
    assert plan.normalised["buffer_size"] == "180: 180 rows of the dataset"
    assert plan.order is not None
    assert (plan.order.total, plan.order.per_turn, plan.order.algo) == (90, 1, "corl/tiny")
    assert plan.order.dataset["name"] == "swings"
    assert plan.order.origin["env_id"] == "Pendulum-v1"


def test_flags_are_told_without_a_dataset() -> None:
    plan = CorlPlan.to_describe(config_of(dataset=""))
    assert plan.flags["buffer_size"].default is None and "rows of the dataset" in plan.flags["buffer_size"].help
    assert plan.flags["max_timesteps"].default == 1_000_000 and plan.capabilities["checkpoint"].offered
    assert "--dataset is missing" in refusal(dataset="")


def test_what_the_user_gives_is_not_touched() -> None:
    plan = plan_of(total_timesteps=90, params={"device": "cuda:1", "buffer-size": "500", "betas": "[0.5, 0.9]"})
    assert (plan.values["device"], plan.values["buffer_size"]) == ("cuda:1", 500)
    assert "--betas=[0.5, 0.9]" in plan.arguments
    assert not {"device", "buffer_size", "betas"} & set(plan.normalised)


def test_a_reserved_gpu_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert plan_of().values["device"] == "cuda"


@pytest.mark.parametrize(
    ("total", "params", "epochs", "per", "in_all"),
    [
        (2500, {}, 3, 1000, 3000),
        (300, {}, 1, 300, 300),
        (300, {"num_updates_on_epoch": 100}, 3, 100, 300),
    ],
)
def test_a_length_becomes_epochs(total: int, params: dict[str, Any], epochs: int, per: int, in_all: int) -> None:
    plan = plan_of("epochs", total_timesteps=total, params=params)
    assert (plan.values["num_epochs"], plan.values.get("num_updates_on_epoch", 1000)) == (epochs, per)
    assert plan.order is not None
    assert (plan.order.total, plan.order.per_turn) == (in_all, per)
    assert (plan.values["train_seed"], plan.values["eval_seed"]) == (7, 7)


@pytest.mark.parametrize(
    ("params", "offline", "online"),
    [({}, 400, 100), ({"num_online_updates": 50}, 450, 50), ({"num_offline_updates": 500}, 500, 0)],
)
def test_a_length_counts_both_phases(params: dict[str, Any], offline: int, online: int) -> None:
    values = plan_of("finetune.tiny", total_timesteps=500, params=params).values
    assert (values["num_offline_updates"], values["num_online_updates"]) == (offline, online)
    assert values["replay_buffer_size"] == 180 + online


def test_a_yaml_file_lies_beneath_the_command_line() -> None:
    plan = plan_of(params={"config": "offline/tiny/pendulum"})
    assert plan.values["config_path"] == str(CHECKOUT / "configs/offline/tiny/pendulum.yaml")
    assert (plan.values["device"], plan.values["env"]) == ("cpu", "swings")
    assert "max_timesteps" not in plan.values
    assert plan.order is not None
    assert plan.order.total == 70
    assert plan_of(total_timesteps=9, params={"config": "offline/tiny/pendulum"}).values["max_timesteps"] == 9


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"algo": "tinny"}, "there is no script 'tinny' in .*; did you mean 'tiny'"),
        ({"corl_path": ""}, "clone https://github.com/corl-team/CORL and name the folder with --corl-path"),
        ({"corl_path": "/no/such/folder"}, "there is no folder '/no/such/folder'"),
        ({"dataset": "swing"}, "there is no dataset 'swing'; did you mean 'swings'"),
        ({"params": {"batchsize": 3}}, "tiny has no flag --batchsize; did you mean '--batch_size'"),
        ({"params": {"batch_size": "many"}}, "--batch_size must be a whole number, got 'many'"),
        ({"params": {"config": "offline/none"}}, "there is no config 'offline/none'"),
        ({"algo": "finetune.tiny", "total_timesteps": 5, "params": {"num_online_updates": 9}}, "more than --total-ti"),
        ({"start": {"mode": "resume", "checkpoint": "x"}, "algo": "finetune.tiny"}, "cannot resume from a checkpoint"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(more: dict[str, Any], sentence: str) -> None:
    assert re.search(sentence, said := refusal(**{"algo": "tiny", **more})), said


def test_a_yaml_file_that_is_none_of_the_script_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    for text, sentence in (
        ("{lr: 1}", "has no flag --lr"),
        ("[1]", "holds no flags"),
        ("a: [", "cannot be read as YAML"),
    ):
        file.write_text(text)
        assert sentence in refusal(params={"config_path": str(file)})


def test_weights_and_biases_is_declined_unless_somebody_asks_for_it() -> None:
    for params in ({}, {"disable_wandb": True}, {"track": True, "disable_wandb": True}):
        plan = plan_of(params=params)
        assert plan.order is not None
        assert not plan.order.track
    asked = plan_of(params={"track": True, "wandb_project_name": "mine"})
    assert asked.order is not None
    assert asked.order.track
    assert asked.order.origin["wandb_project_name"] == "mine"
    assert "track" not in asked.values
    by_config = plan_of(extras={"track_wandb": True}).order
    assert by_config is not None
    assert by_config.track


def test_a_script_for_jax_names_its_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAIC_SCRIPT_PYTHON", str(tmp_path / "bin" / "python"))
    (tmp_path / "offline").mkdir()
    (tmp_path / "offline" / "rebrac.py").write_text("import jax\n")
    said = refusal("rebrac", corl_path=str(tmp_path))
    assert f"`mosaic bundles install {upstream.JAX_BUNDLE}`" in said


def test_the_manifest_finds_the_file_that_consent_is_asked_for() -> None:
    manifest = load_manifest(WorkerConfig.PACKAGE)
    for algo, file in (
        ("tiny", "offline/tiny.py"),
        ("finetune.tiny", "finetune/tiny.py"),
        ("epochs", "offline/epochs.py"),
    ):
        settings = {"source": "corl", "corl_path": str(CHECKOUT), "algo": algo}
        assert manifest.foreign_file(settings) == CHECKOUT / "algorithms" / file == plan_of(algo).path
    assert manifest.foreign_file({"source": "corl", "corl_path": str(CHECKOUT), "algo": "..tiny"}) is None


def test_a_dry_run_says_all_of_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--upstream", "--corl-path", str(CHECKOUT), "--algo", "epochs", "--dataset", "swings"]
    monkeypatch.setattr(sys, "argv", ["corl", *words, "--total-timesteps", "2000", "--dry-run", "--emit-summary"])
    assert cli.main() == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["total_timesteps"], told["offline_dataset"]["rows"], told["env_id"]) == (2000, 180, "Pendulum-v1")
    assert told["normalised"]["num_epochs"] == "2: --total-timesteps in epochs of 1,000 updates"
    assert told["capabilities"]["resume"]["offered"]
    assert told["tracking"].startswith("no: ")
    assert told["needs"] == {"memory_mb": 500, "disk_mb": 200, "because": "180 rows of the dataset"}
    assert told["capabilities"]["metrics"]["why"].startswith("every row it gives to wandb.log is heard")


def test_own_scripts_are_planned_as_before() -> None:
    config = replace(config_of("td3_bc"), source="mosaic", corl_path="")
    plan = CorlPlan.of(config)
    assert plan.order is None
    assert plan.told() == {}


def test_a_share_of_too_few_episodes_is_refused_before_the_run() -> None:
    plan = CorlPlan.of(WorkerConfig.of({"algo": "bc", "dataset": "swings", "params": {"best_fraction": 0.1}}))
    with pytest.raises(ConfigError, match="10 % of 3 episodes is less than one"):
        look_at("swings", "", plan)


@pytest.mark.parametrize(
    ("env_id", "why"),
    [
        ("Acrobot-v1", "its observations are Box(6,), the data's Box(4,)"),
        ("MountainCar-v0", "its observations are Box(2,), the data's Box(4,)"),
        ("Pendulum-v1", "its observations are Box(3,), the data's Box(4,)"),
    ],
)
def test_an_environment_of_other_spaces_is_refused_before_the_run(env_id: str, why: str) -> None:
    plan = CorlPlan.of(WorkerConfig.of({"algo": "bc", "dataset": "balance", "env_id": env_id}))
    with pytest.raises(ConfigError, match=re.escape(f"{env_id} does not fit the dataset 'balance': {why}")):
        look_at("balance", env_id, plan)


def test_what_needs_an_environment_is_refused_before_the_run_where_there_is_none() -> None:
    play_set(MosaicPaths.from_environment(), "homeless", "Pendulum-v1", env_id="")
    learn, go_online = (
        CorlPlan.of(WorkerConfig.of({"algo": "iql", "dataset": "homeless", "params": params}))
        for params in ({}, {"online_steps": 10})
    )
    assert "does not say which environment it is of" in look_at("homeless", "", learn)["environment_problem"]
    with pytest.raises(ConfigError, match="does not say which environment it is of: give --env-id"):
        look_at("homeless", "", go_online)
    with pytest.raises(ConfigError, match="does not say which environment it is of: give --env-id"):
        look_at("homeless", "", plan_of(dataset="homeless"))


def test_a_dry_run_says_what_becomes_of_the_wish_to_be_tracked() -> None:
    assert tracking_sentence(False, {}) == "no: rows go to the journal and to TensorBoard files"
    key = {"WANDB_API_KEY": "a" * 40}
    assert tracking_sentence(True, key) == "Weights & Biases, with a key from WANDB_API_KEY"
    assert "WANDB_MODE" in tracking_sentence(True, {**key, "WANDB_MODE": "disabled"})
    assert "offline" in tracking_sentence(True, {**key, "WANDB_MODE": "offline"})
    nowhere = {"HOME": "/nonexistent", "NETRC": "/nonexistent/netrc"}
    assert "because no key was found (set WANDB_API_KEY" in tracking_sentence(True, nowhere)
