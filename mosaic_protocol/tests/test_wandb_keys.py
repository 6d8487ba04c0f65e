"""Where the key for W&B is looked for, and that it is shown nowhere."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from mosaic_protocol.wandb_keys import KeyringError, WandbKey, find_key, keep_in_keyring, netrc_file, why_not_a_key

SECRET = "5ecre7" * 7


class FakeKeyring(ModuleType):
    """The module ``keyring``, as far as it is used."""

    def __init__(self, fails: bool = False, plain: bool = False) -> None:
        super().__init__("keyring")
        self.kept: dict[tuple[str, str], str] = {}
        self.fails, self.backend = fails, type("PlaintextKeyring" if plain else "SecretService", (), {})()

    def get_keyring(self) -> object:
        return self.backend

    def get_password(self, service: str, user: str) -> str | None:
        if self.fails:
            raise RuntimeError("the collection is locked")
        return self.kept.get((service, user))

    def set_password(self, service: str, user: str, secret: str) -> None:
        if self.fails:
            raise RuntimeError(f"could not store {secret}")
        self.kept[service, user] = secret


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> FakeKeyring:
    made = FakeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", made)
    return made


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password of-netrc\n")
    return {"HOME": str(tmp_path)}


def test_the_environment_comes_before_the_keyring_and_that_before_netrc(
    keyring: FakeKeyring, environ: dict[str, str]
) -> None:
    found = find_key(environ)
    assert found is not None and (found.secret, found.source) == ("of-netrc", str(netrc_file(environ)))
    keyring.kept["mosaic-wandb", "api_key"] = "of-keyring"
    found = find_key(environ)
    assert found is not None and (found.secret, found.source) == ("of-keyring", "the keyring")
    found = find_key(environ | {"WANDB_API_KEY": "given"})
    assert found is not None and (found.secret, found.source) == ("given", "WANDB_API_KEY")


def test_a_keyring_that_fails_or_is_not_installed_is_no_key(
    keyring: FakeKeyring, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring.fails = True
    assert find_key({"HOME": "/nowhere"}) is None
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert find_key({"HOME": "/nowhere"}) is None


@pytest.mark.parametrize(
    ("content", "address"),
    [
        ("default login user password somebody-elses\n", ""),
        ("machine github.com login user password somebody-elses\n", ""),
        ("machine api.wandb.ai login", ""),
        ("machine api.wandb.ai login user password x\n", "https://wandb.example"),
        ("\x00\xff machine", ""),
    ],
)
def test_only_the_entry_of_the_server_counts(keyring: FakeKeyring, tmp_path: Path, content: str, address: str) -> None:
    file = tmp_path / "netrc"
    file.write_text(content, encoding="latin-1")
    assert find_key({"NETRC": str(file), "WANDB_BASE_URL": address}) is None


def test_a_key_of_an_earlier_login_counts_for_the_same_server_under_its_new_name(
    keyring: FakeKeyring, tmp_path: Path
) -> None:
    file = tmp_path / "netrc"
    environ = {"NETRC": str(file)}
    for content, secret in (
        ("machine api.wandb.ai login user password earlier\n", "earlier"),
        ("machine api.forge.coreweave.com login user password of-now\n", "of-now"),
        ("machine api.wandb.ai login u password a\nmachine api.forge.coreweave.com login u password b\n", "b"),
    ):
        file.write_text(content)
        found = find_key(environ)
        assert found is not None and found.secret == secret
    file.write_text("machine api.forge.coreweave.com login user password of-now\n")
    assert find_key({**environ, "WANDB_BASE_URL": "https://api.wandb.ai"}) is None, "that name alone is looked for then"


def test_a_key_is_not_in_what_is_printed_of_it() -> None:
    key = WandbKey("the keyring", SECRET)
    assert SECRET not in repr(key) + str(key) + f"{SimpleNamespace(key=key)}"
    assert key.hidden_in(f"wrong key {SECRET}!") == "wrong key (the key)!"


@pytest.mark.parametrize("typed", ["", "short", "with a blank " + SECRET, SECRET + "\n", "ü" * 40])
def test_what_is_no_key_is_said_without_repeating_it(typed: str) -> None:
    told = why_not_a_key(typed)
    assert told.endswith(".") and (not typed or typed not in told)


@pytest.mark.parametrize("typed", [SECRET, f"local-{SECRET}", "wandb_v1_" + SECRET, "head.body.signature"])
def test_every_form_of_key_is_taken(typed: str) -> None:
    assert why_not_a_key(typed) == ""


def test_a_key_is_kept_in_a_keyring_or_refused_in_a_sentence(
    keyring: FakeKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_in_keyring(SECRET)
    assert keyring.kept == {("mosaic-wandb", "api_key"): SECRET}
    for broken in (FakeKeyring(fails=True), FakeKeyring(plain=True), None):
        monkeypatch.setitem(sys.modules, "keyring", broken)
        with pytest.raises(KeyringError) as refused:
            keep_in_keyring(SECRET)
        assert SECRET not in str(refused.value) and str(refused.value).endswith(".")
