"""Names, addresses and secrets of a tracked run, decided before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from mosaic_worker.tracking.plan import make_plan, proxy_wanted

RUN_ID = "01K9ZQ3V7X0000000000000000"


def test_a_supervised_run_is_tracked_under_its_own_id_and_name(tmp_path: Path) -> None:
    plan = make_plan(
        {"env_id": "CartPole-v1", "wandb_entity": "team"},
        tmp_path,
        {"WANDB_RUN_ID": RUN_ID, "MOSAIC_RUN_NAME": "try 7"},
    )
    assert (plan.run_id, plan.name, plan.entity, plan.directory) == (RUN_ID, "try 7", "team", str(tmp_path))


def test_a_run_by_hand_is_named_after_what_it_does(tmp_path: Path) -> None:
    plan = make_plan({"env_id": "CartPole-v1", "exp_name": "ppo", "seed": 0}, tmp_path, {})
    assert (plan.run_id, plan.name) == (None, "CartPole-v1__ppo__0")


@pytest.mark.parametrize(
    ("flag", "environ", "project"),
    [
        (None, {}, "cleanRL"),
        ("mine", {"WANDB_PROJECT": "theirs"}, "mine"),
        ("cleanRL", {"WANDB_PROJECT": "theirs"}, "theirs"),  # the flag's default says nothing
    ],
)
def test_the_project_is_the_flags_unless_the_flag_says_nothing(
    flag: str | None, environ: dict[str, str], project: str, tmp_path: Path
) -> None:
    assert make_plan({"wandb_project_name": flag}, tmp_path, environ).project == project


def test_secrets_among_the_arguments_do_not_become_config(tmp_path: Path) -> None:
    args = {"seed": 1, "wandb_api_key": "k", "store": "https://me:word@host/x", "password": "p"}
    assert make_plan(args, tmp_path, {}).config == {"seed": 1, "store": "(hidden)"}


@pytest.mark.parametrize(
    ("args", "environ", "wanted"),
    [
        ({}, {}, False),
        ({"wandb_use_proxy": True}, {}, True),
        ({}, {"MOSAIC_WANDB_PROXY": "1"}, True),
        ({"wandb_use_proxy": False}, {"MOSAIC_WANDB_PROXY": "0"}, False),
    ],
)
def test_a_proxy_is_used_only_when_asked_for(args: dict[str, bool], environ: dict[str, str], wanted: bool) -> None:
    assert proxy_wanted(args, environ) is wanted
