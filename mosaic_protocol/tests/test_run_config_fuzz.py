from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic_protocol import suggest
from mosaic_protocol.run_config import MAX_CONFIG_BYTES, RunConfigError, parse_run_config, to_json

CANARY = "never-show-this"
VALID: dict[str, Any] = {
    "schema_version": 1,
    "run_name": "cleanrl-ppo-cartpole",
    "resources": {
        "gpus": {"requested": 1, "mandatory": 0},
        "cpus": {"requested": 2},
        "memory_mb": {"requested": 512},
    },
    "artifacts": {"tensorboard": {"enabled": True}, "checkpoints": {"every_steps": 10, "keep_last": 2}},
    "metadata": {
        "worker": {
            "type": "cleanrl",
            "module": "cleanrl_worker.cli",
            "config": {
                "algo": "ppo",
                "seed": 1,
                "extras": {"algo_params": {"num_envs": 4, "learning_rate": 1e-4}},
            },
        },
        "notes": "n",
        "tags": ["a"],
    },
    "schedule": {"max_wallclock_minutes": 5.5},
}
NAMES = [
    "run_name",
    "resources",
    "gpus",
    "requested",
    "metadata",
    "worker",
    "config",
    "type",
    "extras",
    "schedule",
    "[key]",
    "",
    "a.b",
]
SECRET_NAMES = ["api_key", "wandb_api_key", "hf_token", "password", "authorization"]

wild_text = st.text(st.characters(), max_size=20)  # lone surrogates and control characters included
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | wild_text
    | st.binary(max_size=3)
    | st.sampled_from(["../../etc/passwd", "http://me:" + CANARY + "@host", "x" * 300, " padded "])
)
keys = st.sampled_from(NAMES) | wild_text
json_ish = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=4)
        | st.dictionaries(st.sampled_from(SECRET_NAMES), st.just(CANARY), max_size=1)
        | st.dictionaries(st.integers(), inner, max_size=1)
    ),
    max_leaves=12,
)


def containers(value: Any) -> list[Any]:
    """Every dict and list in a value, itself included."""
    found = [value] if isinstance(value, dict | list) else []
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found += containers(item)
    return found


@st.composite
def mutated_configs(draw: st.DrawFn) -> dict[str, Any]:
    config = copy.deepcopy(VALID)
    worker_settings = config["metadata"]["worker"]["config"]
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from(containers(draw(st.sampled_from([config, worker_settings])))))
        known = list(place) if isinstance(place, dict) else list(range(len(place)))
        match draw(st.sampled_from(["replace", "replace", "remove", "add", "add", "add", "secret"])):
            case "replace" if known:
                place[draw(st.sampled_from(known))] = draw(json_ish)
            case "remove" if known:
                del place[draw(st.sampled_from(known))]
            case "add" if isinstance(place, dict):
                place[draw(keys)] = draw(json_ish)
            case "secret" if isinstance(place, dict):
                place[draw(st.sampled_from(SECRET_NAMES))] = CANARY
    return config


def as_text(value: Any) -> str:
    return json.dumps(value, default=repr, skipkeys=True)


texts = mutated_configs().map(as_text) | json_ish.map(as_text) | st.text() | st.binary()
cut_texts = st.tuples(mutated_configs().map(as_text), st.integers(0, 600)).map(lambda pair: pair[0][: pair[1]])


@pytest.mark.parametrize("examples", [400, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_any_input_is_either_a_config_or_a_refusal_that_can_be_shown(examples: int) -> None:
    settings(max_examples=examples)(given(mutated_configs() | json_ish | texts | cut_texts)(check_input))()


def check_input(source: Any) -> None:
    try:
        config = parse_run_config(source)
    except RunConfigError as error:
        check_refusal(error)
        return
    text = to_json(config)
    assert parse_run_config(text) == config and to_json(parse_run_config(text)) == text
    assert len(text.encode()) <= MAX_CONFIG_BYTES
    assert CANARY not in text


def check_refusal(error: RunConfigError) -> None:
    assert error.problems
    assert len(str(error).splitlines()) <= suggest.MAX_PROBLEMS + 1
    assert all(line.isprintable() for line in str(error).split("\n"))
    assert CANARY not in str(error) and CANARY not in repr(error.problems)
    assert all(len(problem.value_repr) <= suggest.MAX_SHOWN + 1 for problem in error.problems)
    assert "Input should" not in str(error)
