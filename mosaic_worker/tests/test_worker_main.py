"""A worker of twenty lines has a command line: it checks, describes itself, trains by hand, and refuses in one line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.worker_manifest import WorkerManifest, load_manifest
from mosaic_worker.errors import UsageError
from mosaic_worker.settings import Settings, read_settings
from mosaic_worker.state import checkpoints
from mosaic_worker.tests.policies import toys
from mosaic_worker.worker_main import main

MANIFEST = load_manifest(toys.TOY_WORKER)
HANG_GUARD = 60.0


def run(folder: Path, *words: str, tensorboard: str = "0", **config: Any) -> subprocess.CompletedProcess[str]:
    file = folder / "config.json"
    file.write_text(json.dumps(config))
    command = [sys.executable, "-m", "toy_worker.cli", "--config", str(file), *words]
    return subprocess.run(
        command,
        env={**toys.environment(), "MOSAIC_TENSORBOARD": tensorboard},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def settings(**config: Any) -> Settings:
    return read_settings(MANIFEST, config)


# ---- settings ----------------------------------------------------------------------------------------------------


def test_parameters_are_the_given_ones_over_the_defaults_of_the_schema() -> None:
    defaults = {"speed": 0.5, "turns": 3, "mode": "slow", "fail": False}
    assert settings().params == defaults
    assert settings(params={"turns": 5}).params == {**defaults, "turns": 5}
    assert settings(extras={"algo_params": {"turns": 5}}).params == {**defaults, "turns": 5}


def test_text_from_a_command_line_is_read_as_the_schema_says() -> None:
    found = settings(params={"speed": "0.25", "turns": "7", "fail": "true"}).params
    assert (found["speed"], found["turns"], found["fail"]) == (0.25, 7, True)


def test_a_schema_that_a_module_prints_counts_like_one_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "printing_worker"
    shutil.copytree(toys.TOY_WORKER, package)
    schema = (package / "config.schema.json").read_text()
    (package / "config.schema.json").unlink()
    leaves = "import subprocess, sys\nleft = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    written = f"open({str(tmp_path / 'left')!r}, 'w').write(str(left.pid))\n"
    (package / "tells.py").write_text(f"{leaves}{written}print({schema!r})\n")
    manifest = (package / "worker.toml").read_text().replace("toy_worker.", "printing_worker.")
    (package / "worker.toml").write_text(manifest + '[settings]\nschema_module = "printing_worker.tells"\n')
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = load_manifest(package)
    assert read_settings(found, {"turns": 5}).params == {"speed": 0.5, "turns": 5, "mode": "slow", "fail": False}
    with pytest.raises(UsageError, match="--speed must be at most 1"):
        read_settings(found, {"params": {"speed": 2}})
    left = int((tmp_path / "left").read_text())  # it has the module's output open, for which nobody waited
    deadline = time.monotonic() + HANG_GUARD
    while ProcessIdentity.of(left) is not None:
        assert time.monotonic() < deadline, "what the module left behind goes on"
        time.sleep(0.02)


def another_worker(tmp_path: Path, schema: dict[str, Any] | None = None, needs: tuple[str, ...] = ()) -> WorkerManifest:
    """The toy with parameters and needs of its own."""
    package = tmp_path / "another_worker"
    shutil.copytree(toys.TOY_WORKER, package)
    text = (package / "worker.toml").read_text().replace("toy_worker.", "another_worker.")
    (package / "worker.toml").write_text(text.replace("[worker]", f"[worker]\nneeds = {json.dumps(needs)}"))
    if schema is not None:
        (package / "config.schema.json").write_text(json.dumps({"properties": schema}))
    return load_manifest(package)


def test_a_default_of_null_is_filled_in(tmp_path: Path) -> None:
    clip = {"type": ["number", "null"], "default": None}
    manifest = another_worker(tmp_path, {"clip": clip, "rate": {"type": ["number", "null"], "default": 0.5}})
    assert read_settings(manifest, {}).params == {"clip": None, "rate": 0.5}
    typed = read_settings(manifest, {"params": {"clip": "0.25", "rate": "none"}}).params
    assert typed == {"clip": 0.25, "rate": None}, "words of a command line are read as the type says"


def test_an_object_may_be_given_as_the_text_of_one(tmp_path: Path) -> None:
    manifest = another_worker(tmp_path, {"keys": {"type": "object"}})
    assert read_settings(manifest, {"params": {"keys": '{"a": 0}'}}).params == {"keys": {"a": 0}}
    with pytest.raises(UsageError, match="--keys must be an object with fields"):
        read_settings(manifest, {"params": {"keys": "3"}})


@pytest.mark.parametrize(
    ("needs", "config", "sentence"),
    [
        (("env",), {}, "--env-id is missing: toy_discrete needs an environment, such as CartPole-v1"),
        (("dataset",), {}, "--dataset is missing: toy_discrete learns from a dataset"),
        ((), {"dataset": "d"}, "--dataset is not taken: toy_discrete learns from no dataset"),
    ],
)
def test_what_a_run_needs_and_what_it_does_not_take_is_said(
    needs: tuple[str, ...], config: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as refused:
        read_settings(another_worker(tmp_path, needs=needs), config)
    assert str(refused.value) == sentence


def test_a_dataset_is_given_by_hand_and_reaches_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOSAIC_TENSORBOARD", "0")
    package, seen = another_worker(tmp_path, needs=("dataset",)).package_dir, []

    def train(session: Any, settings: Settings) -> None:
        seen.append((settings.dataset, settings.arguments()["dataset"]))

    assert main(package, train, words=["--dataset", "halfcheetah"]) == 0
    assert seen == [("halfcheetah", "halfcheetah")]


def test_a_checkpoint_that_cannot_be_written_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOSAIC_TENSORBOARD", "0")

    def train(session: Any, settings: Settings) -> None:
        session.begin(1)
        session.save_checkpoint(1, {}, {"mean": float("nan")})

    assert main(toys.TOY_WORKER, train, words=[]) == 1
    (told,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("toy_worker: ")]
    assert told.startswith("toy_worker: Could not write the checkpoint "), told


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"algo": "toy_discreet"}, "there is no algorithm 'toy_discreet'; did you mean 'toy_discrete'?"),
        ({"params": {"sped": 1}}, "toy_discrete has no flag --sped; did you mean '--speed'?"),
        ({"params": {"speed": 2}}, "--speed must be at most 1, got 2.0"),
        ({"params": {"speed": -0.5}}, "--speed must be at least 0, got -0.5"),
        ({"params": {"speed": "nan"}}, "--speed must be a number, got 'nan'"),
        ({"params": {"speed": float("nan")}}, "--speed must be a finite number, got nan"),
        ({"params": {"speed": "inf"}}, "--speed must be a finite number, got inf"),
        ({"params": {"turns": "many"}}, "--turns must be a whole number, got 'many'"),
        ({"params": {"mode": "slowly"}}, "--mode must be one of slow, fast, got 'slowly'"),
        ({"params": 3}, "params: must be an object with fields (got 3)"),
        ({"extras": {"wandb_projekt_name": "x"}}, "extras has an unknown field 'wandb_projekt_name'; did you mean"),
        ({"extras": {"requirements": ["vidio"]}}, "there is no set of extras 'vidio'; did you mean 'video'?"),
        ({"extras": {"requirements": "video"}}, "extras.requirements must be a list of names"),
        ({"seed": -1}, "seed: must be at least 0 (got -1)"),
        ({"total_timesteps": 0}, "total_timesteps: must be at least 1 (got 0)"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence(config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        settings(**config)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    "config",
    [
        {"start": {"mode": "resume", "checkpoint": "/there"}},
        {"params": {"resume": "/there"}},
        {"extras": {"algo_params": {"resume": "/there"}}},
    ],
)
def test_a_checkpoint_to_go_on_from_is_found_wherever_it_is_named(config: dict[str, Any]) -> None:
    found = settings(**config)
    assert (found.resume, found.warm_start) == ("/there", None)
    assert "resume" not in found.params


def test_what_a_session_needs_is_among_the_arguments() -> None:
    artifacts = {"checkpoints": {"every_steps": 10, "keep_last": 2}, "video": {"enabled": True}}
    extras = {"track_wandb": True, "wandb_entity": "us"}
    found = settings(artifacts=artifacts, extras=extras, seed=4, env_id="X-v0").arguments()
    expected = {"checkpoint_every": 10, "checkpoint_keep": 2, "capture_video": True, "track": True, "seed": 4}
    assert {**expected, "wandb_entity": "us", "env_id": "X-v0", "speed": 0.5}.items() <= found.items()


# ---- the process -------------------------------------------------------------------------------------------------


def test_what_a_run_says_of_weights_and_biases_reaches_any_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    proxy = {"wandb_use_vpn_proxy": True, "wandb_http_proxy": "http://p:1"}
    asked = {"track_wandb": True, "wandb_email": "me@lab", **proxy}
    found = settings(extras=asked)
    assert found.environment() == {
        "WANDB_USER_EMAIL": "me@lab",
        "WANDB_VPN_HTTP_PROXY": "http://p:1",
        "MOSAIC_WANDB_PROXY": "1",
    }
    assert found.arguments()["wandb_project_name"] == "toy"
    assert settings(extras={**asked, "wandb_project_name": "mine"}).arguments()["wandb_project_name"] == "mine"
    assert settings(extras={"wandb_email": "me@lab"}).environment() == {}


def test_a_dry_run_starts_nothing_and_prints_what_would_run(tmp_path: Path) -> None:
    done = run(tmp_path, "--dry-run", "--emit-summary", algo="toy_discrete", env_id="CartPole-v1", params={"turns": 4})
    told = json.loads(done.stdout)
    assert (done.returncode, told["status"], told["params"]["turns"], told["checked"]) == (0, "ok", 4, "yes")
    assert not (tmp_path / "runs").exists()


def test_flags_of_the_command_line_go_over_the_config_in_any_spelling(tmp_path: Path) -> None:
    extras = {"algo_params": {"speed": 0.25, "turns": 9}}
    done = run(tmp_path, "--turns", "4", "--dry-run", "--emit-summary", extras=extras)
    assert done.returncode == 0, done.stderr
    params = json.loads(done.stdout)["params"]
    assert (params["speed"], params["turns"]) == (0.25, 4)


def test_a_worker_refuses_in_one_line_with_its_name_ahead(tmp_path: Path) -> None:
    done = run(tmp_path, "--dry-run", env_id="Nowhere-v0")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "toy_worker: there is no environment 'Nowhere-v0'\n"
    assert run(tmp_path, "--grpc").stderr.startswith("toy_worker: MOSAIC_RUN_ID is not set: a worker is started by")


def test_a_worker_describes_its_parameters_as_a_form_needs_them(tmp_path: Path) -> None:
    told = json.loads(run(tmp_path, "--describe-flags").stdout)
    speed, *_ = told["flags"]
    assert speed == {
        "name": "speed",
        "option": "--speed",
        "type": "float",
        "default": 0.5,
        "help": "How much is added.",
        "choices": [],
        "required": False,
    }
    assert told["capabilities"]["resume"]["offered"] is True
    assert told["capabilities"]["warm_start"]["offered"] is False


def test_by_hand_it_trains_and_goes_on_from_its_own_checkpoint(tmp_path: Path) -> None:
    artifacts = {"checkpoints": {"every_steps": 4, "keep_last": 10}}
    done = run(tmp_path, "--total-timesteps", "10", "--speed", "0.5", artifacts=artifacts)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    found = checkpoints.list_checkpoints(folder / "checkpoints")
    assert [checkpoints.read_manifest(path).step for path in found] == [4, 8, 10]

    again = run(tmp_path, params={"resume": str(found[0])}, total_timesteps=10, env_id="")
    assert again.returncode == 0, again.stderr
    (rest,) = set((tmp_path / "runs").iterdir()) - {folder}
    (last,) = checkpoints.list_checkpoints(rest / "checkpoints")
    assert float(checkpoints.load(last).tensors["layer.weight"]) == float(
        checkpoints.load(found[-1]).tensors["layer.weight"]
    )
    assert checkpoints.read_manifest(last).lineage["kind"] == "resume"


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        ("curves", "runs/{run}/curves"),
        ("${VAR_TENSORBOARD_DIR}/${RUN_ID}", "runs/{run}"),
        ("{here}/all/${RUN_ID}", "all/{run}"),
    ],
)
def test_by_hand_event_files_go_where_the_config_says(tmp_path: Path, asked: str, place: str) -> None:
    asked = asked.replace("{here}", str(tmp_path))
    done = run(tmp_path, tensorboard="", total_timesteps=2, extras={"tensorboard_dir": asked})
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    (file,) = tmp_path.rglob("events.out.tfevents.*")
    assert file.parent == tmp_path / place.replace("{run}", folder.name)


def test_an_exception_of_the_training_is_shown_as_it_is(tmp_path: Path) -> None:
    done = run(tmp_path, params={"fail": True})
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: by zero"


def test_checking_a_worker_imports_nothing_heavy() -> None:
    program = "import sys, mosaic_worker.worker_main; print({'torch', 'gymnasium', 'grpc'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"
