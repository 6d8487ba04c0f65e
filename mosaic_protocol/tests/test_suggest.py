from __future__ import annotations

import pytest

from mosaic_protocol import suggest


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("pp0", "ppo"), ("PPO", "ppo"), ("ppo_continuous", "ppo_continuous_action"), ("dqm", "dqn")],
)
def test_a_mistyped_name_finds_the_one_that_was_meant(typed: str, meant: str) -> None:
    assert suggest.nearest(typed, ["dqn", "ppo", "ppo_continuous_action"]) == meant


def test_capitals_do_not_hide_the_name_that_was_meant() -> None:
    assert suggest.nearest("ppo", ["DQN", "PPO"]) == "PPO"


def test_a_name_unlike_all_others_has_no_nearest() -> None:
    assert suggest.nearest("xyzzy", ["dqn", "ppo"]) is None


def test_a_very_long_name_is_compared_without_delay() -> None:
    assert suggest.nearest("x" * 1_000_000, ["dqn", "ppo"]) is None


def test_the_nearest_name_is_offered_and_otherwise_the_choices() -> None:
    assert suggest.did_you_mean("pp0", ["ppo", "dqn"]) == "; did you mean 'ppo'?"
    assert suggest.did_you_mean("xyzzy", {"ppo", "dqn"}) == "; choices are dqn, ppo"
    assert suggest.did_you_mean("xyzzy", []) == ""


def test_many_choices_are_counted_instead_of_listed() -> None:
    fragment = suggest.did_you_mean("?", [f"env{number:03}" for number in range(200)])
    assert fragment.endswith("… (200 in all)") and len(fragment) < 150


@pytest.mark.parametrize(
    "key",
    ["api_key", "wandb_api_key", "apiKey", "WANDB_API_KEY", "x-api-key", "password", "db_passwd", "secrets",
     "token", "hf_token", "client_secret", "Authorization", "private_key", "userPassword"],
)  # fmt: skip
def test_names_of_credentials_are_recognised(key: str) -> None:
    assert suggest.looks_secret(key)


@pytest.mark.parametrize(
    "key",
    ["tokenizer", "token_count", "key", "obs_key", "hotkey", "secretary", "passing", "seed", "keyframes", ""],
)
def test_ordinary_names_are_not_taken_for_credentials(key: str) -> None:
    assert not suggest.looks_secret(key)


@pytest.mark.parametrize("text", ["http://me:pw@proxy:3128", "see socks5://:pw@host for it"])
def test_an_address_with_a_password_in_it_is_recognised_and_never_shown(text: str) -> None:
    assert suggest.holds_password(text)
    assert "pw" not in suggest.shown(text)


@pytest.mark.parametrize("text", ["http://proxy:3128/a@b", "http://me@host/", "a:b@c", "12:30", "http://[::1]:80/"])
def test_an_address_without_a_password_is_not_suspected(text: str) -> None:
    assert not suggest.holds_password(text)


def test_values_are_shown_short_and_printable() -> None:
    for value in [
        "x" * 1000,
        "\x1b[31m\x00\n\ud800",
        10**5000,
        {"a": "b" * 999},
        [1] * 999,
        object(),
        float("nan"),
        b"x",
    ]:
        text = suggest.shown(value)
        assert len(text) <= suggest.MAX_SHOWN + 1 and text.isprintable()


def test_containers_are_shown_by_size_so_that_no_secret_in_them_is_repeated() -> None:
    assert suggest.shown({"api_key": "abc"}) == "an object with 1 field"
    assert suggest.shown(["abc", "def"]) == "a list of 2 items"


def test_field_paths_read_like_code_and_escape_what_is_not_printable() -> None:
    assert suggest.dotted(("metadata", "tags", 3)) == "metadata.tags[3]"
    assert suggest.dotted(("a", "b c", "d\x1b")) == "a['b c']['d\\x1b']"
