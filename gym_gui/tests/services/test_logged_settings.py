"""What logs say of the settings of their runs."""

from __future__ import annotations

from typing import Any

import pytest

from gym_gui.services.scalars.logged_settings import plain_value, settings_in_table, worker_settings


def test_the_table_of_a_cleanrl_script_becomes_settings() -> None:
    text = "|param|value|\n|-|-|\n|exp_name|ppo|\n|learning_rate|0.00025|\n|track|False|\n|target_kl|None|\n|a|x|y|"
    found = settings_in_table(text)
    assert found == {"exp_name": "ppo", "learning_rate": 0.00025, "track": False, "target_kl": None, "a": "x|y"}
    assert settings_in_table("no table at all\n| |") == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("1e-3", 0.001),
        ("inf", "inf"),
        ("nan", "nan"),
        ("True", True),
        ("9" * 30, 1e30),
        ("x", "x"),
    ],
)
def test_what_python_printed_is_read_back(text: str, value: Any) -> None:
    assert plain_value(text) == value and type(plain_value(text)) is type(value)


def test_settings_get_the_names_that_every_run_has() -> None:
    logged = {"exp_name": "ppo", "gym_id": "CartPole-v1", "seed": 3, "total_timesteps": 50, "gamma": 0.99}
    assert worker_settings(logged) == {
        "algo": "ppo",
        "env_id": "CartPole-v1",
        "seed": 3,
        "total_timesteps": 50,
        "params": {"gamma": 0.99},
    }


def test_what_does_not_fit_a_name_stays_a_parameter() -> None:
    assert worker_settings({"seed": "many", "env": 7}) == {"params": {"seed": "many", "env": 7}}


def test_secrets_and_what_cannot_be_stored_are_left_out() -> None:
    logged = {
        "wandb_api_key": "abc",
        "proxy": "http://me:secret@host",
        "huge": 2**70,
        "not": float("nan"),
        "nul": "a\0b",
        "x\ny": 1,
        "fine": "yes",
    }
    assert worker_settings(logged) == {"params": {"fine": "yes"}}
