"""Tokens: unguessable, kept as hashes, in a file that only its owner can read."""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gym_gui.services.trainer.errors import WorldError
from gym_gui.services.trainer.rpc import tokens


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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "token"


def test_each_daemon_makes_a_token_of_its_own(path: Path) -> None:
    first = tokens.ClientToken(path)
    shown = tokens.read_client_token(path)
    assert first.opens(shown)
    second = tokens.ClientToken(path)
    assert not second.opens(shown)
    assert second.opens(tokens.read_client_token(path))
    assert mode_of(path) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["token"]


@pytest.mark.parametrize("shown", ["", "wrong", "\u00e9t\u00e9", "x" * 10_000])
def test_nothing_else_opens(path: Path, shown: str) -> None:
    token = tokens.ClientToken(path)
    assert not token.opens(shown)
    assert not token.opens(tokens.read_client_token(path) + shown + " ")


def loosen(path: Path) -> None:
    path.chmod(0o640)


def empty(path: Path) -> None:
    path.write_text("")


def scribble(path: Path) -> None:
    path.write_bytes(b"\xff\xfe not text")


def lead_elsewhere(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("harm", [loosen, empty, scribble, Path.unlink, lead_elsewhere])
def test_a_token_that_may_be_known_or_cannot_be_read_is_replaced(path: Path, harm: Callable[[Path], None]) -> None:
    token = tokens.ClientToken(path)
    before = tokens.read_client_token(path)
    assert not token.tend()
    harm(path)
    assert token.tend()
    assert not token.opens(before)
    assert token.opens(tokens.read_client_token(path))
    assert mode_of(path) == 0o600 and not path.is_symlink()


def test_a_draft_that_a_crash_left_is_no_obstacle(path: Path) -> None:
    path.with_name(".token.draft").write_text("half")
    assert tokens.ClientToken(path).opens(tokens.read_client_token(path))


def test_a_full_disk_keeps_no_daemon_from_its_token(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old one is of no more use, so its place is taken."""
    tokens.ClientToken(path)
    before = tokens.read_client_token(path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    path.chmod(0o644)
    after = tokens.ClientToken(path)
    assert after.opens(tokens.read_client_token(path)) and not after.opens(before)
    assert mode_of(path) == 0o600
    path.unlink()
    with pytest.raises(OSError, match="No space"):
        tokens.ClientToken(path)


def test_an_empty_token_file_is_reported_to_the_client(path: Path) -> None:
    path.write_text(" \n")
    with pytest.raises(WorldError, match="empty"):
        tokens.read_client_token(path)
