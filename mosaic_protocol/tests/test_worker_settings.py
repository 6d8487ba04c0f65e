"""The contract for what a worker reads: its spellings, its checks, and the file that everybody builds alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mosaic_protocol import settings_schema
from mosaic_protocol.run_config import RunConfig, RunConfigError, parse_run_config
from mosaic_protocol.settings_spelling import params_of, respelt, start_of
from mosaic_protocol.worker_manifest import WorkerManifest, load_manifest
from mosaic_protocol.worker_settings import accepted, read_settings, settings_for, tensorboard_folder

MANIFEST = """
schema = 1
[worker]
type = "sample"
name = "Sample Worker"
version = "1"
summary = "For tests."
lane = "analytics"
module = "sample_worker.cli"
"""
TENSORBOARD = Path("/runs/R1/tensorboard")


def worker(folder: Path, more: str = "", schema: dict[str, Any] | None = None) -> WorkerManifest:
    package = folder / "sample_worker"
    package.mkdir(parents=True, exist_ok=True)
    (package / "worker.toml").write_text(MANIFEST + more)
    if schema is not None:
        (package / "config.schema.json").write_text(json.dumps(schema))
    return load_manifest(package)


def run_config(settings: dict[str, Any], **resources: Any) -> RunConfig:
    return parse_run_config(
        {
            "run_name": "r",
            "resources": resources,
            "artifacts": {"video": {"enabled": True}},
            "metadata": {"worker": {"type": "sample", "module": "sample_worker.cli", "config": settings}},
        }
    )


def refusal(settings: dict[str, Any], manifest: WorkerManifest, **resources: Any) -> str:
    with pytest.raises(RunConfigError) as refused:
        accepted(run_config(settings, **resources), manifest)
    return str(refused.value)


# ---- spelling ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"algo": "a", "env_id": None, "extras": {}}, {"algo": "a"}),
        ({"extras": {"algo_params": {"lr": 1}}}, {"params": {"lr": 1}}),
        ({"extras": {"algo_params": {"lr": 1}}, "params": {"lr": 1}}, {"params": {"lr": 1}}),
        ({"extras": {"algo_params": {"lr": 1}}, "params": {}}, {"params": {"lr": 1}}),
        ({"extras": {"algo_params": None, "notes": "n"}}, {"extras": {"notes": "n"}}),
        ({"params": {"resume": "/c"}}, {"start": {"mode": "resume", "checkpoint": "/c"}}),
        (
            {"params": {"warm-start": "/c", "lr": 1}},
            {"start": {"mode": "warm_start", "checkpoint": "/c"}, "params": {"lr": 1}},
        ),
        ({"params": {"resume": None, "warm_start": ""}}, {}),
        ({"params": {"resume": True}}, {"params": {"resume": True}}),
        (
            {"start": {"mode": "resume", "checkpoint": "/c"}, "params": {"resume": "/c"}},
            {"start": {"mode": "resume", "checkpoint": "/c"}},
        ),
    ],
)
def test_every_spelling_means_the_same_settings(written: dict[str, Any], meant: dict[str, Any]) -> None:
    assert respelt(written) == meant
    assert respelt(meant) == meant


def test_listings_read_settings_of_any_spelling() -> None:
    older = {"extras": {"algo_params": {"lr": 1, "resume": "/c"}}}
    assert (params_of(older), start_of(older)) == ({"lr": 1}, ("resume", "/c"))
    assert (params_of({"params": 3}), start_of({"start": []})) == ({}, None)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"extras": {"algo_params": {"lr": 1}}, "params": {"lr": 2}},
            "extras.algo_params: differs from params, which is the same thing: give one of them",
        ),
        (
            {"start": {"mode": "resume", "checkpoint": "/c"}, "params": {"resume": "/d"}},
            "params.resume: differs from start, which is the same thing: give one of them",
        ),
        (
            {"params": {"resume": "/c", "warm_start": "/c"}},
            "params: names two checkpoints to begin from: give resume or warm_start, not both",
        ),
        ({"lr": 1, "params": {"lr": 2}}, "lr: differs from what params says: give one of them (got 1)"),
    ],
)
def test_two_spellings_that_contradict_each_other_are_refused(
    tmp_path: Path, settings: dict[str, Any], sentence: str
) -> None:
    manifest = worker(tmp_path, "[capabilities]\nresume = true\n")
    assert f"metadata.worker.config.{sentence}" in refusal(settings, manifest)


# ---- checking ----------------------------------------------------------------------------------------------------

SCRIPTED = """
needs = ["env"]
[capabilities]
warm_start = true
[algorithms.ppo]
summary = "Learns."
[algorithms.bc]
summary = "Imitates."
needs = ["dataset"]
[choices.upstream]
help = "Somebody else's."
kind = "switch"
sets = { source = "them" }
any_algorithm = true
algorithm = "them/{algo}"
[choices.script]
help = "One's own."
kind = "file"
replaces_algorithm = true
algorithm = "{stem}"
needs = []
"""


@pytest.mark.parametrize(
    "settings",
    [
        {"algo": "ppo", "env_id": "E", "start": {"mode": "warm_start", "checkpoint": "c"}},
        {"algo": "bc", "dataset": "d"},
        {"algo": "bc", "dataset": "d", "env_id": "E"},
        {"algo": "theirs", "source": "them", "env_id": "E"},
        {"script": "/a/mine.py"},
        {"run_id": "${RUN_ID}", "algo": "ppo", "env_id": "E"},
    ],
)
def test_settings_that_the_manifest_allows_are_accepted(tmp_path: Path, settings: dict[str, Any]) -> None:
    config = accepted(run_config(settings), worker(tmp_path, SCRIPTED))
    assert config.worker.config == {name: value for name, value in settings.items() if name != "run_id"}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"algo": "ppo"}, "env_id: is required: ppo needs an environment"),
        ({"algo": "bc"}, "dataset: is required: bc needs a dataset"),
        ({"algo": "ppo", "env_id": "E", "dataset": "d"}, "dataset: is not taken: ppo learns from no dataset"),
        (
            {"algo": "pp0", "env_id": "E"},
            "algo: is not offered by the worker 'sample'; did you mean 'ppo'? (got 'pp0')",
        ),
        ({"env_id": "E"}, "algo: is required; choices are bc, ppo"),
        ({"algo": "ppo", "envid": "E"}, "envid: is not a setting of the worker; did you mean 'env_id'? (got 'E')"),
        ({"algo": "ppo", "env_id": "E", "script": 3}, "script: must be text (got 3)"),
        ({"algo": "ppo", "env_id": "E", "seed": -1}, "seed: must be at least 0 (got -1)"),
        ({"algo": "ppo", "env_id": "E", "total_timesteps": 1.5}, "total_timesteps: must be a whole number (got 1.5)"),
        (
            {"algo": "ppo", "env_id": "E", "start": {"mode": "resume", "checkpoint": "c"}},
            "start.mode: is not offered: the worker 'sample' cannot resume runs",
        ),
        ({"algo": "ppo", "env_id": "E", "artifacts": {"a": 1}}, "artifacts: belongs to the run config itself"),
    ],
)
def test_settings_that_the_manifest_does_not_allow_are_refused(
    tmp_path: Path, settings: dict[str, Any], sentence: str
) -> None:
    assert f"metadata.worker.config.{sentence}" in refusal(settings, worker(tmp_path, SCRIPTED))


def test_what_checkpoints_call_an_algorithm_is_the_manifest_s_to_say(tmp_path: Path) -> None:
    manifest = worker(tmp_path, SCRIPTED)
    assert manifest.algorithm_of({"algo": "ppo"}) == "ppo"
    assert manifest.algorithm_of({"algo": "ppo", "source": "them"}) == "them/ppo"
    assert manifest.algorithm_of({"script": "/a/mine.py"}) == "mine"


def test_a_worker_that_does_not_describe_its_parameters_takes_them_beside_the_fields(tmp_path: Path) -> None:
    settings = read_settings({"algo": "a", "depth": 3, "params": {"lr": 1}}, worker(tmp_path))
    assert settings.params == {"lr": 1, "depth": 3}


SCHEMA = {
    "properties": {
        "learning_rate": {"type": "number", "minimum": 0, "maximum": 1},
        "layers": {"type": "array"},
        "device": {"type": "string", "enum": ["cpu", "cuda"]},
        "seed": {"type": "integer"},
    },
    "required": ["device"],
}


def test_parameters_are_checked_against_the_schema(tmp_path: Path) -> None:
    manifest = worker(tmp_path, schema=SCHEMA)
    beside = accepted(run_config({"learning_rate": 0.5, "device": "cpu", "seed": 3}), manifest)
    assert beside.worker.config == {"seed": 3, "params": {"learning_rate": 0.5, "device": "cpu"}}
    problems = refusal({"params": {"learning_rat": 1, "learning_rate": 2, "layers": "big"}}, manifest).splitlines()
    assert problems == [
        "metadata.worker.config.params.learning_rat: is not a parameter of the worker; did you mean 'learning_rate'?",
        "metadata.worker.config.params.learning_rate: must be at most 1 (got 2)",
        "metadata.worker.config.params.layers: must be a list (got 'big')",
        "metadata.worker.config.params.device: is required",
    ]
    assert "is not a setting of the worker" in refusal({"device": "cpu", "deviec": "cpu"}, manifest)
    assert "params.device: is not one of the choices; did you mean 'cpu'?" in refusal({"device": "cpus"}, manifest)


def test_a_worker_that_needs_a_gpu_is_not_run_without_one(tmp_path: Path) -> None:
    manifest = worker(tmp_path, "[capabilities]\ngpu_required = true\n")
    assert refusal({}, manifest) == (
        "resources.gpus.mandatory: must be at least 1: the worker 'sample' cannot run without a GPU (got 0)"
    )
    accepted(run_config({}, gpus={"requested": 1, "mandatory": 1}), manifest)


# ---- building ----------------------------------------------------------------------------------------------------


def built(settings: dict[str, Any], manifest: WorkerManifest) -> dict[str, Any]:
    return settings_for(run_config(settings), manifest, run_id="R1", tensorboard_dir=TENSORBOARD)


def test_the_file_of_a_worker_has_the_run_its_artifacts_and_no_placeholder(tmp_path: Path) -> None:
    told = built({"algo": "a", "run_id": "${RUN_ID}", "note": "${RUN_ID}: ${VAR_TENSORBOARD_DIR}"}, worker(tmp_path))
    assert (told["run_id"], told["extras"]) == ("R1", {})
    assert told["params"] == {"note": f"R1: {TENSORBOARD}"}
    assert told["artifacts"]["video"] == {"enabled": True}
    assert told["artifacts"]["checkpoints"]["keep_last"] == 3


@pytest.mark.parametrize(
    ("asked", "folder"),
    [
        ("${VAR_TENSORBOARD_DIR}/${RUN_ID}", TENSORBOARD),
        ("${VAR_TENSORBOARD_DIR}/${RUN_ID}/first/try", TENSORBOARD / "first" / "try"),
        ("${VAR_TENSORBOARD_DIR}", TENSORBOARD),
        ("curves", TENSORBOARD / "curves"),
        (str(TENSORBOARD.parent), TENSORBOARD),
    ],
)
def test_tensorboard_files_lie_where_a_config_asks_for_them_below_the_run(
    tmp_path: Path, asked: str, folder: Path
) -> None:
    told = built({"extras": {"tensorboard_dir": asked}}, worker(tmp_path))
    assert told["extras"]["tensorboard_dir"] == str(folder)
    assert tensorboard_folder(told["extras"], TENSORBOARD, "R1") == folder


@pytest.mark.parametrize("asked", ["/tmp/curves", "../elsewhere", "${VAR_TENSORBOARD_DIR}/../..", "/"])
def test_tensorboard_files_outside_the_run_are_refused_with_what_to_write(tmp_path: Path, asked: str) -> None:
    sentence = refusal({"extras": {"tensorboard_dir": asked}}, worker(tmp_path))
    assert "extras.tensorboard_dir: must lie with the run: give ${VAR_TENSORBOARD_DIR}/${RUN_ID}" in sentence


@pytest.mark.parametrize(
    ("value", "sentence"), [(0, "more than 0"), (-0.5, "more than 0"), (1, "less than 1"), (0.5, "")]
)
def test_bounds_that_do_not_belong_to_the_range_are_kept(value: float, sentence: str) -> None:
    schema = {"properties": {"alpha": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}}}
    found = [problem.message for problem in settings_schema.problems_with({"alpha": value}, schema, "params")]
    assert found == ([f"must be {sentence}"] if sentence else [])


@pytest.mark.parametrize(
    "sloppy",
    [
        {"required": True},
        {"required": [["a"]]},
        {"properties": {"a": {"type": 5}}},
        {"properties": {"a": {"type": [{}]}}},
        {"properties": {"a": {"enum": 5}}},
        {"properties": {"a": {"minimum": 10**400}}},
        {"properties": {"a": {"maximum": "3"}}},
    ],
)
def test_a_schema_of_another_shape_is_refused_by_name(sloppy: dict[str, Any]) -> None:
    with pytest.raises(settings_schema.SchemaError, match=r"^config\.schema\.json is not a JSON schema: "):
        settings_schema.checked_schema({"properties": {}, **sloppy}, "config.schema.json")


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (
            {"properties": {"speed": {"minimun": 0}}},
            "'speed' has a keyword 'minimun' that JSON schema does not know; did",
        ),
        ({"properties": {"speed": {"defualt": 0}}}, "did you mean 'default'?"),
        ({"properties": {}, "requred": []}, "it has a keyword 'requred'"),
        ({"properties": {"plans": {"x-files": "*.asl"}}}, "'plans' has 'x-files' that are not a regular expression"),
    ],
)
def test_a_misspelt_keyword_is_told_instead_of_checking_nothing(schema: dict[str, Any], sentence: str) -> None:
    with pytest.raises(settings_schema.SchemaError) as refused:
        settings_schema.checked_schema(schema, "config.schema.json")
    assert sentence in str(refused.value)


def test_keywords_that_are_the_workers_to_check_are_let_through() -> None:
    speed = {"type": "string", "pattern": "^a", "minLength": 1, "x-unit": "m/s", "$comment": "for people"}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"speed": speed},
    }
    assert settings_schema.checked_schema(schema, "config.schema.json") == schema


def test_types_of_flags_are_words_also_where_a_value_may_be_left_out() -> None:
    described = {
        "map": {"type": ["string", "null"]},
        "wind": {"type": ["boolean", "null"]},
        "any": {},
        "n": {"type": "integer"},
    }
    told = {one["name"]: one["type"] for one in settings_schema.as_flags({"properties": described})}
    assert told == {"map": "text", "wind": "true or false", "any": "any", "n": "a whole number"}
