"""A policy process answers what makes sense, refuses what does not, and ends with its input."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mosaic_protocol.policy_client import PolicyClient, PolicyError, PolicyGoneError
from mosaic_protocol.policy_messages import Answer, Refusal
from mosaic_worker.policies.act import PolicyServer
from mosaic_worker.policies.acting import LoadedPolicy, load_acting
from mosaic_worker.tests.policies import toys
from mosaic_worker.tests.policies.toys import TOY_WORKER, new_checkpoint


@pytest.fixture(autouse=True)
def _surroundings_of_the_toy_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in toys.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(TOY_WORKER.parent))


def loaded_from(path: Path) -> LoadedPolicy:
    return load_acting(path, TOY_WORKER)


def command(path: Path, *words: str) -> list[str]:
    return toys.command("act", path, *words)


def question(array: np.ndarray, **changes: Any) -> dict[str, Any]:
    data = base64.b64encode(array.tobytes()).decode()
    return {"observations": {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}, "id": 1, **changes}


GOOD = question(np.zeros((2, 4), np.float32))


@pytest.fixture
def server(tmp_path: Path) -> PolicyServer:
    return PolicyServer(loaded_from(new_checkpoint(tmp_path, "toy_discrete")), seed=1)


def test_a_process_answers_as_the_policy_itself_would(tmp_path: Path) -> None:
    path = new_checkpoint(tmp_path, "toy_continuous")
    loaded = loaded_from(path)
    batch = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    with PolicyClient(command(path)) as client:
        about = client.greeting
        assert (about.algo, about.env_id, about.step) == ("toy_continuous", "Pendulum-v1", 1000)
        assert about.sha256 == loaded.manifest.tensor_sha256
        assert about.spaces["action"]["shape"] == [1]
        expected = loaded.policy.act(batch, deterministic=True, random=np.random.default_rng(0))
        assert np.array_equal(client.act(batch), expected)
        drawn = [client.act(batch, deterministic=False, seed=4) for _ in range(2)]
        assert np.array_equal(drawn[0], drawn[1])
        assert not np.array_equal(drawn[0], expected)
        assert not np.array_equal(drawn[0], client.act(batch, deterministic=False))


def test_a_process_says_what_the_policy_expects(tmp_path: Path) -> None:
    path = new_checkpoint(tmp_path, "toy_discrete")
    batch = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    with PolicyClient(command(path)) as client:
        assert client.greeting.appraises
        actions, opinion = client.consult(batch)
        assert np.array_equal(actions, client.act(batch))
    expected = loaded_from(path).policy.appraise(batch)  # type: ignore[attr-defined]
    assert {name: values.tolist() for name, values in opinion.items()} == {
        name: values.tolist() for name, values in expected.items()
    }
    assert np.array_equal(opinion["action_values"].argmax(1), actions)


def test_an_opinion_that_fails_costs_no_action(server: PolicyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(server, "_appraise", broken)
    for _ in range(2):
        reply = server.answer(json.dumps(GOOD | {"appraise": True}).encode())
        assert isinstance(reply, Answer) and not reply.opinion


def test_a_refused_question_does_not_end_the_process(tmp_path: Path) -> None:
    with PolicyClient(command(new_checkpoint(tmp_path, "toy_discrete"))) as client:
        with pytest.raises(PolicyError, match=r"the shape \[batch, 4\], got \[1, 7\]"):
            client.act(np.zeros((1, 7), np.float32))
        assert client.act(np.zeros((3, 4))).shape == (3,)


def test_lines_that_are_no_questions_are_refused_and_the_next_one_answered(tmp_path: Path) -> None:
    lines = ["this is not JSON", "", "[1, 2]", json.dumps(GOOD | {"id": "seven", "wish": 1}), json.dumps(GOOD)]
    done = subprocess.run(
        command(new_checkpoint(tmp_path, "toy_discrete")),
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    _, *replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert ["error" in reply for reply in replies] == [True, True, True, False]
    assert [reply["id"] for reply in replies] == [None, None, "seven", 1]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (question(np.zeros((0, 4), np.float32)), "must have the shape"),
        (question(np.zeros(4, np.float32)), "must have the shape"),
        (question(np.zeros((1, 4)), seed=-1), "seed must be 0 or more"),
        (question(np.zeros((1, 4))) | {"observations": {"dtype": "nix", "shape": [1, 4], "data": ""}}, "no dtype"),
        (question(np.zeros((1, 4))) | {"observations": {"dtype": "O", "shape": [1, 4], "data": ""}}, "must be numbers"),
        (
            question(np.zeros((1, 4))) | {"observations": {"dtype": "<f4", "shape": [1, 4], "data": "AAAA"}},
            r"data has 3 bytes, \[1, 4\] of <f4 takes 16",
        ),
    ],
)
def test_every_bad_question_gets_a_sentence_with_its_id(server: PolicyServer, bad: dict[str, Any], words: str) -> None:
    reply = server.answer(json.dumps(bad).encode())
    assert isinstance(reply, Refusal)
    assert reply.id == 1
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(reply.error)
    assert isinstance(server.answer(json.dumps(GOOD).encode()), Answer)


def test_a_policy_that_breaks_is_a_refusal_too(server: PolicyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(server.loaded.policy, "act", broken)
    reply = server.answer(json.dumps(GOOD).encode())
    assert isinstance(reply, Refusal)
    assert reply.error == "the policy failed: ZeroDivisionError: by zero"


def test_a_damaged_checkpoint_is_reported_to_the_client(tmp_path: Path) -> None:
    path = new_checkpoint(tmp_path, "toy_discrete")
    (path / "model.safetensors").write_bytes(b"")
    with pytest.raises(PolicyGoneError, match=r"model\.safetensors has 0 bytes"):
        PolicyClient(command(path))


def test_the_process_is_gone_when_the_client_is_closed(tmp_path: Path) -> None:
    client = PolicyClient(command(new_checkpoint(tmp_path, "toy_discrete")))
    client.close()
    assert client._process.returncode == 0
    with pytest.raises(PolicyGoneError):
        client.act(np.zeros((1, 4), np.float32))


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_process_that_nobody_can_talk_to_is_refused_in_a_sentence(tmp_path: Path, closed: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m mosaic_worker.policies.act --checkpoint {tmp_path} {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("answers on stdout: one of them is closed\n") and done.stderr.count("\n") == 1
