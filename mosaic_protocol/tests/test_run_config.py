from __future__ import annotations

import json
import math
from typing import Any

import pydantic
import pytest

from mosaic_protocol import run_config, suggest
from mosaic_protocol.run_config import RunConfigError, parse_run_config, to_json

Config = dict[str, Any]


def changed(config: Config, path: str, value: object) -> Config:
    """``config`` with one value set, making the objects on the way."""
    *parents, last = path.split(".")
    here = config
    for parent in parents:
        here = here.setdefault(parent, {})
    here[last] = value
    return config


def refusal(config: object) -> RunConfigError:
    with pytest.raises(RunConfigError) as caught:
        parse_run_config(config)  # type: ignore[arg-type]
    return caught.value


def only_problem(config: object) -> suggest.Problem:
    (problem,) = refusal(config).problems
    return problem


def test_the_smallest_config_gets_the_documented_defaults(valid_config: Config) -> None:
    config = parse_run_config(valid_config)
    assert config.schema_version == 1
    assert (config.resources.cpus.requested, config.resources.memory_mb.requested) == (1, 0)
    assert (config.resources.gpus.requested, config.resources.gpus.mandatory) == (0, 0)
    assert config.artifacts.tensorboard.enabled and not config.artifacts.wandb.enabled
    assert config.artifacts.checkpoints.enabled and config.artifacts.checkpoints.keep_last == 3
    assert config.artifacts.checkpoints.every_steps is None and not config.artifacts.video.enabled
    assert (config.metadata.notes, config.metadata.tags) == ("", ())
    assert config.worker.agent_id is None and config.worker.worker_id is None
    assert config.schedule.max_wallclock_minutes is None and config.schedule.max_stall_minutes is None


@pytest.mark.parametrize(("block", "enabled"), [("tensorboard", True), ("wandb", False), ("checkpoints", True)])
def test_an_empty_artifact_block_means_the_same_as_none(valid_config: Config, block: str, enabled: bool) -> None:
    config = parse_run_config(changed(valid_config, f"artifacts.{block}", {}))
    assert getattr(config.artifacts, block).enabled is enabled


def test_every_field_can_be_given(valid_config: Config) -> None:
    valid_config |= {
        "schema_version": 1,
        "resources": {
            "cpus": {"requested": 4},
            "gpus": {"requested": 2, "mandatory": 1},
            "memory_mb": {"requested": 8192},
        },
        "artifacts": {
            "tensorboard": {"enabled": False},
            "wandb": {"enabled": True},
            "checkpoints": {"enabled": True, "every_steps": 1000, "keep_last": 5},
            "video": {"enabled": True},
        },
        "schedule": {"max_wallclock_minutes": 90, "max_stall_minutes": 2.5},
    }
    valid_config["metadata"] |= {"notes": "two\nlines", "tags": ["smoke", "day 20"]}
    valid_config["metadata"]["worker"] |= {"agent_id": "agent@localhost", "worker_id": "w-1"}
    config = parse_run_config(valid_config)
    assert config.resources.gpus.mandatory == 1 and config.schedule.max_wallclock_minutes == 90.0
    assert config.metadata.tags == ("smoke", "day 20") and config.worker.agent_id == "agent@localhost"
    assert parse_run_config(to_json(config)) == config


@pytest.mark.parametrize("field", ["run_name", "resources", "artifacts", "metadata"])
def test_required_blocks_are_required(valid_config: Config, field: str) -> None:
    del valid_config[field]
    problem = only_problem(valid_config)
    assert (problem.path, problem.message, problem.value_repr) == (field, "is required", "")


@pytest.mark.parametrize("field", ["type", "module", "config"])
def test_a_worker_says_what_it_is_and_what_it_shall_do(valid_config: Config, field: str) -> None:
    del valid_config["metadata"]["worker"][field]
    assert str(refusal(valid_config)) == f"metadata.worker.{field}: is required"


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("schema_version", 2, "must be 1; if a newer MOSAIC made the config, update this one"),
        ("schema_version", True, "must be a whole number"),
        ("run_name", "", "is too short"),
        ("run_name", "x" * 121, "is too long: at most 120"),
        ("run_name", " a", "must not begin or end with a blank"),
        ("run_name", "a\u00a0", "printable"),
        ("run_name", "a\nb", "printable text on one line"),
        ("run_name", "a\u202eb", "printable"),
        ("run_name", 5, "must be text"),
        ("resources", [], "must be an object with fields"),
        ("resources.cpus.requested", "5", "must be a whole number"),
        ("resources.cpus.requested", 5.0, "must be a whole number"),
        ("resources.cpus.requested", True, "must be a whole number"),
        ("resources.cpus.requested", None, "must be a whole number"),
        ("resources.cpus.requested", 0, "must be at least 1"),
        ("resources.cpus.requested", 4097, "must be at most 4096"),
        ("resources.gpus.requested", -1, "must be at least 0"),
        ("resources.gpus.requested", 1025, "must be at most 1024"),
        ("resources.gpus.mandatory", 1, "must not exceed the 0 requested"),
        ("resources.memory_mb.requested", -1, "must be at least 0"),
        ("resources.memory_mb.requested", 2**20 + 1, "must be at most 1048576"),
        ("artifacts.tensorboard.enabled", "yes", "must be true or false"),
        ("artifacts.wandb.enabled", 1, "must be true or false"),
        ("artifacts.checkpoints.every_steps", -1, "must be at least 0"),
        ("artifacts.checkpoints.keep_last", -1, "must be at least 0"),
        ("artifacts.video", True, "must be an object with fields"),
        ("metadata.notes", "x" * 20_001, "is too long: at most 20000"),
        ("metadata.tags", "smoke", "must be a list"),
        ("metadata.tags", ["x"] * 51, "is too long: at most 50 items"),
        ("metadata.worker.type", "Clean RL", "must be a plain name"),
        ("metadata.worker.type", "../cleanrl", "must be a plain name"),
        ("metadata.worker.module", "cleanrl_worker/cli.py", "dotted name of a Python module"),
        ("metadata.worker.module", "-c", "dotted name of a Python module"),
        ("metadata.worker.module", "cleanrl_worker.cli\n", "dotted name of a Python module"),
        ("metadata.worker.config", [], "must be an object with fields"),
        ("metadata.worker.agent_id", "", "is too short"),
        ("metadata.worker.worker_id", "a\tb", "printable"),
        ("schedule.max_wallclock_minutes", 0, "must be more than 0"),
        ("schedule.max_wallclock_minutes", "90", "must be a number"),
        ("schedule.max_stall_minutes", -1.5, "must be more than 0"),
        ("schedule.max_stall_minutes", 10**8, "must be at most 5256000"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path_and_the_reason(
    valid_config: Config, path: str, value: object, why: str
) -> None:
    problem = only_problem(changed(valid_config, path, value))
    assert problem.path == path and why in problem.message
    assert problem.value_repr == suggest.shown(value)


def test_a_wrong_item_of_a_list_is_named_by_its_place(valid_config: Config) -> None:
    problem = only_problem(changed(valid_config, "metadata.tags", ["good", 5]))
    assert str(problem) == "metadata.tags[1]: must be text (got 5)"


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("artifact", "did you mean 'artifacts'?"),
        ("resources.gpu", "did you mean 'gpus'?"),
        ("resources.gpus.manditory", "did you mean 'mandatory'?"),
        ("metadata.worker.modul", "did you mean 'module'?"),
        ("schedule.max_wallclock_minute", "did you mean 'max_wallclock_minutes'?"),
        ("artifacts.video.xyzzy", "choices are enabled"),
    ],
)
def test_an_unknown_field_offers_the_nearest_one(valid_config: Config, path: str, hint: str) -> None:
    problem = only_problem(changed(valid_config, path, 3))
    assert problem.path == path and problem.message == f"is not a known field; {hint}"


def test_an_error_reads_as_one_line_for_each_problem(valid_config: Config) -> None:
    changed(valid_config, "resources.cpus.requested", "5")
    changed(valid_config, "run_name", "red\x1b[31m")
    del valid_config["artifacts"]
    assert str(refusal(valid_config)).splitlines() == [
        r"run_name: must be printable text on one line, without control characters (got 'red\x1b[31m')",
        "resources.cpus.requested: must be a whole number (got '5')",
        "artifacts: is required",
    ]


def test_a_long_value_is_cut_and_a_long_list_of_problems_too(valid_config: Config) -> None:
    error = refusal(valid_config | {f"field{number}": "y" * 500 for number in range(1000)})
    assert len(error.problems) == 20
    assert str(error).splitlines()[-1] == "… and more problems of this kind"
    assert all(len(problem.value_repr) <= 61 for problem in error.problems)


def test_no_text_of_the_validation_library_reaches_people(valid_config: Config) -> None:
    error = refusal({"run_name": 1, "resources": 1, "artifacts": {"wandb": {"enabled": "x"}}, "x": 1})
    for foreign in ("pydantic", "Input should", "input_value", "For further information", "validation error"):
        assert foreign not in str(error)
    assert error.__cause__ is None and error.__context__ is None  # nor a traceback that shows it


def test_an_error_kind_without_a_sentence_of_its_own_still_reads_as_one() -> None:
    class Dated(pydantic.BaseModel):
        day: pydantic.AwareDatetime

    with pytest.raises(pydantic.ValidationError) as caught:
        Dated.model_validate({"day": "never"})
    (problem,) = suggest.problems_of(caught.value, Dated)
    assert str(problem) == "day: is not valid here (got 'never')"


# --- what must not be stored ---


@pytest.mark.parametrize(
    "key", ["api_key", "wandb_api_key", "password", "passwd", "hf_token", "secret", "Authorization"]
)
@pytest.mark.parametrize("place", ["metadata.worker.config.extras", "metadata.worker.config", "metadata", "schedule"])
def test_a_credential_is_refused_wherever_it_stands_and_never_repeated(
    valid_config: Config, place: str, key: str
) -> None:
    error = refusal(changed(valid_config, f"{place}.{key}", "hunter2"))
    assert error.problems[0].path == f"{place}.{key}"
    assert "looks like a secret: pass it through the environment" in str(error)
    assert "hunter2" not in str(error) and "hunter2" not in repr(error.problems)


@pytest.mark.parametrize("value", [["hunter2"], {"value": "hunter2"}])
def test_a_credential_in_a_list_or_object_is_refused_too(valid_config: Config, value: object) -> None:
    error = refusal(changed(valid_config, "metadata.worker.config.tokens", value))
    assert "looks like a secret" in str(error) and "hunter2" not in str(error)


def test_a_proxy_address_with_a_password_is_refused_and_never_repeated(valid_config: Config) -> None:
    error = refusal(changed(valid_config, "metadata.worker.config.http_proxy", "http://me:hunter2@proxy:3128"))
    assert "looks like a secret" in str(error) and "hunter2" not in str(error)


@pytest.mark.parametrize(("key", "value"), [("token", ""), ("api_key", None), ("max_tokens", 256), ("use_token", True)])
def test_a_field_for_a_credential_may_be_empty_or_not_text(valid_config: Config, key: str, value: object) -> None:
    config = parse_run_config(changed(valid_config, f"metadata.worker.config.{key}", value))
    assert config.worker.config[key] == value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (math.nan, "must be a finite number"),
        (-math.inf, "must be a finite number"),
        (2**63, "must lie within"),
        pytest.param(10**5000, "must lie within", id="5000 digits"),
        ("a\0b", "must not hold a NUL character"),
        pytest.param("a\ud800b", "must not hold half of a surrogate pair", id="surrogate"),
        (b"bytes", "is not JSON data"),
        ({1, 2}, "is not JSON data"),
    ],
)
def test_only_plain_json_can_be_a_setting(valid_config: Config, value: object, why: str) -> None:
    problem = only_problem(changed(valid_config, "metadata.worker.config.setting", value))
    assert problem.path == "metadata.worker.config.setting" and why in problem.message
    assert str(problem).isprintable()


def test_a_field_name_must_be_storable_too(valid_config: Config) -> None:
    valid_config["metadata"]["worker"]["config"] = {"a\0b": 1, 5: 2}
    lines = str(refusal(valid_config)).splitlines()
    assert lines[0].startswith(r"metadata.worker.config['a\x00b']: must not hold a NUL character")
    assert lines[1] == "metadata.worker.config: must have field names that are text (got 5)"


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_nesting_ends_at_twenty_levels(valid_config: Config) -> None:
    parse_run_config(changed(valid_config, "metadata.worker.config.deep", nested(16)))
    problem = only_problem(changed(valid_config, "metadata.worker.config.deep", nested(17)))
    assert problem.message == "is nested more than 20 levels deep"
    assert "is nested more than 20 levels deep" in str(refusal("[" * 100_000))


def test_a_mapping_that_holds_itself_is_refused(valid_config: Config) -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert "levels deep" in str(refusal(changed(valid_config, "metadata.worker.config.loop", loop)))


def test_a_small_mapping_that_unfolds_into_a_huge_one_is_refused(valid_config: Config) -> None:
    bomb: list[Any] = [1]
    for _ in range(14):
        bomb = [bomb] * 40
    assert "holds more than 131072 values" in str(refusal(changed(valid_config, "metadata.worker.config.bomb", bomb)))


def test_the_whole_config_is_bounded(valid_config: Config) -> None:
    changed(valid_config, "metadata.worker.config.blob", "x" * 262_144)
    assert "at most 262144 are allowed" in str(refusal(valid_config))
    assert "at most 262144 bytes are allowed" in str(refusal(json.dumps(valid_config)))


def test_size_is_counted_in_bytes(valid_config: Config) -> None:
    changed(valid_config, "metadata.worker.config.blob", "€" * 100_000)
    assert "as JSON; at most 262144" in str(refusal(valid_config))


# --- text and mappings ---


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not JSON: Expecting value, line 1 column 1"),
        ('{"run_name": "a",\n oops}', "line 2 column 2"),
        (b'{"run_name": "\xff"}', "is not UTF-8 text: see byte 14"),
        ('{"run_name": "a", "run_name": "b"}', "gives the field 'run_name' twice in one object"),
        ("[" + "9" * 5000 + "]", "holds an integer with thousands of digits"),
        ("[1, 2]", "must be an object with fields (got a list of 2 items)"),
        ("null", "must be an object with fields (got None)"),
    ],
)
def test_text_that_is_no_config_is_refused_with_the_place(text: str | bytes, why: str) -> None:
    assert why in str(refusal(text)) and str(refusal(text)).startswith("(top level): ")


def test_a_text_that_is_not_json_is_not_repeated() -> None:
    assert "hunter2" not in str(refusal('{"api_key": "hunter2"'))


def test_infinity_in_text_is_named_with_its_path(valid_config: Config) -> None:
    changed(valid_config, "metadata.worker.config.lr", math.inf)
    assert str(refusal(json.dumps(valid_config))) == "metadata.worker.config.lr: must be a finite number (got inf)"
    text = json.dumps(valid_config).replace("Infinity", "1e999")
    assert str(refusal(text)) == "metadata.worker.config.lr: must be a finite number (got inf)"


def test_text_bytes_and_mapping_give_the_same_config(valid_config: Config) -> None:
    text = json.dumps(valid_config, indent=4)
    assert parse_run_config(text) == parse_run_config(text.encode()) == parse_run_config(valid_config)
    assert parse_run_config(b"\xef\xbb\xbf" + text.encode()) == parse_run_config(valid_config)


def test_the_canonical_text_is_sorted_compact_and_stable(valid_config: Config) -> None:
    changed(valid_config, "metadata.worker.config", {"b": 1.5, "a": [1, "é", None], "c": {"z": -0.0, "y": 1e300}})
    text = to_json(parse_run_config(valid_config))
    assert to_json(parse_run_config(text)) == text
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def test_a_config_does_not_follow_later_changes_of_the_mapping(valid_config: Config) -> None:
    config = parse_run_config(valid_config)
    valid_config["metadata"]["worker"]["config"]["algo"] = "dqn"
    assert config.algo == "ppo"


def test_a_config_cannot_be_changed(valid_config: Config) -> None:
    config = parse_run_config(valid_config)
    with pytest.raises(pydantic.ValidationError):
        config.run_name = "other"


def test_headline_settings_are_read_from_the_worker_config(valid_config: Config) -> None:
    config = parse_run_config(valid_config)
    assert (config.algo, config.env_id, config.seed, config.total_timesteps) == (
        "ppo",
        "CartPole-v1",
        7,
        50_000,
    )
    assert config.worker is config.metadata.worker


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"algo": 5, "env_id": ["x"], "seed": True, "total_timesteps": "5"},
        {"seed": 1.5, "total_timesteps": -1},
    ],
)
def test_headline_settings_that_are_absent_or_of_the_wrong_type_are_none(
    valid_config: Config, settings: Config
) -> None:
    config = parse_run_config(changed(valid_config, "metadata.worker.config", settings))
    assert (config.algo, config.env_id, config.seed, config.total_timesteps) == (None, None, None, None)


def test_the_schema_knows_every_block_and_forbids_others() -> None:
    schema = run_config.run_config_schema()
    assert set(schema["properties"]) == set(run_config.RunConfig.model_fields)
    assert schema["required"] == ["run_name", "resources", "artifacts", "metadata"]
    blocks = [schema, *schema["$defs"].values()]
    assert all(block["additionalProperties"] is False for block in blocks if block.get("type") == "object")
    assert all("description" in field for block in blocks for field in block.get("properties", {}).values())
    json.dumps(schema)
