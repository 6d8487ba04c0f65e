"""The daemon's settings: defaults, then the environment, then flags; nonsense is refused by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from gym_gui.services.trainer.errors import RefusedError
from gym_gui.services.trainer.settings import PREFIX, TrainerSettings


def from_env(environment: dict[str, str] | None = None, **flags: Any) -> TrainerSettings:
    return TrainerSettings.from_environment(environment or {}, **flags)


def test_without_a_word_the_defaults_hold() -> None:
    assert from_env() == TrainerSettings()


def test_the_environment_overrides_the_defaults_and_flags_override_both() -> None:
    environment = {"MOSAIC_TRAINER_PORT": "6000", "MOSAIC_TRAINER_CPUS": "3"}
    settings = from_env(environment, port=7000, cpus=None)
    assert (settings.port, settings.cpus) == (7000, 3)


@pytest.mark.parametrize("field", fields(TrainerSettings), ids=lambda field: field.name)
def test_every_setting_can_be_set_and_keeps_its_kind(field: Any) -> None:
    texts = {str: "127.0.0.1" if field.name == "host" else "text", int: "70", float: "7.5", bool: "0"}
    wanted = {str: texts[str], int: 70, float: 7.5, bool: False}
    kind = type(field.default)
    extra = {"MOSAIC_TRAINER_TLS_CERT": "c", "MOSAIC_TRAINER_TLS_KEY": "k"} if field.name.startswith("tls") else {}
    value = getattr(from_env({**extra, PREFIX + field.name.upper(): texts[kind]}), field.name)
    assert (type(value), value) == (kind, wanted[kind])


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("true", True), ("TRUE", True), ("0", False), ("False", False)]
)
def test_switches_are_read(text: str, value: bool) -> None:
    assert from_env({"MOSAIC_TRAINER_WARM_STARTS": text}).warm_starts is value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PORT", "http"),
        ("PORT", ""),
        ("PORT", "5.5"),
        ("PORT", "-1"),
        ("PORT", "65536"),
        ("CPUS", "-2"),
        ("MOST_CALLS", "15"),
        ("STOP_SECONDS", "soon"),
        ("STOP_SECONDS", "-1"),
        ("STOP_SECONDS", "nan"),
        ("LIVENESS_SECONDS", "NaN"),
        ("WARM_STARTS", "maybe"),
    ],
)
def test_nonsense_is_refused_and_named(name: str, text: str) -> None:
    with pytest.raises(RefusedError, match=f"(?i){name}") as refused:
        from_env({PREFIX + name: text})
    assert text.lower() in str(refused.value).lower()


def test_tcp_is_off_unless_asked_for() -> None:
    assert not from_env().tcp
    assert from_env(tcp=True).tcp


@pytest.mark.parametrize("asked", [{"host": "::1"}, {"port": 0}, {"tls_cert": "cert.pem", "tls_key": "key.pem"}])
def test_naming_an_address_port_or_certificate_asks_for_tcp(asked: dict[str, Any]) -> None:
    assert from_env(**asked).tcp
    assert from_env({PREFIX + name.upper(): str(value) for name, value in asked.items()}).tcp
    assert not from_env({PREFIX + "TCP": "0"}, **asked).tcp, "said in so many words"


def test_an_empty_address_is_refused() -> None:
    with pytest.raises(RefusedError, match="host is empty"):
        from_env(host="")


def test_half_of_a_tls_pair_is_refused_also_on_loopback() -> None:
    """Who gives a certificate expects TLS; serving without it would be silently different."""
    with pytest.raises(RefusedError, match="tls"):
        from_env(tls_cert="cert.pem")
    with pytest.raises(RefusedError, match="tls"):
        from_env(tls_key="key.pem")


def test_every_setting_says_what_it_is_for() -> None:
    import ast
    import inspect

    body = ast.parse(inspect.getsource(TrainerSettings)).body[0]
    assert isinstance(body, ast.ClassDef)
    told = {
        assignment.target.id
        for assignment, text in zip(body.body, body.body[1:], strict=False)
        if isinstance(assignment, ast.AnnAssign)
        and isinstance(assignment.target, ast.Name)
        and isinstance(text, ast.Expr)
    }
    assert told == {field.name for field in fields(TrainerSettings)}


def test_a_variable_that_is_no_setting_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(RefusedError, match="did you mean 'MOSAIC_TRAINER_PORT'"):
        from_env({"MOSAIC_TRAINER_PROT": "50055"})


@pytest.mark.parametrize(
    ("heartbeat", "liveness"), [("30", "30"), ("16", "30"), ("2", "0"), ("2", "3.9"), ("60", "30")]
)
def test_workers_must_have_time_to_report_before_they_are_taken_for_hung(heartbeat: str, liveness: str) -> None:
    environment = {"MOSAIC_TRAINER_HEARTBEAT_SECONDS": heartbeat, "MOSAIC_TRAINER_LIVENESS_SECONDS": liveness}
    with pytest.raises(RefusedError, match=r"liveness_seconds.*heartbeat_seconds"):
        from_env(environment)


def test_twice_the_time_between_heartbeats_is_enough() -> None:
    environment = {"MOSAIC_TRAINER_HEARTBEAT_SECONDS": "15", "MOSAIC_TRAINER_LIVENESS_SECONDS": "30"}
    assert from_env(environment).heartbeat_seconds == 15.0


@pytest.mark.parametrize(
    ("name", "spoken"), [("PORT", "a whole number"), ("WARM_STARTS", "true or false"), ("TRASH_HOURS", "a number")]
)
def test_a_value_of_the_wrong_kind_is_reported_in_words(name: str, spoken: str) -> None:
    with pytest.raises(RefusedError, match=rf"^MOSAIC_TRAINER_{name} must be {spoken}, got 'x'$"):
        TrainerSettings.from_environment({f"MOSAIC_TRAINER_{name}": "x"})
