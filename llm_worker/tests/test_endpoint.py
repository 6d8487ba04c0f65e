"""Attempts of a call against a real server that misbehaves."""

from __future__ import annotations

import gzip
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from llm_worker.client import endpoint as module
from llm_worker.client.endpoint import LARGEST_ANSWER, Attempt, ChatEndpoint, address_problem
from llm_worker.client.errors import (
    AbandonedError,
    BadReplyError,
    BudgetError,
    CallError,
    KeyRefusedError,
    RequestRefusedError,
    TooLongError,
    UnreachableError,
)
from llm_worker.client.keys import find_key
from llm_worker.client.reply import LONGEST_REASONING, LONGEST_TEXT
from llm_worker.tests.scripted_server import KEY, Script, serving

BODY = {"model": "m", "messages": [{"role": "user", "content": "row 0, column 0"}], "max_tokens": 8}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT", 0.001)


def ask(script: Script, **options: Any) -> tuple[Any, list[Attempt]]:
    attempts: list[Attempt] = []
    with serving(script) as url:
        endpoint = ChatEndpoint(url, options.pop("key", KEY), **{"timeout": 5.0, **options})
        try:
            return endpoint.ask(BODY, "text", attempts.append), attempts
        except CallError as error:
            return error, attempts
        finally:
            endpoint.close()


def test_an_answer_comes_with_its_exact_tokens() -> None:
    reply, attempts = ask(Script())
    assert reply.text.endswith("<action>down</action>")
    assert (reply.usage.prompt, reply.usage.completion, reply.usage.cached) == (4, 4, 1)
    assert not reply.usage.is_estimated
    assert [one.status for one in attempts] == [200]


def test_a_refused_key_is_tried_once_and_never_shown() -> None:
    script = Script()
    error, attempts = ask(script, key="sk-secret-of-mine")
    assert isinstance(error, KeyRefusedError)
    assert len(script.asked) == 1
    assert "sk-secret-of-mine" not in str(error) + attempts[0].problem
    assert "[key]" in str(error)


@pytest.mark.parametrize(
    "fault",
    [
        {"content": f"the key is {KEY}"},
        {"content": f"{KEY[:5]}<think></think>{KEY[5:]}"},
        {"message": {"reasoning_content": f"hm, {KEY}"}},
        {"content": "x" * 9990 + KEY + "x" * 12000},
        {"raw": b'{"choices": [{"message": {"content": "\\u0073' + KEY[1:].encode() + b'"}}]}'},
    ],
)
def test_a_key_that_the_server_says_back_is_not_kept(fault: dict[str, Any]) -> None:
    reply, _ = ask(Script(every=fault))
    assert KEY[:12] not in reply.text + reply.reasoning and "[key]" in reply.text + reply.reasoning


def test_429_waits_as_long_as_the_server_says() -> None:
    script = Script(faults={0: {"status": 429, "headers": {"Retry-After": "0.05"}}})
    reply, attempts = ask(script)
    assert [one.status for one in attempts] == [429, 200]
    assert reply.text
    assert module._asked_wait({"retry-after": "7"}, 1.0) == 7.0
    assert module._asked_wait({"retry-after": "86400"}, 1.0) == module.LONGEST_WAIT
    assert module._asked_wait({"retry-after": "nonsense"}, 1.5) == 1.5
    assert module._asked_wait({"retry-after": "nan"}, 1.5) == 1.5


@pytest.mark.parametrize(
    "fault", [{"status": 500}, {"status": 503}, {"raw": b"{"}, {"raw": b"[]"}, {"raw": b"{}", "length": 99}]
)
def test_what_passes_is_tried_again(fault: dict[str, Any]) -> None:
    reply, attempts = ask(Script(faults={0: fault, 1: fault}))
    assert reply.text
    assert [bool(one.problem) for one in attempts] == [True, True, False]


def test_a_server_that_never_answers_well_is_given_up_in_one_sentence() -> None:
    script = Script(every={"status": 500, "content": "\x1b]0;title\x07 broken"})
    error, attempts = ask(script, attempts=3)
    assert isinstance(error, UnreachableError)
    assert len(attempts) == len(script.asked) == 3
    assert "3 attempts" in str(error)
    assert str(error).isprintable()


def test_a_server_that_is_down_is_named() -> None:
    endpoint = ChatEndpoint("http://127.0.0.1:9/v1", attempts=2)
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:9 gave no answer in 2 attempts"):
        endpoint.ask(BODY, "")
    endpoint.close()


def test_a_slow_server_costs_the_patience_and_no_more() -> None:
    error, attempts = ask(Script(every={"delay": 1.0}), timeout=0.2, attempts=2)
    assert isinstance(error, UnreachableError)
    assert all(one.seconds < 1.0 for one in attempts)


def test_other_refusals_end_the_call_at_once() -> None:
    script = Script(every={"status": 404, "content": "no such model"})
    error, _ = ask(script)
    assert isinstance(error, RequestRefusedError) and not isinstance(error, TooLongError)
    assert len(script.asked) == 1
    error, _ = ask(Script(context=3))
    assert isinstance(error, TooLongError)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_refused_so_that_the_key_goes_nowhere_else(status: int) -> None:
    elsewhere = Script()
    with serving(elsewhere) as url:
        error, _ = ask(Script(every={"status": status, "headers": {"Location": f"{url}/chat/completions"}}))
    assert isinstance(error, RequestRefusedError)
    assert not elsewhere.asked


@pytest.mark.parametrize(
    "first",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n ",
        b"HTTP/1.1 200 OK\r\nX-Endless: a",
        b"HTTP/1.1 102 Processing\r\n\r\n" * 3 + b"HTTP/1.1 200 OK\r\nX-Endless: a",
    ],
)
def test_an_answer_that_never_ends_costs_the_patience_and_no_more(first: bytes) -> None:
    began = time.monotonic()
    error, attempts = ask(Script(every={"drips": first}), timeout=0.3, attempts=2)
    assert isinstance(error, UnreachableError) and "not complete after 0.3 s" in str(error)
    assert [one.status for one in attempts] == [0, 0]
    assert time.monotonic() - began < 60  # before, it ended with the test


def test_an_answer_that_is_packed_is_never_unpacked() -> None:
    bomb = gzip.compress(gzip.compress(bytes(2**20)) * 1000)
    script = Script(every={"raw": bomb, "headers": {"Content-Encoding": "gzip, gzip"}})
    error, attempts = ask(script)
    assert isinstance(error, BadReplyError) and "packed its answer (gzip, gzip)" in str(error)
    assert len(attempts) == 1
    assert script.asked[0].headers["Accept-Encoding"] == "identity"
    error, attempts = ask(Script(every={"raw": bomb, "headers": {"Content-Encoding": KEY}}))
    assert "packed its answer ([key])" in str(error) and KEY not in attempts[0].problem


@pytest.mark.parametrize("said", [b"\xff\xfe go", b"\\ud800 go"])
def test_half_a_letter_spoils_no_answer(said: bytes) -> None:
    script = Script(every={"raw": b'{"choices": [{"message": {"content": "%s"}}]}' % said})
    reply, attempts = ask(script)
    assert reply.text.endswith(" go")
    assert reply.text.encode() and len(attempts) == 1


def test_an_answer_that_is_too_long_to_be_recorded_loses_its_middle() -> None:
    long = "a" * 3 * LONGEST_TEXT
    reply, _ = ask(Script(every={"content": f"first {long} <action>up</action>", "message": {"reasoning": long * 2}}))
    assert len(reply.text) < LONGEST_TEXT + 100 and "characters were left out" in reply.text
    assert reply.text.startswith("first a") and reply.text.endswith("<action>up</action>")
    assert len(reply.reasoning) < LONGEST_REASONING + 100


def test_before_each_attempt_somebody_may_say_no() -> None:
    script = Script(every={"status": 500})
    allowed = iter([None, None])

    def require() -> None:
        if next(allowed, "no") is not None:
            raise BudgetError("enough")

    attempts: list[Attempt] = []
    with serving(script) as url:
        endpoint = ChatEndpoint(url, KEY, attempts=5)
        with pytest.raises(BudgetError):
            endpoint.ask(BODY, "", attempts.append, require)
        endpoint.close()
    assert len(script.asked) == len(attempts) == 2


def test_only_what_was_sent_may_have_cost_something() -> None:
    assert [one.may_cost for one in ask(Script(every={"status": 500}), attempts=1)[1]] == [False]
    assert [one.may_cost for one in ask(Script(every={"delay": 1.0}), timeout=0.2, attempts=1)[1]] == [True]
    assert [one.may_cost for one in ask(Script(every={"raw": b"{"}), attempts=1)[1]] == [True]
    attempts: list[Attempt] = []
    endpoint = ChatEndpoint("http://127.0.0.1:9/v1", attempts=1)
    with pytest.raises(UnreachableError):
        endpoint.ask(BODY, "", attempts.append)
    endpoint.close()
    assert [one.may_cost for one in attempts] == [False]


@pytest.mark.parametrize("content", [None, "", [], [{"type": "text", "text": ""}]])
def test_empty_content_is_an_empty_answer(content: Any) -> None:
    reply, _ = ask(Script(every={"message": {"content": content}}))
    assert reply.text == ""


def test_missing_usage_is_estimated_and_flagged() -> None:
    reply, _ = ask(Script(every={"without_usage": True}))
    assert reply.usage.is_estimated and reply.usage.prompt >= 1 and reply.usage.cached is None


def test_thinking_is_told_apart_from_the_answer() -> None:
    reply, _ = ask(Script(every={"content": "<think>hm</think><action>up</action>"}))
    assert (reply.text, reply.reasoning) == ("<action>up</action>", "hm")
    reply, _ = ask(Script(every={"message": {"reasoning_content": "deep"}}))
    assert reply.reasoning == "deep"


def test_an_answer_that_is_too_large_is_not_read_to_its_end() -> None:
    error, _ = ask(Script(every={"raw": b" " * (LARGEST_ANSWER + 10)}), attempts=1)
    assert isinstance(error, BadReplyError)


def test_a_call_can_be_given_up() -> None:
    script = Script(every={"hang": True})
    with serving(script) as url:
        endpoint = ChatEndpoint(url, KEY)
        threading.Timer(0.2, endpoint.abandon).start()
        with pytest.raises(AbandonedError):
            endpoint.ask(BODY, "")


def test_a_proxy_is_never_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    reply, _ = ask(Script())
    assert reply.text


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("ftp://x/v1", "must be an address"),
        ("http://user:secret@x/v1", "must not hold a key"),
        ("http://x/v1?key=secret", "must end with its path"),
        ("http://[", "is no address"),
        ("http://x:99999/v1", "is no address"),
        ("http://127.0.0.1:8000/v1", ""),
    ],
)
def test_an_address_that_cannot_be_one_is_refused_without_its_secrets(address: str, why: str) -> None:
    assert why in address_problem(address)
    assert bool(why) == bool(address_problem(address))
    assert "secret" not in address_problem(address)


def test_the_key_comes_from_the_environment_or_the_keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_key("MY_KEY", "http://h/v1", {"MY_KEY": " k "}) == "k"
    (tmp_path / "keyring.py").write_text("def get_password(service, name): return f'{service}/{name}'\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_key("MY_KEY", "http://h:1/v1", {}) == "mosaic-llm/h"
