"""Tokens: unguessable, kept as hashes, in a file that only its owner can read."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gym_gui.services.trainer import tokens
from gym_gui.services.trainer.errors import WorldError


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_no_two_tokens_are_alike_and_none_is_short() -> None:
    made = {tokens.new_token() for _ in range(100)}
    assert len(made) == 100
    assert min(map(len, made)) >= 40


def test_a_token_matches_its_own_digest_only() -> None:
    token = tokens.new_token()
    stored = tokens.digest(token)
    assert token not in stored
    assert tokens.matches(token, stored)
    assert not tokens.matches(tokens.new_token(), stored)
    assert not tokens.matches("", stored)
    assert not tokens.matches(stored, stored)


def test_a_run_without_a_stored_digest_opens_to_nobody() -> None:
    assert not tokens.matches("", "")
    assert not tokens.matches(tokens.new_token(), "")


def test_the_daemons_token_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    first = tokens.daemon_token(path)
    assert first == tokens.daemon_token(path) == tokens.read_daemon_token(path)
    assert mode_of(path) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["token"]


def test_a_loosened_token_file_is_tightened(tmp_path: Path) -> None:
    path = tmp_path / "token"
    tokens.daemon_token(path)
    path.chmod(0o644)
    tokens.read_daemon_token(path)
    assert mode_of(path) == 0o600


def test_a_token_file_that_a_crash_left_empty_does_not_lock_the_daemon_out(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch()
    assert tokens.daemon_token(path) == tokens.read_daemon_token(path)
    assert mode_of(path) == 0o600


def test_a_client_that_finds_an_empty_token_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(" \n")
    with pytest.raises(WorldError, match="empty"):
        tokens.read_daemon_token(path)
