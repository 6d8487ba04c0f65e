"""Names, addresses and secrets of a tracked run, decided before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleanrl_worker.tracking.plan import (
    env_file_directories,
    find_proxies,
    make_plan,
    proxy_wanted,
    read_env_file,
    without_credentials,
)

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


def test_an_env_file_is_read_as_people_write_it(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text(
        "# PROXY=no\n\nA=1\n  export B = 'two words' # aside\nC=http://h:1 # aside\nnonsense\nD=\"x#y\"\nE=\n"
    )
    assert read_env_file(file) == {"A": "1", "B": "two words", "C": "http://h:1", "D": "x#y", "E": ""}


def test_an_env_file_that_cannot_be_read_names_nothing(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"A=\xff\xfe")
    assert read_env_file(tmp_path / ".env") == read_env_file(tmp_path / "absent") == {}


def test_the_environments_proxy_comes_before_a_files(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("WANDB_VPN_HTTPS_PROXY=http://file:1\n")
    found = find_proxies({"WANDB_VPN_HTTPS_PROXY": "http://environ:1"}, [tmp_path])
    assert found is not None
    assert found.environment() == {"HTTPS_PROXY": "http://environ:1", "https_proxy": "http://environ:1"}


def test_the_first_env_file_that_names_a_proxy_is_used_and_named(tmp_path: Path) -> None:
    for name, content in {"one": "OTHER=1", "two": "WANDB_VPN_HTTP_PROXY=http://me:word@host:8080"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / ".env").write_text(content)
    found = find_proxies({}, [tmp_path / "absent", tmp_path / "one", tmp_path / "two"])
    assert str(found) == f"http://host:8080 (from {tmp_path / 'two' / '.env'})"
    assert find_proxies({}, [tmp_path / "one"]) is None


def test_env_files_are_looked_for_beside_the_data_root_in_the_project_and_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    project = Path(__file__).resolve().parents[2]
    assert env_file_directories({"MOSAIC_HOME": "/data/var"}) == [Path("/data"), project, tmp_path]


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


def test_credentials_are_taken_out_of_every_address_in_a_text() -> None:
    assert without_credentials("via http://a:b@h:1 and https://t@k/ or http://x/y@z") == (
        "via http://h:1 and https://k/ or http://x/y@z"
    )
