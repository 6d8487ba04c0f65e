"""Where the proxies of Weights & Biases come from, and that nobody sees their passwords."""

from __future__ import annotations

from pathlib import Path

import pytest

from mosaic_protocol.wandb_proxies import env_file_directories, find_proxies, read_env_file, without_credentials


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


def test_credentials_are_taken_out_of_every_address_in_a_text() -> None:
    assert without_credentials("via http://a:b@h:1 and https://t@k/ or http://x/y@z") == (
        "via http://h:1 and https://k/ or http://x/y@z"
    )
