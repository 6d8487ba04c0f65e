"""Whatever a policy process does, its client answers, refuses in one sentence, or says that it is gone."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from mosaic_protocol import policy_client
from mosaic_protocol.policy_client import PolicyClient, PolicyError, PolicyGoneError

GREETING = {"protocol": 1, "algo": "a", "env_id": "e", "step": 1, "sha256": "s", "spaces": {}}
OBSERVATION = np.zeros((1, 4), np.float32)
ECHO = """
import base64, json, sys
print(json.dumps({greeting}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    {body}
"""
ACTIONS = '{"dtype": "<i8", "shape": [1], "data": base64.b64encode((7).to_bytes(8, "little")).decode()}'


def fake(body: str = "", greeting: object = GREETING) -> list[str]:
    """A process that greets, and does something with each question."""
    return [sys.executable, "-c", ECHO.format(greeting=repr(greeting), body=body or "pass")]


def reply(fields: str) -> str:
    return f"print(json.dumps({{'id': asked['id'], {fields}}}), flush=True)"


def test_actions_come_back_as_an_array() -> None:
    with PolicyClient(fake(reply(f"'actions': {ACTIONS}"))) as client:
        assert client.greeting.algo == "a"
        assert client.act(OBSERVATION).tolist() == [7]


def test_a_process_of_an_earlier_version_is_not_asked_for_its_opinion() -> None:
    body = "assert 'appraise' not in asked; " + reply(f"'actions': {ACTIONS}")
    with PolicyClient(fake(body)) as client:
        actions, opinion = client.consult(OBSERVATION)
        assert actions.tolist() == [7] and not opinion


def test_an_opinion_comes_with_the_actions_where_there_is_one() -> None:
    fields = f"'actions': {ACTIONS}, 'opinion': {{'value': {ACTIONS}}}"
    with PolicyClient(fake(reply(fields), {**GREETING, "appraises": True})) as client:
        assert client.consult(OBSERVATION).opinion["value"].tolist() == [7]


@pytest.mark.parametrize("field", ["actions", "opinion"])
def test_what_is_no_array_is_refused_in_one_sentence(field: str) -> None:
    wrong = '{"dtype": "<i8", "shape": [3], "data": base64.b64encode(bytes(8)).decode()}'
    fields = f"'actions': {wrong if field == 'actions' else ACTIONS}, 'opinion': {{'value': {wrong}}}"
    with (
        PolicyClient(fake(reply(fields), {**GREETING, "appraises": True})) as client,
        pytest.raises(PolicyError, match="no array"),
    ):
        client.consult(OBSERVATION)


def test_a_refusal_is_raised_and_the_next_question_answered() -> None:
    refusing, answering = reply("'error': 'no'"), reply(f"'actions': {ACTIONS}")
    body = f"{refusing} if asked['seed'] else {answering}"
    with PolicyClient(fake(body)) as client:
        with pytest.raises(PolicyError, match=r"^no$"):
            client.act(OBSERVATION, seed=1)
        assert client.act(OBSERVATION).tolist() == [7]


def test_an_answer_that_comes_late_is_not_taken_for_the_next_one() -> None:
    old = "print(json.dumps({'id': asked['id'] - 1, 'error': 'of the question before'}), flush=True); "
    with PolicyClient(fake(old + reply(f"'actions': {ACTIONS}"))) as client:
        assert client.act(OBSERVATION).tolist() == [7]


def test_a_process_that_dies_is_gone_with_its_last_words() -> None:
    with (
        PolicyClient(fake("sys.exit('worker: the network melted')")) as client,
        pytest.raises(PolicyGoneError, match="the network melted"),
    ):
        client.act(OBSERVATION)


def test_a_process_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_client, "_ANSWER_SECONDS", 0.2)
    with PolicyClient(fake()) as client, pytest.raises(PolicyGoneError, match=r"did not answer within 0\.2 s"):
        client.act(OBSERVATION)


def test_a_process_that_answers_nonsense_is_given_up() -> None:
    with (
        PolicyClient(fake("print('hello', flush=True)")) as client,
        pytest.raises(PolicyGoneError, match="not valid"),
    ):
        client.act(OBSERVATION)


@pytest.mark.parametrize(
    ("greeting", "words"),
    [
        ({**GREETING, "protocol": 2}, "it speaks version 2, this side 1"),
        ({"hello": "world"}, "did not greet as it should"),
    ],
)
def test_a_process_that_greets_wrongly_is_refused(greeting: object, words: str) -> None:
    with pytest.raises(PolicyGoneError, match=words):
        PolicyClient(fake(greeting=greeting))


def test_a_program_that_is_not_there_is_reported() -> None:
    with pytest.raises(PolicyGoneError, match="cannot start /no/such/python: No such file"):
        PolicyClient(["/no/such/python"])


def test_closing_ends_a_process_that_does_not_want_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_client, "_END_SECONDS", 0.2)
    stubborn = f"import time; print({json.dumps(json.dumps(GREETING))}, flush=True); time.sleep(1000)"
    client = PolicyClient([sys.executable, "-c", stubborn])
    client.close()
    client.close()
    assert client._process.returncode == -9
